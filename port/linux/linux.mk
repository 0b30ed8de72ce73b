# The library as a shared object for LD_PRELOAD. thread_wrap.c stays out: preload.c interposes the function instead.
PRELOAD_LIB := $(BUILD)/libedgeprof-preload.so

preload: $(PRELOAD_LIB)  ## the profiler as a preload library, for programs built without it
.PHONY: preload

$(PRELOAD_LIB): $(BUILD)/obj/port/linux/preload.o $(EP_LIB)
	$(CC) $(EP_CODEGEN) -shared -Wl,--gc-sections -Wl,-z,now -Wl,-z,nodelete -o $@ $^ $(EP_LDLIBS)

$(BUILD)/obj/port/linux/preload.o: port/linux/preload.c $(MAKE_SRC) | $(GEN_HDR)
	@mkdir -p $(@D)
	$(CC) $(EP_CPPFLAGS) $(EP_CFLAGS) -MMD -MP -c $< -o $@

-include $(BUILD)/obj/port/linux/preload.d
