# The server's reaction to hostile senders and clients.
$(call test,test-tools-hostile,all,600,alone,Hostile requests of every kind get a whole answer, and the server keeps its bounds.)

test-tools-hostile: $(ET_TEST)/edgeprof $(BUILD)/edgeprof
	@$(call host_test,hostile_test.py)
