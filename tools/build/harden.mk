# Compiler and linker options that make a fault harder to use. docs/security.md says which part has which, and why;
# test-hardening checks the built files.
#
# A packager's CPPFLAGS, CFLAGS and LDFLAGS come after ours; `make deb` passes those of dpkg-buildflags. Those that would
# change the size of the static library or the failure paths of its signal path are left out, and the build names them.

# $(1): compiler. gcc 12 has level 3; glibc before 2.35 takes it for 2.
harden_level    = $(shell echo __GNUC__ | $(1) -E -P - 2>/dev/null | awk '{ print ($$1 >= 12) ? 3 : 2 }')
harden_fortify  = -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(1)
HARDEN_STACK   := -fstack-protector-strong -fstack-clash-protection
# Indirect jumps (IBT, BTI) and returns (shadow stack, signed addresses).
HARDEN_JUMPS_x86_64  := -fcf-protection=full
HARDEN_JUMPS_aarch64 := -mbranch-protection=standard
HARDEN_LINK    := -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack

# A lower level than ours does not count, nor an optimization level for the library.
FORTIFY_FLAGS  := -D_FORTIFY_SOURCE% -U_FORTIFY_SOURCE -Wp,-D_FORTIFY_SOURCE% -Wp,-U_FORTIFY_SOURCE
USER_CPPFLAGS   = $(filter-out $(FORTIFY_FLAGS),$(CPPFLAGS))
USER_CFLAGS     = $(filter-out $(FORTIFY_FLAGS),$(CFLAGS))
USER_CFLAGS_SO  = $(filter-out -O% -fstack-protector%,$(USER_CFLAGS))
# objcopy renames symbols in the archive, which code for link-time optimization does not survive.
AR_FLAGS_OUT   := $(FORTIFY_FLAGS) -O% -fstack-protector% -flto%
USER_FLAGS_AR   = $(filter-out $(AR_FLAGS_OUT),$(CPPFLAGS) $(CFLAGS))
AR_WITHOUT      = $(filter $(AR_FLAGS_OUT),$(CPPFLAGS) $(CFLAGS))

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
# Unwind tables of ARM refer to these only so that a linker takes libgcc's; ours need no libgcc_s on the device.
SO_LINK_arm    := $(foreach n,0 1 2,-Wl,--defsym=__aeabi_unwind_cpp_pr$(n)=0)
SO_LDFLAGS      = $(HARDEN_LINK) $(SO_LINK_$(BOARD_ARCH)) $(LDFLAGS)

# Objects of other people, hidden, for both shared objects.
SO_DIR         := $(BUILD)/shared
# Programs that are profiled as they are have more modules than those on devices: QEMU 60, Python with extensions 100.
# Memory has the same room besides.
SO_MODULES     := $(if $(findstring EP_MAX_MODULES,$(BOARD_CFLAGS)),,-DEP_MAX_MODULES=256 -DEP_MEMORY_DEFAULT=155648 -DEP_MEMORY_MIN=73728)
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
	$(call compile,$(TLS_CPPFLAGS) $(EP_CFLAGS) $(SO_MODULES) -fomit-frame-pointer -Os $(call so_harden,$<))
$(SO_DIR)/%.o: %.c $(MAKE_SRC) | $(GEN_HDR)
	@mkdir -p $(@D)
	$(call compile,$(EP_CFLAGS) $(SO_MODULES) -fomit-frame-pointer $(call ep_speed,$<) $(call so_harden,$<))

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
