# The server's answers to other programs' queries, compared with independent tools.

test-recordings: $(ET_TEST)/edgeprof
	@$(call host_test,recordings_test.py)

$(ET_TEST)/merge_now: tests/host/merge_now.c $(filter-out $(ET_TEST)/cmd/main.o,$(ET_ASAN_OBJ))
	@echo "  LD $@"; $(ET_CC) $(ET_CPPFLAGS) -std=c11 $(WARNINGS) $(ET_ASAN) -o $@ $^ $(ET_LDLIBS)

test-tools-merge: $(ET_TEST)/edgeprof $(ET_TEST)/merge_now
	@$(call host_test,merge_test.py)

test-tools-canary: $(ET_TEST)/edgeprof
	@$(call host_test,canary_test.py)

test-tools-grafana: $(ET_TEST)/edgeprof
	@$(call host_test,grafana_test.py)
