# The server's reaction to hostile senders and clients.

test-tools-hostile: $(ET_TEST)/edgeprof $(BUILD)/edgeprof
	@$(call host_test,hostile_test.py)

test-tools-symbols-process: $(BUILD)/edgeprof $(ET_SAMPLE)
	@$(call host_test,symbols_process_test.py)

hostile-costs: $(BUILD)/edgeprof ## what each hostile request costs: regex; hash; DWARF; zip; every format
	@$(call host_test,hostile_costs_test.py --timeout 1800)

test-tools-sandbox: $(ET_TEST)/edgeprof $(BUILD)/edgeprof $(ET_SAMPLE)
	@$(call host_test,sandbox_test.py)

BENCHES += bench-symbols-hang
.PHONY: bench-symbols-hang
bench-symbols-hang: $(BUILD)/edgeprof ## the slowest answer while a symbol file of 500 MB loads and a debuginfod server hangs
	@$(ET_RUN_ENV) $(PYTHON) tests/host/symbols_hang.py $<
