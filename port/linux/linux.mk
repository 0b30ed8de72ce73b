# The library as a shared object for LD_PRELOAD. thread_wrap.c stays out: preload.c interposes the function instead.
PRELOAD_LIB := $(BUILD)/libedgeprof-preload.so

preload: $(PRELOAD_LIB)  ## the profiler as a preload library, for programs built without it
.PHONY: preload

PRELOAD_OBJ := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard port/linux/preload*.c))

$(PRELOAD_LIB): $(PRELOAD_OBJ) $(EP_LIB) $(TLS_LIB)
	$(CC) $(EP_CODEGEN) -shared -Wl,--gc-sections -Wl,-z,now -Wl,-z,nodelete -o $@ $^ $(EP_LDLIBS)

$(PRELOAD_OBJ): $(BUILD)/obj/%.o: %.c $(MAKE_SRC) | $(GEN_HDR)
	@mkdir -p $(@D)
	$(CC) $(EP_CPPFLAGS) $(EP_CFLAGS) -MMD -MP -c $< -o $@

-include $(PRELOAD_OBJ:.o=.d)

# Waits of a program that was built without edgeprof. With frame pointers or without: stacks are found by its tables.
PRELOAD_WAITS := $(BUILD)/tests/preload/waits
$(PRELOAD_WAITS): tests/preload/waits.c
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS) $< -o $@ -lpthread

.PHONY: test-preload
test-preload: $(PRELOAD_WAITS) $(PRELOAD_LIB) $(BUILD)/edgeprof
	@tests/preload/waits.py $(BUILD)/edgeprof $(PRELOAD_WAITS) $(BUILD)/tests/preload
TESTS += test-preload
