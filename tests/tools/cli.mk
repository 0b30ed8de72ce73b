# The command line's tests, one file an idea; all of them run the program with sanitizers.

ET_CLI_TESTS := test-tools-export test-tools-remote test-tools-symbols test-tools-debuginfod test-tools-diff test-tools-watch test-tools-query
TESTS        += $(ET_CLI_TESTS)
.PHONY: $(ET_CLI_TESTS)

test-tools-export: $(ET_TEST)/edgeprof $(ET_SAMPLE)
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/cli_export_test.py $(ET_TEST)/edgeprof $(ET_SAMPLE)

test-tools-remote: $(ET_TEST)/edgeprof
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/cli_remote_test.py $(ET_TEST)/edgeprof

test-tools-symbols: $(ET_TEST)/edgeprof $(ET_SAMPLE)
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/cli_symbols_test.py $(ET_TEST)/edgeprof $(ET_SAMPLE)

test-tools-debuginfod: $(ET_TEST)/edgeprof $(ET_SAMPLE)
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/cli_debuginfod_test.py $(ET_TEST)/edgeprof $(ET_SAMPLE)

test-tools-diff: $(ET_TEST)/edgeprof
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/cli_diff_test.py $(ET_TEST)/edgeprof

test-tools-watch: $(ET_TEST)/edgeprof
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/cli_watch_test.py $(ET_TEST)/edgeprof

test-tools-query: $(ET_TEST)/edgeprof
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/cli_query_test.py $(ET_TEST)/edgeprof
