# The build machine. boards/README.md describes the variables.
BOARD_ARCH          := $(patsubst armv%,arm,$(shell uname -m))
BOARD_CROSS         :=
BOARD_EXEC          :=
BOARD_CFLAGS        :=
BOARD_PORT          := port/linux
BOARD_EXCLUDE       := port/linux/preload% $(if $(filter arm,$(BOARD_ARCH)),core/unwind/cfi.c,core/unwind/exidx.c)

# Limits for this board: `make test` fails beyond them.
BOARD_TEXT_MAX      := 103000
BOARD_DATA_MAX      := 0
BOARD_STACK_MAX     := 3072
BOARD_MEMORY_MAX    := 131072
