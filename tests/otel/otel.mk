# OpenTelemetry's contexts: what edgeprof publishes, read by another program, and spans of another tracer.
OTEL_DIR    := $(BUILD)/tests/otel
OTEL_CFLAGS := -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS)
OTEL_EXPORT := -Wl,--export-dynamic-symbol=otel_thread_ctx_v1

$(OTEL_DIR)/publisher: tests/otel/publisher.c $(EP_LIB) port/linux/link.opt
	@mkdir -p $(@D)
	$(CC) $(OTEL_CFLAGS) -fPIE $< $(EP_LIB) $(EP_LDFLAGS) $(OTEL_EXPORT) -Wl,--build-id $(EP_LDLIBS) -pie -o $@

# A program without edgeprof and its tracer.
$(OTEL_DIR)/libtracer.so: tests/linux/tracer.c tests/linux/tracer.h
	@mkdir -p $(@D)
	$(CC) $(OTEL_CFLAGS) -fPIC $(UT_TLS_desc) -shared $< -o $@
$(OTEL_DIR)/traced: tests/otel/traced.c $(OTEL_DIR)/libtracer.so
	$(CC) $(OTEL_CFLAGS) $< -L$(OTEL_DIR) -ltracer '-Wl,-rpath,$$ORIGIN' -o $@

ifeq ($(BOARD)/$(BOARD_ARCH),host/x86_64)
.PHONY: test-otel test-otel-arm test-otel-preload
$(call test,test-otel-preload,quick,120,shared,Samples of a program that was built without edgeprof carry the spans of its own tracer$(comma) and other programs know its service.)
test-otel-preload: $(OTEL_DIR)/traced $(PRELOAD_LIB) $(BUILD)/edgeprof
	@tests/otel/traced.py $(BUILD)/edgeprof $(abspath $(PRELOAD_LIB)) $< $(OTEL_DIR)/work
$(call test,test-otel,quick,120,shared,Another program finds service$(comma) span and labels of a running program in the bytes that OpenTelemetry specifies$(comma) also after fork and while they change.)
test-otel: $(OTEL_DIR)/publisher  ## OpenTelemetry's contexts, read by another program
	@tests/otel/otel.py $<
$(call test,test-otel-arm,all,300,shared,The bytes of OpenTelemetry's contexts are the same on 64-bit and 32-bit ARM.)
test-otel-arm:
	@set -e; for b in $(QEMU_BOARDS); do $(MAKE) -s --no-print-directory BOARD=$$b otel-bytes; done
.PHONY: test-otel-dotnet
$(call test,test-otel-dotnet,all,600,shared,Another program finds the span and labels of each thread of a .NET service$(comma) wherever the work goes.)
ifeq ($(shell command -v dotnet),)
test-otel-dotnet:
	@echo "SKIPPED: there is no .NET SDK on PATH"
else
$(call na_published,Published): $(wildcard tests/nativeaot/Published/*) $(NA_SOURCE) $(NA_LIB)
	$(NA_PUBLISH) tests/nativeaot/Published
	@touch $@
test-otel-dotnet: $(call na_published,Published)
	@tests/otel/dotnet.py $<
endif
else
.PHONY: otel-bytes
otel-bytes: $(OTEL_DIR)/publisher
	@tests/otel/otel.py $< $(BOARD_EXEC)
endif
