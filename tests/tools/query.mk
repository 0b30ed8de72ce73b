# What the server answers to other programs' queries, beside independent tools.

TESTS += test-tools-merge test-tools-grafana
.PHONY: test-tools-merge test-tools-grafana

$(ET_TEST)/merge_now: tests/tools/merge_now.c $(filter-out $(ET_TEST)/main.o,$(ET_ASAN_OBJ))
	@echo "  LD $@"; $(ET_CC) $(ET_CPPFLAGS) -std=c11 $(WARNINGS) $(ET_ASAN) -o $@ $^ $(ET_LDLIBS)

test-tools-merge: $(ET_TEST)/edgeprof $(ET_TEST)/merge_now
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/merge_test.py $^

test-tools-grafana: $(ET_TEST)/edgeprof
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/grafana_test.py $<
