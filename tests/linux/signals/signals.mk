# Programs' own use of signals while they are profiled: signal_table.c linked with edgeprof, and with the preload
# library. On ARM in a system emulation: qemu-user cannot fork a program with threads, and delivers signals late.

SIGNALS        := $(BUILD)/tests/linux/signals
SIGNALS_CFLAGS := -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS)
SIGNALS_PLAIN  := $(SIGNALS)/signal-plain
SIGNALS_LINKED := $(SIGNALS)/signal-linked

$(SIGNALS_PLAIN): tests/linux/signals/signal_table.c
	@mkdir -p $(@D)
	$(CC) $(SIGNALS_CFLAGS) $< -Wl,--build-id -lpthread -o $@
$(SIGNALS_LINKED): tests/linux/signals/signal_table.c $(EP_LIB) port/linux/link.opt
	@mkdir -p $(@D)
	$(CC) $(SIGNALS_CFLAGS) -DLINKED $< $(EP_LIB) $(EP_LDFLAGS) $(if $(filter host,$(BOARD)),,-static) $(BOARD_LDFLAGS) -Wl,--build-id $(EP_LDLIBS) -o $@

ifeq ($(BOARD),host)
SIGNAL_TABLE = tests/linux/signals/table.py --edgeprof $(BUILD)/edgeprof
.PHONY: test-signal-table test-signal-table-arm
test-signal-table: $(SIGNALS_PLAIN) $(SIGNALS_LINKED) $(PRELOAD_LIB) $(BUILD)/edgeprof  ## what programs do with signals, row by row
	@$(SIGNAL_TABLE) --name linked --dir "$(abspath $(SIGNALS)/linked)" -- $(SIGNALS_LINKED) --all "$(abspath $(SIGNALS)/linked)"
	@$(SIGNAL_TABLE) --name preload --dir "$(abspath $(SIGNALS)/preload)" -- $(SIGNALS_PLAIN) --all "$(abspath $(SIGNALS)/preload)" "$(abspath $(PRELOAD_LIB))"
test-signal-table-arm: $(QEMU_BOARDS:%=test-signal-table-%)
$(QEMU_BOARDS:%=test-signal-table-%): test-signal-table-%: $(BUILD)/edgeprof
	@$(MAKE) --no-print-directory BOARD=$* QEMU_TOOL=$< signal-table
else
# One job runs all rows in one way; the other jobs copy the profiles here. Rows that crash leave no profile.
SIGNALS_ROWS = $(filter-out default_dies% exec_pending%,$(shell $(BOARD_EXEC) $(SIGNALS_LINKED) --list))
$(SIGNALS)/initrd.gz: tests/arm/qemu/initramfs.py $(QEMU_DIR)/init $(SIGNALS_PLAIN) $(SIGNALS_LINKED) $(PRELOAD_LIB) tests/linux/signals/signals.mk
	@{ echo 'linked 900 /bin/signal-linked --all /tmp/linked'; \
	   echo 'preload 900 /bin/signal-plain --all /tmp/preload /lib/$(notdir $(PRELOAD_LIB))'; \
	   for row in $(SIGNALS_ROWS); do case $$row in exec_*) end=.second;; *) end=;; esac; \
	       for way in linked preload; do echo "show $$way-$$row /tmp/$$way/$$row.profile$$end"; done; done; } >$(SIGNALS)/jobs
	@$(PYTHON) $< $@ init=$(QEMU_DIR)/init jobs=$(SIGNALS)/jobs $(foreach l,$(QEMU_LIBS) $(PRELOAD_LIB),lib/$(notdir $(l))=$(l)) \
	    $(foreach p,$(SIGNALS_PLAIN) $(SIGNALS_LINKED),bin/$(notdir $(p))=$(p))
.PHONY: signal-table
signal-table: $(SIGNALS)/initrd.gz $(BOARD_QEMU_KERNEL)
	@rm -rf $(SIGNALS)/shown $(SIGNALS)/linked $(SIGNALS)/preload
	@failed=; $(QEMU_SYSTEM) --timeout 2400 --out $(SIGNALS)/shown --log $(SIGNALS)/system.log --initrd $< -- $(BOARD_QEMU) $(QEMU_ICOUNT) || failed=1; \
	for way in linked preload; do mkdir -p $(SIGNALS)/$$way; \
	    for f in $(SIGNALS)/shown/$$way-*; do cp $$f $(SIGNALS)/$$way/$${f##*/$$way-}.profile; done; \
	    awk -v end="@end $$way " 'index($$0, end) { printf "%s", text; exit } /^@end / { text = ""; next } { text = text $$0 "\n" }' \
	        $(SIGNALS)/system.log >$(SIGNALS)/$$way.log; \
	    tests/linux/signals/table.py --name $${way}_$(QEMU_NAME) --edgeprof $(QEMU_TOOL) --dir $(SIGNALS)/$$way --log $(SIGNALS)/$$way.log || failed=1; \
	done; [ -z "$$failed" ]
endif
