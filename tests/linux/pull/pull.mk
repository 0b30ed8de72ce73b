# The pull endpoint from outside. tests/unit/endpoint/test_pull.c tests it inside.

PULL_DIR     := $(BUILD)/tests/linux/pull
PULL_PROGRAM := $(PULL_DIR)/program

$(PULL_PROGRAM): tests/linux/pull/program.c core/edgeprof/edgeprof.h core/edgeprof/options.h $(EP_LIB)
	@mkdir -p $(@D)
	@echo "  CC $@"; $(CC) -I. -Icore -D_GNU_SOURCE -std=c11 -O2 -g $(WARNINGS) $< $(EP_LIB) $(EP_LDFLAGS) $(EP_LDLIBS) -o $@

test-pull: $(PULL_PROGRAM) $(BUILD)/edgeprof
	@tests/linux/pull/pull.py $(PULL_PROGRAM) $(BUILD)/edgeprof $(PULL_DIR)/work

PULL_SECONDS ?= 600
.PHONY: pull-parca
pull-parca: $(PULL_PROGRAM)
	@tests/linux/pull/parca_scrape.py $(PULL_PROGRAM) $(PULL_SECONDS)
