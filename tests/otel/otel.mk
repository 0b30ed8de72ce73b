# OpenTelemetry's contexts: what edgeprof publishes, read by another program, and spans of another tracer.
OTEL_DIR    := $(BUILD)/tests/otel
OTEL_CFLAGS := -I. -Icore -Iport -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS)
OTEL_EXPORT := -Wl,--export-dynamic-symbol=otel_thread_ctx_v1

$(OTEL_DIR)/publisher: tests/otel/publisher.c $(EP_LIB) port/linux/link.opt
	@mkdir -p $(@D)
	$(CC) $(OTEL_CFLAGS) -fPIE $< $(EP_LIB) $(EP_LDFLAGS) $(OTEL_EXPORT) -Wl,--build-id $(EP_LDLIBS) -pie -o $@

ifeq ($(BOARD)/$(BOARD_ARCH),host/x86_64)
.PHONY: test-otel test-otel-arm
$(call test,test-otel,quick,120,shared,Another program finds service$(comma) span and labels of a running program in the bytes that OpenTelemetry specifies$(comma) also after fork and while they change.)
test-otel: $(OTEL_DIR)/publisher  ## OpenTelemetry's contexts, read by another program
	@tests/otel/otel.py $<
$(call test,test-otel-arm,all,300,shared,The bytes of OpenTelemetry's contexts are the same on 64-bit and 32-bit ARM.)
test-otel-arm:
	@set -e; for b in $(QEMU_BOARDS); do $(MAKE) -s --no-print-directory BOARD=$$b otel-bytes; done
else
.PHONY: otel-bytes
otel-bytes: $(OTEL_DIR)/publisher
	@tests/otel/otel.py $< $(BOARD_EXEC)
endif
