# Tests of transport/ and of the deliver thread, which uses it: each as the library is built, and with ASan and UBSan.

TRANSPORT_TEST_DIR   := $(BUILD)/tests/transport
TRANSPORT_TEST_FLAGS := $(EP_CPPFLAGS) -Itests/transport -std=c11 -g -fno-omit-frame-pointer $(WARNINGS)
TRANSPORT_SANITIZE   := -O1 -g1 -fsanitize=address,undefined,bounds-strict -fno-sanitize-recover=all
TRANSPORT_HTTP       := transport/http.c transport/http_url.c transport/http_response.c \
                        transport/push_pyroscope.c transport/utf8.c

TRANSPORT_CMOCKA        := test_http test_tcp test_file test_deliver
TRANSPORT_HEADERS       := $(wildcard transport/*.h tests/transport/*.h) $(wildcard core/edgeprof/*.h)

# The rest comes from the unit tests' builds of the library; what a test defines itself is not taken from there.
# $(1): test, $(2): suffix, $(3): build of the unit tests, $(4): options
define transport_test
$(TRANSPORT_TEST_DIR)/$(1)$(2): tests/transport/$(1).c tests/transport/script.c $(BUILD)/tests/unit/$(3)/core.a $(TRANSPORT_HEADERS)
	@mkdir -p $$(@D)
	@echo "  CC $$@"; $$(CC) $$(TRANSPORT_TEST_FLAGS) $(4) $$(filter %.c %.a,$$^) -lcmocka -lpthread -lresolv -o $$@
endef
$(foreach t,$(TRANSPORT_CMOCKA),$(eval $(call transport_test,$(t),,plain,-O2))$(eval $(call transport_test,$(t),-san,asan,$(TRANSPORT_SANITIZE))))

# Linked with the library itself.
$(TRANSPORT_TEST_DIR)/test_stop: tests/transport/test_stop.c $(EP_LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(TRANSPORT_TEST_FLAGS) -O2 $^ $(EP_LDFLAGS) $(EP_LDLIBS) -lcmocka -o $@

# A program with its own nanopb, linked as usual and with unused sections removed.
$(TRANSPORT_TEST_DIR)/own_nanopb: TRANSPORT_LINK :=
$(TRANSPORT_TEST_DIR)/own_nanopb-gc: TRANSPORT_LINK := -Wl,--gc-sections
$(TRANSPORT_TEST_DIR)/own_nanopb $(TRANSPORT_TEST_DIR)/own_nanopb-gc: tests/transport/own_nanopb.c $(EP_LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(TRANSPORT_TEST_FLAGS) -O2 -no-pie $^ $(EP_LDFLAGS) $(TRANSPORT_LINK) $(EP_LDLIBS) -o $@

test-own-nanopb: $(TRANSPORT_TEST_DIR)/own_nanopb $(TRANSPORT_TEST_DIR)/own_nanopb-gc
	@EXEC='$(BOARD_EXEC)' tests/transport/own_nanopb.py $(NM) $^
	@echo "test-own-nanopb: $(words $^) programs passed"

# The contract test, on the included transports and on broken ones; also with ASan and UBSan.
TRANSPORT_CONTRACT := tests/transport/test_contract.c tests/transport/far.c tests/transport/far_protocols.c \
                      port/nativeaot/managed_transport.c $(wildcard transport/contract/*.c transport/examples/*.c)
TRANSPORT_CONTRACT_HEADERS := $(TRANSPORT_HEADERS) $(wildcard transport/contract/*.h) port/nativeaot/glue.h
$(TRANSPORT_TEST_DIR)/test_contract: TRANSPORT_WAY := -O2
$(TRANSPORT_TEST_DIR)/test_contract-san: TRANSPORT_WAY := $(TRANSPORT_SANITIZE)
$(TRANSPORT_TEST_DIR)/test_contract: $(BUILD)/tests/unit/plain/core.a
$(TRANSPORT_TEST_DIR)/test_contract-san: $(BUILD)/tests/unit/asan/core.a
$(TRANSPORT_TEST_DIR)/test_contract $(TRANSPORT_TEST_DIR)/test_contract-san: $(TRANSPORT_CONTRACT) $(TRANSPORT_CONTRACT_HEADERS)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(TRANSPORT_TEST_FLAGS) -Itransport/contract $(TRANSPORT_WAY) $(filter %.c %.a,$^) -lpthread -lresolv -o $@

test-transport-contract: $(TRANSPORT_TEST_DIR)/test_contract $(TRANSPORT_TEST_DIR)/test_contract-san
	@set -e; for t in $^; do $(BOARD_EXEC) $$t; done

# The programs of README.md, with the options that it names and all warnings.
test-transport-readme: $(EP_LIB)
	@COMPILE='$(CC) $(BOARD_CFLAGS) -std=gnu11 -O2 -g -Icore -I. $(WARNINGS)' LINK='$(EP_LDFLAGS) $(EP_LDLIBS)' \
	    EXEC='$(BOARD_EXEC)' tests/transport/readme_transport.py $(TRANSPORT_TEST_DIR)/readme $(EP_LIB)
	@echo "test-transport-readme: transport/README.md says what is so"

.PHONY: test-transport-contract test-transport-readme test-own-nanopb test-transport
test-transport: $(TRANSPORT_CMOCKA:%=$(TRANSPORT_TEST_DIR)/%) $(TRANSPORT_CMOCKA:%=$(TRANSPORT_TEST_DIR)/%-san) \
                $(TRANSPORT_TEST_DIR)/test_stop
	@set -e; for t in $^; do echo "$$t"; $(BOARD_EXEC) $$t; done
	@echo "test-transport: $(words $^) programs passed"
