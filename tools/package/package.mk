# Packages. `make manual`: manual page and completions, generated from the program's table of options. `make deb`: Debian
# packages for BOARD; the tool's package is only built for the host.

PKG       := tools/package
PKG_DIR   := $(BUILD)/package
PKG_TABLE := $(PKG_DIR)/options.txt
PKG_MADE  := $(PKG_DIR)/edgeprof.1 $(PKG_DIR)/edgeprof.bash $(PKG_DIR)/_edgeprof
# The date of all files in a package: that of the last commit.
SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2>/dev/null),0)

# ---- from the tables of commands and options (tools/cmd/help.h) ----

.PHONY: manual
manual: $(PKG_MADE)  ## manual page and completions, in $(BUILD)/package

$(PKG_TABLE): $(BUILD)/edgeprof
	@mkdir -p $(@D)
	@$< --describe >$@

$(PKG_DIR)/edgeprof.1: $(PKG_TABLE) $(PKG)/manual.awk $(PKG)/manual.rest
	@awk -v version=$(EP_VERSION) -v date=$$(date -u -d @$(SOURCE_DATE_EPOCH) +%F) -v rest=$(PKG)/manual.rest \
	    -f $(PKG)/manual.awk $< >$@

$(PKG_DIR)/edgeprof.bash: $(PKG_TABLE) $(PKG)/completion-bash.awk $(PKG)/completion.bash
	@awk -v body=$(PKG)/completion.bash -f $(PKG)/completion-bash.awk $< >$@

$(PKG_DIR)/_edgeprof: $(PKG_TABLE) $(PKG)/completion-zsh.awk
	@awk -f $(PKG)/completion-zsh.awk $< >$@

# ---- Debian packages ----

DEB_DIR     ?= $(BUILD)/deb
DEB_VERSION ?= $(EP_VERSION)
DEB_ARCH    := $(patsubst x86_64,amd64,$(patsubst aarch64,arm64,$(patsubst arm,armhf,$(BOARD_ARCH))))
DEB_TRIPLET  = $(shell dpkg-architecture -a$(DEB_ARCH) -qDEB_HOST_MULTIARCH 2>/dev/null)
# A build folder of its own, with Debian's flags for the packages' architecture. DEB_BUILT=1 packs what BUILD has, as it is.
DEB_BUILD    = $(if $(DEB_BUILT),$(BUILD),$(BUILD)/deb-build)
# Without Debian's own map of file names, which a folder with a space breaks; ours has the same effect.
deb_flag     = '$(1)=$(shell dpkg-architecture -a$(DEB_ARCH) -f -c env DEB_BUILD_MAINT_OPTIONS=reproducible=-fixfilepath dpkg-buildflags --get $(1) 2>/dev/null)'
DEB_MAKE     = $(MAKE) --no-print-directory -s BUILD=$(DEB_BUILD) $(if $(DEB_BUILT),,$(foreach flags,CPPFLAGS CFLAGS LDFLAGS,$(call deb_flag,$(flags))))
DEB_LIB     := $(DEB_DIR)/debian/libedgeprof0
DEB_DEV     := $(DEB_DIR)/debian/libedgeprof-dev
DEB_TOOL    := $(DEB_DIR)/debian/edgeprof

.PHONY: deb deb-library deb-tool deb-flags test-tools-deb
deb: deb-library $(if $(filter host,$(BOARD)),deb-tool)  ## Debian packages for BOARD, in $(BUILD)/deb
	@SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(PKG)/deb.sh $(DEB_DIR) $(DEB_VERSION) $(DEB_ARCH) libedgeprof0 libedgeprof-dev \
	    $(if $(filter host,$(BOARD)),edgeprof)
	@ls $(DEB_DIR)/*.deb

# The shared library has its own package: with its .so in -dev, every normally linked program would depend on it.
deb-library:
	@tools/build/setup.sh apt package
	@rm -rf $(DEB_DIR)
	@$(DEB_MAKE) DESTDIR="$$(realpath -m -- '$(DEB_DEV)')" PREFIX=/usr LIBDIR=/usr/lib/$(DEB_TRIPLET) \
	    INCLUDEDIR=/usr/include/$(DEB_TRIPLET) install-library
	@install -d $(DEB_LIB)/usr/lib/$(DEB_TRIPLET)
	@mv $(DEB_DEV)/usr/lib/$(DEB_TRIPLET)/libedgeprof.so.* $(DEB_LIB)/usr/lib/$(DEB_TRIPLET)

# The documents for administrators.
PKG_PAGES := configuration opentelemetry server security http-api pyroscope-and-grafana troubleshooting

deb-flags:
	@echo $(DEB_MAKE)

deb-tool: | deb-library
	@$(DEB_MAKE) tools preload manual
	@install -D -m 755 $(DEB_BUILD)/edgeprof $(DEB_TOOL)/usr/bin/edgeprof
	@install -D -m 644 $(DEB_BUILD)/libedgeprof-preload.so $(DEB_TOOL)/usr/lib/edgeprof/libedgeprof-preload.so
	@install -D -m 644 $(DEB_BUILD)/libedgeprof-memory.so $(DEB_TOOL)/usr/lib/edgeprof/libedgeprof-memory.so
	@install -D -m 644 $(PKG)/edgeprof.gdb $(DEB_TOOL)/usr/share/gdb/auto-load/usr/lib/edgeprof/libedgeprof-preload.so-gdb.gdb
	@install -D -m 644 $(PKG)/edgeprof.gdb $(DEB_TOOL)/usr/share/gdb/auto-load/usr/lib/edgeprof/libedgeprof-memory.so-gdb.gdb
	@install -D -m 644 $(DEB_BUILD)/package/edgeprof.1 $(DEB_TOOL)/usr/share/man/man1/edgeprof.1
	@install -D -m 644 $(DEB_BUILD)/package/edgeprof.bash $(DEB_TOOL)/usr/share/bash-completion/completions/edgeprof
	@install -D -m 644 $(DEB_BUILD)/package/_edgeprof $(DEB_TOOL)/usr/share/zsh/vendor-completions/_edgeprof
	@install -D -m 600 $(PKG)/edgeprof.conf $(DEB_TOOL)/etc/edgeprof/edgeprof.conf
	@install -D -m 644 tools/README.md $(DEB_TOOL)/usr/share/doc/edgeprof/README.md
	@install -D -m 644 -t $(DEB_TOOL)/usr/share/doc/edgeprof/docs $(PKG_PAGES:%=docs/%.md)
	@install -m 644 NOTICE $(DEB_TOOL)/usr/share/doc/edgeprof/NOTICE

test-tools-deb: export DEB_BUILT := 1
test-tools-deb: deb
	@SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(call host_test,deb_test.py)
test-tools-deb-arm: deb
	@set -e; for b in $(QEMU_BOARDS); do $(MAKE) --no-print-directory -s BOARD=$$b deb; done
	@SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) DEB_ARM=1 $(call host_test,deb_test.py)
