# Messages of devices to Pyroscope, and of the relay to four backends, recorded at the socket and checked against the
# receivers' rules. Each rule is also violated on purpose.

CF_DIR    := $(BUILD)/tests/linux/conformance
CF_DEVICE := $(CF_DIR)/device
CF_PPROF  := /usr/share/gocode/src/github.com/google/pprof/proto/profile.proto
CF_DOTNET := $(if $(NA_DOTNET),$(call na_one,Kinds))

# -rdynamic makes its functions dynamic symbols, except static ones.
$(CF_DEVICE): tests/linux/conformance/device.c core/edgeprof/edgeprof.h core/edgeprof/options.h $(EP_LIB)
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) -rdynamic $< $(EP_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

test-conformance: $(CF_DEVICE) $(CF_DOTNET)
	@$(PYTHON) tests/linux/conformance/self_test.py
	@$(PYTHON) tests/linux/conformance/run.py $(CF_DIR)/work tools/proto/push.proto $(CF_PPROF) $(CF_DEVICE) $(CF_DOTNET)

test-relay-conformance: $(ET_TEST)/edgeprof $(ET_SAMPLE)
	@$(PYTHON) tests/linux/conformance/relay_self_test.py
	@$(ET_RUN_ENV) $(PYTHON) tests/linux/conformance/relay_run.py $(ET_TEST)/edgeprof $(CF_DIR)/relay tools/proto $(CF_PPROF) $(ET_SAMPLE)
