# One C program with each C library on each architecture: linked with edgeprof (dynamic and static glibc and musl), and
# with the preload library (glibc only). table.py compares its profiles with what it did. ARM runs on whole machines in
# QEMU, because qemu-user cannot fork a program with threads.

LIBC_DIR    := $(BUILD)/tests/long/libc
LIBC_CFLAGS := -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS)
LIBC_LDLIBS := $(EP_LDFLAGS) $(BOARD_LDFLAGS) -Wl,--build-id $(EP_LDLIBS)

# musl: Debian's package of this architecture, with this board's compiler.
ifeq ($(BOARD),host)
LIBC_SPECS := $(firstword $(wildcard /usr/lib/*-linux-musl*/musl-gcc.specs) /usr/lib/musl/musl-gcc.specs)
LIBC_CRT   := $(dir $(LIBC_SPECS))
LIBC_MUSL  := -specs=$(LIBC_SPECS) -idirafter /usr/include -idirafter /usr/include/$(shell gcc -dumpmachine 2>/dev/null)
else
LIBC_SPECS := $(MUSL_DIR)musl.specs
LIBC_MUSL  := -specs=$(LIBC_SPECS) -idirafter $(BOARD_SYSROOT)/include
# By the shell, because a tree that lacks them gets them while make runs.
LIBC_SO     = $(shell ls $(MUSL_DIR)lib/*-linux-musl*/libc.so)
LIBC_LD     = $(notdir $(shell ls $(MUSL_DIR)lib/ld-musl-*.so.1))
.PHONY: libc-cross
libc-cross:
	@tools/build/setup.sh cross
libc-musl: libc-cross
endif
LIBC_MUSL_LIB := $(BUILD)-musl/libedgeprof.a

# On 32 bits also with a 64-bit time_t, for which glibc has functions of other names.
LIBC_TIME64 := $(if $(filter arm,$(BOARD_ARCH)),time64-)
LIBC_GLIBC  := $(foreach t,glibc- $(LIBC_TIME64:%=glibc-%),$(t)dynamic $(t)static $(t)preload)
LIBC_NAMES  := $(LIBC_GLIBC) musl-static $(if $(filter host,$(BOARD)),musl-static-pie) musl-dynamic
LIBC_ALL    := $(LIBC_NAMES:%=$(LIBC_DIR)/%)
$(filter %-static,$(LIBC_ALL)): LIBC_LINK := -static
$(LIBC_DIR)/musl-dynamic: LIBC_LINK = $(addprefix -L,$(dir $(LIBC_SO)))
# musl's specs cannot link a static program that is independent of its position.
$(LIBC_DIR)/musl-static-pie: LIBC_LINK = -fPIE -static -nostartfiles -Wl,-pie,--no-dynamic-linker $(LIBC_CRT)rcrt1.o $(LIBC_CRT)crti.o \
    $(shell gcc -print-file-name=crtbeginS.o) $(shell gcc -print-file-name=crtendS.o) $(LIBC_CRT)crtn.o
$(filter $(LIBC_DIR)/glibc-time64-%,$(LIBC_ALL)): LIBC_TIME := -D_TIME_BITS=64 -D_FILE_OFFSET_BITS=64

.PHONY: libc-musl
libc-musl: $(LIBC_SPECS)
	@$(MAKE) --no-print-directory BOARD=$(BOARD) BUILD=$(BUILD)-musl BOARD_CFLAGS='$(BOARD_CFLAGS) $(LIBC_MUSL)' lib
$(LIBC_MUSL_LIB): libc-musl ;

$(filter %-preload,$(LIBC_ALL)): tests/long/libc/program.c tests/long/libc/libc.mk
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(LIBC_CFLAGS) $(LIBC_TIME) $< -Wl,--build-id -lpthread -o $@
$(filter %-dynamic %-static,$(filter $(LIBC_DIR)/glibc-%,$(LIBC_ALL))): tests/long/libc/program.c tests/long/libc/libc.mk $(EP_LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(LIBC_CFLAGS) $(LIBC_TIME) -DLINKED $< $(EP_LIB) $(LIBC_LINK) $(LIBC_LDLIBS) -o $@
$(filter $(LIBC_DIR)/musl-%,$(LIBC_ALL)): tests/long/libc/program.c tests/long/libc/libc.mk $(LIBC_MUSL_LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(LIBC_CFLAGS) $(LIBC_MUSL) -DLINKED $< $(LIBC_MUSL_LIB) $(LIBC_LINK) $(LIBC_LDLIBS) -o $@

# The C library's code without tables against truth, by single-stepping: tests/arm/shadow/shadow.h.
ifeq ($(BOARD)/$(BOARD_ARCH),host/x86_64)
LIBC_SHADOW := $(LIBC_DIR)/shadow
$(LIBC_SHADOW): $(wildcard tests/arm/shadow/*.[ch]) tests/arm/variety.c tests/long/libc/libc.mk $(LIBC_MUSL_LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(LIBC_CFLAGS) $(LIBC_MUSL) -fPIC -fomit-frame-pointer $(filter-out %_aarch64.c,$(filter %.c,$^)) $(LIBC_MUSL_LIB) $(LIBC_LDLIBS) -o $@
.PHONY: test-shadow-musl
# Without an environment and, where the system allows it, at fixed addresses: main's frame is then so near to the stack's
# end that a word 0 which is no return address would pass for the root's.
test-shadow-musl: $(LIBC_SHADOW)
	@env -i $$(setarch -R true 2>/dev/null && echo setarch -R) $< core $<.places >$<.figures && cat $<.figures
	@tests/arm/shadow/report.py $<.places $< --honest $<.figures --need exact_steps_c_x86_64_pct=99.5 && echo "$@: no wrong stack calls itself exact"
endif

.PHONY: libc-rows
ifeq ($(BOARD),host)
.PHONY: test-libc-table test-libc-table-arm
test-libc-table: libc-rows  ## CPU time, stacks and waits with each C library
	@tests/long/libc/table.py show build/host/tests/long/libc/rows.json
test-libc-table-arm: $(BUILD)/edgeprof  ## the same on ARM
	@set -e; for b in $(QEMU_BOARDS); do $(MAKE) --no-print-directory BOARD=$$b QEMU_TOOL=$< libc-rows; done
	@tests/long/libc/table.py show $(QEMU_BOARDS:%=build/%/tests/long/libc/rows.json)
libc-rows: $(LIBC_ALL) $(PRELOAD_LIB) $(BUILD)/edgeprof
	@tests/long/libc/table.py run --arch $(BOARD_ARCH) --edgeprof $(BUILD)/edgeprof --dir $(LIBC_DIR) --preload "$(abspath $(PRELOAD_LIB))" $(LIBC_NAMES)
else
$(LIBC_DIR)/initrd.gz: tests/arm/qemu/initramfs.py $(QEMU_DIR)/init $(LIBC_ALL) $(PRELOAD_LIB) tests/long/libc/libc.mk
	@for n in $(LIBC_NAMES); do \
	    case $$n in *-preload) set -- LD_PRELOAD=/lib/$(notdir $(PRELOAD_LIB)) EDGEPROF_LEVEL=high EDGEPROF_ENDPOINT=file:///tmp/$$n /bin/$$n ;; \
	    *) set -- /bin/$$n file:///tmp/$$n ;; esac; echo "$$n 300 $$*"; echo "show $$n /tmp/$$n"; done >$(LIBC_DIR)/jobs
	@$(PYTHON) $< $@ init=$(QEMU_DIR)/init jobs=$(LIBC_DIR)/jobs $(foreach l,$(QEMU_LIBS) $(PRELOAD_LIB),lib/$(notdir $(l))=$(l)) \
	    lib/$(LIBC_LD)=$(LIBC_SO) $(foreach p,$(LIBC_ALL),bin/$(notdir $(p))=$(p))
libc-rows: $(LIBC_DIR)/initrd.gz $(BOARD_QEMU_KERNEL)
	@rm -rf $(LIBC_DIR)/shown
	@$(QEMU_SYSTEM) --timeout 900 --out $(LIBC_DIR)/shown --log $(LIBC_DIR)/system.log --initrd $< -- $(BOARD_QEMU) $(QEMU_ICOUNT)
	@tests/long/libc/table.py read --arch $(QEMU_NAME) --edgeprof $(QEMU_TOOL) --dir $(LIBC_DIR) --log $(LIBC_DIR)/system.log $(LIBC_NAMES)
endif
