# Acknowledged data survives kill -9: a few rounds in `make test-all`, or any number.

ET_KILL_ROUNDS ?= 200
$(call test,test-tools-kill,all,600,shared,After kill -9 at any moment each acknowledged profile is in the database exactly once.)
$(call test,test-tools-failure,all,300,shared,A full disk and a locked, read-only or damaged database give one clear line and lose nothing acknowledged.)
$(call test,ingest-kill,own,7200,shared,After 200 kills at any moment each acknowledged profile is in the database exactly once.)
$(call test,power-cut,own,7200,shared,A power cut at every write, sync, truncation and removal of the store loses nothing acknowledged.)

test-tools-kill: $(ET_TEST)/edgeprof
	@$(ET_RUN_ENV) $(PYTHON) tests/host/kill_test.py $(ET_TEST)/edgeprof

test-tools-failure: $(ET_TEST)/edgeprof
	@$(ET_RUN_ENV) $(PYTHON) tests/host/failure_test.py $(ET_TEST)/edgeprof

ingest-kill: $(BUILD)/edgeprof ## kill -9 while profiles come in, ET_KILL_ROUNDS times
	@$(ET_RUN_ENV) $(PYTHON) tests/host/kill_test.py $(BUILD)/edgeprof $(ET_KILL_ROUNDS)

power-cut: $(ET_TEST)/test_powercut ## the power goes at each write, sync, truncation and removal of the store; `make test` has every fourth
	@$(ET_RUN_ENV) $< $(ET_TEST) tests/unit/tools/symbols 1
