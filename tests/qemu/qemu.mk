# The boards that are not the machine that builds: what their library must be (check-board), and its tests in QEMU.

QEMU_DIR := $(BUILD)/qemu

# ---- the library of one board: make BOARD=... check-board ----

BOARD_CHECK = NM=$(NM) SIZE=$(SIZE) $(PYTHON) tests/qemu/board_check.py --archive $(EP_LIB) --probe $(QEMU_DIR)/probe.so \
              --readelf $(BOARD_CROSS)readelf --compiler $$($(CC) -dumpfullversion) --sizes boards/$(BOARD)/sizes \
              --stack $$($(CHECK_SIGNAL) --figure stack $(CHECK_SIGNAL_SOURCES) | awk '{ print $$3 }')

$(QEMU_DIR)/probe.so: $(EP_LIB)
	@mkdir -p $(@D)
	$(CC) $(BOARD_CFLAGS) -shared -Wl,-z,text -Wl,--whole-archive $(EP_LIB) -Wl,--no-whole-archive $(EP_LDLIBS) -o $@

.PHONY: check-board sizes-accept
check-board: check-signal check-symbols check-memory $(QEMU_DIR)/probe.so  ## the library of this board: relocations, TLS, sizes
	@$(BOARD_CHECK)
sizes-accept: $(QEMU_DIR)/probe.so  ## take this board's sizes as the baseline
	@$(BOARD_CHECK) --accept

# ---- all boards, from the machine that builds ----

ifeq ($(BOARD),host)
QEMU_BOARDS  := qemu-aarch64 qemu-armhf
OTHER_BOARDS := $(filter-out host,$(notdir $(patsubst %/,%,$(dir $(wildcard boards/*/board.mk)))))

.PHONY: test-boards bench-text
TESTS   += test-boards
BENCHES += bench-text
test-boards:
	@set -e; for b in $(OTHER_BOARDS); do $(MAKE) --no-print-directory BOARD=$$b check-board; done; \
	    echo "$@: $(words $(OTHER_BOARDS)) boards: $(OTHER_BOARDS)"
bench-text:
	@set -e; for b in $(QEMU_BOARDS); do $(MAKE) -s --no-print-directory BOARD=$$b lib >&2; \
	    $(MAKE) -s --no-print-directory BOARD=$$b bench-board; done
else
.PHONY: bench-board
bench-board: $(EP_LIB)
	@$(CHECK_SYMBOLS) --figure text_bytes_$(BOARD:qemu-%=%) $(EP_LIB)
endif
