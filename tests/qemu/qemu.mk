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
# ---- one board that is not the machine that builds ----

.PHONY: bench-board
bench-board: $(EP_LIB)
	@$(CHECK_SYMBOLS) --figure text_bytes_$(BOARD:qemu-%=%) $(EP_LIB)

# The C tests, as their own .mk files build them, with a cmocka compiled for this board; all but those that need a
# library of the host (libdw).
CMOCKA_DIR  ?= build/deps/cmocka
QEMU_CMOCKA := $(QEMU_DIR)/libcmocka.a
QEMU_UNIT   := $(filter-out test_cfi,$(UT_TESTS))
QEMU_C      := $(QEMU_UNIT:%=$(UT_DIR)/plain/%) $(UT_LINUX:%=$(UT_DIR)/plain/%) \
               $(addprefix $(TRANSPORT_TEST_DIR)/,$(TRANSPORT_CMOCKA) test_stop) $(UT_DIR)/template
$(foreach t,$(UT_TESTS) $(UT_LINUX),$(eval UT_LIBS_$(t) += -L$(QEMU_DIR)))
UT_CPPFLAGS          += -isystem $(CMOCKA_DIR)/include
TRANSPORT_TEST_FLAGS += -isystem $(CMOCKA_DIR)/include -L$(QEMU_DIR) $(BOARD_CFLAGS)
$(QEMU_C): | $(QEMU_CMOCKA)

$(CMOCKA_DIR)/src/cmocka.c $(BOARD_QEMU_KERNEL) &:
	tools/setup.sh cross

$(QEMU_CMOCKA): $(CMOCKA_DIR)/src/cmocka.c
	@mkdir -p $(@D)
	$(CC) -O2 -g $(BOARD_CFLAGS) -I$(CMOCKA_DIR)/include -DHAVE_SIGNAL_H -DHAVE_STDINT_H -DHAVE_INTTYPES_H -DHAVE_STRINGS_H \
	    -DHAVE_STRUCT_TIMESPEC -DHAVE_CLOCK_GETTIME -DHAVE_CLOCK_REALTIME -D_GNU_SOURCE -c $< -o $(QEMU_DIR)/cmocka.o
	rm -f $@ && $(AR) qcs $@ $(QEMU_DIR)/cmocka.o

.PHONY: qemu-unit
qemu-unit: $(QEMU_C)
	@failed=; for t in $(QEMU_C); do \
	    $(BOARD_EXEC) $$t >$$t.log 2>&1 || { cat $$t.log; failed="$$failed $$(basename $$t)"; }; \
	done; [ -z "$$failed" ] || { echo "$@ $(BOARD): failed:$$failed" >&2; exit 1; }; \
	echo "$@ $(BOARD): $(words $(QEMU_C)) programs, $$(cat $(QEMU_C:=.log) | grep -c '^.  *OK') tests passed"
endif
