# Limits of the system: small stacks of many kinds of threads, on the host and in qemu-user.

LIMITS_DIR    := $(BUILD)/tests/linux/limits
# Without this header static programs have unwind tables that cannot be found.
LIMITS_STATIC := -static -Wl,--eh-frame-hdr
LIMITS_CFLAGS := -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g -funwind-tables $(BOARD_CFLAGS) $(WARNINGS)

# A statically linked program with a large static TLS block.
LIMITS_STACKS := $(addprefix $(LIMITS_DIR)/,stacks stacks-tls stacks-static stacks-static-tls)
$(LIMITS_STACKS): tests/linux/limits/stacks.c $(EP_LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(LIMITS_CFLAGS) $(if $(findstring tls,$(@F)),-DSTATIC_TLS=65536) $(if $(findstring static,$(@F)),$(LIMITS_STATIC)) \
	    $^ $(EP_LDFLAGS) $(EP_LDLIBS) -o $@ 2>$@.log || { cat $@.log >&2; exit 1; }

.PHONY: stacks test-stacks
stacks: $(LIMITS_STACKS)
	@failed=0; for p in $^; do echo "$(BOARD) $$(basename $$p):"; $(BOARD_EXEC) $$p || failed=1; done; exit $$failed

ifeq ($(BOARD),host)
test-stacks: stacks  ## stacks of the smallest threads, of the caller's memory, beside much TLS: here and on both ARMs
	@for b in qemu-aarch64 qemu-armhf; do $(MAKE) --no-print-directory BOARD=$$b stacks || exit 1; done
endif

# A program under system limits.
LIMITS_BUSY := $(LIMITS_DIR)/busy $(LIMITS_DIR)/busy-linked
$(LIMITS_DIR)/busy: tests/linux/limits/busy.c
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(LIMITS_CFLAGS) $< -o $@ -lpthread
$(LIMITS_DIR)/busy-linked: tests/linux/limits/busy.c $(EP_LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(LIMITS_CFLAGS) -DLINKED $^ $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

.PHONY: test-limits
ifeq ($(BOARD),host)
endif
test-limits: $(LIMITS_BUSY) $(PRELOAD_LIB) $(BUILD)/edgeprof  ## limits of the system: the program lives, one line says what and why
	@tests/linux/limits/limits.py $(BUILD)/edgeprof $(LIMITS_BUSY) $(LIMITS_DIR)

.PHONY: test-refused
ifeq ($(BOARD),host)
endif
test-refused: $(LIMITS_BUSY) $(PRELOAD_LIB) $(BUILD)/edgeprof  ## system calls that a filter refuses, one by one
	@tests/linux/limits/refused.py $(BUILD)/edgeprof $(LIMITS_BUSY) $(LIMITS_DIR)
