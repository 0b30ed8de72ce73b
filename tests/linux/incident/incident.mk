# Incidents: a service with one slow request in 10,000.
INCIDENT_DIR := $(BUILD)/tests/linux/incident

$(INCIDENT_DIR)/slow: tests/linux/incident/slow.c $(EP_LIB) port/linux/link.opt
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS) $< $(EP_LIB) $(EP_LDFLAGS) -Wl,--build-id $(EP_LDLIBS) -o $@

.PHONY: test-incident
test-incident: $(INCIDENT_DIR)/slow $(BUILD)/edgeprof
	@tests/linux/incident/slow.py $(BUILD)/edgeprof $<

ifeq ($(BOARD),host)
INCIDENT_QEMU_aarch64 := qemu-aarch64 -L /usr/aarch64-linux-gnu
INCIDENT_QEMU_armhf   := qemu-arm -L /usr/arm-linux-gnueabihf
.PHONY: test-incident-arm
test-incident-arm: $(BUILD)/edgeprof
	@for arch in aarch64 armhf; do \
	    $(MAKE) --no-print-directory -s BOARD=qemu-$$arch build/qemu-$$arch/tests/linux/incident/slow || exit 1; done
	@tests/linux/incident/slow.py $(BUILD)/edgeprof build/qemu-aarch64/tests/linux/incident/slow $(INCIDENT_QEMU_aarch64)
	@tests/linux/incident/slow.py $(BUILD)/edgeprof build/qemu-armhf/tests/linux/incident/slow $(INCIDENT_QEMU_armhf)
endif

# What the history costs at level low.
$(INCIDENT_DIR)/cost: tests/linux/incident/cost.c $(UT_DIR)/plain/core.a $(UT_DIR)/plain/sim.a
	@mkdir -p $(@D)
	$(CC) $(UT_CPPFLAGS) -std=c11 -O2 -g $(WARNINGS) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -lpthread -ldl -lresolv -o $@
.PHONY: test-incident-cost
test-incident-cost: $(INCIDENT_DIR)/cost
	@tests/linux/incident/cost.py $< 100
