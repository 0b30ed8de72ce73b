# The unwinders of 32-bit and 64-bit ARM against truth: guest.h, truth.py. Without the .NET SDK the tests say so and do nothing.

ifeq ($(BOARD),host)
ARM_BUILD   := build/arm
ARM_ILC     := tests/arm/ilc.sh
ARM_DOTNET  := $(shell command -v dotnet)
ARM_HEADERS := tests/arm/guest.h tests/arm/shadow/shadow.h tests/arm/shadow/step.h core/sample/profiler.h core/edgeprof/port.h port/linux/linux.h core/edgeprof/options.h
ARM_CFLAGS  := -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS)
# armhf's unwind tables are better than following the code; on aarch64 gcc always writes them.
ARM_TABLES  := -funwind-tables

ARM_CC_aarch64     := aarch64-linux-gnu-gcc
ARM_CC_armhf       := arm-linux-gnueabihf-gcc
ARM_ASM_aarch64    := ask-aarch64
ARM_ASM_armhf      := ask-arm
# Further builds of variety.c.
ARM_VARIETY_aarch64 := variety-bare
ARM_VARIETY_armhf   := variety-arm variety-bare
ARM_BARE_aarch64    := -fomit-frame-pointer
ARM_BARE_armhf      := -fno-unwind-tables -fno-asynchronous-unwind-tables
ARM_LDFLAGS_aarch64 := -Wl,--eh-frame-hdr

# Each board's own make builds its library.
.PHONY: arm-lib-aarch64 arm-lib-armhf
arm-lib-aarch64 arm-lib-armhf: arm-lib-%:
	@$(MAKE) --no-print-directory -s BOARD=qemu-$* lib

# levels.c at each level of optimization.
LEVELS = $(PYTHON) tests/arm/levels.py --out $(ARM_BUILD)/levels
.PHONY: test-levels
test-levels: arm-lib-aarch64 arm-lib-armhf $(EP_LIB)
	@set -e; $(LEVELS)/host --arch $(BOARD_ARCH) --compiler '' --lib $(EP_LIB); \
	$(LEVELS)/aarch64 --arch aarch64 --compiler aarch64-linux-gnu- --lib build/qemu-aarch64/libedgeprof.a \
	    --run 'qemu-aarch64 -L /usr/aarch64-linux-gnu'; \
	$(LEVELS)/armhf --arch arm --compiler arm-linux-gnueabihf- --lib build/qemu-armhf/libedgeprof.a \
	    --run 'qemu-arm -L /usr/arm-linux-gnueabihf'

$(ARM_BUILD)/zero-aarch64.o $(ARM_BUILD)/zero-armhf.o &: $(wildcard tests/arm/zero/*.cs) $(ARM_ILC)
	$(ARM_ILC) zero $(ARM_BUILD)

# $(1): aarch64 or armhf
define arm_program
$(ARM_BUILD)/$(1)/%.o: tests/arm/%.c $(ARM_HEADERS) tests/arm/arm.mk
	@mkdir -p $$(@D)
	$(ARM_CC_$(1)) $(ARM_CFLAGS) $(ARM_TABLES) -c $$< -o $$@
$(ARM_BUILD)/$(1)/%.o: tests/arm/%.S tests/arm/arm.mk
	@mkdir -p $$(@D)
	$(ARM_CC_$(1)) -c $$< -o $$@
$(ARM_BUILD)/$(1)/%.o: tests/arm/shadow/%.c $(ARM_HEADERS) tests/arm/arm.mk
	@mkdir -p $$(@D)
	$(ARM_CC_$(1)) $(ARM_CFLAGS) -c $$< -o $$@
$(ARM_BUILD)/$(1)/program: $(addprefix $(ARM_BUILD)/$(1)/,$(addsuffix .o,program ask native variety walk_core walk_fp \
    $(ARM_VARIETY_$(1)) $(ARM_ASM_$(1)))) $(ARM_BUILD)/zero-$(1).o build/qemu-$(1)/libedgeprof.a
	$(ARM_CC_$(1)) -static $(ARM_LDFLAGS_$(1)) -Wl,-Map=$$@.map $$^ $(EP_LDFLAGS) $(EP_LDLIBS) -o $$@ 2>$$@.log || { cat $$@.log >&2; exit 1; }
$(ARM_BUILD)/$(1)/variety-bare.o: tests/arm/variety.c $(ARM_HEADERS) tests/arm/arm.mk
	@mkdir -p $$(@D)
	$(ARM_CC_$(1)) $(ARM_CFLAGS) $(ARM_BARE_$(1)) -DVARIETY=guest_variety_bare -c $$< -o $$@
build/qemu-$(1)/libedgeprof.a: arm-lib-$(1) ;
endef
$(eval $(call arm_program,aarch64))
$(eval $(call arm_program,armhf))

$(ARM_BUILD)/armhf/variety-arm.o: tests/arm/variety.c $(ARM_HEADERS) tests/arm/arm.mk
	@mkdir -p $(@D)
	$(ARM_CC_armhf) $(ARM_CFLAGS) $(ARM_TABLES) -marm -DVARIETY=guest_variety_arm -c $< -o $@
# Minimum percentages of instructions with a completely correct stack.
ARM_NEED_aarch64 := --honest --need managed=99.9 --need c=99 --need libc=99 --least 20000
# Of 32-bit ARM, libgcc's 64-bit division and code that longjmp() has left are gaps: honest, and not exact.
ARM_EACH_armhf   := --honest --need managed=99.9 --need c=99 --need c_bare=95 --need libc=98 --need libgcc=50 --least 8000
ARM_NEED_armhf   := --honest --need managed=99.9 --need c=99 --need c_bare=99 --need libc=98.5 --need libgcc=93 --least 20000

# The same pieces, dynamically linked, each many times under tests/arm/shadow's stepper, which is a thousand times as fast;
# and once more with signed return addresses, the library's too.
ARM_STEPPED := $(addsuffix .o,program-stepped ask native variety walk_core walk_fp shadow step_aarch64 switch_aarch64 \
    $(ARM_VARIETY_aarch64) $(ARM_ASM_aarch64))
$(ARM_BUILD)/aarch64/program-stepped.o: tests/arm/program.c $(ARM_HEADERS) tests/arm/arm.mk
	@mkdir -p $(@D)
	$(ARM_CC_aarch64) $(ARM_CFLAGS) -DSHADOW=25 -c $< -o $@
$(ARM_BUILD)/aarch64/%.o: tests/arm/shadow/%.S tests/arm/arm.mk
	@mkdir -p $(@D)
	$(ARM_CC_aarch64) -c $< -o $@
$(ARM_BUILD)/aarch64/stepped: $(ARM_STEPPED:%=$(ARM_BUILD)/aarch64/%) $(ARM_BUILD)/zero-aarch64.o build/qemu-aarch64/libedgeprof.a
	$(ARM_CC_aarch64) -Wl,-z,lazy $^ $(EP_LDFLAGS) $(EP_LDLIBS) -o $@
.PHONY: pac-lib
pac-lib:
	@$(PAC_MAKE) lib
$(PAC_BUILD)/libedgeprof.a: pac-lib ;
$(ARM_BUILD)/aarch64-pac/stepped: $(wildcard tests/arm/*.c tests/arm/shadow/*.[chS]) $(ARM_HEADERS) $(ARM_BUILD)/zero-aarch64.o $(PAC_BUILD)/libedgeprof.a
	@mkdir -p $(@D)
	@$(MAKE) --no-print-directory -s ARM_BUILD=$(@D) ARM_CFLAGS='$(ARM_CFLAGS) -mbranch-protection=standard' $(ARM_STEPPED:%=$(@D)/aarch64/%)
	$(ARM_CC_aarch64) -Wl,-z,lazy $(ARM_STEPPED:%=$(@D)/aarch64/%) $(ARM_BUILD)/zero-aarch64.o $(PAC_BUILD)/libedgeprof.a $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

.PHONY: test-arm-each-armhf test-arm-shadow-aarch64 test-arm-shadow-pac test-arm-exact bench-arm arm-exact-aarch64 arm-exact-armhf arm-baseline-aarch64
ifeq ($(ARM_DOTNET),)
test-arm-exact test-arm-exact-aarch64 test-arm-exact-armhf test-arm-each-armhf test-arm-shadow-aarch64 test-arm-shadow-pac test-arm-package bench-arm:
	@echo "SKIPPED: there is no .NET SDK on PATH"
else
arm-exact-aarch64 arm-exact-armhf: arm-exact-%: $(ARM_BUILD)/%/program
	@tests/arm/truth.py $* $< $<.map $(ARM_NEED_$*) >$<.exact; status=$$?; cat $<.exact; exit $$status
# A counter-test: with frame pointers alone, stacks are wrong in prologues and epilogues.
arm-baseline-aarch64: $(ARM_BUILD)/aarch64/program
	@tests/arm/truth.py aarch64 $< $<.map --walker fp --what managed --piece chain --top 0 >$<.baseline || { cat $<.baseline; exit 1; }
	@awk '/^steps managed:/ { share = $$5 } END { print "baseline: frame pointers alone are exact at " share " %"; exit !(share > 10 && share < 95) }' $<.baseline

ARM_NEED_STEPPED := exact_steps_aarch64_pct=99.9 exact_steps_aarch64_runtime_pct=99 exact_steps_aarch64_libc_pct=99 exact_steps_aarch64_other_pct=99
# $(1): program, $(2): processor
arm_stepped = qemu-aarch64 -cpu $(2) -L /usr/aarch64-linux-gnu $(1) core all "" $(1).places >$(1).figures || { cat $(1).figures; exit 1; }; \
    grep -E '^(steps|truth|frames)' $(1).figures; \
    tests/arm/shadow/report.py $(1).places $(1) --tools aarch64-linux-gnu- --sysroot /usr/aarch64-linux-gnu --honest $(1).figures \
	$(addprefix --need ,$(ARM_NEED_STEPPED)) || exit 1; echo "$@: $(2): no wrong stack calls itself exact"
test-arm-shadow-aarch64: $(ARM_BUILD)/aarch64/stepped
	@$(call arm_stepped,$<,max)
	@qemu-aarch64 -L /usr/aarch64-linux-gnu $< fp managed chain 2>&1 | \
	    awk '/^steps managed:/ { share = $$5 } END { print "frame pointers alone are exact at " share " %"; exit !(share > 10 && share < 95) }'
test-arm-shadow-pac: $(ARM_BUILD)/aarch64-pac/stepped
	@$(call arm_stepped,$<,max); [ $$(awk '/were signed/ { print $$2 }' $<.figures) -ge 3000 ] || { echo "$@: nothing is signed" >&2; exit 1; }
	@$(call arm_stepped,$<,cortex-a53)

# The same once at each instruction, not each time it runs.
test-arm-each-armhf: $(ARM_BUILD)/armhf/program
	@tests/arm/truth.py armhf $< $<.map $(ARM_EACH_armhf) --visits 1 --top 0

test-arm-exact: test-arm-exact-aarch64 test-arm-exact-armhf
test-arm-exact-aarch64: arm-baseline-aarch64
test-arm-exact-aarch64 test-arm-exact-armhf: test-arm-exact-%: arm-exact-%
	@echo "$@: $$(cat $(ARM_BUILD)/$*/program.exact | grep '^figure exact_steps_[a-z0-9]*_pct' | awk '{ printf "%s %s %%; ", $$2, $$3 }')"

bench-arm: $(ARM_BUILD)/aarch64/program $(ARM_BUILD)/armhf/program
	@for arch in aarch64 armhf; do tests/arm/truth.py $$arch $(ARM_BUILD)/$$arch/program $(ARM_BUILD)/$$arch/program.map --top 0; done

# The objects of $(ARM_BUILD)/$(1)/program, without the archive.
arm_objects = $(addprefix $(ARM_BUILD)/$(1)/,$(addsuffix .o,program ask native variety walk_core walk_fp $(ARM_VARIETY_$(1)) $(ARM_ASM_$(1)))) \
    $(ARM_BUILD)/zero-$(1).o
test-arm-package: $(NA_NUPKG) $(ARM_BUILD)/aarch64/program $(ARM_BUILD)/armhf/program
	@tests/arm/package.sh $(NA_NUPKG) $(ARM_BUILD)/package "$(call arm_objects,aarch64)" "$(call arm_objects,armhf)"
BENCHES += bench-arm
endif
endif
