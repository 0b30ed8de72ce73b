# edgeprof. `make help` lists the targets; boards/README.md describes BOARD=.
#
# This file builds the library. The folders' .mk files have the rules of the tests in
# tests/tests.txt, and register benchmarks in BENCHES.
# All output goes to build/.

BOARD ?= host
BUILD := build/$(BOARD)
ifeq ($(wildcard boards/$(BOARD)/board.mk),)
$(error there is no board '$(BOARD)': BOARD is one of $(notdir $(patsubst %/,%,$(dir $(wildcard boards/*/board.mk)))))
endif
include boards/$(BOARD)/board.mk

# A release (make dist) has the sources of others, and those that nanopb's generator makes.
third_party  = $(if $(wildcard third-party/$(1)),third-party/$(1),build/deps/$(1))
NANOPB_DIR  ?= $(call third_party,nanopb)
MBEDTLS_DIR ?= $(call third_party,mbedtls)
GENERATED   := $(wildcard generated)

# $(1): a tool's variable, which a recipe may have in its environment. $(2): its name
tool     = $(if $(filter environment%,$(origin $(1))),$($(1)),$(BOARD_CROSS)$(2))
CC_FROM := $(filter environment% command%,$(origin CC))
CC      := $(call tool,CC,gcc)
AR      := $(call tool,AR,ar)
NM      := $(call tool,NM,nm)
OBJCOPY := $(call tool,OBJCOPY,objcopy)
SIZE    := $(call tool,SIZE,size)
ifneq ($(CC_FROM),)
ifeq ($(filter $(BOARD_ARCH)%,$(shell $(CC) -dumpmachine)),)
$(error CC='$(CC)' does not compile for $(BOARD_ARCH), which BOARD=$(BOARD) is: unset CC or choose another board)
endif
endif
PYTHON  ?= /usr/bin/python3
# Tests import modules from the tree; they may not write bytecode there.
export PYTHONDONTWRITEBYTECODE := 1
JOBS    ?= $(shell nproc)
CLANG_FORMAT ?= clang-format-14

EP_VERSION := $(shell sed -n 's/^.define EP_VERSION "\(.*\)"/\1/p' core/edgeprof/edgeprof.h)

# A packager's own compiler or flags may warn of more.
WERROR      ?= $(if $(strip $(CPPFLAGS) $(CFLAGS) $(CC_FROM)),,1)
WARNINGS    := -Wall -Wextra -Wpedantic -Wconversion -Wundef -Wmissing-prototypes -Wvla $(if $(filter 1,$(WERROR)),-Werror)
EP_INCLUDES := -I. -Icore -I$(BUILD)/gen -isystem $(NANOPB_DIR)
# PB_NO_ERRMSG changes the layout of nanopb's structures, so all users of pb.h with the library must define it.
EP_CPPFLAGS := $(EP_INCLUDES) -DPB_NO_ERRMSG=1 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 \
               $(if $(filter 0,$(BOARD_SOCKETS)),-DEP_SOCKETS=0)
# Debugging information names files from the root of the tree, so the folders of a build do not change its bytes.
FILE_NAMES  := -ffile-prefix-map="$(CURDIR)"=. -ffile-prefix-map="$(BUILD)"=build -ffile-prefix-map="$(NANOPB_DIR)"=nanopb \
               -ffile-prefix-map="$(MBEDTLS_DIR)"=mbedtls
EP_CODEGEN  := $(FILE_NAMES) -std=c11 -O2 -g -fPIC -ftls-model=initial-exec -fvisibility=hidden -fno-omit-frame-pointer \
               -ffunction-sections -fdata-sections $(BOARD_CFLAGS)
EP_CFLAGS   := $(EP_CODEGEN) $(WARNINGS) -fcallgraph-info=su
# For programs that link the library statically: these options wrap the functions that start threads and change signal
# masks. gcc and clang read them from the file.
EP_LDFLAGS  := @port/linux/link.opt
EP_LDLIBS   := -lpthread -ldl

# V=1 shows the commands. The archive is replaced atomically, because another process may be linking it.
ifeq ($(V),1)
compile = $(CC) $(EP_CPPFLAGS) $(1) -MMD -MP -c $< -o $@
else
compile = @echo "  CC $<"; $(CC) $(EP_CPPFLAGS) $(1) -MMD -MP -c $< -o $@
endif

# ---- sources ----

# A file with an architecture's name, such as unwind_arm.c, is only compiled for that architecture.
OTHER_ARCHS   := $(filter-out $(BOARD_ARCH),x86_64 aarch64 arm)
here           = $(filter-out $(BOARD_EXCLUDE) $(foreach arch,$(OTHER_ARCHS),$(1)/%_$(arch).c),$(filter-out $(1)/test_%,$(wildcard $(1)/*.c)))
# In the order of tools/build/checks/rooms.txt.
CORE_ROOMS    := $(addprefix core/,unwind profile sample encode deliver collect environment lifecycle) \
                 $(patsubst %/,%,$(sort $(dir $(wildcard core/features/*/*.c))))
CORE_SRC      := $(foreach room,$(CORE_ROOMS),$(call here,$(room)))
PORT_SRC      := $(call here,$(BOARD_PORT))
# Without sockets (BOARD_SOCKETS := 0): files, and transports of the program.
BOARD_SOCKETS ?= 1
SOCKETS_SRC   := transport/tcp.c $(wildcard transport/http*.c)
TRANSPORT_SRC := $(filter-out $(if $(filter 0,$(BOARD_SOCKETS)),$(SOCKETS_SRC)),$(wildcard transport/*.c))
PROTO         := $(wildcard core/proto/*.proto)
GEN_SRC       := $(PROTO:core/proto/%.proto=$(BUILD)/gen/%.pb.c)
GEN_HDR       := $(GEN_SRC:.c=.h)
EP_SRC        := $(CORE_SRC) $(PORT_SRC) $(TRANSPORT_SRC)
EP_OBJ        := $(EP_SRC:%.c=$(BUILD)/obj/%.o)
THIRD_OBJ     := $(GEN_SRC:$(BUILD)/gen/%.c=$(BUILD)/obj/gen/%.o) \
                 $(BUILD)/obj/nanopb/pb_common.o $(BUILD)/obj/nanopb/pb_encode.o
EP_LIB        := $(BUILD)/libedgeprof.a
# Two folders run on the program's threads, for every sample: they are optimized for speed, all others for size.
EP_FAST       := core/sample/% core/unwind/%
MAKE_SRC      := Makefile boards/$(BOARD)/board.mk $(wildcard boards/arch/$(BOARD_ARCH).mk) tools/build/harden.mk
# $(1): the source
ep_speed       = $(if $(filter $(EP_FAST),$(1)),,-Os) $(ep_tls_$(BOARD_ARCH)_$(notdir $(1)))
# The dialect of TLS that OpenTelemetry's specification wants; the default of the other architectures is right.
ep_tls_x86_64_threads.c := -mtls-dialect=gnu2

BENCHES :=

# Boards whose tests this host runs in QEMU.
QEMU_BOARDS := $(if $(filter host,$(BOARD)),qemu-aarch64 qemu-armhf)

# tests/tests.txt has every test target.
.PHONY: $(shell sed -n 's/^\([a-z][a-z0-9_-]*\) .*/\1/p' tests/tests.txt 2>/dev/null)
comma := ,

.PHONY: all lib demo test test-all test-long tests-readme bench setup setup-demo format clean help
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:

all: lib        ## the library and the host tool

# Parts that are missing in the tree are not tested.
include $(wildcard \
    transport/tls/tls.mk \
    tools/build/harden.mk \
    port/linux/linux.mk \
    transport/transport.mk \
    tools/build/checks/checks.mk \
    tools/tools.mk \
    tests/tests.mk \
    tests/fuzz/fuzz.mk \
    port/nativeaot/nativeaot.mk \
    tests/linux/preload/preload.mk \
    tests/linux/stop/stop.mk \
    tests/linux/limits/limits.mk \
    tests/linux/coexist/coexist.mk \
    tests/linux/e2e/e2e.mk \
    tests/linux/pull/pull.mk \
    tests/linux/conformance/conformance.mk \
    tests/linux/pushed/pushed.mk \
    tests/linux/docs/docs.mk \
    tests/long/bench/bench.mk \
    tests/arm/qemu/qemu.mk \
    tests/arm/kernels/kernels.mk \
    tests/linux/signals/signals.mk \
    tests/linux/crash/crash.mk \
    tests/linux/incident/incident.mk \
    tests/linux/otel/otel.mk \
    tests/linux/foreign/foreign.mk \
    tests/long/libc/libc.mk \
    port/nativeaot/musl.mk \
    tests/arm/arm.mk \
    tests/dotnet/aot10/aot10.mk \
    tools/package/install.mk \
    tests/linux/install/install.mk \
    tests/linux/spool/spool.mk \
    tests/long/programs/programs.mk \
    tools/package/package.mk \
    tools/package/dist.mk \
    tests/host/host.mk)

lib: $(EP_LIB)  ## $(BUILD)/libedgeprof.a

# A program may link its own nanopb, of another version and with other options. So the archive renames the global
# symbols of nanopb and of its generated code: pb_encode becomes ep_pb_encode. Section and debug names stay.
$(EP_LIB): $(EP_OBJ) $(THIRD_OBJ)
	@echo "  AR $@"; rm -f $@.new; $(AR) qcsD $@.new $^ && \
	    $(NM) -g --defined-only $(THIRD_OBJ) | awk 'NF == 3 { print $$3, "ep_" $$3 }' >$@.names && \
	    $(OBJCOPY) -D --redefine-syms=$@.names $@.new && mv $@.new $@
	@$(if $(AR_WITHOUT),echo "  AR $@: compiled without $(AR_WITHOUT) (docs/security.md)")

$(EP_OBJ): $(BUILD)/obj/%.o: %.c $(MAKE_SRC) | $(GEN_HDR)
	@mkdir -p $(@D)
	$(call compile,$(EP_CFLAGS) -fomit-frame-pointer $(call ep_speed,$<) $(USER_FLAGS_AR))

$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c $(MAKE_SRC) | $(GEN_HDR)
	@mkdir -p $(@D)
	$(call compile,$(EP_CODEGEN) -fomit-frame-pointer -Os $(USER_FLAGS_AR))

$(BUILD)/obj/nanopb/%.o: $(NANOPB_DIR)/%.c $(MAKE_SRC)
	@mkdir -p $(@D)
	$(call compile,$(EP_CODEGEN) -fomit-frame-pointer -Os $(USER_FLAGS_AR))

ifneq ($(GENERATED),)
$(BUILD)/gen/%.pb.c $(BUILD)/gen/%.pb.h &: $(GENERATED)/%.pb.c $(GENERATED)/%.pb.h
	@mkdir -p $(@D)
	@cp $^ $(@D)/
else
# nanopb's generator needs Debian's python3-protobuf, so it uses the system's python3, not the first one in PATH.
$(BUILD)/gen/%.pb.c $(BUILD)/gen/%.pb.h &: core/proto/%.proto $(wildcard core/proto/*.options) | $(NANOPB_DIR)/pb_encode.c
	@mkdir -p $(@D)
	@echo "  PROTO $<"; $(PYTHON) $(NANOPB_DIR)/generator/nanopb_generator.py -q -I core/proto -D $(@D) $<
endif

$(NANOPB_DIR)/pb_encode.c $(NANOPB_DIR)/pb_common.c $(NANOPB_DIR)/pb_decode.c &:
	tools/build/setup.sh apt build
	tools/build/setup.sh deps

-include $(EP_OBJ:.o=.d) $(THIRD_OBJ:.o=.d)

# ---- commands ----

ifeq ($(wildcard port/nativeaot/nativeaot.mk),)
demo:           ## profile the sample service and show its flame graph
	@echo "make demo: port/nativeaot/nativeaot.mk is missing, there is no sample service in this tree" >&2; exit 1
endif

# RECORD=1 stores the durations for tests/README.md. STRICT=1: a target that is skipped though it has all it needs is a failure.
RUN_TESTS = $(PYTHON) tests/run.py --make '$(MAKE)' --logs $(BUILD)/logs --jobs $(JOBS) --seconds tests/seconds.txt \
            $(if $(STRICT),--strict) $(if $(RECORD),--record tests/seconds.txt)
test: setup     ## the tests that a developer waits for; the log of each is in $(BUILD)/logs
	@$(RUN_TESTS) --tier quick $(MAKEOVERRIDES)
test-all: setup ## every claim once, at its smallest honest size
	@$(RUN_TESTS) --tier all --boards '$(QEMU_BOARDS)' $(MAKEOVERRIDES)
test-long: setup ## the long sweeps of the same claims
	@$(RUN_TESTS) --tier long --boards '$(QEMU_BOARDS)' $(MAKEOVERRIDES)

TESTS_PAGE = tests/tests.txt tests/seconds.txt tests/README.md
tests-readme:   ## write tests/README.md from tests/tests.txt and tests/seconds.txt
	@$(PYTHON) tests/readme.py $(TESTS_PAGE)
check-tests-readme:
	@$(MAKE) -npq help 2>/dev/null | $(PYTHON) tests/readme.py --check $(TESTS_PAGE)
check-runner:
	@$(PYTHON) tests/run_test.py $(BUILD)/tests/runner

# A benchmark is a target or an executable script. Only its `figure NAME VALUE UNIT` lines go to standard output.
bench:          ## print every figure, one `figure NAME VALUE UNIT` a line
	@tools/build/setup.sh apt >&2 && tools/build/setup.sh deps >&2
	@mkdir -p $(BUILD)/logs; status=0; \
	for b in $(BENCHES); do \
	    log=$(BUILD)/logs/$$(basename $$b).out; echo "$$b ..." >&2; \
	    if [ -f "$$b" ] && [ -x "$$b" ]; then BUILD=$(BUILD) ./$$b >$$log; \
	    else $(MAKE) --no-print-directory -s -j$(JOBS) $$b >$$log; fi || { status=1; echo "$$b failed" >&2; }; \
	    awk '/^figure [a-z0-9_]+ -?[0-9.]+ [^ ]+$$/ { print; next } { print >"/dev/stderr" }' $$log; \
	done; exit $$status

setup:          ## install what building, testing and the demo need
	@tools/build/setup.sh apt
	@tools/build/setup.sh deps
	@tools/build/setup.sh npm

setup-demo:     ## install what `make demo` needs
	@tools/build/setup.sh apt build tools demo
	@tools/build/setup.sh deps
	@tools/build/setup.sh dotnet

format:         ## clang-format every C file in place
	$(CLANG_FORMAT) -i $(C_FILES)

clean:          ## remove what was made for this board
	rm -rf $(BUILD)

help:           ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { sub(/ +$$/, "", $$1); printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST) | sed 's,[$$](BUILD),$(BUILD),'
