# Real programs under the profiler, each compared with its run without. ROWS= names single ones.
PROGRAMS_FEW := redis nginx python-threading python-signal python-subprocess python-json python-queue php-fibers ruby-fibers qemu-system ripgrep
PROGRAMS := $(BUILD)/tests/long/programs

$(PROGRAMS)/stopwatch $(PROGRAMS)/work: $(PROGRAMS)/%: tests/long/programs/%.c
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS) $< -o $@ -lpthread -ldl

$(PROGRAMS)/linked: tests/long/programs/work.c tests/long/programs/linked.c $(EP_LIB)
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS) $^ -o $@ $(EP_LDFLAGS) $(EP_LDLIBS)

# edgeprof with its witness, which judges each run.
$(PROGRAMS)/edgeprof: $(WITNESS)
$(PROGRAMS)/edgeprof-real: $(BUILD)/edgeprof
$(PROGRAMS)/libedgeprof-preload.so: $(BUILD)/libedgeprof-preload.so
$(addprefix $(PROGRAMS)/,edgeprof edgeprof-real libedgeprof-preload.so):
	@mkdir -p $(@D)
	@cp $< $@

# The same with memory hooks: a folder in which the preload library has them.
$(PROGRAMS)/memory/%: $(PROGRAMS)/%
	@mkdir -p $(@D)
	@cp $< $@
$(PROGRAMS)/memory/libedgeprof-preload.so: $(MEMORY_LIB)
	@mkdir -p $(@D)
	@cp $< $@

test-programs-memory: $(addprefix $(PROGRAMS)/memory/,edgeprof edgeprof-real libedgeprof-preload.so stopwatch work linked)
	@tools/build/setup.sh apt build tools test programs
	@tests/long/programs/programs.py $(PROGRAMS)/memory $(ROWS)

$(PROGRAMS)/asleep: $(PRELOAD_DIR)/asleep
	@mkdir -p $(@D)
	@cp $< $@
test-waits-explained: $(addprefix $(PROGRAMS)/,edgeprof edgeprof-real libedgeprof-preload.so asleep)
	@tools/build/setup.sh apt build tools test programs
	@tests/long/programs/explained.py $(PROGRAMS) $(PROGRAMS)/explained

test-programs: ROWS ?= $(PROGRAMS_FEW)
test-programs test-programs-all: $(addprefix $(PROGRAMS)/,edgeprof edgeprof-real libedgeprof-preload.so stopwatch work linked)  ## real programs under the profiler; ROWS="redis gcc"
	@tools/build/setup.sh apt build tools test programs
	@tests/long/programs/programs.py $(PROGRAMS) $(ROWS)
