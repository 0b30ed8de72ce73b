# Benchmarks in C and of the sample service. Ratios are taken in one run; nothing depends on the machine's speed.
BENCH_BUILD := $(BUILD)/bench
BENCH_C     := accounted idle sample_cost
BENCH_BIN   := $(BENCH_C:%=$(BENCH_BUILD)/%) $(BENCH_BUILD)/blocking

$(BENCH_BIN): $(BENCH_BUILD)/%: tests/bench/%.c core/edgeprof.h core/config.h $(EP_LIB)
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $< $(EP_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

$(BENCH_BUILD)/measure_capture.o: tests/bench/measure_capture.c port/port.h core/edgeprof.h
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -fPIC $(WARNINGS) -c $< -o $@

.PHONY: $(BENCH_C:%=bench-%) bench-service bench-governor
# On the simulated port costs are scripted, so the figure is the same on every machine.
bench-governor: $(UT_DIR)/plain/test_governor
	@mkdir -p $(BENCH_BUILD); $< >$(BENCH_BUILD)/governor.out 2>&1 || { cat $(BENCH_BUILD)/governor.out >&2; exit 1; }; grep '^figure' $(BENCH_BUILD)/governor.out
BENCHES += bench-governor
BENCHES += $(BENCH_C:%=bench-%)
$(BENCH_C:%=bench-%): bench-%: $(BENCH_BUILD)/%
	@$<

ifneq ($(NA_DOTNET),)
BENCH_SERVICE := $(BENCH_BUILD)/SensorGateway/bin/Release/net9.0/$(NA_RID)/publish/SensorGateway
$(BENCH_SERVICE): $(shell find port/nativeaot/samples/SensorGateway -type f) $(NA_SOURCE) $(NA_LIB) \
                  $(BENCH_BUILD)/measure_capture.o tests/bench/measure.targets
	$(NA_PUBLISH) -p:EdgeProfBuild=$(abspath $(BENCH_BUILD))/ port/nativeaot/samples/SensorGateway \
	    -p:EdgeProfNativeLibrary=$(abspath $(NA_LIB)) -p:MeasureObject=$(abspath $(BENCH_BUILD)/measure_capture.o) \
	    -p:CustomAfterMicrosoftCommonTargets=$(abspath tests/bench/measure.targets) >&2
	@touch $@
bench-service: $(BENCH_SERVICE)
	@tests/bench/service.py $(BENCH_SERVICE) $(BENCH_BUILD)/service

# The bytes that this service sends.
.PHONY: bench-wire
bench-wire: $(NA_SAMPLE)
	@$(PYTHON) tests/bench/wire.py $(NA_SAMPLE) $(BENCH_BUILD)/wire
BENCHES += bench-wire

# The memory that the package adds to this service, by feature.
.PHONY: bench-memory
bench-memory: $(NA_SAMPLE) $(NA_PLAIN)
	@$(PYTHON) tests/bench/memory.py $(NA_LIB) $(NA_SAMPLE) $(NA_PLAIN) $(BENCH_BUILD)/memory
BENCHES += bench-memory

# The total cost of the product for this service.
BENCH_OVERHEAD := $(BENCH_BUILD)/overhead/SensorGateway/bin/Release/net9.0/$(NA_RID)/publish/SensorGateway
$(BENCH_BUILD)/measure_overhead.o: tests/bench/measure_overhead.c port/port.h core/edgeprof.h core/hooks.h
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -fPIC $(WARNINGS) -c $< -o $@
BENCH_TIMED := $(BENCH_BUILD)/libedgeprof-timed.a
$(BENCH_TIMED): $(NA_LIB)
	@mkdir -p $(@D)
	$(OBJCOPY) --redefine-sym __wrap_RhpGcAlloc=hooked_RhpGcAlloc --redefine-sym __real_RhpGcAlloc=timed_RhpGcAlloc $< $@
$(BENCH_OVERHEAD): $(BENCH_TIMED) $(shell find port/nativeaot/samples/SensorGateway -type f) $(NA_SOURCE) $(NA_LIB) \
                   $(BENCH_BUILD)/measure_overhead.o tests/bench/overhead.targets
	$(NA_PUBLISH) -p:EdgeProfBuild=$(abspath $(BENCH_BUILD))/overhead/ port/nativeaot/samples/SensorGateway \
	    -p:EdgeProfNativeLibrary=$(abspath $(BENCH_TIMED)) -p:MeasureObject=$(abspath $(BENCH_BUILD)/measure_overhead.o) \
	    -p:CustomAfterMicrosoftCommonTargets=$(abspath tests/bench/overhead.targets) >&2
	@touch $@
.PHONY: bench-overhead
bench-overhead: $(BENCH_OVERHEAD) $(BUILD)/edgeprof
	@tests/bench/overhead.py $(BENCH_OVERHEAD) $(BUILD)/edgeprof $(BENCH_BUILD)/overhead/work

# System calls interrupted by signals.
.PHONY: bench-interrupted
bench-interrupted: $(NA_COUNTER) $(BENCH_BUILD)/blocking $(NA_WORKLOAD)
	@tests/bench/interrupted.py $^ $(BENCH_BUILD)/interrupted
BENCHES += bench-service bench-overhead bench-interrupted

# Locks and waits of managed code against stopwatches.
.PHONY: bench-nativeaot-waits
bench-nativeaot-waits: $(NA_WAITS)
	@EDGEPROF_LEVEL=high $(NA_WAITS) /dev/null
BENCHES += bench-nativeaot-waits
endif

# Waits of C programs against a stopwatch, and what a bracket costs.
.PHONY: bench-waits
bench-waits: $(UT_DIR)/plain/linux_waits
	@$(BOARD_EXEC) $< 2>&1
BENCHES += bench-waits
