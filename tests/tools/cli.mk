# The command line's tests, one file an idea; all of them run the program with sanitizers.

ET_CLI_TESTS := test-tools-export test-tools-remote
TESTS        += $(ET_CLI_TESTS)
.PHONY: $(ET_CLI_TESTS)

test-tools-export: $(ET_TEST)/edgeprof $(ET_SAMPLE)
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/cli_export_test.py $(ET_TEST)/edgeprof $(ET_SAMPLE)

test-tools-remote: $(ET_TEST)/edgeprof
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/cli_remote_test.py $(ET_TEST)/edgeprof
