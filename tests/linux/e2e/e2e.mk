# End-to-end tests, from the program to the database, with real components.
E2E_WORKER := $(BUILD)/tests/linux/e2e/worker
$(E2E_WORKER): tests/linux/e2e/worker.c tests/linux/e2e/account.h core/edgeprof/edgeprof.h core/edgeprof/options.h core/edgeprof/tls.h $(EP_LIB) $(TLS_LIB)
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $< $(EP_LIB) $(TLS_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

test-server-gone: $(E2E_WORKER) $(BUILD)/edgeprof
	@tests/linux/e2e/server_gone.py $(BUILD)/edgeprof $(E2E_WORKER) $(BUILD)/tests/linux/e2e/gone

# Failures between device and server.
E2E_SERVICE := $(BUILD)/tests/linux/e2e/service
$(E2E_SERVICE): tests/linux/e2e/service.c tests/linux/e2e/account.h core/edgeprof/edgeprof.h core/edgeprof/options.h $(EP_LIB)
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $< $(EP_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

test-faults: $(E2E_SERVICE) $(BUILD)/edgeprof
	@tests/linux/e2e/faults.py $(BUILD)/edgeprof $(E2E_SERVICE) $(BUILD)/tests/linux/e2e/faults

# Over https to nginx in front of the server: a C program, one that was built without edgeprof, a .NET service.
test-https: $(E2E_WORKER) $(BUILD)/edgeprof $(PRELOAD_LIB) $(if $(NA_DOTNET),$(NA_LIFECYCLE))
	@tests/linux/e2e/https.py $(BUILD)/edgeprof $(E2E_WORKER) $(PRELOAD_LIB) $(BUILD)/tests/linux/e2e/https $(if $(NA_DOTNET),$(NA_LIFECYCLE))

# Answers that judge the sender or the way, not the profile.
E2E_DEVICE := $(BUILD)/tests/linux/e2e/device
$(E2E_DEVICE): tests/linux/e2e/device.c core/edgeprof/edgeprof.h core/edgeprof/options.h core/edgeprof/tls.h $(EP_LIB) $(TLS_LIB)
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $< $(EP_LIB) $(TLS_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

test-statuses: $(E2E_DEVICE) $(BUILD)/edgeprof
	@tests/linux/e2e/statuses.py $(BUILD)/edgeprof $(E2E_DEVICE) $(BUILD)/tests/linux/e2e/statuses
