# What serve takes from others, from whom, and what it fetches itself.

ET_INGEST_TESTS := test-tools-ingest test-tools-access
TESTS           += $(ET_INGEST_TESTS)
.PHONY: $(ET_INGEST_TESTS)

test-tools-ingest: $(ET_TEST)/edgeprof
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/ingest_test.py $(ET_TEST)/edgeprof

test-tools-access: $(ET_TEST)/edgeprof
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/access_test.py $(ET_TEST)/edgeprof
