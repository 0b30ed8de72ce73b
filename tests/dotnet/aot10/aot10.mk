# Code that Microsoft compiled with NativeAOT of .NET 10, without symbols, its runtime's C++ without unwind tables: the
# library of the npm package node-api-dotnet, which host.c loads and calls. Where no registry serves it, the tests say
# so and do nothing.

ifeq ($(BOARD)/$(BOARD_ARCH),host/x86_64)
AOT10         := $(BUILD)/tests/dotnet/aot10
AOT10_LIBRARY  = build/deps/aot10/node_modules/node-api-dotnet/linux-$(1)/Microsoft.JavaScript.NodeApi.node
AOT10_CFLAGS  := -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS)
AOT10_HEADERS := tests/dotnet/aot10/host.h core/edgeprof/edgeprof.h core/edgeprof/options.h tests/dotnet/aot10/aot10.mk
AOT10_SOURCES := tests/dotnet/aot10/host.c tests/dotnet/aot10/measure.c
# $(1): what to do with the library. Beside much other work few samples may come, or new code be known late: what fails
# is done once more.
aot10_run = @tools/build/setup.sh aot10; status=$$?; [ $$status != 3 ] || { echo "SKIPPED: no npm registry served node-api-dotnet"; exit 0; }; \
    measure() { $(1); }; [ $$status = 0 ] && { measure || { echo "$@: once more"; measure; }; }

# The library finds the host's functions as it finds those of Node: -rdynamic.
$(AOT10)/linked: $(AOT10_SOURCES) $(AOT10_HEADERS) $(EP_LIB)
	@mkdir -p $(@D)
	$(CC) $(AOT10_CFLAGS) -DLINKED -rdynamic $(AOT10_SOURCES) $(EP_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@
$(AOT10)/plain: $(AOT10_SOURCES) $(AOT10_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(AOT10_CFLAGS) -rdynamic $(AOT10_SOURCES) -lpthread -ldl -o $@
$(AOT10)/linked-aarch64: $(AOT10_SOURCES) $(AOT10_HEADERS) build/qemu-aarch64/libedgeprof.a
	@mkdir -p $(@D)
	aarch64-linux-gnu-gcc $(AOT10_CFLAGS) -DLINKED -rdynamic $(AOT10_SOURCES) $(filter %.a,$^) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@
$(AOT10)/linked-pac: $(AOT10_SOURCES) $(AOT10_HEADERS) $(PAC_BUILD)/libedgeprof.a
	@mkdir -p $(@D)
	aarch64-linux-gnu-gcc $(AOT10_CFLAGS) -mbranch-protection=standard -DLINKED -rdynamic $(AOT10_SOURCES) $(filter %.a,$^) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@
$(AOT10)/shadow: tests/dotnet/aot10/host.c tests/dotnet/aot10/shadow_main.c $(AOT10_HEADERS) $(SHADOW_BUILD)/libshadow.a $(EP_LIB)
	@mkdir -p $(@D)
	$(CC) $(AOT10_CFLAGS) -rdynamic $(filter %.c %.a,$^) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

AOT10_STEPPER := tests/arm/shadow/shadow.c tests/arm/shadow/step_aarch64.c tests/arm/shadow/switch_aarch64.S tests/arm/shadow/walk_core.c tests/arm/shadow/walk_fp.c
$(AOT10)/shadow-aarch64: tests/dotnet/aot10/host.c tests/dotnet/aot10/shadow_main.c $(AOT10_STEPPER) $(AOT10_HEADERS) $(wildcard tests/arm/shadow/*.h) build/qemu-aarch64/libedgeprof.a
	@mkdir -p $(@D)
	aarch64-linux-gnu-gcc $(AOT10_CFLAGS) -rdynamic $(filter %.c %.S %.a,$^) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

# $(1): program, and name of the profile; the collector's budget does not depend on the processor's cache, as it would by
# default: frames that are being changed while it stops threads have gaps; $(2): the machine's name in .NET; $(3): ms of CPU time for each thread;
# $(4): environment and emulator
aot10_profile = rm -f $(AOT10)/$(1).profile && DOTNET_GCgen0size=4000000 EDGEPROF_KINDS=cpu EDGEPROF_RATE=250 EDGEPROF_SERVICE=aot10 \
    EDGEPROF_ENDPOINT=file://"$(abspath $(AOT10)/$(1).profile)" $(4) $(AOT10)/$(1) $(call AOT10_LIBRARY,$(2)) $(3)
AOT10_PRELOADED := env LD_PRELOAD="$(abspath $(PRELOAD_LIB))"
AOT10_QEMU      := qemu-aarch64 -L /usr/aarch64-linux-gnu
aot10_share      = tests/dotnet/aot10/share.py --edgeprof $(BUILD)/edgeprof $(AOT10)/$(1).profile --name $(1)

.PHONY: test-aot10 test-aot10-long test-aot10-aarch64 test-aot10-shadow test-aot10-shadow-aarch64 bench-aot10
test-aot10: $(AOT10)/linked $(AOT10)/plain $(PRELOAD_LIB) $(BUILD)/edgeprof $(UT_DECODE)
	$(call aot10_run,$(call aot10_profile,linked,x64,2500) && $(call aot10_profile,plain,x64,2500,$(AOT10_PRELOADED)) && \
	    $(call aot10_share,linked) --samples 300 --exact 98.5 --cut 0.2 && $(call aot10_share,plain) --samples 300 --exact 98.5 --cut 0.5 && \
	    objdump -dw $(call AOT10_LIBRARY,x64) | $(UT_DECODE) 200000)

test-aot10-aarch64: $(AOT10)/linked-aarch64 $(BUILD)/edgeprof
	$(call aot10_run,$(call aot10_profile,linked-aarch64,arm64,4500,$(AOT10_QEMU)) && \
	    $(call aot10_share,linked-aarch64) --samples 300 --exact 97 --cut 0.5)

# The same on a whole machine: signals arrive between any two instructions there. Small generations: the collector works
# all the time, and stops the threads for it.
AOT10_SYSTEM := $(addprefix lib/,ld-linux-aarch64.so.1 libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2 libgcc_s.so.1)
AOT10_JOB    := aot10 600 DOTNET_GCgen0size=10000 EDGEPROF_KINDS=cpu EDGEPROF_RATE=250 EDGEPROF_SERVICE=aot10 \
    EDGEPROF_ENDPOINT=file:///tmp/profile /bin/linked /lib/library.node 2500
$(AOT10)/init: tests/arm/qemu/init.c
	@mkdir -p $(@D)
	aarch64-linux-gnu-gcc -D_GNU_SOURCE -std=c11 -O2 $(WARNINGS) -static $< -o $@
build/deps/arm64/vmlinuz:
	tools/build/setup.sh cross
aot10_system = rm -rf $(AOT10)/system && printf '%s\n' '$(AOT10_JOB)' 'show aot10 /tmp/profile' >$(AOT10)/jobs && \
    tests/arm/qemu/initramfs.py $(AOT10)/initrd.gz init=$(AOT10)/init jobs=$(AOT10)/jobs bin/linked=$(AOT10)/linked-aarch64 \
        lib/library.node=$(call AOT10_LIBRARY,arm64) $(foreach l,$(AOT10_SYSTEM),$(l)=/usr/aarch64-linux-gnu/$(l)) && \
    tests/arm/qemu/system.py --kernel build/deps/arm64/vmlinuz --out $(AOT10)/system --log $(AOT10)/system.log --initrd $(AOT10)/initrd.gz -- \
        qemu-system-aarch64 -M virt -cpu cortex-a53 -m 512 -icount shift=2$(comma)sleep=off && \
    tests/dotnet/aot10/share.py --edgeprof $(BUILD)/edgeprof $(AOT10)/system/aot10 --name "whole machine" --samples 800 --exact 80 --cut 3

# Null references on a whole machine: signals arrive at the first instruction that the runtime's handler returns to.
.PHONY: test-null-references-arm64
ifeq ($(NA_DOTNET),)
test-null-references-arm64:
	@echo "SKIPPED: there is no .NET SDK on PATH"
else
NULL_DIR := $(AOT10)/null-references
$(NULL_DIR)/publish/Crasher: $(wildcard tests/dotnet/Crasher/*)
	$(NA_LOCKED) dotnet publish -r linux-arm64 -nologo -v quiet -p:LinkerFlavor=lld \
	    -p:EdgeProfBuild="$(abspath $(NULL_DIR))"/ -o $(@D) tests/dotnet/Crasher
test-null-references-arm64: $(NULL_DIR)/publish/Crasher $(AOT10)/init $(BUILD)/edgeprof build/deps/arm64/vmlinuz
	@$(MAKE) --no-print-directory -s BOARD=qemu-aarch64 preload
	@printf '%s\n' 'null 300 $(NULL_ENVIRONMENT) LD_PRELOAD=/lib/preload.so EDGEPROF_ENDPOINT=file:///tmp/profile /bin/Crasher none 50000' \
	    'show null /tmp/profile' >$(NULL_DIR)/jobs
	@tests/arm/qemu/initramfs.py $(NULL_DIR)/initrd.gz init=$(AOT10)/init jobs=$(NULL_DIR)/jobs bin/Crasher=$< \
	    lib/preload.so=build/qemu-aarch64/libedgeprof-preload.so $(foreach l,$(AOT10_SYSTEM),$(l)=/usr/aarch64-linux-gnu/$(l))
	@tests/arm/qemu/system.py --kernel build/deps/arm64/vmlinuz --out $(NULL_DIR)/shown --log $(NULL_DIR)/system.log \
	    --initrd $(NULL_DIR)/initrd.gz -- qemu-system-aarch64 -M virt -cpu cortex-a53 -m 512 -icount shift=2$(comma)sleep=off
	@$(call null_share,$(NULL_DIR)/shown/null,a whole aarch64 machine)
endif

# A host whose code is signed (PAC), and the same profiler, on a processor with and one without.
aot10_pac = for cpu in $(PAC_CPUS); do $(call aot10_profile,linked-pac,arm64,3000,qemu-aarch64 -cpu $$cpu -L /usr/aarch64-linux-gnu) && \
        tests/dotnet/aot10/share.py --edgeprof $(BUILD)/edgeprof $(AOT10)/linked-pac.profile --name "linked-pac $$cpu" --samples 200 --exact 96 --cut 0.6 || return 1; done

# Managed code, the runtime's C++, its assembly: enum shadow_place.
AOT10_NEED := exact_steps_x86_64_pct=99.9 exact_steps_x86_64_runtime_pct=99 exact_steps_x86_64_assembly_pct=97
test-aot10-shadow: $(AOT10)/shadow
	$(call aot10_run,$< $(call AOT10_LIBRARY,x64) 4 $<.places >$<.figures && cat $<.figures && \
	    tests/arm/shadow/report.py $<.places $< --honest $<.figures $(AOT10_NEED:%=--need %) && echo "$@: no wrong stack calls itself exact")

# ILC itself: $(1): 9 or 10. The publish restores it, and leaves the file that says what it compiles.
AOT10_ILC_RSP = $(NA_BUILD)/ilc/Compiled/obj/Release/net$(1).0/linux-x64/native/Compiled.ilc.rsp
aot10_ilc = $(NA_LOCKED) dotnet publish -c Release -r linux-x64 -nologo -v quiet -p:EdgeProfBuild="$(abspath $(NA_BUILD))"/ilc/ \
    -p:ForDotNet=$(1) tests/dotnet/aot10/Compiled && \
    tests/dotnet/aot10/ilc.py --edgeprof "$(abspath $(BUILD)/edgeprof)" --folder $(AOT10) --name ilc-$(1) --rsp $(call AOT10_ILC_RSP,$(1)) \
        --ilc "$$(ls -d $${NUGET_PACKAGES:-$$HOME/.nuget/packages}/runtime.linux-x64.microsoft.dotnet.ilcompiler/$(1).* | sort -V | tail -n 1)/tools/ilc"
.PHONY: test-ilc test-ilc-9
test-ilc test-ilc-9: $(BUILD)/edgeprof $(PRELOAD_LIB)
ifeq ($(NA_DOTNET),)
	@echo "SKIPPED: there is no .NET SDK on PATH"
else
	@mkdir -p $(AOT10)
	@$(call aot10_ilc,$(if $(filter %-9,$@),9,10))
endif

# $(1): rounds; 31 are six million instructions, 300,000 of them assembly; $(2): environment
AOT10_REPORT_AARCH64 := --tools aarch64-linux-gnu- --sysroot /usr/aarch64-linux-gnu
aot10_stepped = $(2) $(AOT10_QEMU) $(AOT10)/shadow-aarch64 $(call AOT10_LIBRARY,arm64) $(1) $(AOT10)/arm.places >$(AOT10)/arm.figures && cat $(AOT10)/arm.figures && \
        tests/arm/shadow/report.py $(AOT10)/arm.places $(AOT10)/shadow-aarch64 $(AOT10_REPORT_AARCH64) --honest $(AOT10)/arm.figures \
            $(AOT10_NEED:exact_steps_x86_64%=--need exact_steps_aarch64%) && echo "$@: no wrong stack calls itself exact"
# With small generations the stepped thread collects.
AOT10_COLLECTS := DOTNET_GCgen0size=10000
test-aot10-shadow-aarch64: $(AOT10)/shadow-aarch64
	$(call aot10_run,$(call aot10_stepped,4) && $(call aot10_stepped,2,$(AOT10_COLLECTS)))
test-aot10-long: $(AOT10)/shadow-aarch64 $(AOT10)/linked-pac $(AOT10)/linked-aarch64 $(AOT10)/init $(BUILD)/edgeprof build/deps/arm64/vmlinuz
	$(call aot10_run,$(call aot10_stepped,31) && $(call aot10_stepped,4,$(AOT10_COLLECTS)) && { $(call aot10_pac); } && $(call aot10_system))

BENCHES += bench-aot10
bench-aot10: test-aot10 test-aot10-aarch64
	$(call aot10_run,$(call aot10_share,linked) --figure x86_64 && $(call aot10_share,linked-aarch64) --figure aarch64)
endif
