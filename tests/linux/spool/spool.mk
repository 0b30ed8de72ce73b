# The spool on a real file system. tests/unit/deliver/test_spool.c uses a simulated
# disk.
#
#   spool-kill    SPOOL_RUNS processes that are killed; test-spool runs fewer
SPOOL_DIR  := $(BUILD)/tests/linux/spool
SPOOL_RUNS ?= 1000
.PHONY: test-spool spool-kill bench-spool

$(SPOOL_DIR)/kill: tests/linux/spool/kill.c tests/unit/wire.c tests/unit/wire.h core/edgeprof/edgeprof.h core/edgeprof/options.h $(EP_LIB)
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS) $(filter %.c,$^) $(EP_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@
test-spool: $(SPOOL_DIR)/kill $(SPOOL_DIR)/graceful $(BUILD)/edgeprof $(PRELOAD_LIB) $(PRELOAD_DIR)/sudden
	@rm -rf $(SPOOL_DIR)/killed; $(BOARD_EXEC) $< $(SPOOL_DIR)/killed 40 1
	@tests/linux/spool/graceful.py $(BUILD)/edgeprof $(SPOOL_DIR)/graceful $(SPOOL_DIR)/graceful-work
	@tests/linux/spool/killed.py $(BUILD)/edgeprof $(SPOOL_DIR)/graceful $(SPOOL_DIR)/killed-work
	@tests/linux/spool/outlived.py $(BUILD)/edgeprof $(SPOOL_DIR)/graceful $(PRELOAD_LIB) $(PRELOAD_DIR)/sudden $(SPOOL_DIR)/outlived-work
spool-kill: $(SPOOL_DIR)/kill  ## the spool in SPOOL_RUNS processes that are killed at any moment
	@rm -rf $(SPOOL_DIR)/killed; $(BOARD_EXEC) $< $(SPOOL_DIR)/killed $(SPOOL_RUNS) $$(date +%s)

# Simulated, so the figures are the same on every machine.
BENCHES += bench-spool
bench-spool: $(UT_DIR)/plain/suites
	@mkdir -p $(SPOOL_DIR); $< -s test_spool >$(SPOOL_DIR)/bench.out 2>&1 || { cat $(SPOOL_DIR)/bench.out >&2; exit 1; }; grep '^figure' $(SPOOL_DIR)/bench.out

# Ends, and is killed, while the server is away and while the spool is delivered.
$(SPOOL_DIR)/graceful: tests/linux/spool/graceful.c core/edgeprof/edgeprof.h core/edgeprof/options.h $(EP_LIB)
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS) $< $(EP_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@
