# Crash records: tests/crash/crasher.c ends in every way, with edgeprof linked in and preloaded.
CRASH_DIR    := $(BUILD)/tests/crash
CRASH_CFLAGS := -I. -Icore -Iport -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS)

$(CRASH_DIR)/plain: tests/crash/crasher.c
	@mkdir -p $(@D)
	$(CC) $(CRASH_CFLAGS) $< -Wl,--build-id -lpthread -o $@
$(CRASH_DIR)/linked: tests/crash/crasher.c $(EP_LIB) port/linux/link.opt
	@mkdir -p $(@D)
	$(CC) $(CRASH_CFLAGS) -DLINKED $< $(EP_LIB) $(EP_LDFLAGS) -Wl,--wrap=ep_crash_step,--wrap=ep_port_crash_write -Wl,--build-id $(EP_LDLIBS) -o $@

.PHONY: test-crash
$(call test,test-crash,quick,300,shared,A program that crashes in any way leaves a record$(comma) and ends as it does without the profiler.)
test-crash: $(CRASH_DIR)/plain $(CRASH_DIR)/linked $(PRELOAD_LIB) $(BUILD)/edgeprof  ## crash records, row by row
	@tests/crash/crash.py --edgeprof $(BUILD)/edgeprof --plain $< --linked $(CRASH_DIR)/linked --preload $(abspath $(PRELOAD_LIB))

.PHONY: test-crash-server
$(call test,test-crash-server,quick,120,shared,Each crash arrives once at the server$(comma) whatever happens on the way$(comma) and is shown in groups.)
test-crash-server: $(CRASH_DIR)/linked $(BUILD)/edgeprof
	@tests/crash/server.py $(BUILD)/edgeprof $<

# .NET's runtime has handlers of its own behind edgeprof's.
ifeq ($(BOARD)/$(BOARD_ARCH),host/x86_64)
.PHONY: test-crash-dotnet test-crash-dotnet-many
$(call test,test-crash-dotnet,all,600,shared,Null references that .NET handles record nothing$(comma) and an unhandled exception or FailFast is recorded with its message.)
$(call test,test-crash-dotnet-many,own,7200,alone,1e8 null references that .NET handles record nothing and cost what they cost without crash records; MANY=.)
MANY ?= 100000000
ifeq ($(shell command -v dotnet),)
test-crash-dotnet test-crash-dotnet-many:
	@echo "SKIPPED: there is no .NET SDK on PATH"
else
$(call na_published,Crasher): $(wildcard tests/nativeaot/Crasher/*)
	$(NA_PUBLISH) tests/nativeaot/Crasher
test-crash-dotnet: $(call na_published,Crasher) $(PRELOAD_LIB) $(BUILD)/edgeprof
	@tests/crash/dotnet.py $(BUILD)/edgeprof $(abspath $<) $(abspath $(PRELOAD_LIB))
test-crash-dotnet-many: $(call na_published,Crasher) $(PRELOAD_LIB) $(BUILD)/edgeprof
	@tests/crash/dotnet.py $(BUILD)/edgeprof $(abspath $<) $(abspath $(PRELOAD_LIB)) $(MANY)
endif
endif
