# How the store is kept small, in the server that runs.

TESTS += test-tools-keep
.PHONY: test-tools-keep

test-tools-keep: $(ET_TEST)/edgeprof
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/keep_test.py $(ET_TEST)/edgeprof
