# What programs do that take for granted that they are alone, in many forms.

KINDS_DIR := $(BUILD)/tests/linux/coexist
KINDS_SRC := $(filter-out %/plugin.c,$(wildcard tests/linux/coexist/*.c))
KINDS_CC   = $(CC) -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $(BOARD_CFLAGS)

$(KINDS_DIR)/plugin.so: tests/linux/coexist/plugin.c
	@mkdir -p $(@D)
	@echo "  CC $@"; $(KINDS_CC) -fPIC -shared $< -o $@ -lpthread -ldl
$(KINDS_DIR)/kinds: $(KINDS_SRC) tests/linux/coexist/kinds.h
	@mkdir -p $(@D)
	@echo "  CC $@"; $(KINDS_CC) $(KINDS_SRC) -o $@ -lpthread -ldl
# A library in front of the program, whose constructor runs before anything of the program.
$(KINDS_DIR)/kinds_early: $(KINDS_SRC) $(KINDS_DIR)/plugin.so
	@echo "  CC $@"; $(KINDS_CC) $(KINDS_SRC) -o $@ -Wl,--no-as-needed $(abspath $(KINDS_DIR)/plugin.so) -lpthread -ldl
$(KINDS_DIR)/kinds_linked: $(KINDS_SRC) tests/linux/coexist/kinds.h $(EP_LIB) port/linux/link.opt
	@mkdir -p $(@D)
	@echo "  CC $@"; $(KINDS_CC) -I. -Icore -DLINKED $(KINDS_SRC) $(EP_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -ldl -o $@

.PHONY: kinds test-kinds
kinds: $(addprefix $(KINDS_DIR)/,kinds kinds_early kinds_linked plugin.so)
test-kinds: kinds $(PRELOAD_LIB) $(BUILD)/edgeprof  ## forms of programs that take for granted that they are alone
	@tests/linux/coexist/kinds.py $(KINDS_DIR) $(PRELOAD_LIB)
	@tests/linux/coexist/runtimes.py $(PRELOAD_LIB) $(KINDS_DIR)/runtimes.work
