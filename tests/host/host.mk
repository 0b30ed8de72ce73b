# The host tool's tests in Python: one pytest a tier, over all files (conftest.py).
#
#   make test-host ONLY=cli              one file, or several, whatever their tiers
#   make test-host ONLY=kill ROUNDS=500  what repeats itself, so often: kill, oom (1: every allocation), relay_backlog (thousands)
#   make test-host ONLY=fleet FLEET='2000 20 30 64 1'   devices, versions, days, MiB of --max-size, hours between profiles

ONLY         ?=
ROUNDS       ?=
HOST_GO      := $(ET_TEST)/target-go
HOST_QUICK   := $(ET_TEST)/edgeprof $(BUILD)/edgeprof $(BUILD)/libedgeprof-preload.so $(ET_SAMPLE) $(PKG_MADE) $(ET_NPM)
HOST_ALL     := $(HOST_QUICK) $(ET_TEST)/merge_now $(ET_TEST)/fleet_clock.so $(ET_TEST)/fail_alloc.so $(ET_TSAN_DIR)/edgeprof $(HOST_GO) \
                $(BUILD)/tests/linux/pull/program
HOST_FILES    = $(if $(ONLY),$(ONLY:%=tests/host/%_test.py),tests/host)
# $(1): more options
host_session  = $(ET_RUN_ENV) $(PYTHON) -m pytest --build=$(BUILD) -n $(JOBS) --dist loadfile $(1) $(HOST_FILES)

.PHONY: test-host test-host-all test-host-long
test-host: $(if $(ONLY),$(HOST_ALL),$(HOST_QUICK))
	@$(call host_session,$(if $(ONLY),$(ROUNDS:%=--rounds % --timeout 86400 -rP),--tier quick))
test-host-all: $(HOST_ALL)
	@$(call host_session,--tier all)
test-host-long: $(HOST_ALL)
	@$(call host_session,--tier long --timeout 7200 -rP)

$(ET_TEST)/fleet_clock.so $(ET_TEST)/fail_alloc.so: $(ET_TEST)/%.so: tests/host/%.c
	@mkdir -p $(@D)
	$(ET_CC) -std=c11 -O2 $(WARNINGS) -Wno-pedantic -D_GNU_SOURCE -shared -fPIC -o $@ $<
$(ET_TEST)/merge_now: tests/host/merge_now.c $(filter-out $(ET_TEST)/cmd/main.o,$(ET_ASAN_OBJ))
	@echo "  LD $@"; $(ET_CC) $(ET_CPPFLAGS) -std=c11 $(WARNINGS) $(ET_ASAN) -o $@ $^ $(ET_LDLIBS)
$(HOST_GO): tests/host/target.go
	@mkdir -p $(@D)
	GOFLAGS= GO111MODULE=off GOCACHE="$$PWD/$(ET_TEST)/go" go build -o $@ $<

power-cut: $(ET_TEST)/suites ## the power goes at each write, sync, truncation and removal of the database; `make test` has every fourth
	@$(ET_RUN_ENV) $< -s test_powercut $(ET_TEST) tests/unit/tools/symbols 1

# ---- benchmarks ----

BENCHES += bench-symbols-hang bench-page bench-relay
.PHONY: bench-symbols-hang bench-page bench-relay
bench-symbols-hang: $(BUILD)/edgeprof ## the slowest answer while a symbol file of 500 MB loads and a debuginfod server hangs
	@$(ET_RUN_ENV) $(PYTHON) tests/host/symbols_hang.py $<
bench-page: $(BUILD)/edgeprof $(BUILD)/bench/store_day
	@$(ET_RUN_ENV) $(PYTHON) tests/host/page_figures.py $^
bench-relay: $(BUILD)/edgeprof
	@$(call host_test,relay_backlog_test.py -k "test_figures or test_backlog and not bad")

# A day of 100 devices: duration of queries, size, and the cost of receiving profiles.
BENCH_STORE := $(BUILD)/bench/store_day $(BUILD)/bench/store_ingest $(BUILD)/bench/store_pprof
.PHONY: bench-store
BENCHES += bench-store
$(BENCH_STORE): $(BUILD)/bench/%: tests/long/bench/%.c tests/host/host.mk $(filter-out $(ET_DIR)/cmd/main.o,$(ET_OBJ)) $(ET_GEN_OBJ)
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
	    $(PYTHON) tests/long/bench/ingest_pprof.py $(BUILD)/edgeprof $<
