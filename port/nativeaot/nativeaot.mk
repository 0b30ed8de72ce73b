# .NET NativeAOT: the EdgeProf package, the sample service, the demo, and the unwinder's exactness against truth.
# Without the .NET SDK its tests say so and do nothing; the demo profiles a C program then.

NA_BUILD   := $(BUILD)/nativeaot
NA_RID     := linux-x64
NA_DOTNET  := $(shell command -v dotnet)
NA_PUBLISH := dotnet publish -r $(NA_RID) -nologo -v quiet -p:EdgeProfBuild=$(abspath $(NA_BUILD))/
NA_PROPS   := port/nativeaot/Directory.Build.props

# $(call na_published,PROJECT): where dotnet puts the program
na_published = $(NA_BUILD)/$(1)/bin/Release/net9.0/$(NA_RID)/publish/$(1)

# ---- truth by single-stepping: tests/shadow/shadow.h ----

SHADOW_BUILD  := $(BUILD)/tests/shadow
SHADOW_SRC    := $(wildcard tests/shadow/*.c)
SHADOW_OBJ    := $(patsubst tests/shadow/%.c,$(SHADOW_BUILD)/%.o,$(filter-out %/variety.c,$(SHADOW_SRC)))
SHADOW_C      := $(SHADOW_BUILD)/shadow-c
SHADOW_AOT    := $(call na_published,Shadow)
SHADOW_CFLAGS := -std=c11 -O2 -g -fPIC $(WARNINGS)

$(SHADOW_BUILD)/%.o: tests/shadow/%.c tests/shadow/shadow.h core/internal.h port/nativeaot/nativeaot.mk
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE $(SHADOW_CFLAGS) -c $< -o $@

$(SHADOW_BUILD)/variety.o: SHADOW_CFLAGS += -fomit-frame-pointer

$(SHADOW_BUILD)/libshadow.a: $(SHADOW_OBJ)
	@rm -f $@
	$(AR) qcsD $@ $^

# Lazily bound, so that calls through the PLT are seen before and after binding.
$(SHADOW_C): $(SHADOW_BUILD)/variety.o $(SHADOW_BUILD)/libshadow.a $(EP_LIB)
	$(CC) -Wl,-z,lazy $^ $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

$(SHADOW_AOT): $(wildcard tests/nativeaot/Shadow/*) $(NA_PROPS) $(SHADOW_BUILD)/libshadow.a $(EP_LIB)
	$(NA_PUBLISH) tests/nativeaot/Shadow \
	    -p:ShadowArchive=$(abspath $(SHADOW_BUILD)/libshadow.a) -p:CoreArchive=$(abspath $(EP_LIB))
	@touch $@

.PHONY: shadow-c shadow-aot test-shadow-c test-shadow-nativeaot bench-shadow
# $(call shadow_check,NAME): fails when the figure that the program printed is below 99
shadow_check = awk '/^figure exact/ { print "$(1): exact at " $$3 " % of instructions"; good = $$3 >= 99 } END { exit !good }'

shadow-c: $(SHADOW_C)
	@$(SHADOW_C) core $(SHADOW_BUILD)/places-c | tee $(SHADOW_BUILD)/figures-c
	@tests/shadow/report.py $(SHADOW_BUILD)/places-c $(SHADOW_C) --top 25

shadow-aot: $(SHADOW_AOT)
	@$(SHADOW_AOT) core $(SHADOW_BUILD)/places-aot | tee $(SHADOW_BUILD)/figures-aot
	@tests/shadow/report.py $(SHADOW_BUILD)/places-aot $(SHADOW_AOT) --symbols $(SHADOW_AOT).dbg --top 25

test-shadow-c: shadow-c
	@! grep -q '^truth: .* 0 calls' $(SHADOW_BUILD)/figures-c
	@$(call shadow_check,$@) $(SHADOW_BUILD)/figures-c
TESTS += test-shadow-c

ifeq ($(NA_DOTNET),)
test-shadow-nativeaot:
	@echo "$@: skipped, there is no .NET SDK"
else
test-shadow-nativeaot: shadow-aot
	@$(call shadow_check,$@) $(SHADOW_BUILD)/figures-aot
bench-shadow: $(SHADOW_AOT)
	@$(SHADOW_AOT) core
BENCHES += bench-shadow
endif
TESTS += test-shadow-nativeaot
