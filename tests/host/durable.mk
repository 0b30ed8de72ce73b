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

$(call test,test-tools-oom,all,600,shared,An allocation that fails gives one line and leaves no part of a profile; commands and the server do not crash.)
$(call test,oom-sweep,own,86400,shared,The same of every single allocation.)
$(ET_TEST)/fail_alloc.so: tests/host/fail_alloc.c
	@mkdir -p $(@D)
	$(ET_CC) -std=c11 -O2 $(WARNINGS) -Wno-pedantic -D_GNU_SOURCE -shared -fPIC -o $@ $<
test-tools-oom: $(BUILD)/edgeprof $(ET_TEST)/fail_alloc.so
	@$(call host_test,oom_test.py)
oom-sweep: $(BUILD)/edgeprof $(ET_TEST)/fail_alloc.so ## fail each allocation of commands and of the server once
	@$(call host_test,oom_test.py --rounds 1 --timeout 86400)
