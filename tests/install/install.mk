# Test of `make install`: builds a program for a device against the installed files.

# Installs, builds the example in four ways, and runs it: BOARD's compiler, cmake, pkg-config.
.PHONY: check-install
check-install:
	@CC='$(CC)' EXEC='$(BOARD_EXEC)' SYSROOT='$(BOARD_SYSROOT)' ARCH='$(BOARD_ARCH)' \
	    $(PYTHON) tests/install/install_test.py $(BOARD) $(abspath $(INSTALL_DIR)/test) $(abspath $(if $(QEMU_TOOL),$(QEMU_TOOL),$(BUILD)/edgeprof))

ifeq ($(BOARD),host)
$(call test,test-install,all,600,shared,A program builds against the installed library in four ways, and runs, on x86-64 and both ARMs.)
test-install: $(BUILD)/edgeprof $(EP_LIB) $(TLS_LIB) $(INSTALL_SO)
	@$(MAKE) --no-print-directory check-install
	@set -e; for b in $(QEMU_BOARDS); do $(MAKE) --no-print-directory BOARD=$$b QEMU_TOOL=$< check-install; done
endif
