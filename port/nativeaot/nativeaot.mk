# .NET NativeAOT: the EdgeProf package, the sample service, the demo, and tests of the unwinder's exactness. Without the
# .NET SDK its tests are skipped, and the demo profiles a C program.

NA_BUILD   := $(BUILD)/nativeaot
# The platforms for which the package has an archive, by .NET's names.
NA_RID_x86_64  := linux-x64
NA_RID_aarch64 := linux-arm64
NA_RID_arm     := linux-arm
NA_RID     := $(NA_RID_$(BOARD_ARCH))
# The framework of the sample and of the test programs that do not name one.
NA_FRAMEWORK := net10.0
NA_DOTNET  := $(shell command -v dotnet)
# One build at a time: several programs build the package's assembly in one folder. -o: the compiler's server, which
# stays for ten minutes after the build, must not inherit the lock.
NA_LOCKED  := mkdir -p $(NA_BUILD) && flock -o $(NA_BUILD)/.lock
# For another machine: the cross compiler's linker is lld.
NA_FOR     := $(if $(filter host,$(BOARD)),-r $(NA_RID),-p:ForRuntime=$(NA_RID) -p:LinkerFlavor=lld)
NA_PUBLISH := $(NA_LOCKED) dotnet publish $(NA_FOR) -nologo -v quiet -p:EdgeProfBuild="$(abspath $(NA_BUILD))"/
NA_PROPS   := port/nativeaot/Directory.Build.props

# $(call na_published,PROJECT): the folder of the published program
na_published = $(NA_BUILD)/$(1)/bin/Release/$(NA_FRAMEWORK)/$(NA_RID)/publish/$(1)

# ---- the package's archive and the sample service ----

NA_LIB    := $(NA_BUILD)/native/$(NA_RID)/libedgeprof.a
# The additional sources of the package's archive: every file here for this architecture or for all.
NA_C      := $(filter-out $(foreach arch,$(OTHER_ARCHS),port/nativeaot/%_$(arch).c),$(wildcard port/nativeaot/*.c))
NA_OBJ    := $(NA_C:%.c=$(BUILD)/obj/%.o) $(patsubst %.S,$(BUILD)/obj/%.o,$(wildcard port/nativeaot/*_$(BOARD_ARCH).S))
# Memory hooks that precede the C library's; only programs with EdgeProfNativeMemory=true contain them.
NA_NEXT   := $(BUILD)/obj/port/linux/preload_next.o $(BUILD)/obj/port/linux/preload_next_write.o
# Another board's archive for this package. The most generic board of an architecture runs on all its boards.
NA_BOARD_linux-arm64 := aarch64
NA_BOARD_linux-arm   := armhf
# The platforms of `make nuget`. RIDS=linux-x64 needs no ARM cross compiler.
RIDS      ?= linux-x64 linux-arm64 linux-arm
NA_CROSS  := $(foreach rid,$(filter linux-arm64 linux-arm,$(RIDS)),$(NA_BUILD)/native/$(rid)/libedgeprof.a)
# The package has each archive without debug information: it would be three quarters of the package. Symbols and unwind
# tables stay.
NA_PACKED := $(foreach rid,$(RIDS),$(NA_BUILD)/packed/$(rid)/libedgeprof.a)
NA_OBJCOPY_linux-x64   := objcopy
NA_OBJCOPY_linux-arm64 := aarch64-linux-gnu-objcopy
NA_OBJCOPY_linux-arm   := arm-linux-gnueabihf-objcopy
NA_OBJCOPY_linux-musl-x64   := $(NA_OBJCOPY_linux-x64)
NA_OBJCOPY_linux-musl-arm64 := $(NA_OBJCOPY_linux-arm64)
# dotnet would split the list at commas and semicolons.
NA_EMPTY  :=
NA_PACK   := dotnet pack -c Release -nologo -v quiet -p:Version=$(EP_VERSION) -p:EdgeProfBuild="$(abspath $(NA_BUILD))"/ \
             -p:EdgeProfRids=$(subst $(NA_EMPTY) $(NA_EMPTY),+,$(strip $(RIDS)))
# A release says where the source and the project's page are: make nuget REPOSITORY_URL=URL PROJECT_URL=URL
NA_PACK   += $(REPOSITORY_URL:%=-p:RepositoryUrl=%) $(PROJECT_URL:%=-p:PackageProjectUrl=%)
NA_COMMON := port/nativeaot/Package.props port/nativeaot/icon.png
NA_SOURCE := $(shell find port/nativeaot/EdgeProf -type f) $(NA_COMMON) $(NA_PROPS)
NA_SAMPLE := $(call na_published,SensorGateway)

$(NA_OBJ): $(MAKE_SRC) port/nativeaot/nativeaot.mk
$(BUILD)/obj/port/nativeaot/%.o: port/nativeaot/%.c
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE $(EP_CFLAGS) -Os -MMD -MP -c $< -o $@
$(BUILD)/obj/port/nativeaot/%.o: port/nativeaot/%.S
	@mkdir -p $(@D)
	$(CC) $(BOARD_CFLAGS) -g -c $< -o $@
$(NA_NEXT): $(BUILD)/obj/%.o: %.c $(MAKE_SRC)
	@mkdir -p $(@D)
	$(CC) $(EP_CPPFLAGS) $(EP_CFLAGS) -MMD -MP -c $< -o $@
-include $(NA_OBJ:.o=.d) $(NA_NEXT:.o=.d)

# The call graph of the signal path goes through the hooks.
check-signal bench-signal sizes-accept: $(NA_OBJ)

# Rooms whose code only edgeprof's own threads run, but for calls that start, stop and ask: no sample is taken in those threads. The
# package has no unwind tables of them, 22 KB of a program. A walk through such code follows its instructions to the return.
NA_UNWALKED := $(addprefix core/,encode deliver collect environment lifecycle) transport \
    $(addprefix core/features/,control endpoint names notice outlive pprof pull spool token)
NA_OWN_OBJ  := $(foreach room,$(NA_UNWALKED),$(filter $(BUILD)/obj/$(room)/%,$(EP_OBJ))) $(THIRD_OBJ)
NA_UNTABLED := $(OBJCOPY) -D -R .eh_frame -R .rela.eh_frame

# With https: a program decides at run time whether to use it. ar appends members of the same name (environment.o).
$(NA_LIB): $(EP_LIB) $(TLS_LIB) $(NA_OBJ) $(NA_NEXT)
	@rm -rf $@ $(@D)/own && mkdir -p $(@D)/own/tls
	@cd $(@D)/own/tls && $(AR) x "$(abspath $(TLS_LIB))" && for o in *; do $(NA_UNTABLED) $$o tls_$$o && rm $$o || exit 1; done
	@for o in $(NA_OWN_OBJ:$(BUILD)/obj/%=%); do mkdir -p $(@D)/own/$${o%/*} && $(NA_UNTABLED) $(BUILD)/obj/$$o $(@D)/own/$$o || exit 1; done
	$(AR) qcsD $@ $(filter-out $(NA_OWN_OBJ),$(EP_OBJ)) $(NA_OBJ) $(NA_NEXT) $(NA_OWN_OBJ:$(BUILD)/obj/%=$(@D)/own/%) $(@D)/own/tls/* && \
	    $(OBJCOPY) -D --redefine-syms=$(EP_LIB).names $@

.PHONY: na-lib
na-lib: $(NA_LIB)

ifeq ($(BOARD),host)
$(NA_BUILD)/native/linux-arm64/libedgeprof.a: arm-lib-aarch64
$(NA_BUILD)/native/linux-arm/libedgeprof.a: arm-lib-armhf
$(NA_CROSS): $(NA_BUILD)/native/%/libedgeprof.a: FORCE
	@mkdir -p $(@D)
	@$(MAKE) --no-print-directory -s BOARD=qemu-$(NA_BOARD_$*) na-lib
	@cmp -s build/qemu-$(NA_BOARD_$*)/nativeaot/native/$*/libedgeprof.a $@ || cp build/qemu-$(NA_BOARD_$*)/nativeaot/native/$*/libedgeprof.a $@
.PHONY: FORCE
endif

$(NA_BUILD)/packed/%/libedgeprof.a: $(NA_BUILD)/native/%/libedgeprof.a
	@mkdir -p $(@D)
	$(NA_OBJCOPY_$*) -D --strip-debug -R .comment $< $@

$(NA_SAMPLE): $(shell find port/nativeaot/samples/SensorGateway -type f) $(NA_SOURCE) $(NA_LIB)
	$(NA_PUBLISH) port/nativeaot/samples/SensorGateway
	@touch $@

NA_NUPKG := build/nuget/EdgeProf.$(EP_VERSION).nupkg
$(NA_NUPKG): $(NA_SOURCE) $(NA_PACKED) core/edgeprof/edgeprof.h LICENSE
	@command -v dotnet >/dev/null || { echo "make nuget: there is no .NET SDK on PATH" >&2; exit 1; }
	$(NA_LOCKED) $(NA_PACK) port/nativeaot/EdgeProf -o $(@D)
	@touch $@

# OpenTelemetry spans; it needs the package above. A program without spans does not need it.
NA_NUPKG_OTEL := build/nuget/EdgeProf.OpenTelemetry.$(EP_VERSION).nupkg
$(NA_NUPKG_OTEL): $(NA_NUPKG) $(shell find port/nativeaot/EdgeProf.OpenTelemetry -type f) LICENSE
	$(NA_LOCKED) $(NA_PACK) port/nativeaot/EdgeProf.OpenTelemetry -o $(@D)
	@touch $@

# The Generic Host; it needs the package EdgeProf, too.
NA_HOSTING := $(shell find port/nativeaot/EdgeProf.Extensions.Hosting -type f)
NA_NUPKG_HOSTING := build/nuget/EdgeProf.Extensions.Hosting.$(EP_VERSION).nupkg
$(NA_NUPKG_HOSTING): $(NA_NUPKG) $(NA_HOSTING) LICENSE
	$(NA_LOCKED) $(NA_PACK) port/nativeaot/EdgeProf.Extensions.Hosting -o $(@D)
	@touch $@

# The public API is in PublicAPI.*.txt; the build fails when it differs.
.PHONY: nuget nuget-api-accept
nuget-api-accept:               ## write the packages' public API as it is now
	$(NA_LOCKED) port/nativeaot/public_api.py $(NA_BUILD)
nuget: $(NA_NUPKG) $(NA_NUPKG_OTEL) $(NA_NUPKG_HOSTING) ## the NuGet packages, in build/nuget/

# The same service, built without the package.
NA_PLAIN := $(NA_BUILD)/plain/SensorGateway/bin/Release/$(NA_FRAMEWORK)/$(NA_RID)/publish/SensorGateway
$(NA_PLAIN): $(shell find port/nativeaot/samples/SensorGateway -type f) $(NA_PROPS)
	$(NA_PUBLISH) -p:EdgeProfBuild="$(abspath $(NA_BUILD))"/plain/ -p:EdgeProf=false port/nativeaot/samples/SensorGateway
	@touch $@

.PHONY: sample sample-plain
sample: $(NA_SAMPLE)            ## the sample service with the profiler (NativeAOT)
sample-plain: $(NA_PLAIN)

# ---- the demo ----

CSAMPLE := $(BUILD)/csample/burn
$(CSAMPLE): port/samples/burn.c core/edgeprof/edgeprof.h core/edgeprof/options.h $(EP_LIB)
	@mkdir -p $(@D)
	$(CC) -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $< $(EP_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

.PHONY: demo csample print-sample print-csample
csample: $(CSAMPLE)
print-sample:
	@echo $(NA_SAMPLE)
print-csample:
	@echo $(CSAMPLE)

# BOARD=qemu-aarch64: on a whole ARM machine in QEMU.
NA_DEMO_host         := port/nativeaot/demo.sh
NA_DEMO_qemu-aarch64 := port/nativeaot/machine/demo.sh
demo:                           ## profile the sample service and show its flame graph; DEMO_SECONDS=15 ends by itself
	@[ -n "$(NA_DEMO_$(BOARD))" ] || { echo "make demo: BOARD=$(BOARD) has no demo: host, qemu-aarch64" >&2; exit 1; }
	@MAKE="$(MAKE)" BUILD=$(BUILD) $(NA_DEMO_$(BOARD))

# ---- exactness, by single-stepping: tests/arm/shadow/shadow.h ----

SHADOW_BUILD  := $(BUILD)/tests/arm/shadow
SHADOW_SRC    := $(filter-out %_aarch64.c,$(wildcard tests/arm/shadow/*.c))
SHADOW_OBJ    := $(patsubst tests/arm/shadow/%.c,$(SHADOW_BUILD)/%.o,$(filter-out %/main.c,$(SHADOW_SRC)))
SHADOW_C      := $(SHADOW_BUILD)/shadow-c
SHADOW_AOT    := $(call na_published,Shadow)
SHADOW_CFLAGS := -std=c11 -O2 -g -fPIC $(WARNINGS)

$(SHADOW_BUILD)/%.o: tests/arm/shadow/%.c $(wildcard tests/arm/shadow/*.h) core/sample/profiler.h port/nativeaot/nativeaot.mk
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE $(SHADOW_CFLAGS) -c $< -o $@

$(SHADOW_BUILD)/variety.o: tests/arm/variety.c tests/arm/guest.h port/nativeaot/nativeaot.mk
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE $(SHADOW_CFLAGS) -fomit-frame-pointer -c $< -o $@

$(SHADOW_BUILD)/libshadow.a: $(SHADOW_OBJ)
	@rm -f $@
	$(AR) qcsD $@ $^

# Lazy binding, so that calls through the PLT are tested before and after binding.
$(SHADOW_C): $(SHADOW_BUILD)/main.o $(SHADOW_BUILD)/variety.o $(SHADOW_BUILD)/libshadow.a $(EP_LIB)
	$(CC) -Wl,-z,lazy $^ $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

$(SHADOW_AOT): $(wildcard tests/dotnet/Shadow/*) $(NA_PROPS) $(SHADOW_BUILD)/libshadow.a $(EP_LIB)
	$(NA_PUBLISH) tests/dotnet/Shadow \
	    -p:ShadowArchive="$(abspath $(SHADOW_BUILD)/libshadow.a)" -p:CoreArchive="$(abspath $(EP_LIB))"
	@touch $@

.PHONY: shadow-c shadow-aot test-shadow-c bench-shadow
# $(call shadow_check,NAME,c or aot,PROGRAM,LEAST...): no wrong stack is marked as exact, and no value is below its
# minimum
shadow_check = tests/arm/shadow/report.py $(SHADOW_BUILD)/places-$(2) $(3) --honest $(SHADOW_BUILD)/figures-$(2) \
    $(addprefix --need exact_steps_,$(4)) && echo "$(1): no wrong stack calls itself exact"

shadow-c: $(SHADOW_C)
	@$(SHADOW_C) core $(SHADOW_BUILD)/places-c >$(SHADOW_BUILD)/figures-c && cat $(SHADOW_BUILD)/figures-c
	@tests/arm/shadow/report.py $(SHADOW_BUILD)/places-c $(SHADOW_C) --top 25

shadow-aot: $(SHADOW_AOT)
	@$(SHADOW_AOT) core $(SHADOW_BUILD)/places-aot >$(SHADOW_BUILD)/figures-aot && cat $(SHADOW_BUILD)/figures-aot
	@tests/arm/shadow/report.py $(SHADOW_BUILD)/places-aot $(SHADOW_AOT) --symbols $(SHADOW_AOT).dbg --top 25

# A counter-test: with frame pointers alone the check must fail.
test-shadow-c: shadow-c
	@$(SHADOW_C) fp | awk '/^figure exact/ { good = $$3 > 0 && $$3 < 50 } END { exit !good }'
	@$(call shadow_check,$@,c,$(SHADOW_C),c_x86_64_pct=99.7 x86_64_c_pct=99.5 x86_64_libc_pct=99.7)

# The hooks without .NET, on every architecture.
NA_HOOKS := $(NA_BUILD)/hooks
NA_HOOKS_WRAPS := RhpGcAlloc RhAllocateNewArray OnFirstChanceException RhThrowEx RhThrowHwEx RhRethrow \
    $(addprefix _ZN15GCToEEInterface,9SuspendEEE14SUSPEND_REASON 9RestartEEEb 11GcStartWorkEii 6GcDoneEi)
$(NA_HOOKS): $(wildcard tests/dotnet/hooks/*) $(NA_LIB)
	$(CC) -I. -Icore -Itests/dotnet/hooks -D_GNU_SOURCE -std=c11 -O2 -g $(BOARD_CFLAGS) $(WARNINGS) -funwind-tables \
	    $(filter %.c,$^) $(NA_LIB) $(EP_LDFLAGS) $(NA_HOOKS_WRAPS:%=-Wl,--wrap=%) $(BOARD_LDFLAGS) $(EP_LDLIBS) -o $@
.PHONY: na-hooks test-nativeaot-hooks
na-hooks: $(NA_HOOKS)
ifeq ($(BOARD),host)
NA_QEMU_aarch64 := qemu-aarch64 -L /usr/aarch64-linux-gnu
NA_QEMU_armhf   := qemu-arm -L /usr/arm-linux-gnueabihf
test-nativeaot-hooks: $(NA_HOOKS) $(BUILD)/edgeprof
	@tests/dotnet/hooks.sh $(BUILD)/edgeprof $(NA_HOOKS) $(NA_BUILD)/hooks-work
	@for arch in aarch64 armhf; do $(MAKE) --no-print-directory -s BOARD=qemu-$$arch na-hooks || exit 1; done
	@tests/dotnet/hooks.sh $(BUILD)/edgeprof build/qemu-aarch64/nativeaot/hooks $(NA_BUILD)/hooks-work/aarch64 $(NA_QEMU_aarch64)
	@tests/dotnet/hooks.sh $(BUILD)/edgeprof build/qemu-armhf/nativeaot/hooks $(NA_BUILD)/hooks-work/armhf $(NA_QEMU_armhf)
.PHONY: bench-nativeaot-hooks
bench-nativeaot-hooks: $(NA_HOOKS)
	@mkdir -p $(NA_BUILD)/hooks-work && $(NA_HOOKS) "$(abspath $(NA_BUILD)/hooks-work/bench.profile)"
BENCHES += bench-nativeaot-hooks
endif

# ---- tests that need .NET ----

# The programs with the package are one executable, which its name tells what to do: publishing costs most.
NA_ONE   := Context Counted Heap Incidents Kinds Lifecycle Loads Names Native Published Waits Workload
NA_ALL   := $(call na_published,Programs)
NA_FILES := $(wildcard tests/dotnet/Programs/*) tests/dotnet/Work.cs $(wildcard port/nativeaot/EdgeProf.OpenTelemetry/*) $(NA_SOURCE)
na_one    = $(dir $(NA_ALL))$(1)
$(NA_ALL): $(NA_FILES) $(NA_LIB)
	$(NA_PUBLISH) tests/dotnet/Programs
	@touch $@
$(NA_ONE:%=$(dir $(NA_ALL))%): $(NA_ALL)
	@ln -f $< $@

# Background processes of a build, such as dotnet's, must not block the next one.
test-build-lock:
	@$(NA_LOCKED) sh -c 'sleep 300 & echo $$! >$(NA_BUILD)/.left'; \
	    flock -n $(NA_BUILD)/.lock true; free=$$?; kill $$(cat $(NA_BUILD)/.left); rm -f $(NA_BUILD)/.left; \
	    [ $$free = 0 ] || { echo "$@: what was left running has the lock" >&2; exit 1; }

NA_TESTS := test-shadow-nativeaot test-nativeaot-context test-nativeaot-lifecycle test-nativeaot-run \
    test-nativeaot-waits test-nativeaot-heap test-nativeaot-native test-nativeaot-workload test-nativeaot-imports \
    test-nativeaot-kinds test-nativeaot-names test-nativeaot-incident test-nativeaot-control test-nativeaot-pull test-nativeaot-range \
    test-nativeaot-drift test-nativeaot-versions test-nativeaot-growth test-nativeaot-parts test-nativeaot-packages \
    test-nativeaot-consumers test-nativeaot-consumers-wide test-nativeaot-async test-nativeaot-async-arm64 test-nativeaot-machine test-hosting
ifeq ($(NA_DOTNET),)
$(NA_TESTS):
	@echo "SKIPPED: there is no .NET SDK on PATH"
else
test-shadow-nativeaot: shadow-aot
	@$(call shadow_check,$@,aot,$(SHADOW_AOT) --symbols $(SHADOW_AOT).dbg,x86_64_pct=99.99 x86_64_runtime_pct=99.9 x86_64_libc_pct=99.95)
bench-shadow: $(SHADOW_AOT)
	@$(SHADOW_AOT) core
BENCHES += bench-shadow

# ---- the package as its users see it ----

NA_LIFECYCLE := $(call na_one,Lifecycle)

# Tags and spans, compared with the program's own records.
NA_CONTEXT := $(call na_one,Context)
test-nativeaot-context: $(NA_CONTEXT) $(BUILD)/edgeprof
	@for mode in tags spans otel sampler; do $(NA_CONTEXT) $$mode || exit 1; done
	@tests/dotnet/labels.py $(BUILD)/edgeprof $(NA_CONTEXT) $(NA_BUILD)/labels

.PHONY: bench-nativeaot-tags
bench-nativeaot-tags: $(NA_CONTEXT)
	@for mode in ratio tags spans; do $(NA_CONTEXT) $$mode || exit 1; done
BENCHES += bench-nativeaot-tags

.PHONY: test-demo test-demo-c
test-nativeaot-lifecycle: $(NA_LIFECYCLE) $(BUILD)/edgeprof
	@tests/dotnet/lifecycle.sh $(NA_LIFECYCLE) $(BUILD)/edgeprof $(NA_BUILD)/lifecycle
	@tests/dotnet/lifecycle.sh --jit $(NA_BUILD)/Programs/bin/Release/$(NA_FRAMEWORK)/$(NA_RID)/Programs.dll $(NA_BUILD)/lifecycle-jit

test-nativeaot-packages: nuget
	@tests/dotnet/packages.py build/nuget $(EP_VERSION) $(NA_BUILD) $(NA_BUILD)/packages

# Projects of users in three languages: two here, all of them by name.
test-nativeaot-consumers: $(NA_NUPKG) $(BUILD)/edgeprof
	@tests/dotnet/consumers.py build/nuget $(EP_VERSION) $(BUILD)/edgeprof $(NA_BUILD)/consumers fsharp-net9.0 library-net8.0 noreflection-net9.0
test-nativeaot-consumers-wide: $(NA_NUPKG) $(BUILD)/edgeprof
	@tests/dotnet/consumers.py build/nuget $(EP_VERSION) $(BUILD)/edgeprof $(NA_BUILD)/consumers-wide

# Names of methods on the device and on the host.
test-nativeaot-names: $(call na_one,Names) $(BUILD)/edgeprof
	@tests/dotnet/names.py $(BUILD)/edgeprof $< tests/unit/tools/symbols/dotnet_names.tsv $(NA_BUILD)/names

# What the package adds to a published program.
NA_HELLO       := $(call na_published,Hello)
NA_HELLO_PLAIN := $(NA_BUILD)/plain/Hello/bin/Release/$(NA_FRAMEWORK)/$(NA_RID)/publish/Hello
NA_HELLO_FILES := $(wildcard tests/dotnet/Hello/*) $(NA_PROPS)
$(NA_HELLO): $(NA_HELLO_FILES) $(NA_SOURCE) $(NA_LIB)
	$(NA_PUBLISH) tests/dotnet/Hello
	@touch $@
$(NA_HELLO_PLAIN): $(NA_HELLO_FILES)
	$(NA_PUBLISH) -p:EdgeProfBuild="$(abspath $(NA_BUILD))"/plain/ -p:EdgeProf=false tests/dotnet/Hello
	@touch $@
na_growth = tests/dotnet/growth.py --work $(NA_BUILD)/growth
test-nativeaot-growth: $(NA_NUPKG) $(NA_SAMPLE) $(NA_PLAIN)
	@$(na_growth) --package $(NA_NUPKG) --program sample $(NA_SAMPLE) $(NA_PLAIN) --most
.PHONY: bench-nativeaot-growth
bench-nativeaot-growth: $(NA_NUPKG) $(NA_SAMPLE) $(NA_PLAIN) $(NA_HELLO) $(NA_HELLO_PLAIN)
	@$(na_growth) --package $(NA_NUPKG) --program hello $(NA_HELLO) $(NA_HELLO_PLAIN) --program sample $(NA_SAMPLE) $(NA_PLAIN) --rss
BENCHES += bench-nativeaot-growth
# What each part of the package adds to a hello world for arm64: the rows of docs/memory.md.
na_parts = tests/dotnet/parts.py --archive $(NA_BUILD)/native/linux-arm64/libedgeprof.a --rid linux-arm64 --work $(NA_BUILD)/parts
.PHONY: bench-nativeaot-parts
bench-nativeaot-parts: $(NA_BUILD)/native/linux-arm64/libedgeprof.a
	@$(NA_LOCKED) $(na_parts)
test-nativeaot-parts: $(NA_BUILD)/native/linux-arm64/libedgeprof.a
	@$(NA_LOCKED) $(na_parts) --docs docs/memory.md

# The Generic Host: one program from the packages. The publish is silent. NuGet keeps a package of a version for ever, so
# this build has a folder of its own for them.
NA_PACKAGES   := $(or $(NUGET_PACKAGES),$(HOME)/.nuget/packages)
NA_HOSTED     := $(call na_published,Hosting)
NA_HOSTED_DLL := $(NA_BUILD)/Hosting/bin/Release/$(NA_FRAMEWORK)/$(NA_RID)/Hosting.dll
NA_FROM       := -p:EdgeProfVersion=$(EP_VERSION) -p:RestoreAdditionalProjectSources="$(abspath build/nuget)" \
    -p:RestorePackagesPath="$(abspath $(NA_BUILD))/Hosting/packages" -p:RestoreFallbackFolders="$(abspath $(NA_PACKAGES))"
$(NA_HOSTED): $(wildcard tests/dotnet/Hosting/*) tests/dotnet/Work.cs tests/dotnet/Programs/ContextNative.cs $(NA_NUPKG_HOSTING) $(NA_NUPKG_OTEL)
	@rm -rf $(NA_BUILD)/Hosting
	$(NA_PUBLISH) $(NA_FROM) tests/dotnet/Hosting >$(NA_BUILD)/hosting.log 2>&1 || { cat $(NA_BUILD)/hosting.log; exit 1; }
	@[ ! -s $(NA_BUILD)/hosting.log ] || { cat $(NA_BUILD)/hosting.log; exit 1; }
	@touch $@
test-hosting: $(NA_HOSTED) $(BUILD)/edgeprof
	@tests/dotnet/hosting.py $(BUILD)/edgeprof $(NA_HOSTED) $(NA_HOSTED_DLL) "$(NA_BUILD)/a hosted service"

test-nativeaot-run: $(NA_PLAIN) $(BUILD)/edgeprof $(PRELOAD_LIB)
	@tests/dotnet/run.py $(BUILD)/edgeprof $(NA_PLAIN) $(NA_BUILD)/run

# Locks, waits and a deadlock of managed code, compared with stopwatches.
NA_WAITS := $(call na_one,Waits)
test-nativeaot-waits: $(NA_WAITS) $(BUILD)/edgeprof
	@rm -f $(NA_BUILD)/waits.ep
	@EDGEPROF_LEVEL=high $(NA_WAITS) "$(abspath $(NA_BUILD))"/waits.ep
	@tests/dotnet/deadlock.py $(BUILD)/edgeprof $(NA_BUILD)/waits.ep $(dir $(NA_WAITS))

# Allocations, live heap, exceptions and collections of managed code, compared with the program's own counts.
NA_HEAP := $(call na_one,Heap)
test-nativeaot-heap: $(NA_HEAP) $(BUILD)/edgeprof
	@tests/dotnet/heap.py $(BUILD)/edgeprof $(NA_HEAP) $(NA_BUILD)/heap
	@$(NA_HEAP) live
	@$(NA_HEAP) retained
	@tests/dotnet/heap.py $(BUILD)/edgeprof $(NA_HEAP) $(NA_BUILD)/soak 5
.PHONY: bench-nativeaot-heap
bench-nativeaot-heap: test-nativeaot-heap
BENCHES += bench-nativeaot-heap

# Native memory beside it: the same executable with EdgeProfNativeMemory=true, linked once more from the same object.
NA_NATIVE := $(NA_BUILD)/native-memory/Native
NA_TAKER  := $(NA_BUILD)/libtaker.so
$(NA_TAKER): tests/dotnet/Programs/taker.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -O2 -g -fPIC -shared $(WARNINGS) $< -o $@
$(NA_NATIVE): $(NA_ALL)
	@rm -rf $(NA_BUILD)/Programs/bin/Release/$(NA_FRAMEWORK)/$(NA_RID)/native # else nothing is linked
	$(NA_PUBLISH) -p:EdgeProfNativeMemory=true -p:PublishDir="$(abspath $(@D))"/ tests/dotnet/Programs
	@rm -rf $(NA_BUILD)/Programs/bin/Release/$(NA_FRAMEWORK)/$(NA_RID)/native
	@ln -f $(@D)/Programs $@ && touch $@
test-nativeaot-native: $(NA_NATIVE) $(call na_one,Native) $(NA_TAKER) $(BUILD)/edgeprof
	@tests/dotnet/native.py $(BUILD)/edgeprof $(NA_NATIVE) $(call na_one,Native) $(NA_TAKER) $(NA_BUILD)/native_memory

SECONDS := 600
.PHONY: soak-gc
soak-gc: $(NA_HEAP) $(BUILD)/edgeprof ## every kind at once under collections all the time, SECONDS=600
	@tests/dotnet/heap.py $(BUILD)/edgeprof $(NA_HEAP) $(NA_BUILD)/soak $(SECONDS)

# Calls that signals could interrupt, with and without the profiler.
NA_WORKLOAD := $(call na_one,Workload)
NA_COUNTER  := $(NA_BUILD)/count_eintr.so
$(NA_COUNTER): tests/dotnet/count_eintr.c
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE -std=c11 -O2 -fPIC -shared $(WARNINGS) $< -ldl -o $@
test-nativeaot-workload: $(NA_WORKLOAD) $(NA_COUNTER)
	@tests/dotnet/workload.py $^ $(NA_BUILD)/workload

# The framework's native calls that may be wrapped, from the assemblies that publishing compiles.
NA_IMPORTS  := $(NA_BUILD)/Imports/bin/Release/$(NA_FRAMEWORK)/Imports.dll
$(NA_IMPORTS): $(wildcard tests/dotnet/Imports/*) $(NA_PROPS)
	$(NA_LOCKED) dotnet build -c Release -nologo -v quiet -p:EdgeProfBuild="$(abspath $(NA_BUILD))"/ tests/dotnet/Imports
	@touch $@
test-nativeaot-imports: $(NA_IMPORTS) $(NA_SAMPLE)
	@dotnet $(NA_IMPORTS) port/nativeaot/EdgeProf/build/EdgeProf.targets \
	    $(wildcard $(addprefix $(NA_PACKAGES)/,runtime.$(NA_RID).microsoft.dotnet.ilcompiler \
	    microsoft.netcore.app.runtime.nativeaot.$(NA_RID) microsoft.aspnetcore.app.runtime.$(NA_RID)))

test-nativeaot-range:
	@$(NA_LOCKED) tests/dotnet/range.sh $(NA_BUILD)

# The same program for each .NET, and the arguments of its link. The publish is silent: no warning about the runtime.
NA_DRIFT := $(NA_BUILD)/drift
$(NA_DRIFT)/link-%: tests/dotnet/Net11.props $(wildcard tests/dotnet/Drift/*) tests/dotnet/record_link.sh $(NA_SOURCE) $(NA_LIB)
	@mkdir -p $(@D) && rm -rf $(NA_DRIFT)/Drift/bin/Release/net$*.0 # else nothing is linked
	export LINK_RECORD="$(abspath $@)" && $(NA_PUBLISH)drift/ -p:EdgeProfNativeLibrary="$(abspath $(NA_LIB))" \
	    -p:CppLinker="$(abspath tests/dotnet/record_link.sh)" -p:ForDotNet=$* tests/dotnet/Drift >$@.log 2>&1 || { cat $@.log; exit 1; }
	@[ ! -s $@.log ] || { cat $@.log; exit 1; }
na_drift = tests/dotnet/drift.py --link $(NA_DRIFT)/link-$(1) --archive $(NA_LIB) --work $(NA_DRIFT)/work-$(1)
test-nativeaot-drift: $(NA_DRIFT)/link-9
	@$(call na_drift,9) --cc "$(CC) -I. -Icore -D_GNU_SOURCE $(EP_CODEGEN)"

# Async parents, for each .NET: async/VERSION/done. A folder each, because a restore is for one version. VERSION 11-runtime: the
# program's methods are runtime-async, too.
na_version = $(firstword $(subst -, ,$(1)))
$(NA_BUILD)/async/interrupt.o: tests/dotnet/Async/interrupt.c port/nativeaot/runtime.h core/edgeprof/hooks.h port/linux/linux.h
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE $(EP_CFLAGS) -c $< -o $@
$(NA_BUILD)/async/%/done: tests/dotnet/Net11.props $(wildcard tests/dotnet/Async/*) $(NA_SOURCE) $(NA_LIB) $(NA_BUILD)/async/interrupt.o
	@mkdir -p $(@D)
	$(NA_PUBLISH)async/$*/ -p:EdgeProfNativeLibrary="$(abspath $(NA_LIB))" -p:ForDotNet=$(call na_version,$*) \
	    $(if $(filter %-runtime,$*),-p:RuntimeAsync=on) tests/dotnet/Async
	@touch $@
na_async = tests/dotnet/async.py $(if $(filter %-runtime,$(1)),--runtime-async) $(BUILD)/edgeprof $(call na_async_program,$(1)) $(NA_BUILD)/async/$(1)/work
na_async_program = $(NA_BUILD)/async/$(1)/Async/bin/Release/net$(call na_version,$(1)).0/$(NA_RID)/publish/Async
CAPTURES := 1000000
.PHONY: soak-async
test-nativeaot-async: $(NA_BUILD)/async/10/done $(BUILD)/edgeprof
	@$(call na_async,10) 12000
na_tasks = tests/dotnet/tasks.py $(BUILD)/edgeprof $(call na_async_program,$(1)) $(NA_BUILD)/async/$(1)/work
test-nativeaot-tasks: $(NA_BUILD)/async/10/done $(BUILD)/edgeprof
	@$(call na_tasks,10)
test-nativeaot-versions: $(foreach v,8 9 11,$(NA_DRIFT)/link-$(v) $(NA_BUILD)/async/$(v)/done) $(NA_BUILD)/async/11-runtime/done $(BUILD)/edgeprof
	@$(foreach v,8 9 11,$(call na_drift,$(v)) --plain && $(call na_async,$(v)) 6000 && $(call na_tasks,$(v)) &&) $(call na_async,11-runtime) 6000 0.3
soak-async: $(NA_BUILD)/async/10/done $(BUILD)/edgeprof ## a million captures of async parents, CAPTURES=1000000
	@$(call na_async,10) $(CAPTURES)

test-nativeaot-incident: $(call na_one,Incidents) $(BUILD)/edgeprof
	@tests/linux/incident/slow.py $(BUILD)/edgeprof $< --dotnet

# The same for arm64, in qemu-user. NA_ARM64_X: of .NET X, if the SDK's version has no packages for arm64.
NA_ARM64   := $(NA_BUILD)/async-arm64
NA_ARM64_9 := 9.0.23
$(NA_ARM64)/interrupt.o: tests/dotnet/Async/interrupt.c port/nativeaot/runtime.h core/edgeprof/hooks.h port/linux/linux.h
	@mkdir -p $(@D)
	aarch64-linux-gnu-gcc -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) -c $< -o $@
$(NA_ARM64)/%/done: $(wildcard tests/dotnet/Async/*) $(NA_SOURCE) $(NA_BUILD)/native/linux-arm64/libedgeprof.a $(NA_ARM64)/interrupt.o
	@mkdir -p $(@D)
	$(NA_LOCKED) dotnet publish -nologo -v quiet -p:EdgeProfBuild="$(abspath $(@D))"/ -p:ForRuntime=linux-arm64 -p:ForDotNet=$* \
	    -p:EdgeProfNativeLibrary="$(abspath $(NA_BUILD)/native/linux-arm64/libedgeprof.a)" $(NA_ARM64_$*:%=-p:ForVersion=%) tests/dotnet/Async
	@touch $@
na_async_arm64_program = $(NA_ARM64)/$(1)/Async/bin/Release/net$(1).0/linux-arm64/publish/Async
NA_ASYNC_ARM64_10 := $(call na_async_arm64_program,10)
na_async_arm64 = tests/dotnet/async.py $(BUILD)/edgeprof $(call na_async_arm64_program,$(1)) \
    $(NA_ARM64)/$(1)/work $(2) 0.15 $(NA_QEMU_aarch64)
test-nativeaot-async-arm64: $(NA_ARM64)/9/done $(NA_ARM64)/10/done $(BUILD)/edgeprof
	@$(call na_async_arm64,9,6000)
	@$(call na_async_arm64,10,6000)

# What a program counts itself, with the real runtime on a whole machine: one boot for all but the power cut. Each program is a link to
# one executable by its name.
.PHONY: test-nativeaot-machine na-programs na-crasher
na-programs: $(NA_ALL)
# Ends in many ways, with the package.
NA_CRASHER := $(NA_BUILD)/with/Crasher/bin/Release/$(NA_FRAMEWORK)/$(NA_RID)/publish/Crasher
$(NA_CRASHER): $(wildcard tests/dotnet/Crasher/*) $(NA_SOURCE) $(NA_LIB)
	$(NA_PUBLISH) -p:EdgeProfBuild="$(abspath $(NA_BUILD))"/with/ -p:EdgeProfNativeLibrary="$(abspath $(NA_LIB))" -p:EdgeProfCrash=true tests/dotnet/Crasher
	@touch $@
na-crasher: $(NA_CRASHER)
build/deps/arm64/modules/ext4.ko:
	tools/build/setup.sh arm64
NA_MACHINE := $(NA_BUILD)/machine
NA_BOOT    := tests/arm/qemu/on_machine.py boot
NA_ON_MACHINE = build/qemu-aarch64/nativeaot/$(1)/bin/Release/net10.0/linux-arm64/publish
NA_MACHINE_PROGRAMS := Counted Heap Incidents Kinds Loads Waits
.PHONY: na-machine
na-machine: $(BUILD)/edgeprof $(NA_ARM64)/10/done build/deps/arm64/modules/ext4.ko
	@$(MAKE) --no-print-directory -s BOARD=qemu-aarch64 na-programs na-crasher
	@mkdir -p $(NA_MACHINE) && for f in $(NA_MACHINE_PROGRAMS); do \
	    ln -f $(call NA_ON_MACHINE,Programs)/Programs $(NA_MACHINE)/$$f; ln -f $(call NA_ON_MACHINE,Programs)/Programs.dbg $(NA_MACHINE)/$$f.dbg; done
test-nativeaot-machine: na-machine
	@$(NA_BOOT) $(call NA_ON_MACHINE,Programs)/Programs$(subst $(NA_EMPTY) $(NA_EMPTY),,$(NA_MACHINE_PROGRAMS:%=,%)) $(call NA_ON_MACHINE,with/Crasher)/Crasher $(NA_ASYNC_ARM64_10) -- \
	    tests/dotnet/machine.sh $(BUILD)/edgeprof $(NA_MACHINE) $(call NA_ON_MACHINE,with/Crasher)/Crasher $(NA_ASYNC_ARM64_10)
	@tests/dotnet/ends.py $(BUILD)/edgeprof $(NA_MACHINE)/Counted $(NA_MACHINE)/work --power

# What services do, by exactness: rows of docs/accuracy.md. LOAD_SECONDS of CPU time for each.
.PHONY: bench-nativeaot-loads
LOAD_SECONDS := 3
NA_LOADS      = tests/dotnet/loads.py $(BUILD)/edgeprof
bench-nativeaot-loads: na-machine $(call na_one,Loads)
	@echo "x86-64"; $(NA_LOADS) $(call na_one,Loads) $(NA_BUILD)/loads $(LOAD_SECONDS)
	@echo "qemu-aarch64"; RUNNER="$(NA_QEMU_aarch64) -E LD_LIBRARY_PATH=$(abspath build/deps/arm64/usr/lib/aarch64-linux-gnu)" $(NA_LOADS) $(NA_MACHINE)/Loads $(NA_BUILD)/loads $(LOAD_SECONDS)
	@echo "whole aarch64 machine"; $(NA_BOOT) $(NA_MACHINE)/Loads -- $(NA_LOADS) $(NA_MACHINE)/Loads $(NA_MACHINE)/work $(LOAD_SECONDS)

# A program with every kind, as seen by the server and by pprof's readers.
NA_KINDS := $(call na_one,Kinds)
test-nativeaot-kinds: $(NA_KINDS) $(BUILD)/edgeprof
	@tests/dotnet/kinds.py $(BUILD)/edgeprof $(NA_KINDS) $(NA_BUILD)/kinds

.PHONY: bench-nativeaot-governor
test-nativeaot-control: $(NA_SAMPLE)
	@tests/dotnet/control.py $(NA_SAMPLE) $(NA_BUILD)/control

test-nativeaot-pull: $(NA_SAMPLE)
	@tests/dotnet/pull.py $(NA_SAMPLE) $(NA_BUILD)/pull

# Runs for three minutes, because the governor adapts slowly.
bench-nativeaot-governor: $(NA_SAMPLE)
	@tests/dotnet/control.py $(NA_SAMPLE) $(NA_BUILD)/governor governor
BENCHES += bench-nativeaot-governor
endif

test-demo: $(if $(NA_DOTNET),$(NA_SAMPLE))
	@DEMO_SECONDS=10 $(MAKE) --no-print-directory demo
# The service on a whole ARM machine: the runtime, TLS and a client certificate are real.
.PHONY: test-demo-aarch64
test-demo-aarch64:
	@DEMO_SECONDS=10 $(MAKE) --no-print-directory BOARD=qemu-aarch64 demo

test-demo-c:
	@DEMO_SAMPLE=c DEMO_SECONDS=10 $(MAKE) --no-print-directory demo
# 15 seconds are 1,800 samples on a quiet machine; DEMO_SECONDS=60 for a busy one.
.PHONY: test-demo-ten
test-demo-ten:
	@MAKE="$(MAKE)" tests/dotnet/demo_runs.py 10 $(or $(DEMO_SECONDS),15)
