# What all armhf boards (ARMv7-A, hard float) have in common; a board.mk includes this first and says the rest.
BOARD_ARCH         := arm
BOARD_CROSS        := arm-linux-gnueabihf-
BOARD_SYSROOT      := /usr/arm-linux-gnueabihf
BOARD_EXEC         := qemu-arm -L $(BOARD_SYSROOT)
BOARD_PORT         := port/linux
BOARD_EXCLUDE      := port/linux/preload% core/unwind/cfi.c
# Without tables (.ARM.exidx) nobody can walk through compiled C here: Thumb code has no chain of frame pointers.
# Programs want -funwind-tables as well.
BOARD_CFLAGS       := -mthumb -funwind-tables
BOARD_LDFLAGS      :=

BOARD_TEXT_MAX     := 49152
BOARD_DATA_MAX     := 0
BOARD_STACK_MAX    := 2048
BOARD_MEMORY_MAX   := 131072
