# Profiles from other senders, access control, and scraping.

ET_INGEST_TESTS := test-tools-ingest test-tools-otlp test-tools-access test-tools-scrape

test-tools-ingest: $(ET_TEST)/edgeprof
	@$(call host_test,ingest_test.py)

test-tools-otlp: $(ET_TEST)/edgeprof
	@$(call host_test,otlp_test.py)

test-tools-access: $(ET_TEST)/edgeprof $(ET_SAMPLE)
	@$(call host_test,access_test.py)

ET_GO_TARGET := $(ET_TEST)/target-go
$(ET_GO_TARGET): tests/host/target.go
	@mkdir -p $(@D)
	GOFLAGS= GO111MODULE=off GOCACHE="$$PWD/$(ET_TEST)/go" go build -o $@ $<

# Its tests mostly wait: side by side they take the time of the longest.
test-tools-scrape: $(ET_TEST)/edgeprof $(ET_GO_TARGET) $(BUILD)/tests/pull/program
	@$(call host_test,scrape_test.py -n 5 --dist loadgroup)
