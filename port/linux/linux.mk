# The library as a shared object for LD_PRELOAD. It excludes thread_wrap.c, because preload.c interposes the function.
PRELOAD_LIB := $(BUILD)/libedgeprof-preload.so

# The same with hooks of malloc() and the like. A library of its own, so that nobody else pays for a call of each.
MEMORY_LIB  := $(BUILD)/libedgeprof-memory.so

preload: $(PRELOAD_LIB) $(MEMORY_LIB)  ## the profiler as preload libraries, for programs built without it
.PHONY: preload

MEMORY_OBJ  := $(SO_DIR)/port/linux/preload_memory.o $(SO_DIR)/port/linux/preload_next.o
PRELOAD_OBJ := $(filter-out $(MEMORY_OBJ),$(patsubst %.c,$(SO_DIR)/%.o,$(wildcard port/linux/preload*.c)))

$(PRELOAD_LIB): $(PRELOAD_OBJ) $(SO_LIB)
$(MEMORY_LIB): $(PRELOAD_OBJ) $(MEMORY_OBJ) $(SO_LIB)
$(MEMORY_LIB): MEMORY_OPTIONS := @port/linux/preload_next.opt
$(MEMORY_LIB): port/linux/preload_next.opt
$(PRELOAD_LIB) $(MEMORY_LIB):
	$(CC) $(EP_CODEGEN) -shared -Wl,--gc-sections $(MEMORY_OPTIONS) $(SO_LDFLAGS) -Wl,-z,nodelete -o $@ $(filter-out %.opt,$^) $(EP_LDLIBS)

$(SO_LIB): $(SO_OBJ) $(SO_THIRD)
	@echo "  AR $@"; rm -f $@; $(AR) qcsD $@ $^

$(PRELOAD_OBJ) $(MEMORY_OBJ): $(SO_DIR)/%.o: %.c $(MAKE_SRC) | $(GEN_HDR)
	@mkdir -p $(@D)
	$(CC) $(EP_CPPFLAGS) $(EP_CFLAGS) $(call so_harden,$<) -MMD -MP -c $< -o $@

-include $(PRELOAD_OBJ:.o=.d) $(MEMORY_OBJ:.o=.d) $(SO_OBJ:.o=.d) $(SO_THIRD:.o=.d)

# Waits of a program built without edgeprof, with and without frame pointers; its tables provide the stacks.
PRELOAD_WAITS  := $(BUILD)/tests/preload/waits
PRELOAD_CHOICE := $(BUILD)/tests/preload/choice
$(PRELOAD_WAITS) $(PRELOAD_CHOICE): $(BUILD)/tests/preload/%: tests/preload/%.c
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS) $< -o $@ -lpthread

.PHONY: test-preload test-preload-choice test-preload-targets
test-preload: $(PRELOAD_WAITS) $(PRELOAD_LIB) $(BUILD)/edgeprof
	@tests/preload/waits.py $(BUILD)/edgeprof $(PRELOAD_WAITS) $(BUILD)/tests/preload

# Memory of a program built without edgeprof.
PRELOAD_MEMORY := $(BUILD)/tests/preload/memory
$(PRELOAD_MEMORY): tests/preload/memory.c
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS) $< -o $@ -lpthread

# The same with the library linked in, also in a static program.
MEMORY_LINKED := $(PRELOAD_MEMORY)_wrapped $(PRELOAD_MEMORY)_static
$(PRELOAD_MEMORY)_static:  MEMORY_STATIC := -static
$(MEMORY_LINKED): tests/preload/memory.c tests/preload/memory_linked.c $(EP_LIB) port/linux/memory.opt port/linux/link.opt
	@mkdir -p $(@D)
	$(CC) -I. -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS) $(filter %.c,$^) $(EP_LIB) $(EP_LDFLAGS) @port/linux/memory.opt $(MEMORY_STATIC) $(EP_LDLIBS) -o $@ 2>&1 | { ! grep -vE "in function|statically linked applications"; }

# musl's calloc() and realloc() call its malloc().
MEMORY_MUSL := $(if $(filter host,$(BOARD)),$(PRELOAD_MEMORY)_musl)
$(PRELOAD_MEMORY)_musl: tests/preload/memory.c tests/preload/memory_linked.c $(BUILD)-musl/libedgeprof.a port/linux/memory.opt port/linux/link.opt
	@mkdir -p $(@D)
	$(CC) -I. -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS) $(LIBC_MUSL) $(filter %.c,$^) $(LIBC_MUSL_LIB) $(EP_LDFLAGS) @port/linux/memory.opt -static $(EP_LDLIBS) -o $@

.PHONY: test-preload-memory test-preload-memory-seeds
test-preload-memory: $(PRELOAD_MEMORY) $(MEMORY_LINKED) $(MEMORY_MUSL) $(PRELOAD_LIB) $(MEMORY_LIB) $(BUILD)/edgeprof
	@tests/preload/memory.py $(BUILD)/edgeprof $(PRELOAD_MEMORY) $(BUILD)/tests/preload/memory_work 2 $(MEMORY_LINKED) $(MEMORY_MUSL)
test-preload-memory-seeds: $(PRELOAD_MEMORY) $(PRELOAD_LIB) $(MEMORY_LIB) $(BUILD)/edgeprof
	@tests/preload/memory.py $(BUILD)/edgeprof $(PRELOAD_MEMORY) $(BUILD)/tests/preload/memory_seeds 20

# Real programs, against a library that counts exactly.
MEMORY_EXACT := $(BUILD)/tests/preload/exact.so
$(MEMORY_EXACT): tests/preload/exact.c
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE -std=gnu11 -O2 -g -fPIC -shared $(WARNINGS) $(BOARD_CFLAGS) $< -o $@ -ldl -lgcc_s
.PHONY: test-preload-memory-exact test-preload-memory-exact-seeds
test-preload-memory-exact: $(MEMORY_EXACT) $(MEMORY_LIB) $(BUILD)/edgeprof
	@tools/build/setup.sh apt build tools test programs
	@tests/preload/memory_exact.py $(BUILD)/edgeprof $(MEMORY_LIB) $< $(BUILD)/tests/preload/memory_exact 1
test-preload-memory-exact-seeds: $(MEMORY_EXACT) $(MEMORY_LIB) $(BUILD)/edgeprof
	@tools/build/setup.sh apt build tools test programs
	@tests/preload/memory_exact.py $(BUILD)/edgeprof $(MEMORY_LIB) $< $(BUILD)/tests/preload/memory_exact 20

.PHONY: test-preload-memory-programs test-preload-memory-leak
test-preload-memory-programs: $(PRELOAD_MEMORY) $(MEMORY_LIB) $(BUILD)/edgeprof
	@tests/preload/memory_programs.py $(BUILD)/edgeprof $(PRELOAD_MEMORY) $(BUILD)/tests/preload/memory_programs
test-preload-memory-leak: $(PRELOAD_MEMORY) $(MEMORY_LIB) $(BUILD)/edgeprof
	@tests/preload/memory_programs.py $(BUILD)/edgeprof $(PRELOAD_MEMORY) $(BUILD)/tests/preload/memory_leak 1200 10000

# What the hooks cost.
PRELOAD_COST := $(BUILD)/tests/preload/calls $(BUILD)/tests/preload/steps
$(PRELOAD_COST): $(BUILD)/tests/preload/%: tests/preload/%.c
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS) $< -o $@ -lpthread -ldl

.PHONY: test-preload-steps test-preload-own
test-preload-steps: $(BUILD)/tests/preload/steps $(PRELOAD_LIB)
	@tests/preload/steps.py $(abspath $(PRELOAD_LIB)) $<
test-preload-own: $(BUILD)/tests/preload/calls $(PRELOAD_LIB) $(BUILD)/edgeprof
	@tests/preload/own.py $(BUILD)/edgeprof $< $(BUILD)/tests/preload

# The process ends with the program's last thread, not with edgeprof's.
PRELOAD_MAIN_EXITS := $(BUILD)/tests/preload/main_exits
$(PRELOAD_MAIN_EXITS): tests/preload/main_exits.c
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS) $< -o $@ -lpthread

.PHONY: test-preload-end
test-preload-end: $(PRELOAD_MAIN_EXITS) $(PRELOAD_LIB) $(BUILD)/edgeprof
	@for level in low high; do for threads in 0 1 9; do \
	    timeout -s KILL 60 $(BUILD)/edgeprof run --level $$level -- $< $$threads >$<.out 2>&1; status=$$?; \
	    grep -q "^at exit: all $$threads" $<.out && { [ $$status = 0 ] || [ $$status = 3 ]; } || \
	        { cat $<.out; echo "$@: level $$level, $$threads threads: status $$status" >&2; exit 1; }; \
	done; done; echo "$@: 6 programs ended with their last thread"
	@for i in 1 2 3 4 5 6; do timeout -s KILL 60 $(BUILD)/edgeprof run --level high -- \
	    sh -c 'i=0; while [ $$i -lt 200000 ]; do i=$$((i + 1)); done' >$<.out 2>&1 && grep -q 'cpu:' $<.out || \
	    { cat $<.out; echo "$@: dash ends by _exit(): its profile is lost" >&2; exit 1; }; done
# Short processes do not wait long for a server that does not answer.
.PHONY: test-preload-exits
test-preload-exits: $(PRELOAD_LIB)
	@tests/preload/exits.py $(abspath $(PRELOAD_LIB))
test-preload-choice: $(PRELOAD_CHOICE) $(PRELOAD_LIB) $(BUILD)/edgeprof
	@tests/preload/choice.py $(BUILD)/edgeprof $(PRELOAD_CHOICE) $(BUILD)/tests/preload/choices

# Programs that are difficult or impossible to preload into.
test-preload-targets: $(PRELOAD_LIB) $(BUILD)/edgeprof
	@tests/preload/targets.py $(BUILD)/edgeprof $(BUILD)/tests/preload/targets

# Processes that are forked without exec.
FORK_WORKERS := $(BUILD)/tests/fork/workers
$(FORK_WORKERS): tests/fork/workers.c
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS) $< -o $@ -lpthread

.PHONY: test-fork test-fork-nginx test-fork-postgres
test-fork: $(FORK_WORKERS) $(PRELOAD_LIB) $(BUILD)/edgeprof
	@tests/fork/fork.py $(BUILD)/edgeprof $(FORK_WORKERS) $(BUILD)/tests/fork
test-fork-nginx: $(PRELOAD_LIB) $(BUILD)/edgeprof
	@tests/fork/nginx.py $(BUILD)/edgeprof $(BUILD)/tests/fork/nginx
test-fork-postgres: $(PRELOAD_LIB) $(BUILD)/edgeprof
	@tests/fork/postgres.py $(BUILD)/edgeprof
