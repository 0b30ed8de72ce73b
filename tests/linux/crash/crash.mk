# Crash records: tests/linux/crash/crasher.c ends in every way, with edgeprof linked in and preloaded.
CRASH_DIR    := $(BUILD)/tests/linux/crash
CRASH_CFLAGS := -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS)

$(CRASH_DIR)/plain: tests/linux/crash/crasher.c
	@mkdir -p $(@D)
	$(CC) $(CRASH_CFLAGS) $< -Wl,--build-id -lpthread -o $@
$(CRASH_DIR)/linked: tests/linux/crash/crasher.c $(EP_LIB) port/linux/link.opt
	@mkdir -p $(@D)
	$(CC) $(CRASH_CFLAGS) -DLINKED $< $(EP_LIB) $(EP_LDFLAGS) -Wl,--wrap=ep_crash_step,--wrap=ep_port_crash_write -Wl,--build-id $(EP_LDLIBS) -o $@

# With musl, and the boards' programs in qemu-user.
$(CRASH_DIR)/musl-plain: tests/linux/crash/crasher.c
	@mkdir -p $(@D)
	$(CC) $(CRASH_CFLAGS) $(LIBC_MUSL) $< -Wl,--build-id -o $@
$(CRASH_DIR)/musl-linked: tests/linux/crash/crasher.c $(BUILD)-musl/libedgeprof.a port/linux/link.opt
	@mkdir -p $(@D)
	$(CC) $(CRASH_CFLAGS) $(LIBC_MUSL) -DLINKED $< $(LIBC_MUSL_LIB) $(EP_LDFLAGS) -Wl,--wrap=ep_crash_step,--wrap=ep_port_crash_write -Wl,--build-id $(EP_LDLIBS) -o $@
ifeq ($(BOARD),host)
.PHONY: test-crash-musl $(QEMU_BOARDS:qemu-%=test-crash-%)
test-crash-musl: $(CRASH_DIR)/musl-plain $(CRASH_DIR)/musl-linked $(BUILD)/edgeprof
	@tests/linux/crash/crash.py --edgeprof $(BUILD)/edgeprof --plain $< --linked $(CRASH_DIR)/musl-linked
$(QEMU_BOARDS:qemu-%=test-crash-%): test-crash-%: $(BUILD)/edgeprof
	@$(MAKE) --no-print-directory -s BOARD=qemu-$* build/qemu-$*/tests/linux/crash/plain build/qemu-$*/tests/linux/crash/linked
	@tests/linux/crash/crash.py --edgeprof $(BUILD)/edgeprof --plain build/qemu-$*/tests/linux/crash/plain --linked build/qemu-$*/tests/linux/crash/linked \
	    --emulator "$$($(MAKE) --no-print-directory -s BOARD=qemu-$* print-exec)"
else
.PHONY: print-exec
print-exec:
	@echo $(BOARD_EXEC)
endif

# Beside glog, which is C++.
$(CRASH_DIR)/glog-plain $(CRASH_DIR)/glog-linked: tests/linux/crash/glog.cpp $(EP_LIB) port/linux/link.opt
	@mkdir -p $(@D)
	$(BOARD_CROSS)g++ -I. -Icore -D_GNU_SOURCE -std=c++17 -O2 -g -Wall -Wextra -Werror $(BOARD_CFLAGS) $(if $(filter %linked,$@),-DLINKED) $< $(EP_LIB) $(EP_LDFLAGS) -lglog $(EP_LDLIBS) -o $@
.PHONY: test-crash-glog
test-crash-glog: $(PRELOAD_LIB) $(BUILD)/edgeprof $(EP_LIB)
	@tools/build/setup.sh apt build tools test programs
	@$(MAKE) --no-print-directory -s $(CRASH_DIR)/glog-plain $(CRASH_DIR)/glog-linked
	@tests/linux/crash/crash.py --edgeprof $(BUILD)/edgeprof --plain $(CRASH_DIR)/glog-plain --linked $(CRASH_DIR)/glog-linked --preload "$(abspath $(PRELOAD_LIB))" \
	    --glog-plain $(CRASH_DIR)/glog-plain --glog-linked $(CRASH_DIR)/glog-linked

# Beside sentry-native, whose archive is in a package for .NET. Without _GNU_SOURCE: see sentry.c.
SENTRY_PACKAGE := $(CRASH_DIR)/packages/sentry/6.12.1/sentry-native/linux-x64
$(SENTRY_PACKAGE)/libsentry-native.a: $(wildcard tests/linux/crash/SentryNative/*)
	@mkdir -p $(@D)
	dotnet restore tests/linux/crash/SentryNative -nologo -v quiet --locked-mode --packages $(CRASH_DIR)/packages \
	    -p:MSBuildProjectExtensionsPath="$(abspath $(CRASH_DIR))"/sentry/
	@touch $@
$(CRASH_DIR)/sentry-plain $(CRASH_DIR)/sentry-linked: tests/linux/crash/sentry.c $(EP_LIB) port/linux/link.opt | $(SENTRY_PACKAGE)/libsentry-native.a
	@mkdir -p $(@D)
	$(CC) $(filter-out -D_GNU_SOURCE,$(CRASH_CFLAGS)) $(if $(filter %linked,$@),-DLINKED) $< $(EP_LIB) $(EP_LDFLAGS) -Wl,--build-id \
	    $(SENTRY_PACKAGE)/libsentry-native.a $(SENTRY_PACKAGE)/libunwind.a $(EP_LDLIBS) -lm -o $@
.PHONY: test-crash-sentry
ifeq ($(shell command -v dotnet),)
test-crash-sentry:
	@echo "SKIPPED: there is no .NET SDK on PATH"
else ifneq ($(BOARD)/$(BOARD_ARCH),host/x86_64)
test-crash-sentry:
	@echo "SKIPPED: sentry-native's archive is taken for x86_64 only"
else
test-crash-sentry: $(CRASH_DIR)/sentry-plain $(CRASH_DIR)/sentry-linked $(PRELOAD_LIB) $(BUILD)/edgeprof
	@tests/linux/crash/crash.py --edgeprof $(BUILD)/edgeprof --plain $< --linked $(CRASH_DIR)/sentry-linked --preload "$(abspath $(PRELOAD_LIB))" \
	    --sentry-plain $< --sentry-linked $(CRASH_DIR)/sentry-linked
endif

$(addprefix $(CRASH_DIR)/,plain linked musl-plain musl-linked glog-plain glog-linked sentry-plain sentry-linked): tests/linux/crash/own.h

.PHONY: test-crash
test-crash: $(CRASH_DIR)/plain $(CRASH_DIR)/linked $(PRELOAD_LIB) $(BUILD)/edgeprof  ## crash records, row by row
	@tests/linux/crash/crash.py --edgeprof $(BUILD)/edgeprof --plain $< --linked $(CRASH_DIR)/linked --preload "$(abspath $(PRELOAD_LIB))"

.PHONY: test-crash-server
test-crash-server: $(CRASH_DIR)/linked $(BUILD)/edgeprof
	@tests/linux/crash/server.py $(BUILD)/edgeprof $<

# .NET's runtime has handlers of its own behind edgeprof's.
ifeq ($(BOARD)/$(BOARD_ARCH),host/x86_64)
.PHONY: test-crash-dotnet test-crash-dotnet-many
MANY ?= 100000000
ifeq ($(shell command -v dotnet),)
test-crash-dotnet test-crash-dotnet-many:
	@echo "SKIPPED: there is no .NET SDK on PATH"
else
$(call na_published,Crasher): $(wildcard tests/dotnet/Crasher/*)
	$(NA_PUBLISH) tests/dotnet/Crasher
# What .NET does with many null references: a signal handler that returns into RhpThrowHwEx.
NULL_ENVIRONMENT := EDGEPROF_KINDS=cpu EDGEPROF_RATE=250 EDGEPROF_SERVICE=null
null_share = tests/dotnet/aot10/share.py --edgeprof $(BUILD)/edgeprof $(1) --name "null references, $(2)" --samples 150 --cut 0.5
test-crash-dotnet: $(call na_published,Crasher) $(NA_CRASHER) $(PRELOAD_LIB) $(BUILD)/edgeprof
	@tests/linux/crash/dotnet.py $(BUILD)/edgeprof "$(abspath $<)" "$(abspath $(PRELOAD_LIB))"
	@tests/linux/crash/dotnet.py $(BUILD)/edgeprof "$(abspath $(NA_CRASHER))"
	@mkdir -p $(CRASH_DIR) && rm -f $(CRASH_DIR)/null.profile; $(NULL_ENVIRONMENT) EDGEPROF_ENDPOINT=file://"$(abspath $(CRASH_DIR))"/null.profile \
	    LD_PRELOAD="$(abspath $(PRELOAD_LIB))" $< none 500000 >/dev/null && $(call null_share,$(CRASH_DIR)/null.profile,x86-64)
test-crash-dotnet-many: $(call na_published,Crasher) $(PRELOAD_LIB) $(BUILD)/edgeprof
	@tests/linux/crash/dotnet.py $(BUILD)/edgeprof "$(abspath $<)" "$(abspath $(PRELOAD_LIB))" $(MANY)
endif
endif
