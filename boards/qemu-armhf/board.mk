# QEMU's `virt` machine with a 32-bit core, and qemu-user. boards/README.md describes the variables.
include boards/arch/arm.mk

BOARD_CFLAGS      += -march=armv7-a+fp
BOARD_MEMORY_MB   := 512
BOARD_HZ          := 250
BOARD_QEMU        := qemu-system-arm -M virt -cpu cortex-a15 -m $(BOARD_MEMORY_MB)
BOARD_QEMU_KERNEL := build/deps/armhf/vmlinuz
