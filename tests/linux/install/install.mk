# Test of `make install`: builds a program for a device against the installed files.

# Each installed header alone, in C and C++. GCC's warnings for the board, clang's where it is there.
HEADERS_DIR := $(abspath $(INSTALL_DIR)/headers)
.PHONY: test-headers
test-headers:
	@rm -rf '$(HEADERS_DIR)' && $(MAKE) -s --no-print-directory DESTDIR='$(HEADERS_DIR)' PREFIX= install-headers
	@CC='$(CC)' $(PYTHON) tests/linux/install/headers_test.py '$(HEADERS_DIR)/include' core/edgeprof

# Installs, builds the example in four ways, and runs it: BOARD's compiler, cmake, pkg-config.
.PHONY: check-install
check-install:
	@CC='$(CC)' EXEC='$(BOARD_EXEC)' SYSROOT='$(BOARD_SYSROOT)' ARCH='$(BOARD_ARCH)' \
	    $(PYTHON) tests/linux/install/install_test.py $(BOARD) "$(abspath $(INSTALL_DIR)/test)" "$(abspath $(if $(QEMU_TOOL),$(QEMU_TOOL),$(BUILD)/edgeprof))"

ifeq ($(BOARD),host)
test-install: $(BUILD)/edgeprof $(EP_LIB) $(TLS_LIB) $(INSTALL_SO)
	@$(MAKE) --no-print-directory check-install
.PHONY: test-install-arm
test-install-arm: $(BUILD)/edgeprof
	@set -e; for b in $(QEMU_BOARDS); do $(MAKE) --no-print-directory BOARD=$$b QEMU_TOOL=$< check-install; done
endif

ifeq ($(BOARD),host)
SBOM := $(BUILD)/edgeprof.spdx.json
.PHONY: sbom test-sbom
sbom: $(SBOM)  ## what a build consists of, as SPDX 2.3 JSON
$(SBOM): $(BUILD)/edgeprof tools/build/sbom.py tools/build/setup.sh tools/build/packages.txt tools/web/package-lock.json
	@SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(PYTHON) tools/build/sbom.py $(EP_VERSION) $< >$@
test-sbom: $(SBOM)
	@SOURCE_DATE_EPOCH=$$(date -u -d "$$(sed -n 's/.*"created": "\(.*\)".*/\1/p' $<)" +%s) $(call host_test,sbom_test.py)
endif

# Two whole builds, and two of the packages.
ifeq ($(BOARD),host)
.PHONY: test-reproducible
test-reproducible:
	@tests/linux/install/reproducible.py "$(abspath $(BUILD)/tests/reproducible)" $(EP_LIB) $(TLS_LIB) $(BUILD)/edgeprof \
	    $(BUILD)/libedgeprof-preload.so $(BUILD)/libedgeprof-memory.so $(BUILD)/install/libedgeprof.so.$(EP_VERSION) 'deb:$(DEB_DIR)/*.deb'
endif

# The library in two files. The recipes of Yocto and Buildroot that `make dist` writes: their steps, offline, twice.
ifeq ($(BOARD),host)
.PHONY: test-recipes test-amalgamation
test-amalgamation: amalgamation $(BUILD)/edgeprof
	@$(PYTHON) tests/linux/install/amalgamation_test.py $(AMALGAMATION) "$(abspath $(BUILD)/tests/amalgamation)" $(BUILD)/edgeprof
test-recipes: dist
	@$(PYTHON) tests/linux/install/recipes_test.py $(DIST) "$(abspath $(BUILD)/tests/recipes)"
endif
