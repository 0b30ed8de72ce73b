# Fuzzing of what reads data from outside, and of the unwinders, each architecture's on the test machine. The head of
# fuzz_<name>.c describes the invariants; the kept inputs of <name> are in corpus/<name>.
#
#   test-fuzz, test-fuzz-tls   the kept inputs of the parsers, each also truncated everywhere and with every byte changed,
#                       under ASan and UBSan; test-fuzz-unwind those of the unwinders (in qemu-i386 if the kernel runs no
#                       32-bit programs)
#   fuzz-<name>, fuzz   libFuzzer: FUZZ_RUNS executions each, at most FUZZ_SECONDS (0: no limit). New inputs go to
#                       $(FUZZ_DIR)/found-<name>; add inputs that break an invariant to corpus/<name>
#   fuzz-coverage       lines of the unwinders that the kept inputs reach, by file
#   fuzz-corpus         adds new inputs to corpus/, reduced to those that increase coverage

ifeq ($(BOARD),host)
FUZZ_DIR     := $(BUILD)/tests/fuzz
FUZZ_RUNS    ?= 10000000
FUZZ_SECONDS ?= 0
# Debian has it with the version, too.
FUZZ_CLANG   ?= $(or $(shell command -v clang),clang-14)

FUZZ_CFLAGS   := $(EP_CPPFLAGS) -Itests/transport -isystem $(ET_DIR)/gen -std=c11 -g -O1 -fno-omit-frame-pointer -ftls-model=initial-exec
FUZZ_SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all
FUZZ_LDLIBS    = $(ET_LDLIBS) -ldl -lresolv

# ---- programs that replay ----

# Each links the sources once, as the unit tests have them with ASan: on the simulated port; with the host tool and the
# Linux port; with the host tool and a fake store; with mbedtls; with functions of a disk and a stream in the target.
FUZZ_NAMES_sim   := request sample outlive
FUZZ_NAMES_tool  := response json folded foreign multipart selector config demangle blocks messages elf crash incident record answer
FUZZ_NAMES_store := compact pprof otlp
FUZZ_NAMES_tls   := authority
FUZZ_NAMES_bare  := log url
FUZZ_GROUPS      := sim tool store tls bare
FUZZ_PARSERS     := $(foreach g,$(FUZZ_GROUPS),$(FUZZ_NAMES_$(g)))
FUZZ_LINK_sim    := $(addprefix $(UT_DIR)/asan/,core.a sim.a)
FUZZ_TOOL_OBJ    := $(filter-out $(ET_TEST)/cmd/main.o,$(ET_ASAN_OBJ))
FUZZ_LINK_tool   := $(FUZZ_DIR)/memory.o $(FUZZ_DIR)/script.o $(FUZZ_DIR)/tool.a $(addprefix $(UT_DIR)/asan/,core.a linux.a)
FUZZ_LINK_store  := $(FUZZ_DIR)/memory.o $(FUZZ_DIR)/fake_store.o $(FUZZ_DIR)/tool.a
# mbedtls' memory is the sanitizers', not an arena.
FUZZ_LINK_tls    := $(FUZZ_DIR)/memory.o $(FUZZ_DIR)/tls.a $(EP_LIB)
FUZZ_LINK_bare   := $(FUZZ_DIR)/script.o $(UT_DIR)/asan/core.a
$(FUZZ_DIR)/tool.a: $(FUZZ_TOOL_OBJ)
$(FUZZ_DIR)/tls.a: $(TLS_ASAN_OBJ)
$(FUZZ_DIR)/tool.a $(FUZZ_DIR)/tls.a:
	@mkdir -p $(@D); rm -f $@; ar qcs $@ $^

vpath script.c tests/transport
$(FUZZ_DIR)/fuzz_authority.o: private FUZZ_CFLAGS += $(TLS_CPPFLAGS)
$(FUZZ_DIR)/%.o: tests/fuzz/%.c tests/fuzz/fuzz.mk | $(GEN_HDR) $(ET_GEN)
	@mkdir -p $(@D)
	@echo "  CC $<"; $(CC) $(FUZZ_CFLAGS) $(WARNINGS) $(FUZZ_SANITIZE),bounds-strict -DLLVMFuzzerTestOneInput=$(*F) -MMD -MP -c $< -o $@
$(FUZZ_DIR)/script.o: tests/transport/script.c
	@mkdir -p $(@D)
	@echo "  CC $<"; $(CC) $(FUZZ_CFLAGS) $(WARNINGS) $(FUZZ_SANITIZE),bounds-strict -MMD -MP -c $< -o $@
# $(1): targets
fuzz_targets = -D'TARGETS=$(foreach n,$(1),TARGET($(n)))'
# $(1): group
define fuzz_program
$(FUZZ_DIR)/replay-$(1): $(FUZZ_NAMES_$(1):%=$(FUZZ_DIR)/fuzz_%.o) tests/fuzz/replay.c $(FUZZ_LINK_$(1))
	@echo "  CC $$@"; $$(CC) $(FUZZ_CFLAGS) $(WARNINGS) $(FUZZ_SANITIZE) $(call fuzz_targets,$(FUZZ_NAMES_$(1))) $$(filter %.c %.o,$$^) \
	    -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group $(if $(filter tool tls,$(1)),$(EP_LDFLAGS)) $$(FUZZ_LDLIBS) -o $$@
endef
$(foreach g,$(FUZZ_GROUPS),$(eval $(call fuzz_program,$(g))))
-include $(wildcard $(FUZZ_DIR)/*.d)

.PHONY: fuzz $(FUZZ_PARSERS:%=fuzz-%) fuzz-seeds fuzz-corpus fuzz-coverage
# A process for each target. Simulated threads have stacks that the sanitizer's search for leaks does not know.
fuzz_replay = export ASAN_OPTIONS=detect_leaks=$(if $(filter sim,$(1)),0,1); \
              for n in $(FUZZ_NAMES_$(1)); do $(FUZZ_DIR)/replay-$(1) tests/fuzz/corpus/$$n || exit 1; done
test-fuzz: $(addprefix $(FUZZ_DIR)/replay-,tool store sim bare)
	@$(call fuzz_replay,tool); $(call fuzz_replay,store); $(call fuzz_replay,sim); $(call fuzz_replay,bare)
test-fuzz-tls: $(FUZZ_DIR)/replay-tls
	@$(call fuzz_replay,tls)

# ---- libFuzzer ----

# What is instrumented for it, beside fuzz_<name>.c; the rest is linked as it is.
FUZZ_HTTP     := tests/transport/script.c $(TRANSPORT_HTTP)
FUZZ_STORE    := tests/fuzz/fake_store.c
FUZZ_SRC_request   := $(wildcard $(addprefix core/features/,endpoint/*.c pull/*.c control/*.c token/*.c))
FUZZ_SRC_sample    := $(wildcard core/collect/*.c) core/sample/ring.c
FUZZ_SRC_outlive   := core/features/outlive/adopt.c core/collect/add.c core/sample/ring.c
FUZZ_SRC_log       := core/features/spool/spool_log.c
FUZZ_SRC_response  := $(FUZZ_HTTP)
FUZZ_SRC_url       := $(FUZZ_HTTP)
FUZZ_SRC_compact   := tools/serve/ingest/ingest_compact.c $(FUZZ_STORE)
FUZZ_SRC_pprof     := tools/serve/ingest/ingest_pprof.c $(wildcard tools/formats/pprof_*.c) $(FUZZ_STORE)
FUZZ_SRC_otlp      := tools/serve/ingest/ingest_otlp.c $(wildcard tools/formats/otlp_*.c) tools/formats/protojson.c $(FUZZ_STORE)
FUZZ_SRC_json      := tools/lib/json_read.c
FUZZ_SRC_folded    := tools/formats/folded.c tools/profile/profile.c
FUZZ_SRC_foreign   := $(wildcard $(addprefix tools/formats/,foreign*.c perf_script.c speedscope_read.c gperftools.c)) tools/lib/json_read.c
FUZZ_SRC_multipart := tools/formats/multipart.c
FUZZ_SRC_selector  := tools/lib/selector.c
FUZZ_SRC_config    := tools/lib/config.c
FUZZ_SRC_demangle  := $(wildcard tools/symbols/demangle*.c)
FUZZ_SRC_blocks    := tools/store/store_pack.c
FUZZ_SRC_messages  := tools/serve/ingest/push_request.c tools/formats/protojson.c
FUZZ_SRC_elf       := $(wildcard tools/symbols/symfile*.c)
FUZZ_SRC_authority := transport/tls/authority.c transport/tls/chain.c
FUZZ_SRC_crash     := tools/formats/crash.c $(wildcard tools/formats/compact*.c)
FUZZ_SRC_incident  := $(wildcard $(addprefix tools/formats/,incident*.c firefox*.c whole_message.c compact*.c))
FUZZ_SRC_answer    := tools/symbols/answer.c
FUZZ_SRC_record    := core/features/crash/read.c core/features/crash/message.c
FUZZ_MOST          := 512
# Longer inputs than FUZZ_MOST, such as those with tables.
FUZZ_MOST_elf := 8192
FUZZ_MOST_foreign := 1024
FUZZ_MOST_authority := 4096
FUZZ_MOST_crash := 1536
FUZZ_MOST_incident := 1536
FUZZ_MOST_record := 2048
FUZZ_MOST_request := 2200
FUZZ_MOST_sample := 4096
FUZZ_MOST_log := 700

# $(1): name, $(2): flags and sources, $(3): what is linked, $(4): the largest input, $(5): more folders of inputs
define fuzz_target
.PHONY: fuzz-$(1)
$(FUZZ_DIR)/fuzz-$(1): $(3) tests/fuzz/fuzz.mk $(wildcard tests/fuzz/*.[ch]) | $(GEN_HDR) $(ET_GEN)
	@tools/build/setup.sh apt build tools demo fuzz
	@mkdir -p $$(@D)
	$(FUZZ_CLANG) $(FUZZ_CFLAGS) -O2 -fsanitize=fuzzer $(FUZZ_SANITIZE) $(2) $$(filter %.o,$(3)) \
	    -Wl,--start-group $$(filter %.a,$(3)) -Wl,--end-group $$(FUZZ_LDLIBS) -o $$@
fuzz-$(1): $(FUZZ_DIR)/fuzz-$(1) $(if $(5),fuzz-seeds)
	@mkdir -p $(FUZZ_DIR)/found-$(1)
	ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=16 $$< -runs=$(FUZZ_RUNS) -max_total_time=$(FUZZ_SECONDS) -max_len=$(4) -rss_limit_mb=1024 \
	    -print_final_stats=1 -artifact_prefix=$(FUZZ_DIR)/$(1)- $(FUZZ_DIR)/found-$(1) tests/fuzz/corpus/$(1) $(5)
endef
# $(1): group, $(2): name
fuzz_parser = $(eval $(call fuzz_target,$(2),$(if $(filter tls,$(1)),$(TLS_CPPFLAGS)) tests/fuzz/fuzz_$(2).c $(FUZZ_SRC_$(2)),$(filter-out \
              $(patsubst %.c,$(FUZZ_DIR)/%.o,$(notdir $(FUZZ_SRC_$(2)))),$(FUZZ_LINK_$(1))),$(or $(FUZZ_MOST_$(2)),$(FUZZ_MOST))))
$(foreach g,$(FUZZ_GROUPS),$(foreach n,$(FUZZ_NAMES_$(g)),$(call fuzz_parser,$(g),$(n))))
fuzz: $(FUZZ_PARSERS:%=fuzz-%)  ## look for inputs that break what reads them (FUZZ_RUNS=, FUZZ_SECONDS=)

# ---- unwinders ----

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
FUZZ_SRC_x86_64    := $(FUZZ_COMMON) tests/fuzz/arch_x86_64.c tests/fuzz/pieces_cfi.c core/unwind/unwind_x86_64.c core/unwind/path_x86_64.c core/unwind/code_x86_64.c core/unwind/search_x86_64.c core/unwind/cfi.c
FUZZ_SRC_aarch64   := $(FUZZ_COMMON) tests/fuzz/arch_aarch64.c tests/fuzz/pieces_cfi.c core/unwind/unwind_aarch64.c core/unwind/path_aarch64.c core/unwind/search_aarch64.c core/unwind/cfi.c
FUZZ_SRC_arm       := $(FUZZ_COMMON) tests/fuzz/arch_arm.c core/unwind/unwind_arm.c core/unwind/code_arm.c core/unwind/path_arm.c core/unwind/exidx.c

fuzz: $(FUZZ_ARCHS:%=fuzz-%)
test-fuzz-unwind: $(FUZZ_ARCHS:%=$(FUZZ_DIR)/replay-%)
	@set -e; for r in $^; do \
	    run=; status=0; $$r >/dev/null 2>&1 || status=$$?; [ $$status != 126 ] || run=qemu-i386; \
	    ASAN_OPTIONS=detect_leaks=0 $$run $$r tests/fuzz/corpus/$${r##*-}; \
	done
# $(1): architecture
define fuzz_arch
$(FUZZ_DIR)/replay-$(1): $(FUZZ_SRC_$(1)) tests/fuzz/replay.c $(wildcard tests/fuzz/*.h core/edgeprof/*.h core/unwind/*.h) tests/fuzz/fuzz.mk
	@mkdir -p $$(@D)
	@echo "  CC $$@"; $(CC) $(FUZZ_CFLAGS) $(WARNINGS) $(FUZZ_SANITIZE),bounds-strict $(FUZZ_FLAGS_$(1)) -DLLVMFuzzerTestOneInput=fuzz_$(1) $(call fuzz_targets,$(1)) \
	    $$(filter %.c,$$^) -o $$@
$(FUZZ_DIR)/coverage-$(1): $(FUZZ_SRC_$(1)) tests/fuzz/mutate.c $(FUZZ_HEADERS) tests/fuzz/fuzz.mk
	@tools/build/setup.sh apt build demo test fuzz
	@mkdir -p $$(@D)
	clang $(FUZZ_CFLAGS) -fsanitize=fuzzer -fprofile-instr-generate -fcoverage-mapping $(FUZZ_FLAGS_$(1)) $(FUZZ_SRC_$(1)) \
	    tests/fuzz/mutate.c -o $$@
endef
$(foreach arch,$(FUZZ_ARCHS),$(eval $(call fuzz_arch,$(arch)))$(eval $(call fuzz_target,$(arch),$(FUZZ_FLAGS_$(arch)) $(FUZZ_SRC_$(arch)) tests/fuzz/mutate.c,,5200,$(FUZZ_DIR)/seeds/$(arch))))

fuzz-seeds: $(FUZZ_DIR)/seeds/done
$(FUZZ_DIR)/seeds/done: tests/fuzz/seeds.sh tests/fuzz/seed.c tests/fuzz/seed.py
	@tools/build/setup.sh apt build cross
	@rm -rf $(@D)
	tests/fuzz/seeds.sh $(@D)
	@touch $@

# Regression inputs have names and stay; the others are selected again: the fewest bytes that reach every edge.
FUZZ_ALL := $(FUZZ_PARSERS) $(FUZZ_ARCHS)
fuzz-corpus: $(FUZZ_ALL:%=$(FUZZ_DIR)/fuzz-%) fuzz-seeds
	@set -e; for n in $(FUZZ_ALL); do \
	    kept=tests/fuzz/corpus/$$n; chosen=$(FUZZ_DIR)/chosen-$$n; rm -rf $$chosen; mkdir -p $$chosen $(FUZZ_DIR)/found-$$n $(FUZZ_DIR)/seeds/$$n; \
	    ASAN_OPTIONS=detect_leaks=0 $(FUZZ_DIR)/fuzz-$$n -merge=1 -set_cover_merge=1 -use_counters=0 $$chosen \
	        $(FUZZ_DIR)/found-$$n $$kept $(FUZZ_DIR)/seeds/$$n >$(FUZZ_DIR)/merge-$$n.log 2>&1; \
	    find $$kept -regextype egrep -regex '.*/[0-9a-f]{40}' -delete; \
	    for f in $$chosen/*; do find $$kept -type f -exec cmp -s {} $$f \; -print | grep -q . || cp $$f $$kept/; done; du -sb $$kept; \
	done

fuzz-coverage: $(FUZZ_ARCHS:%=$(FUZZ_DIR)/coverage-%)  ## lines of the unwinders that the kept fuzz inputs reach
	@set -e; for a in $(FUZZ_ARCHS); do \
	    LLVM_PROFILE_FILE=$(FUZZ_DIR)/$$a.raw $(FUZZ_DIR)/coverage-$$a -runs=0 tests/fuzz/corpus/$$a >$(FUZZ_DIR)/coverage.log 2>&1; \
	    llvm-profdata merge -sparse $(FUZZ_DIR)/$$a.raw -o $(FUZZ_DIR)/$$a.profile; \
	    llvm-cov report $(FUZZ_DIR)/coverage-$$a -instr-profile=$(FUZZ_DIR)/$$a.profile core | \
	        awk -v a=$$a '$$1 ~ /^(unwind|cfi|exidx|code_|path_|rules)/ { print a, $$1, $$8 - $$9 "/" $$8, "lines", $$10 }'; \
	done
endif
