# The package's archives for musl: linux-musl-x64 and linux-musl-arm64, compiled with musl's headers (tests/long/libc/libc.mk), and a link
# test. `make nuget RIDS="... linux-musl-x64"` packs them.

NA_MUSL_RID_x86_64  := linux-musl-x64
NA_MUSL_RID_aarch64 := linux-musl-arm64
NA_MUSL_RID         := $(NA_MUSL_RID_$(BOARD_ARCH))

ifneq ($(NA_MUSL_RID),)
# $(1): target of this board's make with musl
na_musl_make = $(MAKE) --no-print-directory -s BOARD=$(BOARD) BUILD=$(BUILD)-musl BOARD_CFLAGS='$(BOARD_CFLAGS) $(LIBC_MUSL)' \
    BOARD_LDFLAGS=-Wl,--eh-frame-hdr NA_RID_$(BOARD_ARCH)=$(NA_MUSL_RID) $(1)
.PHONY: na-lib-musl na-hooks-musl
na-lib-musl: $(LIBC_SPECS)
	@$(call na_musl_make,na-lib)
na-hooks-musl: $(LIBC_SPECS)
	@$(call na_musl_make,na-hooks)
endif

ifeq ($(BOARD)/$(NA_RID),host/linux-x64)
$(NA_BUILD)/native/linux-musl-x64/libedgeprof.a: FORCE
	@mkdir -p $(@D) && $(MAKE) --no-print-directory -s na-lib-musl
	@cmp -s $(BUILD)-musl/nativeaot/native/linux-musl-x64/libedgeprof.a $@ || cp $(BUILD)-musl/nativeaot/native/linux-musl-x64/libedgeprof.a $@
$(NA_BUILD)/native/linux-musl-arm64/libedgeprof.a: FORCE
	@mkdir -p $(@D) && tools/build/setup.sh cross && $(MAKE) --no-print-directory -s BOARD=qemu-aarch64 na-lib-musl
	@cmp -s build/qemu-aarch64-musl/nativeaot/native/linux-musl-arm64/libedgeprof.a $@ || \
	    cp build/qemu-aarch64-musl/nativeaot/native/linux-musl-arm64/libedgeprof.a $@

# Linked with every hook, and run; on aarch64 in qemu-user.
.PHONY: test-nativeaot-musl test-nativeaot-musl-arm64
test-nativeaot-musl: $(BUILD)/edgeprof
	@$(MAKE) --no-print-directory -s na-hooks-musl
	@tests/dotnet/hooks.sh $(BUILD)/edgeprof $(BUILD)-musl/nativeaot/hooks $(NA_BUILD)/hooks-work/musl
test-nativeaot-musl-arm64: $(BUILD)/edgeprof
	@tools/build/setup.sh cross
	@$(MAKE) --no-print-directory -s BOARD=qemu-aarch64 na-hooks-musl
	@tests/dotnet/hooks.sh $(BUILD)/edgeprof build/qemu-aarch64-musl/nativeaot/hooks $(NA_BUILD)/hooks-work/musl-aarch64 \
	    qemu-aarch64 -L build/deps/arm64
endif
