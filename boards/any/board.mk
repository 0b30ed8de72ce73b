# Any device, for recipes: CC is its compiler, whose name for the machine has the architecture, and CC and CFLAGS name
# the core. boards/README.md describes the variables.
any_machine := $(shell $(if $(filter default,$(origin CC)),gcc,$(CC)) -dumpmachine)
any_arch    := $(patsubst arm%,arm,$(firstword $(subst -, ,$(any_machine))))
ifneq ($(wildcard boards/arch/$(any_arch).mk),)
include boards/arch/$(any_arch).mk
# Thumb or not is the compiler's affair, too.
BOARD_CFLAGS     := $(filter-out -mthumb,$(BOARD_CFLAGS))
BOARD_SYSROOT    :=
BOARD_EXEC       :=
else ifeq ($(any_arch),x86_64)
BOARD_ARCH       := x86_64
BOARD_CFLAGS     :=
BOARD_PORT       := port/linux
BOARD_EXCLUDE    := port/linux/preload% core/unwind/exidx.c
BOARD_TEXT_MAX   := 103000
BOARD_DATA_MAX   := 0
BOARD_STACK_MAX  := 3072
BOARD_MEMORY_MAX := 131072
else
$(error BOARD=any: CC compiles for '$(any_machine)'; the library is for x86_64, aarch64 and arm)
endif
BOARD_CROSS      :=
