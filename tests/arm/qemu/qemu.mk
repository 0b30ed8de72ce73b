# Boards other than the build machine: checks of their library (check-board), and its tests in QEMU.

QEMU_DIR := $(BUILD)/qemu

# ---- the library of one board: make BOARD=... check-board ----

BOARD_CHECK = NM=$(NM) SIZE=$(SIZE) $(PYTHON) tests/arm/qemu/board_check.py --archive $(EP_LIB) --probe $(QEMU_DIR)/probe.so \
              --readelf $(BOARD_CROSS)readelf --compiler $$($(CC) -dumpfullversion) --sizes boards/$(BOARD)/sizes \
              --stack $$($(CHECK_SIGNAL) --figure stack $(CHECK_SIGNAL_SOURCES) | awk '{ print $$3 }')

$(QEMU_DIR)/probe.so: $(EP_LIB)
	@mkdir -p $(@D)
	$(CC) $(BOARD_CFLAGS) -shared -Wl,-z,text -Wl,--whole-archive $(EP_LIB) -Wl,--no-whole-archive $(EP_LDLIBS) -o $@

.PHONY: check-board sizes-accept
check-board: check-signal check-symbols check-memory $(QEMU_DIR)/probe.so  ## the library of this board: relocations, TLS, sizes
	@$(BOARD_CHECK)
sizes-accept: $(QEMU_DIR)/probe.so  ## take this board's sizes as the baseline
	@$(BOARD_CHECK) --accept

# ---- all boards, from the build machine ----

ifeq ($(BOARD),host)
OTHER_BOARDS := $(filter-out host any,$(notdir $(patsubst %/,%,$(dir $(wildcard boards/*/board.mk)))))

.PHONY: test-boards bench-text qemu-test $(QEMU_BOARDS:qemu-%=test-qemu-%) bench-qemu
BENCHES += bench-text bench-qemu
qemu-test: test-boards $(QEMU_BOARDS:qemu-%=test-qemu-%)  ## the ARM boards: libraries, C tests, a service, whole machines
$(QEMU_BOARDS:qemu-%=test-qemu-%): test-qemu-%: $(BUILD)/edgeprof
	@$(MAKE) --no-print-directory BOARD=qemu-$* QEMU_TOOL=$< qemu-unit qemu-user qemu-system
.PHONY: $(QEMU_BOARDS:qemu-%=test-crash-system-%)
$(QEMU_BOARDS:qemu-%=test-crash-system-%): test-crash-system-%: $(BUILD)/edgeprof
	@$(MAKE) --no-print-directory -s BOARD=qemu-$* QEMU_TOOL=$< qemu-crash
bench-qemu: $(BUILD)/edgeprof
	@set -e; for b in $(QEMU_BOARDS); do $(MAKE) -s --no-print-directory BOARD=$$b QEMU_TOOL=$< qemu-bench; done
# Everything signed and with landing pads for jumps, on a processor that checks them and on one that does not.
PAC_BUILD  := build/qemu-aarch64-pac
PAC_MAKE    = $(MAKE) --no-print-directory -s BOARD=qemu-aarch64 BUILD=$(PAC_BUILD) QEMU_TOOL=$(BUILD)/edgeprof \
    BOARD_CFLAGS='-mno-outline-atomics -march=armv8-a -mbranch-protection=standard'
PAC_CPUS   := max cortex-a53
.PHONY: test-pac-aarch64 test-pac-system-aarch64 test-sampling-arm
test-sampling-arm:
	@set -e; for b in $(QEMU_BOARDS); do $(MAKE) --no-print-directory BOARD=$$b qemu-sampling; done
	@$(MAKE) --no-print-directory BOARD=qemu-aarch64 QEMU_SAME= qemu-unit
test-pac-aarch64: $(BUILD)/edgeprof
	@$(PAC_MAKE) lib na-hooks qemu-pac
	@set -e; for cpu in $(PAC_CPUS); do tests/dotnet/hooks.sh $< $(PAC_BUILD)/nativeaot/hooks $(PAC_BUILD)/hooks-$$cpu \
	    qemu-aarch64 -cpu $$cpu -L /usr/aarch64-linux-gnu; done
test-pac-system-aarch64: $(BUILD)/edgeprof
	@$(PAC_MAKE) qemu-system BOARD_QEMU='qemu-system-aarch64 -M virt -cpu max$(comma)pauth-impdef=on -m 512'
test-boards: $(OTHER_BOARDS:%=test-board-%)
$(OTHER_BOARDS:%=test-board-%): test-board-%:
	@$(MAKE) --no-print-directory BOARD=$* check-board
bench-text:
	@set -e; for b in $(QEMU_BOARDS); do $(MAKE) -s --no-print-directory BOARD=$$b lib >&2; \
	    $(MAKE) -s --no-print-directory BOARD=$$b bench-board; done
else
# ---- one board other than the build machine ----

QEMU_NAME := $(BOARD:qemu-%=%)

.PHONY: bench-board
bench-board: $(EP_LIB) $(WEIGH)-with
	@$(CHECK_SYMBOLS) --figure text_bytes_$(QEMU_NAME) --weigh $(WEIGH)-with $(WEIGH)-without -- $(EP_LIB)

# The C tests, built by their own .mk files, with cmocka compiled for this board. Tests of the Linux port need a real kernel:
# qemu-user cannot fork a program with threads, has few timers, reserves signals, and has its own code for signal
# frames.
CMOCKA_DIR  ?= build/deps/cmocka
QEMU_CMOCKA := $(QEMU_DIR)/libcmocka.a
QEMU_SIM    := $(patsubst %,$(UT_DIR)/plain/%,suites $(UT_ALONE)) $(UT_DIR)/public_template $(UT_DIR)/public_sim \
               $(addprefix $(TRANSPORT_TEST_DIR)/,$(TRANSPORT_CMOCKA) test_stop)
# These sample for a long time: test-sampling-arm has them.
QEMU_SLOW   := linux_bias $(UT_PERF)
QEMU_PORT   := $(filter-out $(QEMU_SLOW),$(UT_LINUX))
QEMU_LINUX  := $(QEMU_PORT:%=$(UT_DIR)/plain/%)
$(foreach t,suites $(UT_ALONE) $(UT_LINUX) $(UT_PERF),$(eval UT_LIBS_$(t) += -L$(QEMU_DIR)))
UT_CPPFLAGS          += -isystem $(CMOCKA_DIR)/include
TRANSPORT_TEST_FLAGS += -isystem $(CMOCKA_DIR)/include -L$(QEMU_DIR) $(BOARD_CFLAGS)
$(QEMU_SIM) $(QEMU_LINUX): | $(QEMU_CMOCKA)

$(CMOCKA_DIR)/src/cmocka.c $(BOARD_QEMU_KERNEL) &:
	tools/build/setup.sh cross

$(QEMU_CMOCKA): $(CMOCKA_DIR)/src/cmocka.c
	@mkdir -p $(@D)
	$(CC) -O2 -g $(BOARD_CFLAGS) -I$(CMOCKA_DIR)/include -DHAVE_SIGNAL_H -DHAVE_STDINT_H -DHAVE_INTTYPES_H -DHAVE_STRINGS_H \
	    -DHAVE_STRUCT_TIMESPEC -DHAVE_CLOCK_GETTIME -DHAVE_CLOCK_REALTIME -D_GNU_SOURCE -c $< -o $(QEMU_DIR)/cmocka.o
	rm -f $@ && $(AR) qcs $@ $(QEMU_DIR)/cmocka.o

# What spool, tree and governor compute is the same on two 64-bit processors of one byte order: test-unit computes it with
# 64 bits, armhf with 32. test-sampling-arm has them for aarch64, too: QEMU_SAME=.
QEMU_SAME   := $(if $(filter aarch64,$(BOARD_ARCH)),test_collect test_convert test_governor test_lifecycle test_old test_room test_spool test_spool_faults)
QEMU_SUITES  = $(if $(QEMU_SAME),$(addprefix -s ,$(filter-out $(QEMU_SAME),$(UT_SUITES))))
.PHONY: qemu-unit
qemu-unit: $(QEMU_SIM)  ## the C tests on the simulated port and of transport/, in qemu-user
	@failed=; for t in $^; do \
	    case $$t in */suites) set -- $(QEMU_SUITES);; *) set --;; esac; \
	    UNIT_STEP=97 $(BOARD_EXEC) $$t "$$@" >$$t.log 2>&1 || { cat $$t.log; failed="$$failed $$(basename $$t)"; }; \
	done; [ -z "$$failed" ] || { echo "$@ $(BOARD): failed:$$failed" >&2; exit 1; }; \
	echo "$@ $(BOARD): $(words $^) programs, $$(cat $(QEMU_SIM:=.log) | grep -c '^.  *OK') tests passed"

# ---- programs ----

QEMU_CFLAGS := -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(BOARD_CFLAGS) $(WARNINGS)
QEMU_PROGRAMS := $(addprefix $(QEMU_DIR)/,service service-static sample_cost)
# With signed return addresses, which only 64-bit ARM has; the library's own are not signed. test-pac-aarch64 signs all.
QEMU_SIGNED   := $(if $(filter aarch64,$(BOARD_ARCH)),$(QEMU_DIR)/service-signed)
QEMU_GUARDED  := $(QEMU_DIR)/service-bti

$(QEMU_DIR)/service $(QEMU_DIR)/service-static: tests/arm/qemu/service.c $(EP_LIB)
$(QEMU_DIR)/sample_cost: tests/long/bench/sample_cost.c tests/arm/qemu/own_syscall.c $(EP_LIB)
$(QEMU_DIR)/sample_cost: QEMU_CFLAGS += -Dsyscall=own_syscall # glibc's has no tables on 32-bit ARM: one frame a stack
$(QEMU_DIR)/service-static $(QEMU_DIR)/sample_cost: QEMU_LINK := -static $(BOARD_LDFLAGS)
$(QEMU_DIR)/service-signed: tests/arm/qemu/service.c $(EP_LIB)
$(QEMU_DIR)/service-signed: QEMU_CFLAGS += -mbranch-protection=standard
$(QEMU_GUARDED): tests/arm/qemu/service.c tests/arm/qemu/start_bti.S $(EP_LIB)
$(QEMU_GUARDED): QEMU_LINK := -nostartfiles -Wl,-z,force-bti -Wl,-z,lazy
$(QEMU_PROGRAMS) $(QEMU_DIR)/service-signed $(QEMU_GUARDED):
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) $(QEMU_CFLAGS) $^ $(EP_LDFLAGS) $(QEMU_LINK) -Wl,--build-id $(EP_LDLIBS) -o $@

QEMU_CHECK = $(PYTHON) tests/arm/qemu/check_profile.py --edgeprof $(QEMU_TOOL) --symbols $(QEMU_DIR)
QEMU_TOOL  ?= build/host/edgeprof

# musl for the long tests (tests/long/libc/libc.mk): headers and archive from Debian's musl-dev for that architecture, with
# this board's compiler.
MUSL_DIR   := $(dir $(BOARD_QEMU_KERNEL))
$(MUSL_DIR)musl.specs: $(BOARD_QEMU_KERNEL) tests/arm/qemu/qemu.mk
	@sed 's,/usr/,$(MUSL_DIR)usr/,g' $(MUSL_DIR)usr/lib/*-linux-musl*/musl-gcc.specs >$@

# twice RUNNER PROGRAM NAME OPTION...: runs the service and checks its profile, at most twice more if it is wrong. In
# qemu-user the threads' clocks are the host's, whose other work now and then hides a thread from all ticks.
QEMU_TWICE = once() { rm -f $$2.profile; $$1 $$2 3000 97 file://"$(CURDIR)"/$$2.profile >$$2.truth && \
    $(QEMU_CHECK) --truth $$2.truth --profile $$2.profile --name "$$3" $$4 $$5 $$6 $$7; }; \
    twice() { once "$$@" || { echo "$$3: once more"; once "$$@"; } || { echo "$$3: a last time"; once "$$@"; }; }

# A service in qemu-user, linked in every way, which writes to a file.
.PHONY: qemu-user
qemu-user: $(QEMU_DIR)/service $(QEMU_DIR)/service-static $(QEMU_SIGNED)
	@$(QEMU_TWICE); set -e; for p in $^; do twice "$(BOARD_EXEC)" $$p "$@ $(BOARD) $$(basename $$p)" --coverage 2; done

# The build is one with -mbranch-protection: BOARD_CFLAGS.
PAC_CPUS := max cortex-a53
.PHONY: qemu-pac
qemu-pac: $(QEMU_DIR)/service $(QEMU_DIR)/service-static $(QEMU_GUARDED)
	@$(BOARD_CROSS)objdump -d $(EP_LIB) | grep -q paciasp || { echo "$@: $(EP_LIB) is not signed" >&2; exit 1; }
	@$(QEMU_TWICE); set -e; for p in $^; do for cpu in $(PAC_CPUS); do \
	    twice "qemu-aarch64 -cpu $$cpu -L $(BOARD_SYSROOT)" $$p "$@ $$(basename $$p) $$cpu" --coverage 2 --exact 95; \
	done; done

# ---- the whole machine ----

QEMU_LIBS  := $(wildcard $(addprefix $(BOARD_SYSROOT)/lib/,ld-linux*.so.* libc.so.6 libm.so.6 libresolv.so.2 libgcc_s.so.1 \
              libanl.so.1 libnss_compat.so.2 libBrokenLocale.so.1 libnss_hesiod.so.2))

$(QEMU_DIR)/init: tests/arm/qemu/init.c
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) -D_GNU_SOURCE -std=c11 -O2 $(BOARD_CFLAGS) $(WARNINGS) -static $< -o $@

$(QEMU_DIR)/jobs: tests/arm/qemu/qemu.mk
	@mkdir -p $(@D)
	@{ printf '%s\n' $(foreach t,$(QEMU_PORT),'$(t) 300 UNIT_STEP=97 /bin/$(t)') \
	    'service 120 /bin/service 6000 97 receive:///tmp/service' 'show service /tmp/service' \
	    'service-static 120 /bin/service-static 4000 97 receive:///tmp/static' 'show service-static /tmp/static' \
	    'hz 60 /bin/service 3000 1000 receive:///tmp/hz' 'show hz /tmp/hz'; } >$@

$(QEMU_DIR)/initrd.gz: tests/arm/qemu/initramfs.py $(QEMU_DIR)/init $(QEMU_DIR)/jobs $(QEMU_LINUX) $(QEMU_PROGRAMS)
	@$(PYTHON) $< $@ init=$(QEMU_DIR)/init jobs=$(QEMU_DIR)/jobs $(foreach l,$(QEMU_LIBS),lib/$(notdir $(l))=$(l)) \
	    $(foreach p,$(QEMU_LINUX) $(QEMU_PROGRAMS) $(UT_DIR)/plain/plugin.so $(UT_TRACERS:%=$(UT_DIR)/plain/%),bin/$(notdir $(p))=$(p))

$(QEMU_DIR)/sampling.gz: tests/arm/qemu/initramfs.py $(QEMU_DIR)/init $(QEMU_SLOW:%=$(UT_DIR)/plain/%) tests/arm/qemu/qemu.mk
	@printf '%s\n' $(foreach t,$(QEMU_SLOW),'$(t) 300 PARANOID=1 /bin/$(t)') >$@.jobs
	@$(PYTHON) $< $@ init=$(QEMU_DIR)/init jobs=$@.jobs $(foreach l,$(QEMU_LIBS),lib/$(notdir $(l))=$(l)) \
	    $(foreach t,$(QEMU_SLOW),bin/$(t)=$(UT_DIR)/plain/$(t))

# -icount: the guest's time is the number of executed instructions, 4 ns each, whatever load this machine has.
QEMU_ICOUNT := -icount shift=2,sleep=off
QEMU_SYSTEM = $(PYTHON) tests/arm/qemu/system.py --kernel $(BOARD_QEMU_KERNEL)

.PHONY: qemu-system qemu-sampling qemu-bench
qemu-sampling: $(QEMU_DIR)/sampling.gz $(BOARD_QEMU_KERNEL)
	@$(QEMU_SYSTEM) --out $(QEMU_DIR)/sampling --log $(QEMU_DIR)/sampling.log --initrd $< -- $(BOARD_QEMU) $(QEMU_ICOUNT)
qemu-system: $(QEMU_DIR)/initrd.gz $(BOARD_QEMU_KERNEL)  ## the Linux port's tests and a service on a whole machine
	@rm -rf $(QEMU_DIR)/shown
	@$(QEMU_SYSTEM) --out $(QEMU_DIR)/shown --log $(QEMU_DIR)/system.log --initrd $< -- $(BOARD_QEMU) $(QEMU_ICOUNT)
	@$(QEMU_SHARES)

$(QEMU_DIR)/shown/service.truth:
	@$(MAKE) --no-print-directory BOARD=$(BOARD) qemu-system >&2

# Each job prints the expected values as a line of JSON.
QEMU_SHARES = set -e; cd "$(CURDIR)"; for n in service service-static hz; do \
	        awk -v end="@end $$n " '/^.?\{"parts"/ { truth = $$0 } index($$0, end) { print truth; exit }' \
	            $(QEMU_DIR)/system.log | tr -d '\r' >$(QEMU_DIR)/shown/$$n.truth; \
	        $(QEMU_CHECK) --truth $(QEMU_DIR)/shown/$$n.truth --profile $(QEMU_DIR)/shown/$$n --name "$@ $(BOARD) $$n" \
	            $$([ $$n = hz ] && echo --hz $(BOARD_HZ)); \
	    done

# Crashes on a whole machine, rows of several threads too, which qemu-user does not have: NAME:SIGNAL:FUNCTION:THREADS.
CRASH_ROWS  := null:11:do_null:1 abort:6:do_abort:1 ill:4:do_ill:1 bus:7:do_bus:1 sent:11:do_sent:1 \
               null-thread:11:do_null:3 null-many:11:do_null:33 null-run:11:do_null:2 abort-thread:6:do_abort:3
CRASH_PARTS  = $(subst :, ,$(1))
CRASH_JOB    = '$(1)-crash 60 EDGEPROF_ENDPOINT=file:///tmp/$(1) EDGEPROF_CRASH=/tmp/crash/ /bin/ends $(2) /bin/linked $(subst -, ,$(1))' \
               '$(1)-next 60 EDGEPROF_ENDPOINT=file:///tmp/$(1) EDGEPROF_CRASH=/tmp/crash/ /bin/linked idle' 'show $(1) /tmp/$(1)'
$(QEMU_DIR)/ends: tests/arm/qemu/ends.c
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) -D_GNU_SOURCE -std=c11 -O2 $(BOARD_CFLAGS) $(WARNINGS) -static $< -o $@
$(QEMU_DIR)/crash.gz: tests/arm/qemu/initramfs.py $(QEMU_DIR)/init $(QEMU_DIR)/ends $(BUILD)/tests/linux/crash/linked tests/arm/qemu/qemu.mk
	@printf '%s\n' $(foreach r,$(CRASH_ROWS),$(call CRASH_JOB,$(word 1,$(call CRASH_PARTS,$(r))),$(word 2,$(call CRASH_PARTS,$(r))))) >$(QEMU_DIR)/crash-jobs
	@$(PYTHON) $< $@ init=$(QEMU_DIR)/init jobs=$(QEMU_DIR)/crash-jobs $(foreach l,$(QEMU_LIBS),lib/$(notdir $(l))=$(l)) \
	    bin/ends=$(QEMU_DIR)/ends bin/linked=$(BUILD)/tests/linux/crash/linked
.PHONY: qemu-crash
qemu-crash: $(QEMU_DIR)/crash.gz $(BOARD_QEMU_KERNEL)
	@rm -rf $(QEMU_DIR)/crashes
	@$(QEMU_SYSTEM) --out $(QEMU_DIR)/crashes --log $(QEMU_DIR)/crash.log --initrd $< -- $(BOARD_QEMU) $(QEMU_ICOUNT)
	@tests/arm/qemu/check_crashes.py $(QEMU_TOOL) $(BUILD)/tests/linux/crash $(QEMU_DIR)/crashes $(CRASH_ROWS)

# The cost of a sample in instructions, including the kernel's: with -icount the guest's clocks count instructions.
# At most this many times what an empty handler costs. 32-bit ARM's kernel takes 0.06 more for a handler with siginfo.
SAMPLE_INSTR_MOST_aarch64 := 1.22
SAMPLE_INSTR_MOST_armhf   := 1.34
$(QEMU_DIR)/cost.gz: tests/arm/qemu/initramfs.py $(QEMU_DIR)/init $(QEMU_DIR)/sample_cost tests/arm/qemu/qemu.mk
	@echo 'sample_cost 600 /bin/sample_cost' >$(QEMU_DIR)/cost-jobs
	@$(PYTHON) $< $@ init=$(QEMU_DIR)/init jobs=$(QEMU_DIR)/cost-jobs bin/sample_cost=$(QEMU_DIR)/sample_cost
qemu-bench: $(QEMU_DIR)/cost.gz $(BOARD_QEMU_KERNEL) | $(QEMU_DIR)/shown/service.truth
	@$(QEMU_SYSTEM) --out $(QEMU_DIR)/cost --log $(QEMU_DIR)/cost.log --initrd $< -- $(BOARD_QEMU) -icount shift=0,sleep=off >&2
	@grep -aE '^bare signal.* (29|3[0-9])\.[0-9] frames a stack, 100\.00 % exact' $(QEMU_DIR)/cost.log >&2
	@sed -n 's/^figure sample_cost_ratio[a-z0-9_]* \([0-9.]*\) .*/figure sample_instr_ratio_$(QEMU_NAME) \1 ratio/p' $(QEMU_DIR)/cost.log | \
	    awk '{ print } $$3 > $(SAMPLE_INSTR_MOST_$(QEMU_NAME)) { exit 1 } END { if (NR != 1) exit 1 }'
	@$(PYTHON) tests/arm/qemu/check_profile.py --edgeprof $(QEMU_TOOL) --symbols $(QEMU_DIR) --truth $(QEMU_DIR)/shown/service.truth \
	    --profile $(QEMU_DIR)/shown/service --name "$(BOARD)" --figure cpu_accounted_$(QEMU_NAME)_pct
endif
