# Tests of transport/ and of the deliver thread, which uses it: each as the library is built, and with ASan and UBSan.

TRANSPORT_TEST_DIR   := $(BUILD)/tests/transport
TRANSPORT_TEST_FLAGS := $(EP_CPPFLAGS) -Itests/transport -std=c11 -g -fno-omit-frame-pointer $(WARNINGS)
TRANSPORT_SANITIZE   := -O1 -fsanitize=address,undefined,bounds-strict -fno-sanitize-recover=all
TRANSPORT_HTTP       := transport/http.c transport/http_url.c transport/http_response.c transport/push_pyroscope.c
TRANSPORT_CORPUS     := $(wildcard tests/transport/corpus/*)

TRANSPORT_test_http     := tests/transport/test_http.c tests/transport/script.c $(TRANSPORT_HTTP)
TRANSPORT_test_tcp      := tests/transport/test_tcp.c $(TRANSPORT_HTTP) transport/tcp.c
TRANSPORT_test_file     := tests/transport/test_file.c $(wildcard transport/*.c)
TRANSPORT_test_deliver  := tests/transport/test_deliver.c core/deliver.c core/outbox.c core/stats.c
TRANSPORT_fuzz_response := tests/transport/fuzz_response.c tests/transport/script.c $(TRANSPORT_HTTP)
TRANSPORT_CMOCKA        := test_http test_tcp test_file test_deliver
TRANSPORT_HEADERS       := $(wildcard transport/*.h tests/transport/*.h) $(wildcard core/*.h) port/port.h

TESTS += test-transport test-transport-readme test-own-nanopb test-fuzz-response

define transport_test
$(TRANSPORT_TEST_DIR)/$(1): $(TRANSPORT_$(1)) $(TRANSPORT_HEADERS)
	@mkdir -p $$(@D)
	@echo "  CC $$@"; $$(CC) $$(TRANSPORT_TEST_FLAGS) -O2 $(TRANSPORT_$(1)) -lcmocka -lpthread -o $$@
$(TRANSPORT_TEST_DIR)/$(1)-san: $(TRANSPORT_$(1)) $(TRANSPORT_HEADERS)
	@mkdir -p $$(@D)
	@echo "  CC $$@"; $$(CC) $$(TRANSPORT_TEST_FLAGS) $$(TRANSPORT_SANITIZE) $(TRANSPORT_$(1)) -lcmocka -lpthread -o $$@
endef
$(foreach t,$(TRANSPORT_CMOCKA),$(eval $(call transport_test,$(t))))

# Against the library itself.
$(TRANSPORT_TEST_DIR)/test_stop: tests/transport/test_stop.c $(EP_LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(TRANSPORT_TEST_FLAGS) -O2 $^ $(EP_LDFLAGS) $(EP_LDLIBS) -lcmocka -o $@

# A program with functions of nanopb's names, linked as usual and with unused sections removed.
$(TRANSPORT_TEST_DIR)/own_nanopb: TRANSPORT_LINK :=
$(TRANSPORT_TEST_DIR)/own_nanopb-gc: TRANSPORT_LINK := -Wl,--gc-sections
$(TRANSPORT_TEST_DIR)/own_nanopb $(TRANSPORT_TEST_DIR)/own_nanopb-gc: tests/transport/own_nanopb.c $(EP_LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(TRANSPORT_TEST_FLAGS) -O2 -no-pie $^ $(EP_LDFLAGS) $(TRANSPORT_LINK) $(EP_LDLIBS) -o $@

test-own-nanopb: $(TRANSPORT_TEST_DIR)/own_nanopb $(TRANSPORT_TEST_DIR)/own_nanopb-gc
	@EXEC='$(BOARD_EXEC)' tests/transport/own_nanopb.py $(NM) $^
	@echo "test-own-nanopb: $(words $^) programs passed"

# What the page tells users to write; with the options that it tells them to use, and all our warnings.
test-transport-readme: $(EP_LIB)
	@COMPILE='$(CC) $(BOARD_CFLAGS) -std=gnu11 -O2 -g -Icore -Iport -Itransport $(WARNINGS)' LINK='$(EP_LDFLAGS) $(EP_LDLIBS)' \
	    EXEC='$(BOARD_EXEC)' tests/transport/readme_transport.py $(TRANSPORT_TEST_DIR)/readme $(EP_LIB)
	@echo "test-transport-readme: transport/README.md says what is so"

.PHONY: test-transport-readme test-own-nanopb test-transport test-fuzz-response fuzz-response
test-transport: $(TRANSPORT_CMOCKA:%=$(TRANSPORT_TEST_DIR)/%) $(TRANSPORT_CMOCKA:%=$(TRANSPORT_TEST_DIR)/%-san) \
                $(TRANSPORT_TEST_DIR)/test_stop
	@set -e; for t in $^; do echo "$$t"; $(BOARD_EXEC) $$t; done
	@echo "test-transport: $(words $^) programs passed"

$(TRANSPORT_TEST_DIR)/replay_response: $(TRANSPORT_fuzz_response) tests/transport/replay.c $(TRANSPORT_HEADERS)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(TRANSPORT_TEST_FLAGS) $(TRANSPORT_SANITIZE) $(TRANSPORT_fuzz_response) tests/transport/replay.c -o $@

test-fuzz-response: $(TRANSPORT_TEST_DIR)/replay_response
	@printf 'test-fuzz-response: '; $(BOARD_EXEC) $< $(TRANSPORT_CORPUS)

# Open-ended: make fuzz-response, until ctrl-c. What it finds belongs into tests/transport/corpus.
FUZZ_SECONDS ?= 0
fuzz-response:
	@tools/setup.sh apt build demo fuzz
	@mkdir -p $(TRANSPORT_TEST_DIR)/corpus
	clang $(EP_CPPFLAGS) -Itests/transport -std=c11 -g -O1 -fsanitize=fuzzer,address,undefined \
	    $(TRANSPORT_fuzz_response) -o $(TRANSPORT_TEST_DIR)/fuzz_response
	$(TRANSPORT_TEST_DIR)/fuzz_response -max_total_time=$(FUZZ_SECONDS) $(TRANSPORT_TEST_DIR)/corpus tests/transport/corpus
