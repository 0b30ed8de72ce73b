# Acknowledged data survives kill -9: a few rounds in `make test-all`, or any number.

ET_KILL_ROUNDS ?= 200

test-tools-kill: $(ET_TEST)/edgeprof
	@$(call host_test,kill_test.py)

test-tools-failure: $(ET_TEST)/edgeprof
	@$(call host_test,failure_test.py)

ingest-kill: $(BUILD)/edgeprof ## kill -9 while profiles come in, ET_KILL_ROUNDS times
	@$(call host_test,kill_test.py --rounds $(ET_KILL_ROUNDS) --timeout 7200 -rP)

power-cut: $(ET_TEST)/test_powercut ## the power goes at each write, sync, truncation and removal of the store; `make test` has every fourth
	@$(ET_RUN_ENV) $< $(ET_TEST) tests/unit/tools/symbols 1

$(ET_TEST)/fail_alloc.so: tests/host/fail_alloc.c
	@mkdir -p $(@D)
	$(ET_CC) -std=c11 -O2 $(WARNINGS) -Wno-pedantic -D_GNU_SOURCE -shared -fPIC -o $@ $<
test-tools-oom: $(BUILD)/edgeprof $(ET_TEST)/fail_alloc.so
	@$(call host_test,oom_test.py)
oom-sweep: $(BUILD)/edgeprof $(ET_TEST)/fail_alloc.so ## fail each allocation of commands and of the server once
	@$(call host_test,oom_test.py --rounds 1 --timeout 86400)
