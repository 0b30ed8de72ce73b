# The server's reaction to hostile senders and clients.
$(call test,test-tools-hostile,all,600,alone,Hostile requests of every kind get a whole answer, and the server keeps its bounds.)

test-tools-hostile: $(ET_TEST)/edgeprof $(BUILD)/edgeprof
	@$(call host_test,hostile_test.py)

$(call test,test-tools-symbols-process,quick,120,shared,A symbol file that crashes - hangs or fills what parses it costs its module the names and nothing else.)
test-tools-symbols-process: $(BUILD)/edgeprof $(ET_SAMPLE)
	@$(call host_test,symbols_process_test.py)

$(call test,hostile-costs,own,1800,alone,No hostile request of 16 MiB costs more than two seconds of CPU time; a table says what each costs.)
hostile-costs: $(BUILD)/edgeprof ## what each hostile request costs: regex; hash; DWARF; zip; every format
	@$(call host_test,hostile_costs_test.py --timeout 1800)

$(call test,test-tools-sandbox,quick,120,shared,Code that has broken into the server cannot read - write or start what is not the server's; names and replaced files still work.)
test-tools-sandbox: $(ET_TEST)/edgeprof $(BUILD)/edgeprof $(ET_SAMPLE)
	@$(call host_test,sandbox_test.py)

BENCHES += bench-symbols-hang
.PHONY: bench-symbols-hang
bench-symbols-hang: $(BUILD)/edgeprof ## the slowest answer while a symbol file of 500 MB loads and a debuginfod server hangs
	@$(ET_RUN_ENV) $(PYTHON) tests/host/symbols_hang.py $<
