# Fuzzing of parsers of external data: the device's HTTP client and endpoint, the server's decoders. The head of each
# fuzz_<name>.c describes the invariants.
#
#   test-fuzz-<name>   the stored inputs, each also truncated everywhere and with every byte changed, under ASan and UBSan
#   fuzz-<name>        libFuzzer: FUZZ_RUNS executions, at most FUZZ_SECONDS (0: no limit). New inputs go to
#                      $(PARSERS_DIR)/found-<name>
#   fuzz-parsers       all of them
#   fuzz-parsers-corpus  adds new inputs to tests/fuzz/corpus, reduced to the fewest that keep the coverage

ifeq ($(BOARD),host)
PARSERS_DIR := $(BUILD)/tests/fuzz
PARSERS     := response url compact pprof otlp
PARSERS_WHAT_response := HTTP responses
PARSERS_WHAT_url      := endpoint URLs
PARSERS_WHAT_compact  := compact profiles
PARSERS_WHAT_pprof    := pprof profiles
PARSERS_WHAT_otlp     := OTLP profiles

PARSERS_HTTP  := tests/transport/script.c $(TRANSPORT_HTTP)
PARSERS_STORE := $(addprefix tests/fuzz/,fake_store.c memory.c) \
                 $(addprefix tools/,lib/util.c lib/tables.c lib/hash.c lib/labels.c lib/kinds.c lib/time_text.c lib/selector.c profile/profile.c profile/node_finder.c) \
                 $(addprefix tools/,formats/protobuf_budget.c formats/compact.c formats/compact_decode.c store/bounds.c)
PARSERS_SRC_response := tests/fuzz/fuzz_response.c $(PARSERS_HTTP)
PARSERS_SRC_url      := tests/fuzz/fuzz_url.c $(PARSERS_HTTP)
PARSERS_SRC_compact  := tests/fuzz/fuzz_compact.c tools/serve/ingest/ingest_compact.c tools/serve/http/scope.c $(PARSERS_STORE)
PARSERS_SRC_pprof    := tests/fuzz/fuzz_pprof.c $(addprefix tools/serve/ingest/,ingest_pprof.c ingest_store.c) \
                        $(addprefix tools/formats/,pprof_read.c pprof_check.c pprof_kinds.c pprof_wire.c pprof_write.c protobuf.c) $(PARSERS_STORE)
PARSERS_SRC_otlp     := tests/fuzz/fuzz_otlp.c $(addprefix tools/serve/ingest/,ingest_otlp.c ingest_pprof.c ingest_store.c) \
                        $(addprefix tools/formats/,otlp_read.c otlp_group.c otlp_fill.c otlp_profile.c pprof_read.c pprof_check.c pprof_kinds.c pprof_wire.c protojson.c protobuf.c) \
                        $(addprefix tools/lib/,json_read.c json_write.c) $(PARSERS_STORE)
# Parsers without a store: what they read, and the files to instrument; the rest of the tool is linked to them.
READERS      := json folded multipart selector config demangle blocks messages elf authority crash incident record answer
PARSERS      += $(READERS)
PARSERS_WHAT_json      := JSON and base64
PARSERS_WHAT_folded    := folded stacks
PARSERS_WHAT_multipart := multipart bodies
PARSERS_WHAT_selector  := selectors
PARSERS_WHAT_config    := config files
PARSERS_WHAT_demangle  := mangled names
PARSERS_WHAT_blocks    := the database's blocks of stacks
PARSERS_WHAT_messages  := push and querier requests
PARSERS_WHAT_elf       := ELF and DWARF
PARSERS_WHAT_authority := CA bundles
PARSERS_WHAT_crash     := messages about crashes
PARSERS_WHAT_incident  := messages of incidents
PARSERS_WHAT_record    := crash records
PARSERS_WHAT_answer    := names from processes that parse symbol files
READERS_SRC_json      := tools/lib/json_read.c
READERS_SRC_folded    := tools/formats/folded.c tools/profile/profile.c
READERS_SRC_multipart := tools/formats/multipart.c
READERS_SRC_selector  := tools/lib/selector.c
READERS_SRC_config    := tools/lib/config.c
READERS_SRC_demangle  := tools/symbols/demangle.c tools/symbols/demangle_dotnet.c tools/symbols/demangle_types.c
READERS_SRC_blocks    := tools/store/store_pack.c
READERS_SRC_messages  := tools/serve/ingest/push_request.c tools/formats/protojson.c
READERS_SRC_elf       := $(addprefix tools/symbols/,symfile.c symfile_symbols.c symfile_dwarf.c)
READERS_SRC_authority := transport/tls/authority.c
READERS_SRC_crash     := tools/formats/crash.c tools/formats/compact.c tools/formats/compact_decode.c
READERS_SRC_incident  := tools/formats/incident.c tools/formats/firefox.c tools/formats/firefox_samples.c tools/formats/whole_message.c tools/formats/compact.c tools/formats/compact_decode.c
READERS_SRC_answer    := tools/symbols/answer.c
READERS_SRC_record    := core/features/crash/read.c core/features/crash/message.c
READERS_TOOL := $(PARSERS_DIR)/tool.a
$(READERS_TOOL): $(filter-out $(ET_TEST)/cmd/main.o,$(ET_ASAN_OBJ))
	@mkdir -p $(@D)
	@rm -f $@; ar qcs $@ $^
# mbedtls' memory is the sanitizers', not an arena.
READERS_TLS  := $(PARSERS_DIR)/tls.a
$(READERS_TLS): $(TLS_ASAN_OBJ)
	@mkdir -p $(@D)
	@rm -f $@; ar qcs $@ $^
$(foreach n,$(READERS),$(eval PARSERS_SRC_$(n) := tests/fuzz/fuzz_$(n).c tests/fuzz/memory.c $(READERS_SRC_$(n))))
$(foreach n,$(filter-out authority,$(READERS)),$(eval PARSERS_OBJ_$(n) := $(READERS_TOOL))$(eval PARSERS_LIBS_$(n) = $$(ET_LDLIBS)))
PARSERS_OBJ_authority  := $(READERS_TLS) $(EP_LIB)
PARSERS_LIBS_authority := $(EP_LDFLAGS) $(EP_LDLIBS) -lresolv
PARSERS_FLAGS_authority = $(TLS_CPPFLAGS)
# With the device's library as the unit tests build it: in libedgeprof.a nanopb has other names.
PARSERS_OBJ_record     := $(READERS_TOOL) $(addprefix $(BUILD)/tests/unit/asan/,core.a linux.a)
PARSERS_LIBS_record     = -Wl,--start-group $(addprefix $(BUILD)/tests/unit/asan/,core.a linux.a) -Wl,--end-group $(EP_LDFLAGS) $(ET_LDLIBS) -ldl -lresolv
PARSERS_FLAGS_record    = $(EP_CPPFLAGS)
# Inputs with tables are larger.
PARSERS_MOST_elf       := 8192
PARSERS_MOST_authority := 4096
PARSERS_MOST_crash     := 1536
PARSERS_MOST_incident  := 1536
PARSERS_MOST_record    := 2048
# Generated by another program, compiled without our warnings.
PARSERS_GEN_compact  := $(ET_DIR)/gen/compact.pb-c.c
PARSERS_GEN_pprof    := $(ET_GEN)
PARSERS_GEN_otlp     := $(ET_GEN)
PARSERS_OBJ_compact  := $(ET_TEST)/gen/compact.pb-c.o
PARSERS_OBJ_pprof    := $(ET_GEN:$(ET_DIR)/gen/%.c=$(ET_TEST)/gen/%.o)
PARSERS_OBJ_otlp     := $(PARSERS_OBJ_pprof)
PARSERS_HEADERS      := $(wildcard tests/fuzz/*.h tests/transport/*.h transport/*.h) $(ET_HEADERS) core/edgeprof/edgeprof.h core/features/crash/crash.h
PARSERS_CFLAGS       := -I. -Icore -Itests/transport -isystem $(ET_DIR)/gen -D_GNU_SOURCE \
                        -std=c11 -g -fno-omit-frame-pointer
PARSERS_SANITIZE     := -fsanitize=address,undefined -fno-sanitize-recover=all
PARSERS_MOST         ?= 512
# Debian has it with the version, too.
FUZZ_CLANG           ?= $(or $(shell command -v clang),clang-14)

.PHONY: $(PARSERS:%=test-fuzz-%) $(PARSERS:%=fuzz-%) fuzz-parsers fuzz-parsers-corpus

# $(1): name
define parsers_target
$(PARSERS_DIR)/replay-$(1): $(PARSERS_SRC_$(1)) $(PARSERS_OBJ_$(1)) tests/transport/replay.c $(PARSERS_HEADERS) tests/fuzz/parsers.mk
	@mkdir -p $$(@D)
	@echo "  CC $$@"; $$(CC) -O1 $(PARSERS_CFLAGS) $(WARNINGS) $(PARSERS_SANITIZE),bounds-strict \
	    $(PARSERS_FLAGS_$(1)) $(PARSERS_SRC_$(1)) $(PARSERS_OBJ_$(1)) tests/transport/replay.c $(if $(PARSERS_GEN_$(1)),-lprotobuf-c -lpcre2-8 -ljansson -lnettle) $(PARSERS_LIBS_$(1)) -o $$@
test-fuzz-$(1): $(PARSERS_DIR)/replay-$(1)
	@printf '$$@: '; $$< $$(wildcard tests/fuzz/corpus/$(1)/*)
$(PARSERS_DIR)/fuzz-$(1): $(PARSERS_SRC_$(1)) $(PARSERS_GEN_$(1)) $(if $(filter $(1),$(READERS)),$(PARSERS_OBJ_$(1))) $(PARSERS_HEADERS) tests/fuzz/parsers.mk
	@tools/build/setup.sh apt build tools demo fuzz
	@mkdir -p $$(@D)
	$(FUZZ_CLANG) -O2 $(PARSERS_CFLAGS) $(PARSERS_FLAGS_$(1)) -fsanitize=fuzzer $(PARSERS_SANITIZE) $(PARSERS_SRC_$(1)) $(PARSERS_GEN_$(1)) \
	    $(if $(filter $(1),$(READERS)),$(PARSERS_OBJ_$(1))) $(if $(PARSERS_GEN_$(1)),-lprotobuf-c -lpcre2-8 -ljansson -lnettle) $(PARSERS_LIBS_$(1)) -o $$@
fuzz-$(1): $(PARSERS_DIR)/fuzz-$(1)
	@mkdir -p $(PARSERS_DIR)/found-$(1)
	ASAN_OPTIONS=quarantine_size_mb=16 $$< -runs=$$(FUZZ_RUNS) -max_total_time=$$(FUZZ_SECONDS) -max_len=$(or $(PARSERS_MOST_$(1)),$(PARSERS_MOST)) -rss_limit_mb=1024 -print_final_stats=1 \
	    -artifact_prefix=$(PARSERS_DIR)/$(1)- $(PARSERS_DIR)/found-$(1) tests/fuzz/corpus/$(1)
endef
$(foreach name,$(PARSERS),$(eval $(call parsers_target,$(name))))

fuzz-parsers: $(PARSERS:%=fuzz-%)  ## look for bytes that break what reads them (FUZZ_RUNS=, FUZZ_SECONDS=)

# The initial inputs and regressions have names and stay; the others are selected again.
fuzz-parsers-corpus: $(PARSERS:%=$(PARSERS_DIR)/fuzz-%)
	@set -e; for n in $(PARSERS); do \
	    rm -rf $(PARSERS_DIR)/chosen-$$n; mkdir -p $(PARSERS_DIR)/chosen-$$n $(PARSERS_DIR)/found-$$n; \
	    $(PARSERS_DIR)/fuzz-$$n -merge=1 -set_cover_merge=1 -use_counters=0 -max_len=320 $(PARSERS_DIR)/chosen-$$n \
	        $(PARSERS_DIR)/found-$$n tests/fuzz/corpus/$$n >$(PARSERS_DIR)/merge-$$n.log 2>&1; \
	    find tests/fuzz/corpus/$$n -regextype egrep -regex '.*/[0-9a-f]{40}' -delete; \
	    for f in $(PARSERS_DIR)/chosen-$$n/*; do \
	        find tests/fuzz/corpus/$$n -type f -exec cmp -s {} $$f \; -print | grep -q . || cp $$f tests/fuzz/corpus/$$n/; \
	    done; du -sb tests/fuzz/corpus/$$n; \
	done
endif
