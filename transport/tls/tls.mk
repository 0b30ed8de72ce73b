# libedgeprof-tls.a: https, with a copy of mbedtls of its own. A program links it beside libedgeprof.a when it calls
# ep_tls_setup().
#
# The copy is private: everything of it that is global is renamed, mbedtls_x to ep_mbedtls_x, and hidden. A program, or
# a shared library in it, has its own mbedtls with its own allocator beside it (test-tls-own).

TLS_LIB    := $(BUILD)/libedgeprof-tls.a
TLS_SRC    := $(wildcard transport/tls/*.c)
TLS_OBJ    := $(TLS_SRC:%.c=$(BUILD)/obj/%.o)
# What a client needs, by the order of its layers; what a file has that is not configured is not compiled.
MBEDTLS_NAMES := platform platform_util constant_time \
    aes base64 bignum bignum_core chacha20 chachapoly cipher cipher_wrap ecdh ecdsa ecp ecp_curves gcm md poly1305 rsa \
    rsa_alt_helpers sha1 sha256 sha512 \
    psa_crypto psa_crypto_aead psa_crypto_cipher psa_crypto_client psa_crypto_driver_wrappers_no_static psa_crypto_ecp \
    psa_crypto_hash psa_crypto_mac psa_crypto_rsa psa_crypto_slot_management psa_util \
    asn1parse asn1write oid pem pk pk_ecc pk_wrap pkparse x509 x509_crt \
    ssl_ciphersuites ssl_client ssl_msg ssl_tls ssl_tls12_client ssl_tls13_client ssl_tls13_generic ssl_tls13_keys
MBEDTLS_SRC := $(MBEDTLS_NAMES:%=$(MBEDTLS_DIR)/library/%.c)
MBEDTLS_OBJ := $(MBEDTLS_NAMES:%=$(BUILD)/obj/mbedtls/%.o)
TLS_CPPFLAGS := -isystem $(MBEDTLS_DIR)/include -Itransport/tls -DMBEDTLS_CONFIG_FILE='"ep_mbedtls_config.h"'

.PHONY: tls-lib
all: tls-lib
tls-lib: $(TLS_LIB)  ## $(BUILD)/libedgeprof-tls.a

$(TLS_OBJ): $(BUILD)/obj/%.o: %.c $(MAKE_SRC) transport/tls/tls.mk | $(GEN_HDR) $(MBEDTLS_SRC)
	@mkdir -p $(@D)
	$(call compile,$(TLS_CPPFLAGS) $(EP_CFLAGS) -fomit-frame-pointer -Os)

$(BUILD)/obj/mbedtls/%.o: $(MBEDTLS_DIR)/library/%.c transport/tls/ep_mbedtls_config.h $(MAKE_SRC) transport/tls/tls.mk
	@mkdir -p $(@D)
	$(call compile,$(TLS_CPPFLAGS) $(EP_CODEGEN) -fomit-frame-pointer -Os)

$(BUILD)/obj/mbedtls/ssl_tls12_client.o: transport/tls/ep_mbedtls_pss.h
$(BUILD)/obj/mbedtls/ssl_tls12_client.o: private TLS_CPPFLAGS += -I$(MBEDTLS_DIR)/library -include ep_mbedtls_pss.h

$(MBEDTLS_SRC) &:
	tools/setup.sh apt build
	tools/setup.sh deps

# Names of the library itself, ep_..., stay as they are.
$(TLS_LIB): $(TLS_OBJ) $(MBEDTLS_OBJ)
	@echo "  AR $@"; rm -f $@.new; $(AR) qcsD $@.new $^ && \
	    $(NM) -g --defined-only $^ | awk 'NF == 3 && $$3 !~ /^ep_/ { print $$3, "ep_" $$3 }' | sort -u >$@.names && \
	    $(OBJCOPY) -D --redefine-syms=$@.names $@.new && mv $@.new $@

-include $(TLS_OBJ:.o=.d) $(MBEDTLS_OBJ:.o=.d)

# ---- tests ----

TLS_TEST_DIR   := $(BUILD)/tests/tls
TLS_TEST_FLAGS := $(EP_CPPFLAGS) -std=c11 -O2 -g $(BOARD_CFLAGS) $(WARNINGS)
TLS_CLIENT     := $(TLS_TEST_DIR)/tls_client

$(TLS_CLIENT): tests/transport/tls_client.c $(TLS_LIB) $(EP_LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(TLS_TEST_FLAGS) $< $(EP_LIB) $(TLS_LIB) -Wl,--wrap=ep_port_unix_ns $(EP_LDFLAGS) $(EP_LDLIBS) -o $@
.PHONY: tls-client test-tls
tls-client: $(TLS_CLIENT)
TESTS += test-tls

test-tls: $(TLS_CLIENT)
	@tests/transport/tls_test.py $< $(TLS_TEST_DIR)/table -- $(BOARD_EXEC)
