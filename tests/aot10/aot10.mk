# Code that Microsoft compiled with NativeAOT of .NET 10, without symbols, its runtime's C++ without unwind tables: the
# library of the npm package node-api-dotnet, which host.c loads and calls. Where no registry serves it, the tests say
# so and do nothing.

ifeq ($(BOARD)/$(BOARD_ARCH),host/x86_64)
AOT10         := $(BUILD)/tests/aot10
AOT10_LIBRARY  = build/deps/aot10/node_modules/node-api-dotnet/linux-$(1)/Microsoft.JavaScript.NodeApi.node
AOT10_CFLAGS  := -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS)
AOT10_HEADERS := tests/aot10/host.h core/edgeprof.h core/config.h tests/aot10/aot10.mk
AOT10_SOURCES := tests/aot10/host.c tests/aot10/measure.c
# $(1): what to do with the library
aot10_run = @tools/build/setup.sh aot10; status=$$?; [ $$status != 3 ] || { echo "SKIPPED: no npm registry served node-api-dotnet"; exit 0; }; \
    [ $$status = 0 ] && { $(1); }

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
$(AOT10)/shadow: tests/aot10/host.c tests/aot10/shadow_main.c $(AOT10_HEADERS) $(SHADOW_BUILD)/libshadow.a $(EP_LIB)
	@mkdir -p $(@D)
	$(CC) $(AOT10_CFLAGS) -rdynamic $(filter %.c %.a,$^) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

# $(1): program, and name of the profile; $(2): the machine's name in .NET; $(3): ms of CPU time for each thread;
# $(4): environment and emulator
aot10_profile = rm -f $(AOT10)/$(1).profile && EDGEPROF_KINDS=cpu EDGEPROF_RATE=250 EDGEPROF_SERVICE=aot10 \
    EDGEPROF_ENDPOINT=file://$(abspath $(AOT10)/$(1).profile) $(4) $(AOT10)/$(1) $(call AOT10_LIBRARY,$(2)) $(3)
AOT10_PRELOADED := env LD_PRELOAD=$(abspath $(PRELOAD_LIB))
AOT10_QEMU      := qemu-aarch64 -L /usr/aarch64-linux-gnu
aot10_share      = tests/aot10/share.py --edgeprof $(BUILD)/edgeprof $(AOT10)/$(1).profile --name $(1)

.PHONY: test-aot10 test-aot10-aarch64 test-aot10-shadow bench-aot10
$(call test,test-aot10,quick,300,shared,Stacks in a .NET 10 library without symbols are exact on x86-64, linked in and preloaded.)
test-aot10: $(AOT10)/linked $(AOT10)/plain $(PRELOAD_LIB) $(BUILD)/edgeprof $(UT_DECODE)
	$(call aot10_run,$(call aot10_profile,linked,x64,2500) && $(call aot10_profile,plain,x64,2500,$(AOT10_PRELOADED)) && \
	    $(call aot10_share,linked) --samples 300 --exact 99 --cut 0.2 && $(call aot10_share,plain) --samples 300 --exact 99 --cut 0.2 && \
	    objdump -dw $(call AOT10_LIBRARY,x64) | $(UT_DECODE) 200000)

$(call test,test-aot10-aarch64,all,600,shared,Stacks in a .NET 10 library without symbols are exact on aarch64, in qemu-user.)
test-aot10-aarch64: $(AOT10)/linked-aarch64 $(BUILD)/edgeprof
	$(call aot10_run,$(call aot10_profile,linked-aarch64,arm64,4500,$(AOT10_QEMU)) && \
	    $(call aot10_share,linked-aarch64) --samples 800 --exact 98 --cut 0.5)

# Managed code, the runtime's C++, its assembly: enum shadow_place.
AOT10_NEED := exact_steps_x86_64_pct=99.9 exact_steps_x86_64_runtime_pct=99 exact_steps_x86_64_assembly_pct=97
$(call test,test-aot10-shadow,all,300,shared,The unwinder is exact in a .NET 10 library without symbols; no wrong stack calls itself exact.)
test-aot10-shadow: $(AOT10)/shadow
	$(call aot10_run,$< $(call AOT10_LIBRARY,x64) 4 $<.places >$<.figures && cat $<.figures && \
	    tests/shadow/report.py $<.places $< --honest $<.figures $(AOT10_NEED:%=--need %) && echo "$@: no wrong stack calls itself exact")

BENCHES += bench-aot10
bench-aot10: test-aot10 test-aot10-aarch64
	$(call aot10_run,$(call aot10_share,linked) --figure x86_64 && $(call aot10_share,linked-aarch64) --figure aarch64)
endif
