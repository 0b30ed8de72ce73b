# The library as a shared object for LD_PRELOAD. It excludes thread_wrap.c, because preload_threads.c interposes the function.
PRELOAD_LIB := $(BUILD)/libedgeprof-preload.so

# The same with hooks of malloc() and the like. A library of its own, so that nobody else pays for a call of each.
MEMORY_LIB  := $(BUILD)/libedgeprof-memory.so

preload: $(PRELOAD_LIB) $(MEMORY_LIB)  ## the profiler as preload libraries, for programs built without it
.PHONY: preload

MEMORY_OBJ  := $(SO_DIR)/port/linux/preload_memory.o $(SO_DIR)/port/linux/preload_next.o $(SO_DIR)/port/linux/preload_new.o
# Write hooks before the C library's functions; the preload libraries have their own.
WRITE_NEXT  := port/linux/preload_next_write.c
PRELOAD_OBJ := $(filter-out $(MEMORY_OBJ) $(WRITE_NEXT:%.c=$(SO_DIR)/%.o),$(patsubst %.c,$(SO_DIR)/%.o,$(wildcard port/linux/preload*.c)))

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
	$(CC) $(EP_CPPFLAGS) $(EP_CFLAGS) $(SO_MODULES) $(call so_harden,$<) -MMD -MP -c $< -o $@

-include $(PRELOAD_OBJ:.o=.d) $(MEMORY_OBJ:.o=.d) $(SO_OBJ:.o=.d) $(SO_THIRD:.o=.d)
