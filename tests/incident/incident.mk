# Incidents: a service with one slow request in 10,000.
INCIDENT_DIR := $(BUILD)/tests/incident

$(INCIDENT_DIR)/slow: tests/incident/slow.c $(EP_LIB) port/linux/link.opt
	@mkdir -p $(@D)
	$(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS) $< $(EP_LIB) $(EP_LDFLAGS) -Wl,--build-id $(EP_LDLIBS) -o $@

.PHONY: test-incident
$(call test,test-incident,quick,120,shared,Each slow request in 10$(comma)000 is captured and the incident says first what made it slow: a lock$(comma) a sleep$(comma) the disk$(comma) CPU time.)
test-incident: $(INCIDENT_DIR)/slow $(BUILD)/edgeprof
	@tests/incident/slow.py $(BUILD)/edgeprof $<

ifeq ($(BOARD),host)
INCIDENT_QEMU_aarch64 := qemu-aarch64 -L /usr/aarch64-linux-gnu
INCIDENT_QEMU_armhf   := qemu-arm -L /usr/arm-linux-gnueabihf
.PHONY: test-incident-arm
$(call test,test-incident-arm,own,600,shared,Each slow request is captured with its reason on both ARMs$(comma) in qemu-user.)
test-incident-arm: $(BUILD)/edgeprof
	@for arch in aarch64 armhf; do \
	    $(MAKE) --no-print-directory -s BOARD=qemu-$$arch build/qemu-$$arch/tests/incident/slow || exit 1; done
	@tests/incident/slow.py $(BUILD)/edgeprof build/qemu-aarch64/tests/incident/slow $(INCIDENT_QEMU_aarch64)
	@tests/incident/slow.py $(BUILD)/edgeprof build/qemu-armhf/tests/incident/slow $(INCIDENT_QEMU_armhf)
endif

.PHONY: test-tools-webhook
$(call test,test-tools-webhook,quick,120,shared,The webhook is told of each incident once$(comma) within a rate and with bounded retries$(comma) and no sender waits for it.)
test-tools-webhook: $(ET_TEST)/edgeprof
	@$(call host_test,webhook_test.py)

# What the history costs at level low.
$(INCIDENT_DIR)/cost: tests/incident/cost.c $(UT_DIR)/plain/core.a $(UT_DIR)/plain/sim.a
	@mkdir -p $(@D)
	$(CC) $(UT_CPPFLAGS) -std=c11 -O2 -g $(WARNINGS) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -lpthread -ldl -lresolv -o $@
.PHONY: test-incident-cost
$(call test,test-incident-cost,own,120,shared,The history costs a busy processor at most 100 ppm for CPU samples at level low$(comma) by counting instructions.)
test-incident-cost: $(INCIDENT_DIR)/cost
	@tests/incident/cost.py $< 100
