# Fuzzing of the unwinders, each architecture's on the test machine. fuzz_unwind.c describes the invariants.
#
#   test-fuzz-<arch>   the stored inputs, each also truncated everywhere and with every byte changed, under ASan and UBSan;
#                      in qemu-i386 if the kernel runs no 32-bit programs
#   fuzz, fuzz-<arch>  libFuzzer: FUZZ_RUNS executions each, at most FUZZ_SECONDS (0: no limit). New inputs go to
#                      $(FUZZ_DIR)/found-<arch>; add inputs that break an invariant to tests/fuzz/corpus/<arch>
#   fuzz-coverage      lines that the stored inputs reach, by file
#   fuzz-corpus        adds new inputs to tests/fuzz/corpus, reduced to those that increase coverage

ifeq ($(BOARD),host)
FUZZ_DIR     := $(BUILD)/tests/fuzz
FUZZ_RUNS    ?= 10000000
FUZZ_SECONDS ?= 0

# With addresses of the architecture's width.
FUZZ_ARCHS_x86_64  := x86_64 aarch64 arm
FUZZ_ARCHS_aarch64 := x86_64 aarch64
FUZZ_ARCHS_arm     := arm
FUZZ_ARCHS         := $(FUZZ_ARCHS_$(BOARD_ARCH))
# Without gcc-multilib, which conflicts with cross compilers, <asm/errno.h> is only here.
# Uses the generic steps of unwind_cached.c, as on that architecture.
FUZZ_FLAGS_aarch64 := -DEP_RULE_PLAIN=EP_RULE_CHAIN
FUZZ_FLAGS_arm     := $(if $(filter x86_64,$(BOARD_ARCH)),-m32 -Wno-psabi -idirafter /usr/include/x86_64-linux-gnu)

FUZZ_COMMON        := tests/fuzz/fuzz_unwind.c core/unwind/unwind.c core/unwind/unwind_cached.c core/unwind/rules.c core/unwind/modules.c
FUZZ_SRC_x86_64    := $(FUZZ_COMMON) tests/fuzz/arch_x86_64.c tests/fuzz/pieces_cfi.c core/unwind/unwind_x86_64.c core/unwind/path_x86_64.c core/unwind/code_x86_64.c core/unwind/cfi.c
FUZZ_SRC_aarch64   := $(FUZZ_COMMON) tests/fuzz/arch_aarch64.c tests/fuzz/pieces_cfi.c core/unwind/unwind_aarch64.c core/unwind/path_aarch64.c core/unwind/cfi.c
FUZZ_SRC_arm       := $(FUZZ_COMMON) tests/fuzz/arch_arm.c core/unwind/unwind_arm.c core/unwind/code_arm.c core/unwind/path_arm.c core/unwind/exidx.c
FUZZ_HEADERS       := $(wildcard tests/fuzz/*.h core/edgeprof/*.h)
FUZZ_CFLAGS        := -I. -Icore -D_GNU_SOURCE -std=c11 -g -O1 -fno-omit-frame-pointer
FUZZ_SANITIZE      := -fsanitize=address,undefined -fno-sanitize-recover=all
FUZZ_MOST          := 5200

.PHONY: $(FUZZ_ARCHS:%=test-fuzz-%) fuzz $(FUZZ_ARCHS:%=fuzz-%) fuzz-seeds fuzz-corpus fuzz-coverage

# $(1): architecture
define fuzz_target
$(FUZZ_DIR)/replay-$(1): $(FUZZ_SRC_$(1)) tests/transport/replay.c $(FUZZ_HEADERS) tests/fuzz/fuzz.mk
	@mkdir -p $$(@D)
	$(CC) $(FUZZ_CFLAGS) $(WARNINGS) $(FUZZ_SANITIZE),bounds-strict $(FUZZ_FLAGS_$(1)) $(FUZZ_SRC_$(1)) tests/transport/replay.c -o $$@
test-fuzz-$(1): $(FUZZ_DIR)/replay-$(1)
	@printf '$$@: '; run=; $$< >/dev/null 2>&1; test $$$$? != 126 || run=qemu-i386; \
	    ASAN_OPTIONS=detect_leaks=0 $$$$run $$< $$(wildcard tests/fuzz/corpus/$(1)/*)
$(FUZZ_DIR)/fuzz-$(1): $(FUZZ_SRC_$(1)) tests/fuzz/mutate.c $(FUZZ_HEADERS) tests/fuzz/fuzz.mk
	@tools/build/setup.sh apt build demo test fuzz
	@mkdir -p $$(@D)
	clang $(FUZZ_CFLAGS) $(WARNINGS) -fsanitize=fuzzer $(FUZZ_SANITIZE) $(FUZZ_FLAGS_$(1)) $(FUZZ_SRC_$(1)) tests/fuzz/mutate.c -o $$@
fuzz-$(1): $(FUZZ_DIR)/fuzz-$(1) fuzz-seeds
	@mkdir -p $(FUZZ_DIR)/found-$(1)
	ASAN_OPTIONS=detect_leaks=0 $$< -runs=$(FUZZ_RUNS) -max_total_time=$(FUZZ_SECONDS) -max_len=$(FUZZ_MOST) -print_final_stats=1 \
	    -artifact_prefix=$(FUZZ_DIR)/$(1)- $(FUZZ_DIR)/found-$(1) tests/fuzz/corpus/$(1) $(FUZZ_DIR)/seeds/$(1)
$(FUZZ_DIR)/coverage-$(1): $(FUZZ_SRC_$(1)) tests/fuzz/mutate.c $(FUZZ_HEADERS) tests/fuzz/fuzz.mk
	@tools/build/setup.sh apt build demo test fuzz
	@mkdir -p $$(@D)
	clang $(FUZZ_CFLAGS) -fsanitize=fuzzer -fprofile-instr-generate -fcoverage-mapping $(FUZZ_FLAGS_$(1)) $(FUZZ_SRC_$(1)) \
	    tests/fuzz/mutate.c -o $$@
endef
$(foreach arch,$(FUZZ_ARCHS),$(eval $(call fuzz_target,$(arch))))

fuzz: $(FUZZ_ARCHS:%=fuzz-%)  ## look for inputs that break the unwinders (FUZZ_RUNS=, FUZZ_SECONDS=)

fuzz-seeds: $(FUZZ_DIR)/seeds/done
$(FUZZ_DIR)/seeds/done: tests/fuzz/seeds.sh tests/fuzz/seed.c tests/fuzz/seed.py
	@tools/build/setup.sh apt build cross
	@rm -rf $(@D)
	tests/fuzz/seeds.sh $(@D)
	@touch $@

# Regression inputs have names and stay; the others are selected again: the fewest bytes that reach every edge.
fuzz-corpus: $(FUZZ_ARCHS:%=$(FUZZ_DIR)/fuzz-%) fuzz-seeds
	@set -e; for a in $(FUZZ_ARCHS); do \
	    rm -rf $(FUZZ_DIR)/chosen-$$a; mkdir -p $(FUZZ_DIR)/chosen-$$a $(FUZZ_DIR)/found-$$a; \
	    ASAN_OPTIONS=detect_leaks=0 $(FUZZ_DIR)/fuzz-$$a -merge=1 -set_cover_merge=1 -use_counters=0 $(FUZZ_DIR)/chosen-$$a \
	        $(FUZZ_DIR)/found-$$a tests/fuzz/corpus/$$a $(FUZZ_DIR)/seeds/$$a >$(FUZZ_DIR)/merge-$$a.log 2>&1; \
	    find tests/fuzz/corpus/$$a -regextype egrep -regex '.*/[0-9a-f]{40}' -delete; \
	    cp $(FUZZ_DIR)/chosen-$$a/* tests/fuzz/corpus/$$a/; du -sb tests/fuzz/corpus/$$a; \
	done

fuzz-coverage: $(FUZZ_ARCHS:%=$(FUZZ_DIR)/coverage-%)  ## lines of the unwinders that the kept fuzz inputs reach
	@set -e; for a in $(FUZZ_ARCHS); do \
	    LLVM_PROFILE_FILE=$(FUZZ_DIR)/$$a.raw $(FUZZ_DIR)/coverage-$$a -runs=0 tests/fuzz/corpus/$$a >$(FUZZ_DIR)/coverage.log 2>&1; \
	    llvm-profdata merge -sparse $(FUZZ_DIR)/$$a.raw -o $(FUZZ_DIR)/$$a.profile; \
	    llvm-cov report $(FUZZ_DIR)/coverage-$$a -instr-profile=$(FUZZ_DIR)/$$a.profile core | \
	        awk -v a=$$a '$$1 ~ /^(unwind|cfi|exidx|code_|path_|rules)/ { print a, $$1, $$8 - $$9 "/" $$8, "lines", $$10 }'; \
	done

# The reader of records, on the simulated port: fuzz_sample.c describes the invariants.
FUZZ_SAMPLE_SRC := tests/fuzz/fuzz_sample.c $(wildcard port/sim/*.c) $(CORE_SRC) $(TRANSPORT_SRC) $(GEN_SRC) \
                   $(NANOPB_DIR)/pb_common.c $(NANOPB_DIR)/pb_encode.c
.PHONY: test-fuzz-sample fuzz-sample
test-fuzz-sample: $(UT_DIR)/asan/tests/fuzz/fuzz_sample.o $(UT_DIR)/asan/tests/transport/replay.o $(UT_DIR)/asan/core.a $(UT_DIR)/asan/sim.a
	@mkdir -p $(FUZZ_DIR); $(CC) $(UT_asan) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -lpthread -ldl -lresolv \
	    -o $(FUZZ_DIR)/replay-sample
	@printf '$@: '; $(FUZZ_DIR)/replay-sample tests/fuzz/corpus/sample/*
$(FUZZ_DIR)/fuzz-sample: $(FUZZ_SAMPLE_SRC) tests/fuzz/fuzz.mk | $(GEN_HDR)
	@tools/build/setup.sh apt build demo test fuzz
	@mkdir -p $(@D)
	clang $(EP_CPPFLAGS) -std=c11 -g -O1 -ftls-model=initial-exec -fsanitize=fuzzer $(FUZZ_SANITIZE) $(FUZZ_SAMPLE_SRC) -lpthread -ldl -lresolv -o $@
fuzz-sample: $(FUZZ_DIR)/fuzz-sample
	@mkdir -p $(FUZZ_DIR)/found-sample
	ASAN_OPTIONS=detect_leaks=0 $< -runs=$(FUZZ_RUNS) -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -print_final_stats=1 \
	    -artifact_prefix=$(FUZZ_DIR)/sample- $(FUZZ_DIR)/found-sample tests/fuzz/corpus/sample
endif
