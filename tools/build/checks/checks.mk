# Checks beyond the compiler's. Each is a separate test target, so that its name says what failed.

CHECKS  := tools/build/checks
C_FILES  = $(shell find core port transport tools tests -name '*.[ch]' -not -path '*/node_modules/*' -not -path '*/obj/*')

# With the .NET package, whose hooks the library calls.
CHECK_SIGNAL  = $(PYTHON) $(CHECKS)/signal_check.py --graph $(EP_OBJ:.o=.ci) $(NA_C:%.c=$(BUILD)/obj/%.ci) --root ep_linux_on_signal \
                --max $(BOARD_STACK_MAX) --allow $(CHECKS)/signal_allow.txt
CHECK_SIGNAL_SOURCES = --sources core/*/*.h core/*/*.c core/*/*/*.h core/*/*/*.c $(BOARD_PORT)/*.h $(BOARD_PORT)/*.c \
                       $(wildcard port/nativeaot/*.h)
CHECK_SYMBOLS := NM=$(NM) SIZE=$(SIZE) $(PYTHON) $(CHECKS)/symbols_check.py --allow $(CHECKS)/undefined_allow.txt \
                 --prefix ep_ __wrap_ otel_thread_ctx_v1 --data-max $(BOARD_DATA_MAX) --text-max $(BOARD_TEXT_MAX)
WEIGH         := $(BUILD)/checks/weigh

CHECK_TARGETS := check-selftest check-signal check-symbols check-memory check-includes check-functions check-format check-tree check-names check-wraps
BENCHES += bench-signal bench-symbols
.PHONY: $(CHECK_TARGETS) signal-check bench-signal bench-symbols

check-selftest:
	@$(PYTHON) $(CHECKS)/selftest.py

check-signal: $(EP_LIB)
	@$(CHECK_SIGNAL) $(CHECK_SIGNAL_SOURCES)
signal-check: check-signal  ## prove what the signal path calls and how much stack it needs

# Two programs; their difference is the library's size in a program.
$(WEIGH)-with $(WEIGH)-without &: tests/long/bench/weigh.c $(EP_LIB)
	@mkdir -p $(@D)
	@$(CC) -I. -Icore $(BOARD_CFLAGS) $(BOARD_WEIGH_CFLAGS) -Os -Wl,--gc-sections $< $(EP_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -o $(WEIGH)-with
	@$(CC) -I. -Icore $(BOARD_CFLAGS) $(BOARD_WEIGH_CFLAGS) -Os -Wl,--gc-sections -DWITHOUT $< -o $(WEIGH)-without

check-symbols: $(EP_LIB) $(WEIGH)-with
	@$(CHECK_SYMBOLS) --weak $(CHECKS)/weak_symbols.txt --weigh $(WEIGH)-with $(WEIGH)-without -- $(EP_LIB)

# docs/memory.md: what each feature adds to a program, on each architecture.
MEMORY_TABLE = $(PYTHON) $(CHECKS)/memory_table.py --work $(BUILD)/checks/memory
.PHONY: memory-build memory-tables
memory-build: $(EP_LIB) $(TLS_LIB)
	@echo "memory-build: $(BOARD_ARCH):$(CC):$(EP_LIB):$(TLS_LIB):$(BOARD_CFLAGS) $(BOARD_WEIGH_CFLAGS) $(BOARD_LDFLAGS)"
# $(1): --write or --check
memory_table = set -e; $(foreach b,host $(QEMU_BOARDS),$(subst -,_,$(b))=$$($(MAKE) --no-print-directory -s BOARD=$(b) memory-build | sed -n 's/^memory-build: //p');) \
    $(MEMORY_TABLE) $(1) docs/memory.md $(foreach b,host $(QEMU_BOARDS),"$$$(subst -,_,$(b))")
memory-tables:  ## write the tables of docs/memory.md
	@$(call memory_table,--write)
check-memory-tables:
	@$(call memory_table,--check)

check-memory:
	@printf '%s\n' '#include "core/edgeprof/edgeprof.h"' \
	    '_Static_assert(EP_MEMORY_DEFAULT <= $(BOARD_MEMORY_MAX), "EP_MEMORY_DEFAULT is beyond BOARD_MEMORY_MAX");' \
	    '_Static_assert(EP_MEMORY_MIN <= EP_MEMORY_DEFAULT, "the least is more than the default");' | \
	    $(CC) $(EP_CPPFLAGS) $(BOARD_CFLAGS) -std=c11 -fsyntax-only -x c -
	@echo "check-memory: the default block is within $(BOARD_MEMORY_MAX) bytes"

check-includes:
	@$(PYTHON) $(CHECKS)/include_check.py

check-functions:
	@$(PYTHON) $(CHECKS)/function_size.py core port transport tools

# One run for all files: starting the program takes ten times longer than checking a file.
check-format:
	@$(CLANG_FORMAT) --dry-run -Werror --ferror-limit=1 $(C_FILES) || \
	    { echo "check-format: some files are not formatted: make format" >&2; exit 1; }
	@echo "check-format: $(words $(C_FILES)) files"

check-tree:
	@$(PYTHON) $(CHECKS)/tree_check.py

check-names:
	@$(PYTHON) $(CHECKS)/names_check.py

check-wraps:
	@$(PYTHON) $(CHECKS)/wraps_check.py

bench-signal: $(EP_LIB)
	@$(CHECK_SIGNAL) --figure handler_stack_bytes $(CHECK_SIGNAL_SOURCES)

bench-symbols: $(EP_LIB) $(WEIGH)-with
	@$(CHECK_SYMBOLS) --weigh $(WEIGH)-with $(WEIGH)-without --figure text_bytes_$(BOARD_ARCH) $(EP_LIB)
