# libedgeprof-tls.a: https, with a private copy of mbedtls. A program that calls ep_tls_setup() links it in addition to
# libedgeprof.a.
#
# All global names of the copy are renamed, mbedtls_x to ep_mbedtls_x, and hidden. So a program, or a shared library in
# it, may have its own mbedtls with its own allocator (test-tls-own).

TLS_LIB    := $(BUILD)/libedgeprof-tls.a
TLS_SRC    := $(wildcard transport/tls/*.c)
TLS_OBJ    := $(TLS_SRC:%.c=$(BUILD)/obj/%.o)
# The files that a client needs, by layers. Parts that are not configured are not compiled.
MBEDTLS_NAMES := platform platform_util constant_time \
    aes base64 bignum bignum_core chacha20 chachapoly cipher cipher_wrap ecdh ecdsa ecp ecp_curves gcm md poly1305 rsa \
    rsa_alt_helpers sha1 sha256 sha512 \
    psa_crypto psa_crypto_aead psa_crypto_cipher psa_crypto_client psa_crypto_driver_wrappers_no_static psa_crypto_ecp \
    psa_crypto_hash psa_crypto_mac psa_crypto_rsa psa_crypto_slot_management psa_util \
    asn1parse asn1write oid pem pk pk_ecc pk_wrap pkparse x509 x509_crt \
    ssl_ciphersuites ssl_client ssl_msg ssl_tls ssl_tls12_client ssl_tls13_client ssl_tls13_generic ssl_tls13_keys
MBEDTLS_SRC := $(MBEDTLS_NAMES:%=$(MBEDTLS_DIR)/library/%.c)
MBEDTLS_OBJ := $(MBEDTLS_NAMES:%=$(BUILD)/obj/mbedtls/%.o)
TLS_HEADERS := $(wildcard transport/tls/*.h transport/*.h)
TLS_TEST_DIR := $(BUILD)/tests/tls
TLS_CPPFLAGS := -isystem $(MBEDTLS_DIR)/include -Itransport/tls -DMBEDTLS_CONFIG_FILE='"ep_mbedtls_config.h"'
# Corrections of single files.
TLS_MEND_ssl_tls12_client := -I$(MBEDTLS_DIR)/library -include ep_mbedtls_pss.h
TLS_MEND_ssl_tls13_keys   := -I$(MBEDTLS_DIR)/library -include ep_mbedtls_leak.h
TLS_MEND_ssl_tls          := -I$(MBEDTLS_DIR)/library -include ep_mbedtls_chain.h
TLS_MEND_ssl_tls13_generic := -I$(MBEDTLS_DIR)/library -include ep_mbedtls_chain.h

.PHONY: tls-lib
all: $(if $(filter 0,$(BOARD_SOCKETS)),,tls-lib)
tls-lib: $(TLS_LIB)  ## $(BUILD)/libedgeprof-tls.a

# Threads of the program do not run it, so no stack of a profile leads through it: without the tables it is 40 KB smaller.
TLS_TABLES := -fno-unwind-tables -fno-asynchronous-unwind-tables

$(TLS_OBJ): $(BUILD)/obj/%.o: %.c $(MAKE_SRC) transport/tls/tls.mk | $(GEN_HDR) $(MBEDTLS_SRC)
	@mkdir -p $(@D)
	$(call compile,$(TLS_CPPFLAGS) $(EP_CFLAGS) -fomit-frame-pointer -Os $(TLS_TABLES) $(USER_FLAGS_AR))

$(BUILD)/obj/mbedtls/%.o: $(MBEDTLS_DIR)/library/%.c $(wildcard transport/tls/ep_mbedtls*.h) $(MAKE_SRC) transport/tls/tls.mk
	@mkdir -p $(@D)
	$(call compile,$(TLS_CPPFLAGS) $(TLS_MEND_$*) $(EP_CODEGEN) -fomit-frame-pointer -Os $(TLS_TABLES) $(USER_FLAGS_AR))

$(MBEDTLS_SRC) &:
	tools/build/setup.sh apt build
	tools/build/setup.sh deps

# The library's own names, ep_..., are not renamed.
$(TLS_LIB): $(TLS_OBJ) $(MBEDTLS_OBJ)
	@echo "  AR $@"; rm -f $@.new; $(AR) qcsD $@.new $^ && \
	    $(NM) -g --defined-only $^ | awk 'NF == 3 && $$3 !~ /^ep_/ { print $$3, "ep_" $$3 }' | sort -u >$@.names && \
	    $(OBJCOPY) -D --redefine-syms=$@.names $@.new && mv $@.new $@

-include $(TLS_OBJ:.o=.d) $(MBEDTLS_OBJ:.o=.d)

# ---- checks ----

# The whole library uses only symbols that libedgeprof.a may use, and defines none of mbedtls' names.
TLS_WHOLE := $(TLS_TEST_DIR)/whole.a
$(TLS_WHOLE): $(EP_LIB) $(TLS_LIB)
	@mkdir -p $(@D)
	@printf '%s\n' 'create $@' 'addlib $(EP_LIB)' 'addlib $(TLS_LIB)' save end | $(AR) -M
check-symbols-tls: $(TLS_WHOLE)
	@NM=$(NM) SIZE=$(SIZE) $(PYTHON) $(CHECKS)/symbols_check.py --allow $(CHECKS)/undefined_allow.txt --prefix ep_ __wrap_ \
	    otel_thread_ctx_v1 --data-max 4 --text-max 445000 $<

# ---- tests ----

TLS_TEST_FLAGS := $(EP_CPPFLAGS) -std=c11 -g $(BOARD_CFLAGS) $(WARNINGS)
TLS_CLIENT     := $(TLS_TEST_DIR)/tls_client
TLS_OWN        := $(TLS_TEST_DIR)/own_mbedtls $(TLS_TEST_DIR)/own_mbedtls-shared
TLS_FAULTS     := $(TLS_TEST_DIR)/tls_faults
TLS_ASAN       := -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
TLS_ASAN_OBJ   := $(patsubst transport/tls/%.c,$(TLS_TEST_DIR)/asan/%.o,$(filter-out %/arena.c,$(TLS_SRC))) \
                  $(MBEDTLS_NAMES:%=$(TLS_TEST_DIR)/asan/mbedtls/%.o)

$(TLS_CLIENT): tests/transport/tls_client.c $(TLS_LIB) $(EP_LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(TLS_TEST_FLAGS) -O2 $< $(EP_LIB) $(TLS_LIB) -Wl,--wrap=ep_port_unix_ns \
	    -Wl,--wrap=ep_mbedtls_ssl_handshake_step $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

# With Debian's mbedtls of another version, as an archive and as a shared library.
$(TLS_TEST_DIR)/own_mbedtls: TLS_OWN_LIB := -l:libmbedcrypto.a
$(TLS_TEST_DIR)/own_mbedtls-shared: TLS_OWN_LIB := -l:libmbedcrypto.so -rdynamic
$(TLS_OWN): tests/transport/own_mbedtls.c $(TLS_LIB) $(EP_LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(TLS_TEST_FLAGS) -O2 $< $(EP_LIB) $(TLS_LIB) $(EP_LDFLAGS) $(TLS_OWN_LIB) $(EP_LDLIBS) -o $@

$(TLS_TEST_DIR)/asan/%.o: transport/tls/%.c $(TLS_HEADERS)
	@mkdir -p $(@D)
	@echo "  CC $< (ASan)"; $(CC) $(TLS_CPPFLAGS) $(TLS_TEST_FLAGS) $(TLS_ASAN) -c $< -o $@
$(TLS_TEST_DIR)/asan/mbedtls/%.o: $(MBEDTLS_DIR)/library/%.c $(TLS_HEADERS)
	@mkdir -p $(@D)
	@echo "  CC $< (ASan)"; $(CC) $(TLS_CPPFLAGS) $(TLS_MEND_$*) $(TLS_ASAN) -c $< -o $@
$(TLS_FAULTS): tests/transport/tls_faults.c $(TLS_ASAN_OBJ) $(EP_LIB)
	@echo "  CC $@"; $(CC) $(TLS_CPPFLAGS) $(TLS_TEST_FLAGS) $(TLS_ASAN) $^ $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

# The transports' contract: tests/transport/tls_contract.py ends TLS before a far end that plays its parts.
TLS_CONTRACT := $(TLS_TEST_DIR)/tls_contract
$(TLS_CONTRACT): tests/transport/tls_contract.c tests/transport/far.c tests/transport/far_protocols.c \
                 $(wildcard transport/contract/*.[ch]) tests/transport/far.h $(EP_LIB) $(TLS_LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(TLS_TEST_FLAGS) -Itests/transport -Itransport/contract -O2 $(filter %.c %.a,$^) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

.PHONY: tls-client test-tls test-tls-own test-tls-faults test-tls-contract test-tls-arm check-symbols-tls bench-tls
tls-client: $(TLS_CLIENT)

test-tls: $(TLS_CLIENT)
	@EXEC='$(BOARD_EXEC)' tests/transport/tls_test.py $< $(TLS_TEST_DIR)/table --only '$(TLS_ONLY)'

test-tls-own: $(TLS_OWN)
	@for program in $^; do tests/transport/tls_more.py $(TLS_TEST_DIR)/own $$program || exit 1; done

TLS_FAULTS_STEP ?= 499
test-tls-faults: $(TLS_FAULTS)
	@tests/transport/tls_more.py $(TLS_TEST_DIR)/faults $< $(TLS_FAULTS_STEP)

test-tls-contract: $(TLS_CONTRACT)
	@tests/transport/tls_contract.py $< $(TLS_TEST_DIR)/contract

BENCHES += bench-tls
bench-tls: $(TLS_CLIENT)
	@tests/transport/tls_test.py $< $(TLS_TEST_DIR)/bench --figure tls_arena_peak_bytes

# The ARM boards' code, in qemu-user: arithmetic and sizes differ there.
ifeq ($(BOARD),host)
test-tls-arm: $(QEMU_BOARDS:%=test-tls-%)
$(QEMU_BOARDS:%=test-tls-%): test-tls-%:
	@$(MAKE) --no-print-directory -s BOARD=$* tls-client
	@$(MAKE) --no-print-directory -s BOARD=$* test-tls TLS_ONLY='^TLS 1.[23]|RSA 4096|^expired|bundle|^right pin|client certificate, -tls|records|resumed'
endif
