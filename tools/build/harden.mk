# Compiler and linker options that make a fault harder to use. docs/security.md says which part has which, and why;
# test-hardening checks the built files.
#
# A packager's CPPFLAGS, CFLAGS and LDFLAGS come after ours; `make deb` passes those of dpkg-buildflags. The static
# library ignores them: it has a limit of size, and no stack protector on its signal path.

# $(1): compiler. gcc 12 has level 3; glibc before 2.35 takes it for 2.
harden_level    = $(shell echo __GNUC__ | $(1) -E -P - 2>/dev/null | awk '{ print ($$1 >= 12) ? 3 : 2 }')
harden_fortify  = -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(1)
HARDEN_STACK   := -fstack-protector-strong -fstack-clash-protection
# Indirect jumps (IBT, BTI) and returns (shadow stack, signed addresses).
HARDEN_JUMPS_x86_64  := -fcf-protection=full
HARDEN_JUMPS_aarch64 := -mbranch-protection=standard
HARDEN_LINK    := -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack

# A lower level than ours does not count, nor an optimization level for the library.
USER_CPPFLAGS   = $(filter-out -D_FORTIFY_SOURCE=%,$(CPPFLAGS))
USER_CFLAGS     = $(CFLAGS)
USER_CFLAGS_SO  = $(filter-out -O% -fstack-protector%,$(CFLAGS))

# ---- the tool: always of the build machine ----

ET_CC          ?= gcc
ET_LEVEL       := $(call harden_level,$(ET_CC))
ET_HARDEN       = -ffile-prefix-map="$(CURDIR)"=. $(call harden_fortify,$(ET_LEVEL)) $(HARDEN_STACK) $(HARDEN_JUMPS_$(shell uname -m)) -fPIE \
                  $(USER_CPPFLAGS) $(USER_CFLAGS)
ET_LDFLAGS      = -pie $(HARDEN_LINK) $(LDFLAGS)

# ---- the preload library and libedgeprof.so, of BOARD ----

# Only jumps: a signed return address or a shadow stack would be the program's affair.
HARDEN_SO_x86_64  := -fcf-protection=branch
HARDEN_SO_aarch64 := -mbranch-protection=bti
SO_LEVEL       := $(call harden_level,$(CC))
# Rooms whose code runs in a program's signal handlers have no stack protector: its failure path prints and aborts,
# which is not allowed there, and it reads a thread's canary, which a thread that is starting or ending may not have.
# The code that reads what comes from outside has it.
SO_OUTER       := transport/% core/deliver/% core/encode/% core/features/spool/% core/features/pprof/% core/features/names/% core/features/notice/% core/features/token/% core/features/endpoint/% core/features/control/% core/features/pull/% core/environment/% $(wildcard core/features/*/environment.c) $(BUILD)/gen/% \
                  $(NANOPB_DIR)/% $(MBEDTLS_DIR)/%
# $(1): the source
so_harden       = -fstack-clash-protection $(HARDEN_SO_$(BOARD_ARCH)) \
                  $(if $(filter $(SO_OUTER),$(1)),-fstack-protector-strong $(call harden_fortify,$(SO_LEVEL))) \
                  $(USER_CPPFLAGS) $(USER_CFLAGS_SO)
SO_LDFLAGS      = $(HARDEN_LINK) $(LDFLAGS)

# Objects of other people, hidden, for both shared objects.
SO_DIR         := $(BUILD)/shared
SO_THIRD        = $(patsubst $(BUILD)/gen/%.c,$(SO_DIR)/gen/%.o,$(GEN_SRC)) $(SO_DIR)/nanopb/pb_common.o \
                  $(SO_DIR)/nanopb/pb_encode.o $(MBEDTLS_NAMES:%=$(SO_DIR)/mbedtls/%.o)
# The library once more, for the preload library.
SO_LIB         := $(SO_DIR)/libedgeprof.a
SO_OBJ          = $(EP_SRC:%.c=$(SO_DIR)/%.o) $(TLS_SRC:%.c=$(SO_DIR)/%.o)

$(SO_DIR)/gen/%.o: $(BUILD)/gen/%.c $(MAKE_SRC) | $(GEN_HDR)
	@mkdir -p $(@D)
	$(call compile,$(EP_CODEGEN) -fomit-frame-pointer -Os $(call so_harden,$<))
$(SO_DIR)/nanopb/%.o: $(NANOPB_DIR)/%.c $(MAKE_SRC)
	@mkdir -p $(@D)
	$(call compile,$(EP_CODEGEN) -fomit-frame-pointer -Os $(call so_harden,$<))
$(SO_DIR)/mbedtls/%.o: $(MBEDTLS_DIR)/library/%.c $(wildcard transport/tls/ep_mbedtls*.h) $(MAKE_SRC) transport/tls/tls.mk
	@mkdir -p $(@D)
	$(call compile,$(TLS_CPPFLAGS) $(TLS_MEND_$*) $(EP_CODEGEN) -fomit-frame-pointer -Os $(call so_harden,$<))
$(SO_DIR)/transport/tls/%.o: transport/tls/%.c $(MAKE_SRC) transport/tls/tls.mk | $(GEN_HDR)
	@mkdir -p $(@D)
	$(call compile,$(TLS_CPPFLAGS) $(EP_CFLAGS) -fomit-frame-pointer -Os $(call so_harden,$<))
$(SO_DIR)/%.o: %.c $(MAKE_SRC) | $(GEN_HDR)
	@mkdir -p $(@D)
	$(call compile,$(EP_CFLAGS) -fomit-frame-pointer $(call ep_speed,$<) $(call so_harden,$<))

.PHONY: print-hardening print-hardening-shared print-hardening-link
print-hardening:
	@echo '$(ET_HARDEN)'
print-hardening-shared:
	@echo '$(call so_harden,transport/http.c)'
print-hardening-link:
	@echo '$(ET_LDFLAGS)'

ifeq ($(BOARD),host)
.PHONY: test-hardening
test-hardening: $(BUILD)/edgeprof $(BUILD)/libedgeprof-preload.so $(BUILD)/libedgeprof-memory.so $(EP_LIB) | $(BUILD)/install/libedgeprof.so.$(EP_VERSION)
	@$(call host_test,hardened_test.py)
endif
