# Acknowledged data survives kill -9: a few rounds in `make test-all`, or any number.

ET_KILL_ROUNDS ?= 200
$(call test,test-tools-kill,all,600,shared,After kill -9 at any moment each acknowledged profile is in the database exactly once.)
$(call test,test-tools-failure,all,300,shared,A full disk and a locked, read-only or damaged database give one clear line and lose nothing acknowledged.)
$(call test,ingest-kill,own,7200,shared,After 200 kills at any moment each acknowledged profile is in the database exactly once.)
$(call test,power-cut,own,7200,shared,A power cut at every write, sync, truncation and removal of the store loses nothing acknowledged.)

test-tools-kill: $(ET_TEST)/edgeprof
	@$(call host_test,kill_test.py)

test-tools-failure: $(ET_TEST)/edgeprof
	@$(call host_test,failure_test.py)

ingest-kill: $(BUILD)/edgeprof ## kill -9 while profiles come in, ET_KILL_ROUNDS times
	@$(call host_test,kill_test.py --rounds $(ET_KILL_ROUNDS) --timeout 7200 -rP)

power-cut: $(ET_TEST)/test_powercut ## the power goes at each write, sync, truncation and removal of the store; `make test` has every fourth
	@$(ET_RUN_ENV) $< $(ET_TEST) tests/unit/tools/symbols 1
