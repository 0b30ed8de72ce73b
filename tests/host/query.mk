# The server's answers to other programs' queries, compared with independent tools.

$(call test,test-tools-merge,all,600,shared,Server answers equal an independent merge by go tool pprof, before and after the store merges blocks.)
$(call test,test-tools-grafana,quick,300,shared,Requests of Grafana's Pyroscope data source get the answers it expects, byte for byte.)

$(call test,test-recordings,all,300,shared,Requests recorded at Pyroscope get the same answers, except for a list with reasons.)

test-recordings: $(ET_TEST)/edgeprof
	@$(call host_test,recordings_test.py)

$(ET_TEST)/merge_now: tests/host/merge_now.c $(filter-out $(ET_TEST)/cmd/main.o,$(ET_ASAN_OBJ))
	@echo "  LD $@"; $(ET_CC) $(ET_CPPFLAGS) -std=c11 $(WARNINGS) $(ET_ASAN) -o $@ $^ $(ET_LDLIBS)

test-tools-merge: $(ET_TEST)/edgeprof $(ET_TEST)/merge_now
	@$(call host_test,merge_test.py)

$(call test,test-tools-canary,quick,300,shared,All probes of Pyroscope's own canary pass as they do at a real server.)
test-tools-canary: $(ET_TEST)/edgeprof
	@$(call host_test,canary_test.py)

test-tools-grafana: $(ET_TEST)/edgeprof
	@$(call host_test,grafana_test.py)
