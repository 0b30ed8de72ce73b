# Starts and stops under load: no part of the profiler is used after a stop. TSan finds errors that do not crash.
STOP_STORM := $(UT_DIR)/plain/stop_storm
STOP_TSAN  := $(UT_DIR)/tsan/stop_storm

$(STOP_STORM) $(STOP_TSAN): $(UT_DIR)/%/stop_storm: $(UT_DIR)/%/tests/linux/stop/stop_storm.o $(UT_DIR)/%/core.a $(UT_DIR)/%/linux.a
	$(CC) $(UT_BASE) $(UT_$*) -o $@ $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(EP_LDFLAGS) $(EP_LDLIBS) -lresolv

.PHONY: test-stop
test-stop: $(STOP_STORM) $(STOP_TSAN)
	@$(STOP_STORM) 3000
	@TSAN_OPTIONS=halt_on_error=1 $(STOP_TSAN) 300

# Takes about ten minutes.
STOPS := 100000
stop-storm: $(STOP_STORM) $(STOP_TSAN) $(NA_LIFECYCLE)  ## STOPS=100000 starts and stops under load, in C, under TSan and in .NET
	$(STOP_STORM) $(STOPS)
	TSAN_OPTIONS=halt_on_error=1 $(STOP_TSAN) $$(($(STOPS) / 10))
	$(if $(NA_LIFECYCLE),$(NA_LIFECYCLE) storm "$(abspath $(NA_BUILD))" $$(($(STOPS) / 20)))
