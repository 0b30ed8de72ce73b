# Common settings of all aarch64 boards; a board.mk includes this first.
BOARD_ARCH         := aarch64
BOARD_CROSS        := aarch64-linux-gnu-
BOARD_SYSROOT      := /usr/aarch64-linux-gnu
BOARD_EXEC         := qemu-aarch64 -L $(BOARD_SYSROOT)
BOARD_PORT         := port/linux
BOARD_EXCLUDE      := port/linux/preload% core/unwind/exidx.c
# Inline atomic operations: the outline versions are libgcc functions, which the signal path may not call.
BOARD_CFLAGS       := -mno-outline-atomics
# GNU ld writes .eh_frame_hdr in static programs of this architecture only on request.
BOARD_LDFLAGS      := -Wl,--eh-frame-hdr

# Weighed without the linker's way around a fault of Cortex-A53, which adds a page when code happens to lie badly.
BOARD_WEIGH_CFLAGS := -mno-fix-cortex-a53-843419

BOARD_TEXT_MAX     := 109000
BOARD_DATA_MAX     := 0
BOARD_STACK_MAX    := 3072
BOARD_MEMORY_MAX   := 131072
