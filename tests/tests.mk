# Unit tests on the simulated port (tests/unit/ROOM/test_*.c), and tests of the Linux port in real processes
# (tests/linux/). The product's sources are compiled three times: as the library is, with ASan and UBSan, and with TSan.
# Reports of sanitizers need lines only: -g1 takes a quarter less of the compiler than -g.

UT_DIR      := $(BUILD)/tests/unit
UT_CPPFLAGS  = $(EP_CPPFLAGS) -Itests/unit -I$(UT_DIR)
UT_BASE     := -std=c11 -g -fPIC -ftls-model=initial-exec -fno-omit-frame-pointer $(BOARD_CFLAGS)
UT_plain    := -O2
UT_asan     := -O1 -g1 -fsanitize=address,undefined,bounds-strict -fno-sanitize-recover=all
# TSan knows no fences: it sees less order than there is.
UT_tsan     := -O1 -g1 -fsanitize=thread -Wno-tsan
UT_WAYS     := plain asan tsan
# For test files of the simulated port, not for what they test: compiling most of them costs more than running them.
UT_QUICK    := -O0 -g1
# These compute much themselves.
UT_HEAVY    := governor rates

UT_THIRD    := $(GEN_SRC) $(NANOPB_DIR)/pb_common.c $(NANOPB_DIR)/pb_encode.c
UT_core     := $(CORE_SRC) $(TRANSPORT_SRC)
UT_sim      := $(wildcard port/sim/*.c)
UT_linux    := $(PORT_SRC)
UT_help     := tests/unit/wire.c tests/unit/gunzip.c tests/unit/receiver.c
UT_help_sim := tests/unit/account.c
UT_SOURCES  := $(filter-out tests/unit/tools/%,$(wildcard tests/unit/*/test_*.c)) $(wildcard core/features/*/test_*.c) $(wildcard tests/linux/linux_*.c)
# test_cfi uses x86-64's register numbers and the host's libdw; test_rates has statistics over many seeds, too slow in QEMU.
UT_SOURCES  := $(if $(filter host/x86_64,$(BOARD)/$(BOARD_ARCH)),$(UT_SOURCES),$(filter-out %/test_cfi.c,$(UT_SOURCES)))
UT_SOURCES  := $(if $(filter host,$(BOARD)),$(UT_SOURCES),$(filter-out %/test_rates.c,$(UT_SOURCES)))
# A target of its own, because it takes minutes.
UT_WEEK     := test_week
UT_TESTS    := $(filter-out $(UT_WEEK),$(notdir $(basename $(filter tests/unit/% core/%,$(UT_SOURCES)))))
# By name only: the clock of perf events is on request, and depends on what the kernel and the machine permit.
UT_PERF     := linux_perf
UT_LINUX    := $(filter-out $(UT_PERF),$(notdir $(basename $(filter tests/linux/%,$(UT_SOURCES)))))
# Tests that include a source of the product, to reach its static functions, are programs of their own; the others are one.
UT_ALONE    := $(filter $(UT_TESTS),$(notdir $(basename $(shell grep -lE '^.include ".*[.]c"' $(UT_SOURCES)))))
UT_SUITES   := $(filter-out $(UT_ALONE),$(UT_TESTS))
# Tests with threads that TSan supports (TSan delays signals and does not support coroutines).
UT_SUITES_plain := $(UT_SUITES)
UT_SUITES_asan  := $(UT_SUITES)
UT_SUITES_tsan  := test_ring test_outbox test_stats
# $(1): a test; its source, without .c
ut_source    = $(basename $(filter %/$(1).c,$(UT_SOURCES)))

UT_LIBS_suites := $(if $(filter %/test_cfi.c,$(UT_SOURCES)),-ldw -lelf) -lm
UT_LIBS_linux_crash := -Wl,--wrap=ep_port_crash_write,--wrap=ep_port_crash_sync
UT_LIBS_linux_bias := -lm
UT_LIBS_linux_threads := -Wl,--wrap=ep_linux_timer_delete
UT_LIBS_test_alloc_hooks := -lm

# $(1): build, $(2): what is compiled for it. The build `plain` takes the objects of libedgeprof.a.
define ut_way
$(UT_DIR)/$(1)/%.o: %.c tests/tests.mk | $(GEN_HDR)
	@mkdir -p $$(@D)
	$$(CC) $$(UT_CPPFLAGS) $(UT_BASE) $$(WARNINGS) $(UT_$(1)) $$(UT_MAIN) -MMD -MP -c $$< -o $$@
$(UT_DIR)/$(1)/third/%.o: $(BUILD)/gen/%.c | $(GEN_HDR)
	@mkdir -p $$(@D)
	$$(CC) $$(UT_CPPFLAGS) $(UT_BASE) $(UT_$(1)) -c $$< -o $$@
$(UT_DIR)/$(1)/third/%.o: $(NANOPB_DIR)/%.c
	@mkdir -p $$(@D)
	$$(CC) $$(UT_CPPFLAGS) $(UT_BASE) $(UT_$(1)) -c $$< -o $$@
UT_OBJ_$(1)_core  := $(UT_core:%.c=$(UT_DIR)/$(1)/%.o) $(addprefix $(UT_DIR)/$(1)/third/,$(notdir $(UT_THIRD:.c=.o)))
UT_OBJ_$(1)_linux := $(UT_linux:%.c=$(UT_DIR)/$(1)/%.o)
UT_OBJ_$(1)_sim   := $(UT_sim:%.c=$(UT_DIR)/$(1)/%.o)
$(foreach t,$(UT_SUITES),$(UT_DIR)/$(1)/$(call ut_source,$(t)).o): UT_MAIN = $$(UT_QUICK) -Dmain=suite_$$(*F) -Wno-missing-prototypes
$(foreach t,$(UT_HEAVY),$(UT_DIR)/$(1)/$(call ut_source,test_$(t)).o): UT_QUICK = -O1 -g1
$(UT_DIR)/$(1)/tests/unit/suites.o: UT_MAIN = -D'SUITES=$(foreach s,$(UT_SUITES_$(1)),SUITE($(s)))'
endef
$(foreach w,$(UT_WAYS),$(eval $(call ut_way,$(w))))
UT_OBJ_plain_core  := $(patsubst %.c,$(BUILD)/obj/%.o,$(UT_core)) $(THIRD_OBJ)
UT_OBJ_plain_linux := $(UT_linux:%.c=$(BUILD)/obj/%.o)
define ut_archive
$(UT_DIR)/$(1)/$(2).a: $$(UT_OBJ_$(1)_$(2))
	@mkdir -p $$(@D); rm -f $$@
	$$(AR) qcs $$@ $$^
endef
$(foreach w,$(UT_WAYS),$(foreach a,core linux sim,$(eval $(call ut_archive,$(w),$(a)))))
-include $(foreach w,$(UT_WAYS),$(wildcard $(UT_DIR)/$(w)/*/*.d $(UT_DIR)/$(w)/*/*/*.d $(UT_DIR)/$(w)/*/*/*/*.d))

UT_HELP_test  := $(UT_help) $(UT_help_sim)
UT_HELP_linux := $(UT_help)
UT_PORT_test  := sim.a
UT_PORT_linux := linux.a
UT_OPTIONS_linux := $(EP_LDFLAGS) $(EP_LDLIBS)
# $(1): build, $(2): program, $(3): test or linux, $(4): sources of tests, without .c
define ut_program
$(UT_DIR)/$(1)/$(2): $(4:%=$(UT_DIR)/$(1)/%.o) $(patsubst %.c,$(UT_DIR)/$(1)/%.o,$(UT_HELP_$(3))) \
    $(UT_DIR)/$(1)/core.a $(UT_DIR)/$(1)/$(UT_PORT_$(3))
	$$(CC) $(UT_BASE) $(UT_$(1)) -o $$@ $$(filter %.o,$$^) -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group \
	    $$(UT_OPTIONS_$(3)) -lcmocka -lpthread -ldl -lresolv $$(UT_LIBS_$(2))
endef
$(foreach w,$(UT_WAYS),$(eval $(call ut_program,$(w),suites,test,tests/unit/suites $(foreach t,$(UT_SUITES_$(w)),$(call ut_source,$(t))))))
$(foreach w,$(UT_WAYS),$(foreach t,$(UT_ALONE) $(UT_WEEK),$(eval $(call ut_program,$(w),$(t),test,$(call ut_source,$(t))))))
$(foreach w,$(UT_WAYS),$(foreach t,$(UT_LINUX) $(UT_PERF),$(eval $(call ut_program,$(w),$(t),linux,$(call ut_source,$(t))))))
# What linux_modules and linux_lazy load; no sanitizer looks into it.
$(UT_DIR)/%/plugin.so: tests/linux/plugin.c tests/linux/plugin.h
	@mkdir -p $(@D)
	$(CC) $(UT_BASE) $(WARNINGS) -O1 -fasynchronous-unwind-tables -shared -Wl,-z,separate-code -o $@ $<
$(foreach w,$(UT_WAYS),$(eval $(UT_DIR)/$(w)/linux_modules $(UT_DIR)/$(w)/linux_lazy: | $(UT_DIR)/$(w)/plugin.so))
# What linux_otel loads: a tracer with each model of thread-local storage.
UT_TRACERS  := tracer-desc.so tracer-dynamic.so tracer-fixed.so tracer-big.so
UT_TLS_desc    := $(if $(filter aarch64,$(BOARD_ARCH)),-mtls-dialect=desc,-mtls-dialect=gnu2)
UT_TLS_dynamic := $(if $(filter aarch64,$(BOARD_ARCH)),-mtls-dialect=trad,-mtls-dialect=gnu)
UT_TLS_fixed   := -ftls-model=initial-exec
UT_TLS_big     := $(UT_TLS_desc) -DTRACER_FILL=65536
$(UT_DIR)/%.so: tests/linux/tracer.c tests/linux/tracer.h
	@mkdir -p $(@D)
	$(CC) -std=c11 -g -fPIC $(BOARD_CFLAGS) $(WARNINGS) -O2 $(UT_TLS_$(patsubst tracer-%,%,$(notdir $*))) -shared -o $@ $<
$(foreach w,$(UT_WAYS),$(eval $(UT_DIR)/$(w)/linux_otel: | $(UT_TRACERS:%=$(UT_DIR)/$(w)/%)))
UT_RUN = @set -e; export $(UT_ENV); for t in $^; do echo "$$t"; $(BOARD_EXEC) $$t 2>&1; done; echo "$@: $(words $^) programs passed"
UT_ENV := ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=halt_on_error=1

test-unit: $(addprefix $(UT_DIR)/plain/,suites $(UT_ALONE))
	$(UT_RUN)
test-week-offline: $(UT_WEEK:%=$(UT_DIR)/plain/%)
	$(UT_RUN)
# Sweeps over every place, such as each write of a disk, take every seventh place; test-unit-sweeps takes all.
test-unit test-unit-tsan: export UNIT_STEP := 7
test-unit-asan test-linux-asan: export UNIT_STEP := 23
test-unit-sweeps: $(UT_DIR)/plain/suites
	@UNIT_STEP=1 $(BOARD_EXEC) $< -s test_spool -s test_spool_faults
test-unit-asan: $(addprefix $(UT_DIR)/asan/,suites $(UT_ALONE))
	$(UT_RUN)
# linux_alloc has its own allocator, linux_bias measures only.
test-linux-asan: $(patsubst %,$(UT_DIR)/asan/%,$(filter-out linux_alloc linux_bias,$(UT_LINUX)))
	$(UT_RUN)
test-unit-tsan: $(addprefix $(UT_DIR)/tsan/,suites test_rules linux_threads linux_blocks)
	$(UT_RUN)
# These compare CPU times and waits closely.
UT_MEASURED := linux_bias linux_generated linux_lazy linux_modules linux_process linux_threads linux_waits
test-linux: $(patsubst %,$(UT_DIR)/plain/%,$(filter-out $(UT_MEASURED),$(UT_LINUX)))
	$(UT_RUN)
test-linux-measured: $(UT_MEASURED:%=$(UT_DIR)/plain/%)
	$(UT_RUN)
test-perf-clock: $(UT_PERF:%=$(UT_DIR)/plain/%)
	$(UT_RUN)

# What the x86-64 decoder says against binutils, over code that is on every machine that tests.
ifeq ($(BOARD)/$(BOARD_ARCH),host/x86_64)
UT_DECODE := $(UT_DIR)/plain/decode_lengths
$(UT_DECODE): tests/unit/unwind/decode_lengths.c core/unwind/code_x86_64.c core/unwind/code_x86_64.h
	@mkdir -p $(@D)
	$(CC) $(UT_CPPFLAGS) $(UT_BASE) $(WARNINGS) $(UT_plain) $(filter %.c,$^) -o $@
test-decoder: $(UT_DECODE)
	@objdump -dw $$($(CC) -print-file-name=libc.so.6) $$(readlink -f $(PYTHON)) | $< 500000
endif

# A program with every public function links against the template and against the simulated port. So the core calls no
# function that port.h does not have, and no public function lives in a port.
UT_PUBLIC := $(addprefix edgeprof/,edgeprof.h crash.h endpoint.h hooks.h incident.h otel.h pprof.h spool.h tls.h transport.h watchdog.h)
$(UT_DIR)/public_functions.c: tests/unit/public_functions.py $(UT_PUBLIC:%=core/%)
	@mkdir -p $(@D)
	@$(PYTHON) $< $(CC) -Icore $(UT_PUBLIC) >$@
$(UT_DIR)/public_functions.o: $(UT_DIR)/public_functions.c
	$(CC) $(UT_CPPFLAGS) $(UT_BASE) $(WARNINGS) -Wno-cast-function-type -c $< -o $@
$(UT_DIR)/public_template: $(UT_DIR)/plain/port/template/port.o
$(UT_DIR)/public_sim: $(UT_DIR)/plain/sim.a
$(UT_DIR)/public_template $(UT_DIR)/public_sim: $(UT_DIR)/plain/tests/unit/public_program.o $(UT_DIR)/public_functions.o $(UT_DIR)/plain/core.a $(TLS_LIB)
	$(CC) $(UT_BASE) -o $@ -Wl,--start-group $^ -Wl,--end-group -lpthread -lresolv
# A port made by the guide, level 1 with the template's rest, for a system without sockets, timer_create() and /proc: its
# library needs none of these, and its program has a flame graph.
UT_SUBSET := $(UT_DIR)/offline
test-template: $(UT_DIR)/public_template $(UT_DIR)/public_sim $(EP_LIB) $(BUILD)/edgeprof
	@set -e; for p in $(filter %/public_template %/public_sim,$^); do printf '%s: ' $${p##*/}; $(BOARD_EXEC) $$p; done
	@$(MAKE) -s --no-print-directory BUILD=$(UT_SUBSET) BOARD_PORT=tests/unit/subset BOARD_SOCKETS=0 lib >$(UT_SUBSET).log
	@$(CC) $(UT_CPPFLAGS) -std=gnu11 -static -no-pie tests/unit/offline.c $(UT_SUBSET)/libedgeprof.a -o $(UT_SUBSET)/program
	@$(BOARD_EXEC) $(UT_SUBSET)/program
	@found=$$($(NM) -u $(UT_SUBSET)/libedgeprof.a | \
	    grep -wE 'socket|connect|getaddrinfo|send|recv|poll|res_n?init|timer_create|pthread_create|dl_iterate_phdr|malloc'; \
	    grep -ao '/proc/[a-z]*' $(UT_SUBSET)/libedgeprof.a); \
	[ -z "$$found" ] || { echo "$@: a port of a subset of POSIX needs" $$found >&2; exit 1; }
	@$(CC) $(UT_CPPFLAGS) -std=gnu11 -O1 -g -static -no-pie -Wl,--build-id -Wl,--eh-frame-hdr tests/unit/subset_program.c \
	    $(UT_SUBSET)/libedgeprof.a -o $(UT_SUBSET)/subset
	@rm -f $(UT_SUBSET)/profile && $(BOARD_EXEC) $(UT_SUBSET)/subset 'file://$(abspath $(UT_SUBSET))/profile'
	@$(BUILD)/edgeprof cat --folded --symbols $(UT_SUBSET) $(UT_SUBSET)/profile | tee $(UT_SUBSET)/folded | \
	    awk '{ all += $$NF } /;main;work;filter / { filter += $$NF } /;main;work;add / { add += $$NF } \
	    END { printf "subset: filter %d %%, add %d %%\n", 100 * filter / (all + !all), 100 * add / (all + !all); exit !(filter > all / 4 && add > all / 10 && filter + add > all * 0.8) }'
	@NM='$(NM)' $(PYTHON) tests/unit/linked_features.py $(BUILD)/obj $(EP_LIB) $(CC) $(UT_BASE) $(EP_LDFLAGS)

# Other programs read the encoders' messages; the contents are compared with the samples.
UT_PPROF_PROTO := /usr/share/gocode/src/github.com/google/pprof/proto/profile.proto
$(UT_DIR)/encode_dump: $(UT_DIR)/plain/tests/unit/encode/encode_dump.o $(UT_DIR)/plain/core.a $(UT_DIR)/plain/sim.a
	$(CC) $(UT_BASE) -o $@ $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -lpthread -lresolv
test-encoders: $(UT_DIR)/encode_dump
	@set -e; for f in compact pprof; do \
	    rm -rf $(UT_DIR)/$$f; mkdir -p $(UT_DIR)/$$f; $(BOARD_EXEC) $< $$f $(UT_DIR)/$$f; \
	    if [ $$f = compact ]; then proto=core/proto/compact.proto; else proto=$(UT_PPROF_PROTO); fi; \
	    $(PYTHON) tests/unit/encode/encode_check.py $$f $(UT_DIR)/$$f $$proto "go tool pprof"; \
	done

.PHONY: test-places
test-places: lib tools $(UT_DIR)/plain/suites $(ET_TEST)/edgeprof
	@tests/places.sh $(BUILD)
