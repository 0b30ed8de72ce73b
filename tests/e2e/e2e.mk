# From the program to the database, with everything real in between.
E2E_WORKER := $(BUILD)/tests/e2e/worker
$(E2E_WORKER): tests/e2e/worker.c core/edgeprof.h core/config.h $(EP_LIB)
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $< $(EP_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

.PHONY: test-server-gone
TESTS += test-server-gone
test-server-gone: $(E2E_WORKER) $(BUILD)/edgeprof
	@tests/e2e/server_gone.py $(BUILD)/edgeprof $(E2E_WORKER) $(BUILD)/tests/e2e/gone
