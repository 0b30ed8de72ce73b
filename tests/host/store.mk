# Limits of the store's size, in a running server.

$(call test,test-tools-keep,all,300,shared,A running server keeps its store small: it merges old blocks and deletes expired ones.)

test-tools-keep: $(ET_TEST)/edgeprof
	@$(call host_test,keep_test.py)

# A day of 100 devices: duration of queries, size, and the cost of receiving profiles.
BENCH_STORE := $(BUILD)/bench/store_day $(BUILD)/bench/store_ingest $(BUILD)/bench/store_pprof
.PHONY: bench-store
BENCHES += bench-store
$(BENCH_STORE): $(BUILD)/bench/%: tests/bench/%.c tests/host/store.mk $(filter-out $(ET_DIR)/cmd/main.o,$(ET_OBJ)) $(ET_GEN_OBJ)
	@mkdir -p $(@D)
	@echo "  LD $@"; $(ET_CC) $(ET_CPPFLAGS) $(ET_CFLAGS) -o $@ $< $(filter %.o,$^) $(ET_LDLIBS)
bench-store: $(BENCH_STORE)
	@set -e; db=$(BUILD)/bench/store.db; trap 'rm -f $$db*' EXIT; rm -f $$db*; $(BUILD)/bench/store_ingest $$db; rm -f $$db*; \
	    $(BUILD)/bench/store_day fill $$db; $(BUILD)/bench/store_day queries $$db

# CPU time for each pprof of a foreign client, without a server and with one.
.PHONY: bench-pprof
BENCHES += bench-pprof
bench-pprof: $(BUILD)/bench/store_pprof $(BUILD)/edgeprof
	@set -e; db=$(BUILD)/bench/pprof.db; trap 'rm -f $$db*' EXIT; rm -f $$db*; $< take $$db; \
	    $(PYTHON) tests/bench/ingest_pprof.py $(BUILD)/edgeprof $<

$(call test,test-tools-golden,quick,300,shared,Databases of schema 3 to 7 and device streams of version 0.1 give the same answers and a newer database is refused in one line.)
test-tools-golden: $(ET_TEST)/edgeprof
	@$(call host_test,golden_test.py)
