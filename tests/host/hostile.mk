# What the server does with senders and askers who mean harm.
$(call test,test-tools-hostile,all,600,alone,Hostile requests of every kind get a whole answer, and the server keeps its bounds.)

test-tools-hostile: $(ET_TEST)/edgeprof $(BUILD)/edgeprof
	@$(ET_RUN_ENV) $(PYTHON) tests/host/hostile_test.py $(ET_TEST)/edgeprof $(BUILD)/edgeprof
