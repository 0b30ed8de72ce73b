# Limits of the store's size, in a running server.

test-tools-keep: $(ET_TEST)/edgeprof
	@$(call host_test,keep_test.py)

# A fleet over days of simulated time. FLEET: devices, versions, days, MiB of --max-size, hours between two profiles of a device.
FLEET_DAYS ?= 2000 20 30 64 1
$(ET_TEST)/fleet_clock.so: tests/host/fleet_clock.c
	@mkdir -p $(@D)
	$(ET_CC) -std=c11 -O2 $(WARNINGS) -Wno-pedantic -D_GNU_SOURCE -shared -fPIC -o $@ $<
test-tools-fleet: $(BUILD)/edgeprof $(ET_TEST)/fleet_clock.so
	@$(call host_test,fleet_test.py)
fleet-days: $(BUILD)/edgeprof $(ET_TEST)/fleet_clock.so ## 2,000 devices and 20 versions over 30 simulated days
	@FLEET='$(FLEET_DAYS)' $(call host_test,fleet_test.py --timeout 14400 -s)

# The same in a fleet's simulated time, with a wrong clock.
test-tools-clock: $(BUILD)/edgeprof $(ET_TEST)/fleet_clock.so
	@$(call host_test,clock_test.py)

# A day of 100 devices: duration of queries, size, and the cost of receiving profiles.
BENCH_STORE := $(BUILD)/bench/store_day $(BUILD)/bench/store_ingest $(BUILD)/bench/store_pprof
.PHONY: bench-store
BENCHES += bench-store
$(BENCH_STORE): $(BUILD)/bench/%: tests/bench/%.c tests/host/store.mk $(filter-out $(ET_DIR)/cmd/main.o,$(ET_OBJ)) $(ET_GEN_OBJ)
	@mkdir -p $(@D)
	@echo "  LD $@"; $(ET_CC) $(ET_CPPFLAGS) $(ET_CFLAGS) -o $@ $< $(filter %.o,$^) $(ET_LDLIBS)
bench-store: $(BENCH_STORE)
	@set -e; db=$(BUILD)/bench/store.db; trap 'rm -f $$db*' EXIT; rm -f $$db*; $(BUILD)/bench/store_ingest $$db; rm -f $$db*; \
	    $(BUILD)/bench/store_day fill $$db; $(BUILD)/bench/store_day relay $$db; $(BUILD)/bench/store_day queries $$db

# A week of 1,000 devices: minutes to write it.
.PHONY: bench-store-week
bench-store-week: $(BUILD)/bench/store_day ## what a query of a week of 1,000 devices costs
	@set -e; db=$(BUILD)/bench/week.db; trap 'rm -f $$db*' EXIT; rm -f $$db*; $< fill $$db week; $< queries $$db week

# CPU time for each pprof of a foreign client, without a server and with one.
.PHONY: bench-pprof
BENCHES += bench-pprof
bench-pprof: $(BUILD)/bench/store_pprof $(BUILD)/edgeprof
	@set -e; db=$(BUILD)/bench/pprof.db; trap 'rm -f $$db*' EXIT; rm -f $$db*; $< take $$db; \
	    $(PYTHON) tests/bench/ingest_pprof.py $(BUILD)/edgeprof $<
