# Programs built without edgeprof, under the preload library and `edgeprof run`. One build, four targets.

PRELOAD_DIR   := $(BUILD)/tests/linux/preload
PRELOAD_PLAIN := $(addprefix $(PRELOAD_DIR)/,waits choice memory calls steps main_exits workers coexist threads unhooked inside asleep sudden writes)
PRELOAD_BASE   = $(CC) -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS)
$(PRELOAD_PLAIN): $(PRELOAD_DIR)/%: tests/linux/preload/%.c
	@mkdir -p $(@D)
	$(PRELOAD_BASE) $(filter %.c,$^) -o $@ -lpthread -ldl

$(PRELOAD_DIR)/inside_cpp: tests/linux/preload/inside_cpp.cpp
	@mkdir -p $(@D)
	$(BOARD_CROSS)g++ -D_GNU_SOURCE -std=c++20 -O2 -g -fnon-call-exceptions -Wall -Wextra -Werror $(BOARD_CFLAGS) $< -o $@ -lpthread

# The library linked in, also in a static program, and with musl, whose calloc() and realloc() call its malloc().
PRELOAD_MEMORY := $(PRELOAD_DIR)/memory
MEMORY_LINKED  := $(PRELOAD_MEMORY)_wrapped $(PRELOAD_MEMORY)_static
MEMORY_MUSL    := $(if $(filter host,$(BOARD)),$(PRELOAD_MEMORY)_musl)
MEMORY_SOURCES := tests/linux/preload/memory.c tests/linux/preload/memory_linked.c
$(PRELOAD_MEMORY)_static: MEMORY_STATIC := -static
$(MEMORY_LINKED): $(MEMORY_SOURCES) $(EP_LIB) port/linux/memory.opt port/linux/link.opt
	@mkdir -p $(@D)
	$(PRELOAD_BASE) -I. -Icore $(filter %.c,$^) $(EP_LIB) $(EP_LDFLAGS) @port/linux/memory.opt $(MEMORY_STATIC) $(EP_LDLIBS) -o $@ 2>&1 | { ! grep -vE "in function|statically linked applications"; }
$(PRELOAD_MEMORY)_musl: $(MEMORY_SOURCES) $(BUILD)-musl/libedgeprof.a port/linux/memory.opt port/linux/link.opt
	@mkdir -p $(@D)
	$(PRELOAD_BASE) -I. -Icore $(LIBC_MUSL) $(filter %.c,$^) $(LIBC_MUSL_LIB) $(EP_LDFLAGS) @port/linux/memory.opt -static $(EP_LDLIBS) -o $@

# The same for writes; _next: the hooks are before the C library's functions for all libraries, as in .NET programs.
WRITES        := $(PRELOAD_DIR)/writes
WRITES_LINKED := $(addprefix $(WRITES)_,wrapped static next)
WRITES_MUSL   := $(if $(filter host,$(BOARD)),$(WRITES)_musl)
WRITES_ARM    := $(if $(filter host,$(BOARD)),$(foreach board,$(QEMU_BOARDS),build/$(board)/tests/linux/preload/writes_static))
WRITE_SOURCES := tests/linux/preload/writes.c tests/linux/preload/memory_linked.c
$(WRITES)_static: WRITES_OPTIONS := @port/linux/write.opt -static
$(WRITES)_wrapped: WRITES_OPTIONS := @port/linux/write.opt
$(WRITES)_next: WRITES_OPTIONS := @port/linux/write_next.opt -rdynamic
$(WRITES)_next: port/linux/preload_next_write.c
$(WRITES_LINKED): $(WRITE_SOURCES) $(EP_LIB) port/linux/write.opt port/linux/write_next.opt port/linux/link.opt
	@mkdir -p $(@D)
	$(PRELOAD_BASE) -I. -Icore $(filter %.c,$^) $(EP_LIB) $(EP_LDFLAGS) $(WRITES_OPTIONS) $(EP_LDLIBS) -o $@ 2>&1 | { ! grep -vE "in function|statically linked applications"; }
$(WRITES)_musl: $(WRITE_SOURCES) $(BUILD)-musl/libedgeprof.a port/linux/write.opt port/linux/link.opt
	@mkdir -p $(@D)
	$(PRELOAD_BASE) -I. -Icore $(LIBC_MUSL) $(filter %.c,$^) $(LIBC_MUSL_LIB) $(EP_LDFLAGS) @port/linux/write.opt -static $(EP_LDLIBS) -o $@
ifeq ($(BOARD),host)
$(WRITES_ARM): writes-arm
	@$(MAKE) --no-print-directory -s BOARD=$(word 2,$(subst /, ,$@)) $@
endif

# edgeprof as these tests call it: behind `edgeprof run` a witness judges the profile and the lines.
WITNESS := $(BUILD)/tests/linux/witness/edgeprof
$(WITNESS): tests/linux/witness/witness.py $(PRELOAD_LIB) $(BUILD)/edgeprof
	@mkdir -p $(@D)
	@ln -sf "$(abspath $(BUILD)/edgeprof)" $(@D)/edgeprof-real
	@cp $< $@

# Memory taken in many ways, some of them an allocator's own.
$(PRELOAD_DIR)/libpool.so: tests/linux/preload/pool.c
	@mkdir -p $(@D)
	$(PRELOAD_BASE) -Wno-missing-prototypes -fPIC -shared -fno-builtin $< -o $@
$(PRELOAD_DIR)/forms: tests/linux/preload/forms.c $(PRELOAD_DIR)/libpool.so
	@mkdir -p $(@D)
	$(PRELOAD_BASE) -fno-builtin $< -L$(@D) -lpool -Wl,-rpath,$(abspath $(@D)) -o $@

$(PRELOAD_DIR)/unhooked_plugin.so: tests/linux/preload/unhooked.c
	@mkdir -p $(@D)
	$(PRELOAD_BASE) -DPLUGIN -fPIC -shared $< -o $@

# It counts exactly what real programs allocate.
MEMORY_EXACT := $(PRELOAD_DIR)/exact.so
$(MEMORY_EXACT): tests/linux/preload/exact.c
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE -std=gnu11 -O2 -g -fPIC -shared $(WARNINGS) $(BOARD_CFLAGS) $< -o $@ -ldl -lgcc_s

.PHONY: test-preload-quick test-preload test-preload-memory test-preload-memory-seeds test-fork test-fork-postgres
test-preload-quick: $(PRELOAD_DIR)/steps $(PRELOAD_LIB)
	@tests/linux/preload/steps.py "$(abspath $(PRELOAD_LIB))" $<
	@tests/linux/preload/exits.py "$(abspath $(PRELOAD_LIB))"
test-preload: $(PRELOAD_PLAIN) $(PRELOAD_DIR)/inside_cpp $(PRELOAD_LIB) $(WITNESS)
	@tests/linux/preload/waits.py $(WITNESS) $(PRELOAD_DIR)/waits $(PRELOAD_DIR)
	@tests/linux/preload/inside.py $(WITNESS) $(PRELOAD_DIR)/inside $(PRELOAD_DIR)/inside_work 17
	@tests/linux/preload/inside.py $(WITNESS) $(PRELOAD_DIR)/inside_cpp $(PRELOAD_DIR)/inside_work 3
	@tests/linux/preload/inside.py $(WITNESS) $(PRELOAD_DIR)/asleep $(PRELOAD_DIR)/inside_work 4 700
	@tests/linux/preload/own.py $(WITNESS) $(PRELOAD_DIR)/calls $(PRELOAD_DIR)
	@tests/linux/preload/choice.py $(WITNESS) $(PRELOAD_DIR)/choice $(PRELOAD_DIR)/choices
	@tests/linux/preload/targets.py $(BUILD)/edgeprof $(PRELOAD_DIR)/targets
	@tests/linux/preload/ends.py $(WITNESS) $(PRELOAD_DIR)/main_exits
	@tests/linux/preload/threads.py $(WITNESS) $(PRELOAD_DIR)/threads
	@tests/linux/preload/sudden.py $(WITNESS) $(PRELOAD_DIR)/sudden
# Real programs, against a library that counts exactly, with $(1) seeds.
memory_exact = tests/linux/preload/memory_exact.py $(BUILD)/edgeprof $(MEMORY_LIB) $(MEMORY_EXACT) $(PRELOAD_DIR)/memory_exact $(1)
MEMORY_ALL  := $(PRELOAD_MEMORY) $(MEMORY_LINKED) $(MEMORY_MUSL) $(MEMORY_EXACT) $(PRELOAD_LIB) $(MEMORY_LIB) $(BUILD)/edgeprof
test-preload-memory: $(MEMORY_ALL) $(PRELOAD_DIR)/forms $(PRELOAD_DIR)/unhooked $(PRELOAD_DIR)/unhooked_plugin.so
	@tests/linux/preload/forms.py $(BUILD)/edgeprof $(PRELOAD_DIR)/memory_work 15 $(PRELOAD_DIR)/forms
	@tests/linux/preload/forms.py $(BUILD)/edgeprof $(PRELOAD_DIR)/memory_work 2 $(PRELOAD_DIR)/unhooked $(abspath $(PRELOAD_DIR))/unhooked_plugin.so
	@tests/linux/preload/memory.py $(BUILD)/edgeprof $(PRELOAD_MEMORY) $(PRELOAD_DIR)/memory_work 2 $(MEMORY_LINKED) $(MEMORY_MUSL)
	@tests/linux/preload/memory_programs.py $(BUILD)/edgeprof $(PRELOAD_MEMORY) $(PRELOAD_DIR)/memory_programs
	@tools/build/setup.sh apt build tools test programs
	@$(call memory_exact,1)
test-preload-memory-seeds: $(MEMORY_ALL)
	@tests/linux/preload/memory.py $(BUILD)/edgeprof $(PRELOAD_MEMORY) $(PRELOAD_DIR)/memory_seeds 20
	@tools/build/setup.sh apt build tools test programs
	@$(call memory_exact,20)
	@tests/linux/preload/memory_programs.py $(BUILD)/edgeprof $(PRELOAD_MEMORY) $(PRELOAD_DIR)/memory_leak 1200 10000

# writes.py with $(1) seeds; a static program of each ARM in qemu-user.
writes_run = tests/linux/preload/writes.py $(BUILD)/edgeprof $(WRITES) $(WRITES)_work $(1) $(WRITES_LINKED) $(WRITES_MUSL) \
    $(foreach program,$(WRITES_ARM),"$(if $(findstring aarch64,$(program)),qemu-aarch64,qemu-arm) $(program)")
.PHONY: test-preload-writes test-preload-writes-seeds writes-arm
test-preload-writes test-preload-writes-seeds: $(WRITES) $(WRITES_LINKED) $(WRITES_MUSL) $(WRITES_ARM) $(PRELOAD_LIB) $(BUILD)/edgeprof
test-preload-writes:
	@$(call writes_run,1)
test-preload-writes-seeds:
	@$(call writes_run,20)

# Processes that are forked without exec.
test-fork: $(PRELOAD_DIR)/workers $(PRELOAD_LIB) $(WITNESS)
	@tests/linux/preload/fork.py $(WITNESS) $< $(PRELOAD_DIR)/fork
	@tests/linux/preload/nginx.py $(WITNESS) $(PRELOAD_DIR)/nginx
test-fork-postgres: $(PRELOAD_LIB) $(BUILD)/edgeprof
	@tests/linux/preload/postgres.py $(BUILD)/edgeprof

# Programs that take for granted that they are alone: the last thread, a constructor's exit(), namespaces, filters.
$(PRELOAD_DIR)/coexist_plugin.so: tests/linux/preload/coexist_plugin.c
	@mkdir -p $(@D)
	$(PRELOAD_BASE) -fPIC -shared $< -o $@
$(PRELOAD_DIR)/coexist: tests/linux/preload/coexist_filter.c
$(PRELOAD_DIR)/coexist_linked: tests/linux/preload/coexist.c tests/linux/preload/coexist_filter.c $(EP_LIB) port/linux/link.opt
	@mkdir -p $(@D)
	$(PRELOAD_BASE) -I. -Icore -DLINKED $(filter %.c,$^) $(EP_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -ldl -o $@
.PHONY: test-coexist
test-coexist: $(PRELOAD_DIR)/coexist $(PRELOAD_DIR)/coexist_linked $(PRELOAD_DIR)/coexist_plugin.so $(PRELOAD_LIB) $(WITNESS)
	@tests/linux/preload/coexist.py $(WITNESS) $(PRELOAD_LIB) $(PRELOAD_DIR)/coexist $(PRELOAD_DIR)/coexist_linked $(PRELOAD_DIR)/coexist_plugin.so $(PRELOAD_DIR)/coexist.work
	@tests/linux/preload/filter_calls.py $(PRELOAD_LIB) $(PRELOAD_DIR)/coexist $(PRELOAD_DIR)/filter_calls.work
