# Tests of the command line, one file per topic. They run the program with sanitizers.

ET_CLI_TESTS := test-tools-export test-tools-remote test-tools-symbols test-tools-debuginfod test-tools-debuginfod-limits test-tools-diff test-tools-watch test-tools-query test-tools-verdict test-tools-leaks

test-tools-export: $(ET_TEST)/edgeprof $(ET_SAMPLE)
	@$(call host_test,cli_export_test.py)

test-tools-remote: $(ET_TEST)/edgeprof
	@$(call host_test,cli_remote_test.py)

test-tools-symbols: $(ET_TEST)/edgeprof $(ET_SAMPLE)
	@$(call host_test,cli_symbols_test.py)

test-tools-debuginfod: $(ET_TEST)/edgeprof $(ET_SAMPLE)
	@$(call host_test,cli_debuginfod_test.py)

test-tools-debuginfod-limits: $(ET_TEST)/edgeprof $(ET_SAMPLE)
	@$(call host_test,debuginfod_limits_test.py)

test-tools-diff: $(ET_TEST)/edgeprof $(ET_SAMPLE)
	@$(call host_test,cli_diff_test.py)

test-tools-verdict: $(ET_TEST)/edgeprof
	@$(call host_test,verdict_test.py)

test-tools-leaks: $(ET_TEST)/edgeprof
	@$(call host_test,leaks_test.py)

test-tools-watch: $(ET_TEST)/edgeprof
	@$(call host_test,cli_watch_test.py)

test-tools-query: $(ET_TEST)/edgeprof
	@$(call host_test,cli_query_test.py)
