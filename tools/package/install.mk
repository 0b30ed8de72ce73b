# make install DESTDIR= PREFIX=/usr/local: headers, static and shared library, preload libraries, linker options, licences,
# files for pkg-config and CMake, for any BOARD. PRELOAD=0: no preload libraries, which need glibc.
# tests/linux/install/install.mk tests it.

# GNU's names in lower case count, too.
PREFIX     ?= $(or $(prefix),/usr/local)
DESTDIR    ?=
INCLUDEDIR ?= $(or $(includedir),$(PREFIX)/include)
LIBDIR     ?= $(or $(libdir),$(PREFIX)/lib)
DOCDIR     ?= $(or $(docdir),$(PREFIX)/share/doc/edgeprof)
PRELOAD    ?= 1

INSTALL_DIR := $(BUILD)/install
INSTALL_SO  := $(INSTALL_DIR)/libedgeprof.so.$(EP_VERSION)
INSTALL_ABI := libedgeprof.so.$(firstword $(subst ., ,$(EP_VERSION)))
# Options that change declarations in the headers are written into the installed header.
INSTALL_OPTIONS := $(patsubst -D%,%,$(filter -DEP_%,$(BOARD_CFLAGS) $(CPPFLAGS) $(CFLAGS)))
INSTALL_INCLUDE  = $(shell realpath -ms --relative-to=$(LIBDIR) $(INCLUDEDIR))
# Linker options for programs.
INSTALL_WRAPS   := $(shell cat port/linux/link.opt 2>/dev/null)
INSTALL_MEMORY  := $(shell cat port/linux/memory.opt 2>/dev/null)
# Compiler options for programs, so that stacks can be unwound through them.
INSTALL_CFLAGS  := $(filter -funwind-tables,$(BOARD_CFLAGS))

# ---- the shared library: the same sources, with visible public names ----

# Without the memory and write hooks: a program's calls reach the wrappers only where these are linked into it.
INSTALL_OBJ := $(patsubst %.c,$(INSTALL_DIR)/obj/%.o,$(filter-out port/linux/memory% port/linux/write%,$(EP_SRC)))
INSTALL_TLS := $(TLS_SRC:%.c=$(INSTALL_DIR)/obj/%.o)

$(INSTALL_OBJ): $(INSTALL_DIR)/obj/%.o: %.c $(MAKE_SRC) | $(GEN_HDR)
	@mkdir -p $(@D)
	$(call compile,$(EP_CFLAGS) $(if $(filter $(EP_FAST),$<),,-Os) -fvisibility=default $(call so_harden,$<))

$(INSTALL_TLS): $(INSTALL_DIR)/obj/%.o: %.c $(MAKE_SRC)
	@mkdir -p $(@D)
	$(call compile,$(TLS_CPPFLAGS) $(EP_CFLAGS) -Os -fvisibility=default $(call so_harden,$<))

# Public symbols: declarations in the installed headers, and the functions used by the linker options.
$(INSTALL_DIR)/names.map: port/linux/link.opt $(addprefix core/edgeprof/,edgeprof.h crash.h endpoint.h incident.h otel.h pprof.h spool.h transport.h tls.h)
	@mkdir -p $(@D)
	@{ echo '{ global:'; \
	   sed -n 's/^-Wl,--wrap=\(.*\)/__wrap_\1;/p; s/^[a-z].*[ *]\(ep_[a-z_]*\)(.*);.*/\1;/p; s/^extern const .* \(ep_[a-z_]*\);.*/\1;/p' $^; \
	   echo 'local: *; };'; } >$@

$(INSTALL_SO): $(INSTALL_OBJ) $(INSTALL_TLS) $(SO_THIRD) $(INSTALL_DIR)/names.map
	@echo "  LD $@"; $(CC) $(BOARD_CFLAGS) -shared -Wl,-soname,$(INSTALL_ABI) -Wl,-z,text $(SO_LDFLAGS) -Wl,-z,nodelete -Wl,--no-undefined \
	    -Wl,--gc-sections -Wl,--build-id $(EP_LDFLAGS) -Wl,--version-script=$(INSTALL_DIR)/names.map \
	    $(INSTALL_OBJ) $(INSTALL_TLS) $(SO_THIRD) $(EP_LDLIBS) -lresolv -o $@

-include $(INSTALL_OBJ:.o=.d) $(INSTALL_TLS:.o=.d)

# ---- install ----

.PHONY: install install-headers install-library install-licences install-preload installed
INSTALL_PRELOAD := $(if $(filter 0,$(PRELOAD)),,$(PRELOAD_LIB) $(MEMORY_LIB))
installed: $(EP_LIB) $(TLS_LIB) $(INSTALL_SO) $(INSTALL_PRELOAD)  ## builds what `make install` installs
install: install-library install-licences $(if $(INSTALL_PRELOAD),install-preload)  ## headers, libraries, pkg-config and CMake files to $(DESTDIR)$(PREFIX)
# Every public header. Those of ports and of a runtime's hooks are for programs with the static library: the shared one
# has only what names.map lists.
install-headers:
	@install -d '$(DESTDIR)$(INCLUDEDIR)/edgeprof'
	@install -m 644 core/edgeprof/*.h '$(DESTDIR)$(INCLUDEDIR)/edgeprof/'
	@{ for o in $(INSTALL_OPTIONS); do echo "#define $${o%%=*} $${o#*=}"; done; cat core/edgeprof/options.h; } \
	    >'$(DESTDIR)$(INCLUDEDIR)/edgeprof/options.h'
install-preload: $(INSTALL_PRELOAD)
	@install -d '$(DESTDIR)$(LIBDIR)/edgeprof'
	@install -m 755 $^ '$(DESTDIR)$(LIBDIR)/edgeprof/'
install-licences:
	@install -d '$(DESTDIR)$(DOCDIR)'
	@install -m 644 LICENSE NOTICE '$(DESTDIR)$(DOCDIR)/'
	@install -m 644 $(NANOPB_DIR)/LICENSE.txt '$(DESTDIR)$(DOCDIR)/LICENSE.nanopb'
	@install -m 644 $(MBEDTLS_DIR)/LICENSE '$(DESTDIR)$(DOCDIR)/LICENSE.mbedtls'
install-library: install-headers $(EP_LIB) $(TLS_LIB) $(INSTALL_SO)
	@install -d '$(DESTDIR)$(LIBDIR)/edgeprof'
	@install -m 644 port/linux/link.opt port/linux/memory.opt port/linux/write.opt '$(DESTDIR)$(LIBDIR)/edgeprof/'
	@install -d '$(DESTDIR)$(LIBDIR)/pkgconfig' '$(DESTDIR)$(LIBDIR)/cmake/edgeprof'
	@install -m 644 $(EP_LIB) $(TLS_LIB) '$(DESTDIR)$(LIBDIR)/'
	@install -m 755 $(INSTALL_SO) '$(DESTDIR)$(LIBDIR)/'
	@ln -sf libedgeprof.so.$(EP_VERSION) '$(DESTDIR)$(LIBDIR)/$(INSTALL_ABI)'
	@ln -sf $(INSTALL_ABI) '$(DESTDIR)$(LIBDIR)/libedgeprof.so'
	@for f in edgeprof.pc edgeprof-memory.pc edgeprofConfig.cmake edgeprofConfigVersion.cmake; do \
	    case $$f in *.pc) to=pkgconfig;; *) to=cmake/edgeprof;; esac; \
	    sed 's,@PREFIX@,$(PREFIX),; s,@INCLUDEDIR@,$(INCLUDEDIR),; s,@LIBDIR@,$(LIBDIR),; s,@INCLUDE_FROM_LIB@,$(INSTALL_INCLUDE),; s,@VERSION@,$(EP_VERSION),; s,@ABI@,$(INSTALL_ABI),; s|@WRAPS@|$(INSTALL_WRAPS)|; s|@MEMORY_WRAPS@|$(INSTALL_MEMORY)|; s|@CFLAGS@|$(INSTALL_CFLAGS)|; s|@LDFLAGS@|$(BOARD_LDFLAGS)|' \
	        tools/package/$$f.in >'$(DESTDIR)$(LIBDIR)'/$$to/$$f; \
	done
	@echo "installed edgeprof $(EP_VERSION) for $(BOARD) to $(DESTDIR)$(PREFIX)"
