# The pull endpoint from outside, and a fuzz target for its requests. tests/unit/endpoint/test_pull.c tests it inside.

PULL_DIR     := $(BUILD)/tests/linux/pull
PULL_PROGRAM := $(PULL_DIR)/program

$(PULL_PROGRAM): tests/linux/pull/program.c core/edgeprof/edgeprof.h core/edgeprof/options.h $(EP_LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $< $(EP_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

test-pull: $(PULL_PROGRAM) $(BUILD)/edgeprof
	@tests/linux/pull/pull.py $(PULL_PROGRAM) $(BUILD)/edgeprof $(PULL_DIR)/work

PULL_SECONDS ?= 600
.PHONY: pull-parca
pull-parca: $(PULL_PROGRAM)
	@tests/linux/pull/parca_scrape.py $(PULL_PROGRAM) $(PULL_SECONDS)

#   test-fuzz-request  the stored inputs, each also truncated everywhere and with every byte changed, under ASan and UBSan
#   fuzz-request       libFuzzer: FUZZ_RUNS executions, at most FUZZ_SECONDS (0: no limit). New inputs go to
#                      $(PULL_DIR)/found; add inputs that break an invariant to tests/linux/pull/corpus
ifeq ($(BOARD),host)
PULL_FUZZ_SRC   := tests/linux/pull/fuzz_request.c $(UT_core) $(UT_sim) $(UT_THIRD)
PULL_FUZZ_FLAGS := $(EP_CPPFLAGS) -std=gnu11 -g -O1 -fno-omit-frame-pointer -ftls-model=initial-exec
PULL_FUZZ_LIBS  := -lpthread -ldl -lresolv

.PHONY: test-fuzz-request fuzz-request

$(PULL_DIR)/replay_request: tests/linux/pull/fuzz_request.c tests/transport/replay.c $(UT_DIR)/asan/core.a $(UT_DIR)/asan/sim.a
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(EP_CPPFLAGS) $(UT_BASE) $(WARNINGS) $(UT_asan) $(filter %.c,$^) -o $@ \
	    -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(PULL_FUZZ_LIBS)
test-fuzz-request: $(PULL_DIR)/replay_request
	@printf '$@: '; ASAN_OPTIONS=detect_leaks=0 $< $(wildcard tests/linux/pull/corpus/*)

$(PULL_DIR)/fuzz_request: $(PULL_FUZZ_SRC)
	@tools/build/setup.sh apt build demo test fuzz
	@mkdir -p $(@D)
	clang $(PULL_FUZZ_FLAGS) -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all $(PULL_FUZZ_SRC) $(PULL_FUZZ_LIBS) -o $@
fuzz-request: $(PULL_DIR)/fuzz_request
	@mkdir -p $(PULL_DIR)/found
	ASAN_OPTIONS=detect_leaks=0 $< -runs=$(FUZZ_RUNS) -max_total_time=$(FUZZ_SECONDS) -max_len=2200 -print_final_stats=1 \
	    -artifact_prefix=$(PULL_DIR)/ $(PULL_DIR)/found tests/linux/pull/corpus
endif
