# What packages have beside the programs: manual page and completions, made from the program's own help texts, so there is
# nothing to keep in step.

PKG       := tools/package
PKG_DIR   := $(BUILD)/package
PKG_HELP  := $(PKG_DIR)/help.txt
PKG_MADE  := $(PKG_DIR)/edgeprof.1 $(PKG_DIR)/edgeprof.bash $(PKG_DIR)/_edgeprof
# The date of everything in a package: the last commit's.
SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2>/dev/null),0)

# ---- from the help texts ----

.PHONY: manual test-tools-manual
manual: $(PKG_MADE)  ## manual page and completions, in $(BUILD)/package

$(PKG_HELP): $(PKG)/help.sh $(BUILD)/edgeprof
	@mkdir -p $(@D)
	@$^ >$@

$(PKG_DIR)/edgeprof.1: $(PKG_HELP) $(PKG)/help.awk $(PKG)/manual.awk $(PKG)/manual.rest
	@awk -v version=$(EP_VERSION) -v date=$$(date -u -d @$(SOURCE_DATE_EPOCH) +%F) -v rest=$(PKG)/manual.rest \
	    -f $(PKG)/help.awk -f $(PKG)/manual.awk $< >$@

$(PKG_DIR)/edgeprof.bash: $(PKG_HELP) $(PKG)/help.awk $(PKG)/completion.awk $(PKG)/completion-bash.awk $(PKG)/completion.bash
	@awk -v body=$(PKG)/completion.bash -f $(PKG)/help.awk -f $(PKG)/completion.awk -f $(PKG)/completion-bash.awk $< >$@

$(PKG_DIR)/_edgeprof: $(PKG_HELP) $(PKG)/help.awk $(PKG)/completion.awk $(PKG)/completion-zsh.awk
	@awk -f $(PKG)/help.awk -f $(PKG)/completion.awk -f $(PKG)/completion-zsh.awk $< >$@

TESTS += test-tools-manual
test-tools-manual: $(BUILD)/edgeprof $(PKG_MADE)
	@$(ET_RUN_ENV) $(PYTHON) tests/tools/manual_test.py $< $(PKG_DIR)
