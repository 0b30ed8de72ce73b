# Common settings of all armhf boards (ARMv7-A, hard float); a board.mk includes this first.
BOARD_ARCH         := arm
BOARD_CROSS        := arm-linux-gnueabihf-
BOARD_SYSROOT      := /usr/arm-linux-gnueabihf
BOARD_EXEC         := qemu-arm -L $(BOARD_SYSROOT)
BOARD_PORT         := port/linux
BOARD_EXCLUDE      := port/linux/preload% core/unwind/cfi.c
# Without tables (.ARM.exidx) compiled C cannot be unwound here, because Thumb code has no chain of frame pointers.
# Programs need -funwind-tables, too.
BOARD_CFLAGS       := -mthumb -funwind-tables
BOARD_LDFLAGS      :=

BOARD_TEXT_MAX     := 84000
BOARD_DATA_MAX     := 0
BOARD_STACK_MAX    := 3072
BOARD_MEMORY_MAX   := 131072
