# make dist: a release of the library, with generated sources and those of others, so that a build needs a compiler, make
# and POSIX tools: no git, network, Python or protoc. Beside it a layer for Yocto and an external tree for Buildroot,
# which contain it. test-recipes builds from both.

DIST      := $(BUILD)/dist
DIST_NAME := edgeprof-$(EP_VERSION)
DIST_TREE := $(DIST)/$(DIST_NAME)
DIST_FILE := $(DIST)/$(DIST_NAME).tar.gz
# The host tool and the tests need more than this.
DIST_PARTS := Makefile LICENSE NOTICE README.md CHANGELOG.md SECURITY.md CONTRIBUTING.md boards core docs port tools transport
DIST_LAYER := $(DIST)/meta-edgeprof/recipes-devtools/edgeprof
DIST_EXTERNAL := $(DIST)/buildroot

.PHONY: dist
dist: $(GEN_SRC) $(GEN_HDR) | $(NANOPB_DIR)/pb_encode.c $(MBEDTLS_DIR)/LICENSE  ## a release of the library with Yocto's and Buildroot's recipes, in $(BUILD)/dist
	@rm -rf $(DIST) && mkdir -p $(DIST_TREE)/generated $(DIST_TREE)/third-party/nanopb $(DIST_TREE)/third-party/mbedtls
	@if git rev-parse --git-dir >/dev/null 2>&1; then git ls-files -z $(DIST_PARTS); else find $(DIST_PARTS) -type f -not -path '*/node_modules/*' -print0; fi | \
	    tar -c --null --files-from=- | tar -x -C $(DIST_TREE)
	@cp $(GEN_SRC) $(GEN_HDR) $(DIST_TREE)/generated/
	@cp $(NANOPB_DIR)/pb*.[ch] $(NANOPB_DIR)/LICENSE.txt $(DIST_TREE)/third-party/nanopb/
	@cd $(MBEDTLS_DIR) && find library include LICENSE -name '*.[ch]' -o -name LICENSE | tar -c -T - | tar -x -C '$(abspath $(DIST_TREE))/third-party/mbedtls'
	@tar -c --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX --mtime=@$(SOURCE_DATE_EPOCH) \
	    -C $(DIST) $(DIST_NAME) | gzip -9n >$(DIST_FILE)
	@cp -r $(PKG)/yocto/meta-edgeprof $(DIST)/ && mv $(DIST_LAYER)/edgeprof.bb $(DIST_LAYER)/edgeprof_$(EP_VERSION).bb
	@mkdir -p $(DIST_LAYER)/files && cp $(DIST_FILE) $(DIST_LAYER)/files/
	@cp -r $(PKG)/buildroot $(DIST_EXTERNAL) && mkdir -p $(DIST_EXTERNAL)/dl && cp $(DIST_FILE) $(DIST_EXTERNAL)/dl/
	@sed -i 's/@VERSION@/$(EP_VERSION)/' $(DIST_EXTERNAL)/package/edgeprof/edgeprof.mk
	@{ echo '# Written by make dist'; { cd $(DIST) && sha256sum $(DIST_NAME).tar.gz && cd $(DIST_NAME) && \
	    sha256sum LICENSE third-party/nanopb/LICENSE.txt third-party/mbedtls/LICENSE; } | sed 's/^/sha256  /'; } \
	    >$(DIST_EXTERNAL)/package/edgeprof/edgeprof.hash
	@sed -i "s/@MD5_LICENSE@/$$(md5sum LICENSE | cut -d ' ' -f 1)/; \
	    s/@MD5_NANOPB@/$$(md5sum $(NANOPB_DIR)/LICENSE.txt | cut -d ' ' -f 1)/; \
	    s/@MD5_MBEDTLS@/$$(md5sum $(MBEDTLS_DIR)/LICENSE | cut -d ' ' -f 1)/" $(DIST_LAYER)/edgeprof_$(EP_VERSION).bb
	@rm -rf $(DIST_TREE)
	@ls -d $(DIST)/*

# ---- the library in two files ----

AMALGAMATION := $(BUILD)/amalgamation
# Not with it: TLS, whose library is larger than ours, and the hooks of malloc().
AMALGAMATION_SRC = $(filter-out port/linux/preload% port/linux/memory% port/linux/write%,$(foreach room,$(CORE_ROOMS) port/linux,$(filter-out $(room)/test_%,$(sort $(wildcard $(room)/*.c)))) $(TRANSPORT_SRC)) \
                   $(NANOPB_DIR)/pb_common.c $(NANOPB_DIR)/pb_encode.c $(GEN_SRC)
AMALGAMATION_PUBLIC := $(addprefix core/edgeprof/,options.h edgeprof.h pprof.h spool.h endpoint.h crash.h incident.h otel.h watchdog.h transport.h hooks.h)
.PHONY: amalgamation
amalgamation: $(GEN_SRC) $(GEN_HDR) | $(NANOPB_DIR)/pb_encode.c  ## the library as edgeprof.c and edgeprof.h, in $(BUILD)/amalgamation
	@$(PYTHON) $(PKG)/amalgamate.py $(AMALGAMATION) $(EP_VERSION) --include . core $(BUILD)/gen $(NANOPB_DIR) \
	    --public $(AMALGAMATION_PUBLIC) --sources $(AMALGAMATION_SRC)
	@cp port/linux/link.opt $(AMALGAMATION)/
	@ls $(AMALGAMATION)/edgeprof.c $(AMALGAMATION)/edgeprof.h $(AMALGAMATION)/link.opt
