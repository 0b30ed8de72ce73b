# Benchmarks in C and of the sample service. Ratios are taken in one run; nothing depends on the machine's speed.
BENCH_BUILD := $(BUILD)/bench
BENCH_C     := accounted clocks idle sample_cold sample_cost
BENCH_BIN   := $(BENCH_C:%=$(BENCH_BUILD)/%) $(BENCH_BUILD)/blocking

$(BENCH_BUILD)/sample_cold: BENCH_FLAGS := -fno-omit-frame-pointer
$(BENCH_BUILD)/clocks: BENCH_FLAGS := -Wl,--wrap=ep_linux_on_signal
$(BENCH_BIN): $(BENCH_BUILD)/%: tests/long/bench/%.c core/edgeprof/edgeprof.h core/edgeprof/options.h $(EP_LIB)
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(BENCH_FLAGS) $(WARNINGS) $< $(EP_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

$(BENCH_BUILD)/measure_capture.o: tests/long/bench/measure_capture.c core/edgeprof/port.h core/edgeprof/edgeprof.h core/collect/collect.h core/sample/profiler.h
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -fPIC $(WARNINGS) -c $< -o $@

.PHONY: $(BENCH_C:%=bench-%) bench-service bench-governor
# On the simulated port costs are scripted, so the figure is the same on every machine.
bench-governor: $(UT_DIR)/plain/suites
	@mkdir -p $(BENCH_BUILD); $< -s test_governor >$(BENCH_BUILD)/governor.out 2>&1 || { cat $(BENCH_BUILD)/governor.out >&2; exit 1; }; grep '^figure' $(BENCH_BUILD)/governor.out
BENCHES += bench-governor
# Bursts of functions and their shares, by each clock; TICK_SECONDS a figure and thread.
TICK_SECONDS ?= 10
.PHONY: bench-tick_bias
bench-tick_bias: $(UT_DIR)/plain/linux_bias
	@mkdir -p $(BENCH_BUILD); timeout 3600 $< $(TICK_SECONDS) >$(BENCH_BUILD)/tick_bias.out || { cat $(BENCH_BUILD)/tick_bias.out >&2; exit 1; }; grep '^figure' $(BENCH_BUILD)/tick_bias.out
BENCHES += bench-tick_bias
BENCHES += $(BENCH_C:%=bench-%)
$(BENCH_C:%=bench-%): bench-%: $(BENCH_BUILD)/%
	@$<

ifneq ($(NA_DOTNET),)
BENCH_SERVICE := $(BENCH_BUILD)/SensorGateway/bin/Release/$(NA_FRAMEWORK)/$(NA_RID)/publish/SensorGateway
$(BENCH_SERVICE): $(shell find port/nativeaot/samples/SensorGateway -type f) $(NA_SOURCE) $(NA_LIB) \
                  $(BENCH_BUILD)/measure_capture.o tests/long/bench/measure.targets
	$(NA_PUBLISH) -p:EdgeProfBuild="$(abspath $(BENCH_BUILD))"/ port/nativeaot/samples/SensorGateway \
	    -p:EdgeProfNativeLibrary="$(abspath $(NA_LIB))" -p:MeasureObject="$(abspath $(BENCH_BUILD)/measure_capture.o)" \
	    -p:CustomAfterMicrosoftCommonTargets="$(abspath tests/long/bench/measure.targets)" >&2
	@touch $@
bench-service: $(BENCH_SERVICE)
	@tests/long/bench/service.py $(BENCH_SERVICE) $(BENCH_BUILD)/service

# The bytes that this service sends.
.PHONY: bench-wire
bench-wire: $(NA_SAMPLE)
	@$(PYTHON) tests/long/bench/wire.py $(NA_SAMPLE) $(BENCH_BUILD)/wire
BENCHES += bench-wire

# What this service's profiles cost and lack, with everything on: without a budget, with one of 0.3 %, and in 64 KiB. The test is shorter and
# looks at the level that samples most.
truncated_of = tests/long/bench/truncated.py --edgeprof $(BUILD)/edgeprof --work $(BENCH_BUILD)/truncated --program
BENCH_SMALL := $(BENCH_BUILD)/small/SensorGateway/bin/Release/$(NA_FRAMEWORK)/$(NA_RID)/publish/SensorGateway
$(BENCH_SMALL): $(shell find port/nativeaot/samples/SensorGateway -type f) $(NA_SOURCE) $(NA_LIB) tests/long/bench/small.targets tests/long/bench/Small.cs
	$(NA_PUBLISH) -p:EdgeProfBuild="$(abspath $(BENCH_BUILD))"/small/ port/nativeaot/samples/SensorGateway \
	    -p:EdgeProfNativeLibrary="$(abspath $(NA_LIB))" -p:EdgeProfAutoStart=false \
	    -p:CustomAfterMicrosoftCommonTargets="$(abspath tests/long/bench/small.targets)" >&2
	@touch $@
BENCH_EVERYTHING := $(BENCH_BUILD)/everything/SensorGateway/bin/Release/$(NA_FRAMEWORK)/$(NA_RID)/publish/SensorGateway
$(BENCH_EVERYTHING): $(shell find port/nativeaot/samples/SensorGateway -type f) $(NA_SOURCE) $(NA_LIB)
	$(NA_PUBLISH) -p:EdgeProfBuild="$(abspath $(BENCH_BUILD))"/everything/ port/nativeaot/samples/SensorGateway \
	    -p:EdgeProfNativeLibrary="$(abspath $(NA_LIB))" -p:EdgeProfCrash=true -p:EdgeProfNativeMemory=true -p:EdgeProfOtelContext=true >&2
	@touch $@
.PHONY: bench-truncated
bench-truncated: $(NA_SAMPLE) $(BENCH_SMALL) $(BENCH_EVERYTHING) $(BUILD)/edgeprof
	@$(truncated_of) $(NA_SAMPLE)
	@$(truncated_of) $(BENCH_EVERYTHING) --everything --suffix _everything
	@$(truncated_of) $(NA_SAMPLE) --levels high --budget 3000 --warm 70 --seconds 130 --suffix _budget
	@$(truncated_of) $(BENCH_SMALL) --suffix _64k
BENCHES += bench-truncated
ifneq ($(NA_DOTNET),)
.PHONY: test-truncated
test-truncated: $(BENCH_EVERYTHING) $(BENCH_SMALL) $(BUILD)/edgeprof
	@$(truncated_of) $(BENCH_EVERYTHING) --everything --seconds 20 --levels high --most 0.1
	@$(truncated_of) $(BENCH_SMALL) --seconds 20 --levels high --most 1 --suffix _64k
endif

# The memory that the package adds to this service, by feature.
.PHONY: bench-memory
bench-memory: $(NA_SAMPLE) $(NA_PLAIN)
	@$(PYTHON) tests/long/bench/memory.py $(NA_LIB) $(NA_SAMPLE) $(NA_PLAIN) $(BENCH_BUILD)/memory
BENCHES += bench-memory

# The total cost of the product for this service.
BENCH_OVERHEAD := $(BENCH_BUILD)/overhead/SensorGateway/bin/Release/$(NA_FRAMEWORK)/$(NA_RID)/publish/SensorGateway
$(BENCH_BUILD)/measure_overhead.o: tests/long/bench/measure_overhead.c core/edgeprof/port.h core/edgeprof/edgeprof.h core/edgeprof/hooks.h
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -fPIC $(WARNINGS) -c $< -o $@
BENCH_TIMED := $(BENCH_BUILD)/libedgeprof-timed.a
$(BENCH_TIMED): $(NA_LIB)
	@mkdir -p $(@D)
	$(OBJCOPY) --redefine-sym __wrap_RhpGcAlloc=hooked_RhpGcAlloc --redefine-sym __real_RhpGcAlloc=timed_RhpGcAlloc $< $@
$(BENCH_OVERHEAD): $(BENCH_TIMED) $(shell find port/nativeaot/samples/SensorGateway -type f) $(NA_SOURCE) $(NA_LIB) \
                   $(BENCH_BUILD)/measure_overhead.o tests/long/bench/overhead.targets
	$(NA_PUBLISH) -p:EdgeProfBuild="$(abspath $(BENCH_BUILD))"/overhead/ port/nativeaot/samples/SensorGateway \
	    -p:EdgeProfNativeLibrary="$(abspath $(BENCH_TIMED))" -p:MeasureObject="$(abspath $(BENCH_BUILD)/measure_overhead.o)" \
	    -p:CustomAfterMicrosoftCommonTargets="$(abspath tests/long/bench/overhead.targets)" >&2
	@touch $@
.PHONY: bench-overhead
bench-overhead: $(BENCH_OVERHEAD) $(BUILD)/edgeprof
	@tests/long/bench/overhead.py $(BENCH_OVERHEAD) $(BUILD)/edgeprof $(BENCH_BUILD)/overhead/work

# System calls interrupted by signals.
.PHONY: bench-interrupted
bench-interrupted: $(NA_COUNTER) $(BENCH_BUILD)/blocking $(NA_WORKLOAD)
	@tests/long/bench/interrupted.py $^ $(BENCH_BUILD)/interrupted
BENCHES += bench-service bench-overhead bench-interrupted

# Locks and waits of managed code against stopwatches.
.PHONY: bench-nativeaot-waits
bench-nativeaot-waits: $(NA_WAITS)
	@EDGEPROF_LEVEL=high $(NA_WAITS) /dev/null
BENCHES += bench-nativeaot-waits
endif

# The same of services with other shapes, in 128 and 64 KiB, and of a program under the preload library.
$(BENCH_BUILD)/shapes: tests/long/bench/shapes.c core/edgeprof/edgeprof.h core/edgeprof/options.h $(EP_LIB)
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $< $(EP_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@
truncated_shape = tests/long/bench/truncated.py --edgeprof $(BUILD)/edgeprof --work $(BENCH_BUILD)/shapes.out
.PHONY: test-truncated-shapes
test-truncated-shapes: $(BENCH_BUILD)/shapes $(BUILD)/edgeprof $(PRELOAD_LIB)
	@set -e; for shape in deep distinct threads; do \
	    $(truncated_shape) --most 0.1 --name $$shape -- $< $$shape 12; \
	    $(truncated_shape) --most 1 --name $$shape-64 -- env SHAPES_MEMORY=65536 $< $$shape 12; done; \
	    $(truncated_shape) --most 0.1 --name python --preload "$(abspath $(PRELOAD_LIB))" -- /usr/bin/python3 tests/long/bench/deep.py 12

# The whole cost, by switching the profiler off and on in one process. SECONDS for each figure at most.
SWITCHBACK_SECONDS ?= 240
$(BENCH_BUILD)/switchback: tests/long/bench/switchback.c core/edgeprof/edgeprof.h core/edgeprof/options.h $(EP_LIB)
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $< $(EP_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -lm -o $@
.PHONY: bench-switchback
bench-switchback: $(BENCH_BUILD)/switchback
	@set -e; for level in low medium high; do for work in cache call wait; do rm -f $<.ep; \
	    EDGEPROF_ENDPOINT=file://"$(abspath $<)".ep $< $$level $$work $(SWITCHBACK_SECONDS) 0.3; done; done
BENCHES += bench-switchback

# The same work under what a user may pick instead.
PEERS_ROUNDS ?= 9
.PHONY: bench-peers
bench-peers: $(PRELOAD_LIB) $(MEMORY_LIB)
	@tests/long/bench/peers.py $^ $(BENCH_BUILD)/peers $(PEERS_ROUNDS)

# Requests recorded at Pyroscope that get the same answers; RECORDING=FILE replays another recording.
.PHONY: bench-answers
bench-answers: $(BUILD)/edgeprof
	@/usr/bin/python3 tests/long/bench/answers.py $< $(BENCH_BUILD)/answers $(RECORDING)
BENCHES += bench-answers

# Waits of C programs against a stopwatch, and what a bracket costs.
.PHONY: bench-waits
bench-waits: $(UT_DIR)/plain/linux_waits
	@$(BOARD_EXEC) $< 2>&1
BENCHES += bench-waits

# The preload library's wait hooks around calls that return at once; and its cost for servers.
$(BENCH_BUILD)/wait_hook: tests/long/bench/wait_hook.c
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $< -o $@ -lpthread -ldl
BENCH_SERVERS := bench-redis bench-nginx bench-pgbench bench-pgbench_connect
.PHONY: bench-wait-hook $(BENCH_SERVERS)
bench-wait-hook: $(BENCH_BUILD)/wait_hook $(PRELOAD_LIB)
	@tests/long/bench/wait_hook.py $< "$(abspath $(PRELOAD_LIB))"
# Its memory hooks, in a library of their own.
$(BENCH_BUILD)/memory_hook: tests/long/bench/memory_hook.c
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $< -o $@ -ldl
$(BENCH_BUILD)/memory_hook_linked: tests/long/bench/memory_hook.c tests/linux/preload/memory_linked.c $(EP_LIB) port/linux/memory.opt
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -DLINKED -std=c11 -O2 -g $(WARNINGS) $(filter %.c,$^) $(EP_LIB) $(EP_LDFLAGS) @port/linux/memory.opt $(EP_LDLIBS) -o $@
.PHONY: bench-memory-hook bench-redis-memory
bench-memory-hook: $(BENCH_BUILD)/memory_hook $(MEMORY_LIB) $(BENCH_BUILD)/memory_hook_linked
	@tests/long/bench/memory_hook.py $< "$(abspath $(MEMORY_LIB))" $(BENCH_BUILD)/memory_hook_linked
bench-redis-memory: $(MEMORY_LIB)
	@tools/build/setup.sh apt build tools test programs
	@tests/long/bench/servers.py redis_memory $< $(BENCH_BUILD)/redis_memory
BENCHES += bench-memory-hook bench-redis-memory

$(BENCH_SERVERS): bench-%: $(PRELOAD_LIB)
	@tools/build/setup.sh apt build tools test programs
	@tests/long/bench/servers.py $* $< $(BENCH_BUILD)/$*
BENCHES += bench-wait-hook $(BENCH_SERVERS)
