# BeagleBone Black: AM3358, one Cortex-A8 at 1 GHz.
include boards/arch/arm.mk

BOARD_CFLAGS     += -mcpu=cortex-a8 -mfpu=neon -mfloat-abi=hard
# One core, 512 MB, few threads: a smaller table and cache.
BOARD_CFLAGS     += -DEP_THREADS=48 -DEP_MAX_MODULES=32 -DEP_RULE_CACHE=512 -DEP_MEMORY_DEFAULT=98304
BOARD_MEMORY_MB  := 512
BOARD_MEMORY_MAX := 98304
BOARD_HZ         := 250
