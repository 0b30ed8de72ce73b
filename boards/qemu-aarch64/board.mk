# QEMU's `virt` machine with a 64-bit core, and qemu-user. boards/README.md describes the variables.
include boards/arch/aarch64.mk

BOARD_CFLAGS      += -march=armv8-a
BOARD_MEMORY_MB   := 512
BOARD_HZ          := 250
BOARD_QEMU        := qemu-system-aarch64 -M virt -cpu cortex-a53 -m $(BOARD_MEMORY_MB)
BOARD_QEMU_KERNEL := build/deps/arm64/vmlinuz
