# OpenTelemetry's contexts: what edgeprof publishes, read by another program, and spans of another tracer.
OTEL_DIR    := $(BUILD)/tests/linux/otel
OTEL_CFLAGS := -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS)
OTEL_EXPORT := -Wl,--export-dynamic-symbol=otel_thread_ctx_v1

$(OTEL_DIR)/publisher: tests/linux/otel/publisher.c $(EP_LIB) port/linux/link.opt
	@mkdir -p $(@D)
	$(CC) $(OTEL_CFLAGS) -fPIE $< $(EP_LIB) $(EP_LDFLAGS) $(OTEL_EXPORT) -Wl,--build-id $(EP_LDLIBS) -pie -o $@

# A program without edgeprof and its tracer.
$(OTEL_DIR)/libtracer.so: tests/linux/tracer.c tests/linux/tracer.h
	@mkdir -p $(@D)
	$(CC) $(OTEL_CFLAGS) -fPIC $(UT_TLS_desc) -shared $< -o $@
$(OTEL_DIR)/traced: tests/linux/otel/traced.c $(OTEL_DIR)/libtracer.so
	$(CC) $(OTEL_CFLAGS) $< -L$(OTEL_DIR) -ltracer '-Wl,-rpath,$$ORIGIN' -o $@

ifeq ($(BOARD)/$(BOARD_ARCH),host/x86_64)
.PHONY: test-otel test-otel-arm
test-otel: $(OTEL_DIR)/publisher $(OTEL_DIR)/traced $(PRELOAD_LIB) $(BUILD)/edgeprof
	@tests/linux/otel/otel.py $<
	@tests/linux/otel/traced.py $(BUILD)/edgeprof "$(abspath $(PRELOAD_LIB))" $(OTEL_DIR)/traced $(OTEL_DIR)/work
test-otel-arm:
	@set -e; for b in $(QEMU_BOARDS); do $(MAKE) -s --no-print-directory BOARD=$$b otel-bytes; done
.PHONY: test-otel-dotnet
ifeq ($(shell command -v dotnet),)
test-otel-dotnet:
	@echo "SKIPPED: there is no .NET SDK on PATH"
else
test-otel-dotnet: $(call na_one,Published)
	@tests/linux/otel/dotnet.py $<
endif
else
.PHONY: otel-bytes
otel-bytes: $(OTEL_DIR)/publisher
	@tests/linux/otel/otel.py $< $(BOARD_EXEC)
endif
