SUMMARY = "Always-on profiling for small Linux devices, without malloc"
SECTION = "devel"
LICENSE = "Apache-2.0 & Zlib"
LIC_FILES_CHKSUM = "file://LICENSE;md5=@MD5_LICENSE@ \
                    file://third-party/nanopb/LICENSE.txt;md5=@MD5_NANOPB@ \
                    file://third-party/mbedtls/LICENSE;md5=@MD5_MBEDTLS@"

# The release is beside the recipe, in files/, with generated sources and those of nanopb and mbedtls: no other recipe,
# no native tool and no network.
SRC_URI = "file://edgeprof-${PV}.tar.gz"

COMPATIBLE_HOST = "(x86_64|aarch64|arm).*-linux.*"
B = "${WORKDIR}/build"

# CC, AR, NM, OBJCOPY, CPPFLAGS, CFLAGS and LDFLAGS come from the environment. CC and CFLAGS name the core, so the board
# is `any`. Tables of another size: CFLAGS:append = " -DEP_THREADS=48" (docs/configuration.md). The static library has
# an optimization level and a stack protector of its own; do_compile's log names the flags that it does without.
EXTRA_OEMAKE = "BOARD=any BUILD=${B} PREFIX=${prefix} LIBDIR=${libdir} INCLUDEDIR=${includedir} DOCDIR=${docdir}/edgeprof"
# The preload libraries need glibc.
EXTRA_OEMAKE:append:libc-musl = " PRELOAD=0"

do_compile() {
    oe_runmake -C ${S} installed
}

do_install() {
    oe_runmake -C ${S} DESTDIR=${D} install
}

PACKAGES =+ "${PN}-preload"
SUMMARY:${PN}-preload = "The profiler for programs that were built without it"
FILES:${PN}-preload = "${libdir}/edgeprof/*.so"
FILES:${PN}-dev += "${libdir}/edgeprof/*.opt"
