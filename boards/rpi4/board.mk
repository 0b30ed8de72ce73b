# Raspberry Pi 4 (Cortex-A72) and Zero 2 W, 3 (Cortex-A53) with a 64-bit system.
include boards/arch/aarch64.mk

# One binary for both cores: both have ARMv8.0 with CRC, neither has the crypto extension.
BOARD_CFLAGS    += -march=armv8-a+crc -mtune=cortex-a72
BOARD_MEMORY_MB := 512
BOARD_HZ        := 250
