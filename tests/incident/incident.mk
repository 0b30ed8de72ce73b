# Incidents: a service with one slow request in 10,000.
INCIDENT_DIR := $(BUILD)/tests/incident

$(INCIDENT_DIR)/slow: tests/incident/slow.c $(EP_LIB) port/linux/link.opt
	@mkdir -p $(@D)
	$(CC) -I. -Icore -Iport -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS) $< $(EP_LIB) $(EP_LDFLAGS) -Wl,--build-id $(EP_LDLIBS) -o $@

.PHONY: test-incident
$(call test,test-incident,quick,120,shared,Each slow request in 10$(comma)000 is captured and the incident says first what made it slow: a lock$(comma) a sleep$(comma) the disk$(comma) CPU time.)
test-incident: $(INCIDENT_DIR)/slow $(BUILD)/edgeprof
	@tests/incident/slow.py $(BUILD)/edgeprof $<

.PHONY: test-tools-webhook
$(call test,test-tools-webhook,quick,120,shared,The webhook is told of each incident once$(comma) within a rate and with bounded retries$(comma) and no sender waits for it.)
test-tools-webhook: $(ET_TEST)/edgeprof
	@$(call host_test,webhook_test.py)
