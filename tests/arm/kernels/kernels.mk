# Kernels as they are found in the field, in QEMU: other releases, PREEMPT_RT, other values of HZ, CPU hotplug, jumps of
# the clock, suspend, little memory; and the types of time in the library's own system calls on 32-bit ARM.

KERNELS_DIR := $(BUILD)/tests/arm/kernels
KERNELS_CFLAGS := -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(BOARD_CFLAGS) $(WARNINGS)

ifeq ($(BOARD),host)
.PHONY: test-kernels test-kernels-hz test-periods bench-tick_bias-qemu
build/deps/kernels/.fetched: tools/build/setup.sh
	@tools/build/setup.sh kernels && touch $@
test-kernels: $(BUILD)/edgeprof build/deps/kernels/.fetched  ## ARM kernels of other releases and with PREEMPT_RT, in QEMU
	@for b in aarch64 armhf; do $(MAKE) --no-print-directory BOARD=qemu-$$b QEMU_TOOL=$< kernels || exit 1; done
test-kernels-hz: $(BUILD)/edgeprof  ## ARM kernels with HZ=100 and 1000, compiled first
	@tools/build/setup.sh apt cross kernels && tools/build/setup.sh hz-kernels
	@for b in aarch64 armhf; do $(MAKE) --no-print-directory BOARD=qemu-$$b QEMU_TOOL=$< kernels-hz || exit 1; done
# Bursts and their shares by each clock where the kernel ticks 100 and 250 times a second; TICK_SECONDS a figure.
bench-tick_bias-qemu:
	@tools/build/setup.sh apt cross kernels && tools/build/setup.sh hz-kernels
	@$(MAKE) -s --no-print-directory BOARD=qemu-aarch64 kernels-bias
test-periods:  ## times in the library's own system calls, with both types of time_t, in qemu-user
	@$(MAKE) --no-print-directory BOARD=qemu-armhf periods
else
$(KERNELS_DIR)/field: tests/arm/kernels/field.c $(EP_LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(KERNELS_CFLAGS) $^ $(EP_LDFLAGS) -static $(BOARD_LDFLAGS) -Wl,--build-id $(EP_LDLIBS) -o $@ 2>$@.log || { cat $@.log >&2; exit 1; }
$(KERNELS_DIR)/periods: tests/arm/kernels/periods.c $(EP_LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(KERNELS_CFLAGS) $^ $(EP_LDFLAGS) -static $(BOARD_LDFLAGS) -Wl,--build-id $(EP_LDLIBS) -o $@ 2>$@.log || { cat $@.log >&2; exit 1; }

# The library and the program, compiled with both types of time_t.
PERIODS_32 := $(BUILD)-time32/periods-time32
PERIODS_64 := $(BUILD)-time64/periods-time64
PERIODS    := $(if $(filter arm,$(BOARD_ARCH)),$(PERIODS_32) $(PERIODS_64))
.PHONY: periods-32 periods-64 periods kernels kernels-hz kernels-bias $(KERNELS_DIR)/bias.gz
periods-32 periods-64: periods-%:
	@$(MAKE) --no-print-directory BOARD=$(BOARD) BUILD=$(BUILD)-time$* BOARD_CFLAGS='$(BOARD_CFLAGS) -D_TIME_BITS=$* -D_FILE_OFFSET_BITS=64' \
	    $(BUILD)-time$*/tests/arm/kernels/periods
	@cmp -s $(BUILD)-time$*/tests/arm/kernels/periods $(PERIODS_$*) || cp $(BUILD)-time$*/tests/arm/kernels/periods $(PERIODS_$*)
$(PERIODS_32): periods-32
$(PERIODS_64): periods-64
periods: $(PERIODS)
	@set -e; for p in $^; do $(BOARD_EXEC) $$p; done

KERNELS = $(PYTHON) tests/arm/kernels/kernels.py --edgeprof $(QEMU_TOOL) --work $(KERNELS_DIR) --qemu '$(BOARD_QEMU)' \
          --init $(QEMU_DIR)/init --program $(KERNELS_DIR)/field --periods $(PERIODS)
# 32-bit ARM with two CPUs does not boot with -icount. Linux 5.10 does not end its own test of hibernation, with or
# without edgeprof.
KERNEL_CASES      = $(if $(filter arm,$(BOARD_ARCH)),,hotplug$(comma))clock$(comma)idle
# Besides the board's own. All of them: make test-kernels KERNELS_TESTED='6.1-rt 5.10 6.12-rt'
KERNELS_TESTED ?= 5.10 6.12-rt
OTHER_KERNELS = $(foreach k,$(KERNELS_TESTED),$(if $(wildcard build/deps/kernels/$(QEMU_NAME)-$(k)),--kernel build/deps/kernels/$(QEMU_NAME)-$(k)=$(QEMU_NAME)_$(k):250:$(KERNEL_CASES)$(if $(filter 5.10,$(k)),,$(comma)suspend)))
HZ_KERNELS    = $(foreach h,100 1000,$(if $(wildcard build/deps/kernels/$(QEMU_NAME)-hz$(h)),--kernel build/deps/kernels/$(QEMU_NAME)-hz$(h)=$(QEMU_NAME)_6.1_HZ=$(h):$(h):$(if $(filter arm,$(BOARD_ARCH)),,hotplug$(comma))clock))
# With -icount the guest's time is the number of its instructions.
TICK_SECONDS ?= 10
$(KERNELS_DIR)/bias.gz: tests/arm/qemu/initramfs.py $(QEMU_DIR)/init $(UT_DIR)/plain/linux_bias $(UT_DIR)/plain/linux_perf
	@mkdir -p $(@D); printf '%s\n' 'bursts 7200 /bin/linux_bias $(TICK_SECONDS) bursts' 'loop 3600 /bin/linux_bias $(TICK_SECONDS) loop' \
	    'perf 900 PARANOID=1 /bin/linux_perf' >$@.jobs
	@$(PYTHON) $< $@ init=$(QEMU_DIR)/init jobs=$@.jobs $(foreach l,$(QEMU_LIBS),lib/$(notdir $(l))=$(l)) $(foreach p,$(filter $(UT_DIR)/%,$^),bin/$(notdir $(p))=$(p))
kernels-bias: $(KERNELS_DIR)/bias.gz $(BOARD_QEMU_KERNEL)
	@set -e; for k in 250=$(BOARD_QEMU_KERNEL) 100=build/deps/kernels/$(QEMU_NAME)-hz100; do \
	    $(PYTHON) tests/arm/qemu/system.py --kernel $${k#*=} --timeout 7200 --out $(KERNELS_DIR) --log $(KERNELS_DIR)/bias-$${k%=*}.log --initrd $< \
	        -- $(BOARD_QEMU) -rtc clock=vm $(QEMU_ICOUNT) >&2; \
	    tr -d '\r' <$(KERNELS_DIR)/bias-$${k%=*}.log | sed -n "s/^figure tick_bias_/figure tick_bias_$(QEMU_NAME)_$${k%=*}_hz_kernel_/p"; done
kernels: $(KERNELS_DIR)/field $(QEMU_DIR)/init $(PERIODS) $(BOARD_QEMU_KERNEL)
	@$(KERNELS) --memory --kernel $(BOARD_QEMU_KERNEL)=$(QEMU_NAME)_6.1:250:$(KERNEL_CASES)$(comma)suspend $(OTHER_KERNELS)
kernels-hz: $(KERNELS_DIR)/field $(QEMU_DIR)/init $(PERIODS)
	@$(KERNELS) $(HZ_KERNELS)
endif
