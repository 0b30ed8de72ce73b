################################################################################
#
# edgeprof
#
################################################################################

EDGEPROF_VERSION = @VERSION@
# The release is in this tree, with generated sources and those of nanopb and mbedtls: no other package, no host tool and
# no network.
EDGEPROF_SITE = $(BR2_EXTERNAL_EDGEPROF_PATH)/dl
EDGEPROF_SITE_METHOD = file
EDGEPROF_LICENSE = Apache-2.0, Zlib (nanopb)
EDGEPROF_LICENSE_FILES = LICENSE third-party/nanopb/LICENSE.txt third-party/mbedtls/LICENSE
EDGEPROF_INSTALL_STAGING = YES

# The compiler names the core, so the board is `any`. The preload libraries need glibc.
EDGEPROF_MAKE = $(TARGET_MAKE_ENV) $(TARGET_CONFIGURE_OPTS) \
	CFLAGS="$(TARGET_CFLAGS) $(call qstrip,$(BR2_PACKAGE_EDGEPROF_OPTIONS))" \
	$(MAKE) -C $(@D) BOARD=any PREFIX=/usr $(if $(BR2_TOOLCHAIN_USES_GLIBC),,PRELOAD=0)

define EDGEPROF_BUILD_CMDS
	$(EDGEPROF_MAKE) installed
endef

define EDGEPROF_INSTALL_STAGING_CMDS
	$(EDGEPROF_MAKE) DESTDIR=$(STAGING_DIR) install
endef

# Buildroot removes headers, static libraries and documents from the target.
define EDGEPROF_INSTALL_TARGET_CMDS
	$(EDGEPROF_MAKE) DESTDIR=$(TARGET_DIR) install
endef

$(eval $(generic-package))
