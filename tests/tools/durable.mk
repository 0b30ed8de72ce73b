# What `serve` has acknowledged is never lost: kill -9, in `make test` a few times, and for as long as one likes.

ET_KILL_ROUNDS ?= 200
TESTS          += test-tools-kill test-tools-failure
.PHONY: test-tools-kill test-tools-failure ingest-kill power-cut

test-tools-kill: $(ET_TEST)/edgeprof
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/kill_test.py $(ET_TEST)/edgeprof

test-tools-failure: $(ET_TEST)/edgeprof
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/failure_test.py $(ET_TEST)/edgeprof

ingest-kill: $(BUILD)/edgeprof ## kill -9 while profiles come in, ET_KILL_ROUNDS times
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/kill_test.py $(BUILD)/edgeprof $(ET_KILL_ROUNDS)

power-cut: $(ET_TEST)/test_powercut ## the power goes at each write, sync, truncation and removal of the store; `make test` has every fourth
	@$(ET_RUN_ENV) $< $(ET_TEST) tests/tools 1
