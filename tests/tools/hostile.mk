# What the server does with senders and askers who mean harm.
.PHONY: test-tools-hostile
TESTS += test-tools-hostile

test-tools-hostile: $(ET_TEST)/edgeprof $(BUILD)/edgeprof
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/hostile_test.py $(ET_TEST)/edgeprof $(BUILD)/edgeprof
