#!/bin/sh
# Installs what building and testing need and this machine lacks. It returns quickly when everything is installed.
#
#   tools/build/setup.sh apt [SECTION...]   Debian packages of these sections of tools/build/packages.txt; default: all
#                                           but [programs] and [kernels]
#   tools/build/setup.sh deps               nanopb and mbedtls, pinned by hash, unpacked to build/deps/
#   tools/build/setup.sh cross              for the tests in QEMU: pinned cmocka; Debian's ARM kernels and musl, for arm64
#                                           BusyBox and OpenSSL, to build/deps/
#   tools/build/setup.sh arm64              the part of it for whole machines with a 64-bit core
#   tools/build/setup.sh kernels            for tests/arm/kernels: Debian's ARM kernels of other releases and with PREEMPT_RT, to
#                                           build/deps/kernels/
#   tools/build/setup.sh hz-kernels         the same kernel with CONFIG_HZ=100 and 1000, compiled from Debian's linux-source
#   tools/build/setup.sh dotnet             only reports whether the .NET SDK is installed
#   tools/build/setup.sh npm                what the page's tests use, as in its lock file
#   tools/build/setup.sh aot10              for tests/dotnet/aot10: Microsoft's library, as in its lock file, to build/deps/;
#                                           exit status 3: no registry served it
#
# NANOPB_DIR and MBEDTLS_DIR name unpacked source trees to use instead. Packages are installed as root or with sudo;
# other steps need no privileges. The script respects apt's configuration, such as mirrors and proxies.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
deps=$root/build/deps
scratch=
ticker=
trap 'quiet; test -z "$scratch" || rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

say() { echo "setup: $*" >&2; }
die() {
    echo "setup: error: $*" >&2
    exit 1
}

# telling WHAT: says every 15 s that it is still being done, until quiet
telling() {
    quiet
    say "$1"
    (
        trap 'kill "$pause"; exit' TERM
        waited=0
        while :; do
            sleep 15 >/dev/null 2>&1 9>&- &
            pause=$!
            wait "$pause"
            waited=$((waited + 15))
            say "$1: $waited s so far"
        done
    ) &
    ticker=$!
}
quiet() {
    [ -z "$ticker" ] || kill "$ticker" 2>/dev/null || true
    ticker=
}

# ---- apt ----

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# packages SECTION...: their names
packages() {
    awk -v want=" $* " '
        { sub(/#.*/, ""); gsub(/[ \t\r]/, "") }
        /^\[.*\]$/ { section = substr($0, 2, length($0) - 2); seen[section] = 1; next }
        $0 != "" && ((want == "  " && section != "programs" && section != "kernels") || index(want, " " section " ")) { print }
        END { n = split(want, w, " "); for (i = 1; i <= n; i++) if (!(w[i] in seen)) exit 3 }
    ' "$root/tools/build/packages.txt" || die "tools/build/packages.txt has not all of the sections: $*"
}

# absent PACKAGE...: the packages that are not installed
absent() {
    dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null |
        awk -v all="$*" '/^.i/ { there[$2] = 1 } END { n = split(all, a, " "); for (i = 1; i <= n; i++) if (!(a[i] in there)) print a[i] }'
}

# Runlevel 1 prevents packages from starting services, such as the nginx that only a test needs.
apt_install() {
    # shellcheck disable=SC2086 # a list of package names
    as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -q --no-install-recommends \
        -o DPkg::Lock::Timeout=600 $missing >"$scratch/apt.log" 2>&1
}

setup_apt() {
    command -v dpkg-query >/dev/null || die "not a Debian system: install the equivalents of tools/build/packages.txt by hand"
    wanted=$(packages "$@")
    # shellcheck disable=SC2086
    missing=$(absent $wanted | tr '\n' ' ')
    [ -n "$missing" ] || return 0
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null || die "run as root or install sudo; missing packages: $missing"
    telling "installing $(echo "$missing" | wc -w) Debian packages: $missing"
    scratch=$(mktemp -d)
    apt_install && return 0
    telling "updating the package lists first"
    as_root apt-get update -q >"$scratch/update.log" 2>&1 || die "apt-get update: $(tail -n 1 "$scratch/update.log")"
    apt_install || die "apt-get install: $(grep '^E:' "$scratch/apt.log" | head -n 1)"
}

# ---- pinned sources ----

# All URIs of the system's Debian archive, from deb822 files and one-line files, most likely first.
archive_uris() {
    for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/*.sources; do
        [ ! -r "$file" ] || awk 'tolower($1) == "uris:" { print $2 }' "$file"
    done
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ ! -r "$file" ] || sed -n 's/^deb\(-src\)\{0,1\}[ \t]*\(\[[^]]*\]\)\{0,1\}[ \t]*\([^ \t]*\).*/\3/p' "$file"
    done
}
debian_uris() {
    archive_uris | awk '!seen[$0]++ { if ($0 ~ /\/debian\/?$/) print; else rest = rest $0 "\n" } END { printf "%s", rest }'
}

# apart COMMAND ARGUMENT...: apt-get or apt-cache with the configuration that private_apt has made
apart() {
    command=$1
    shift
    "$command" -q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$scratch/apt/etc" -o Dir::State::lists="$scratch/apt/lists" \
        -o Dir::State::status="$scratch/apt/status" -o Dir::Cache="$scratch/apt/cache" -o APT::Sandbox::User="$(id -un)" \
        -o APT::Architecture="$architecture_apart" -o APT::Architectures="$architecture_apart" "$@"
}

# private_apt URI TYPE SUITE ARCHITECTURE: a separate apt configuration below $scratch/apt, for apart
private_apt() {
    rm -rf "$scratch/apt" && mkdir -p "$scratch/apt/lists/partial" "$scratch/apt/cache/archives/partial" "$scratch/apt/etc" "$scratch/fetch"
    : >"$scratch/apt/status"
    cat >"$scratch/apt/etc/archive.sources" <<END
Types: $2
URIs: $1
Suites: $3
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
    architecture_apart=$4
    apart apt-get update >"$scratch/fetch.log" 2>&1
}

# fetch URI PACKAGE TARBALL: into $scratch/fetch
fetch() {
    private_apt "$1" deb-src trixie "$(dpkg --print-architecture)" || return 1
    # The archive may have dropped the .dsc but still have the tarball. The hash decides, not apt's exit code.
    (cd "$scratch/fetch" && apart apt-get source --download-only "$2") >>"$scratch/fetch.log" 2>&1 || true
    [ -f "$scratch/fetch/$3" ]
}

# pinned NAME TARBALL SHA256 FILE: build/deps/NAME, verified; FILE exists when it is complete
pinned() {
    [ "$(cat "$deps/$1/.sha256" 2>/dev/null)" != "$3" ] || return 0
    telling "fetching $2"
    mkdir -p "$deps"
    scratch=$(mktemp -d "$deps/.setup.XXXXXX")
    for uri in $(debian_uris); do
        ! fetch "$uri" "$1" "$2" || break
    done
    [ -f "$scratch/fetch/$2" ] || die "no Debian mirror of this system served $2 ($(grep -m 1 -E "^(E|W):" "$scratch/fetch.log" 2>/dev/null)); set $5 to an unpacked tree"
    echo "$3  $scratch/fetch/$2" | sha256sum -c --status || die "$2 is not the pinned file: its sha256 differs from $3"
    mkdir "$scratch/tree"
    tar -xf "$scratch/fetch/$2" -C "$scratch/tree" --strip-components=1
    [ -f "$scratch/tree/$4" ] || die "$2 has no $4"
    echo "$3" >"$scratch/tree/.sha256"
    rm -rf "${deps:?}/$1"
    mv "$scratch/tree" "$deps/$1" 2>/dev/null || [ -f "$deps/$1/$4" ] || die "cannot write $deps/$1"
    rm -rf "$scratch"
    scratch=
    quiet
    say "unpacked $2 to build/deps/$1"
}

# download_from URI ARCHITECTURE SUITE PACKAGE...: one mirror; see download
download_from() {
    private_apt "$1" deb "$3" "$2" || return 1
    shift 3
    packages=
    for package in "$@"; do
        case $package in
            linux-image-*) package=$(apart apt-cache depends "$package" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' | head -n 1) ;;
        esac
        [ -n "$package" ] || return 1
        packages="$packages $package"
    done
    # shellcheck disable=SC2086
    (cd "$scratch/fetch" && apart apt-get download $packages) >>"$scratch/fetch.log" 2>&1
}

# download ARCHITECTURE SUITE PACKAGE...: downloads to $scratch/fetch, from the first mirror that serves all. A package
# linux-image-... stands for the kernel that it depends on.
download() {
    scratch=$(mktemp -d "$deps/.setup.XXXXXX")
    for uri in $(debian_uris); do
        ! download_from "$uri" "$@" || return 0
    done
    return 1
}

# The network of QEMU's machine `virt`, which Debian's kernel has as modules.
modules='virtio_mmio failover net_failover virtio_net virtio_blk crc16 mbcache jbd2 crc32c_generic libcrc32c ext4'

# foreign ARCHITECTURE PACKAGE [PACKAGE...]: build/deps/ARCHITECTURE with vmlinuz, config, modules/*.ko, musl's lib and usr, and
# the files of the other packages; apt verifies signatures
foreign() {
    [ ! -f "$deps/$1/modules/ext4.ko" ] || ! ls "$deps/$1"/lib/*-linux-musl*/libc.so >/dev/null 2>&1 || return 0
    telling "fetching musl and Debian packages for $*"
    mkdir -p "$deps"
    architecture=$1
    shift
    download "$architecture" bookworm musl musl-dev "$@" || true
    set -- "$architecture" "$@"
    mkdir "$scratch/tree"
    for package in "$scratch"/fetch/*.deb; do
        [ -f "$package" ] || die "no Debian mirror of this system served $2 for $1 ($(grep -m 1 -E "^(E|W):" "$scratch/fetch.log" 2>/dev/null))"
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$scratch/tree" --wildcards --exclude=./usr/share --exclude='./usr/lib/linux-image-*'
    done
    mkdir "$scratch/tree/modules"
    for module in $modules; do
        find "$scratch/tree/lib/modules" -name "$module.ko" -exec mv {} "$scratch/tree/modules" \;
    done
    rm -r "$scratch/tree/lib/modules"
    mv "$scratch"/tree/boot/config-* "$scratch/tree/config" && mv "$scratch"/tree/boot/vmlinuz-* "$scratch/tree/vmlinuz" ||
        die "the kernel package of $2 has no boot/vmlinuz"
    rm -rf "$scratch/tree/boot" "${deps:?}/$1"
    mv "$scratch/tree" "$deps/$1" 2>/dev/null || [ -f "$deps/$1/vmlinuz" ] || die "cannot write $deps/$1"
    rm -rf "$scratch"
    scratch=
}

# kernel ARCHITECTURE SUITE PACKAGE NAME: build/deps/kernels/NAME. A release that has left the mirrors is left out.
kernel() {
    [ ! -f "$deps/kernels/$4" ] || return 0
    telling "fetching $3 of $2 for $1"
    mkdir -p "$deps/kernels"
    download "$1" "$2" "$3" || true
    for package in "$scratch"/fetch/*.deb; do
        if [ -f "$package" ]; then
            dpkg-deb --fsys-tarfile "$package" | tar -x -C "$scratch" --wildcards './boot/vmlinuz-*'
            mv "$scratch"/boot/vmlinuz-* "$deps/kernels/$4"
        else
            say "no Debian mirror of this system served $3 of $2 for $1; it is left out"
        fi
    done
    rm -rf "$scratch"
    scratch=
}

setup_kernels() {
    kernel arm64 bookworm linux-image-rt-arm64 aarch64-6.1-rt
    kernel arm64 bullseye linux-image-arm64 aarch64-5.10
    kernel arm64 trixie linux-image-rt-arm64 aarch64-6.12-rt
    kernel armhf bookworm linux-image-rt-armmp armhf-6.1-rt
    kernel armhf bullseye linux-image-armmp armhf-5.10
}

# kernel_source: build/deps/kernels/source, without what these kernels do not need
kernel_source() {
    tree=$deps/kernels/source
    [ ! -f "$tree/Makefile" ] || return 0
    telling "fetching linux-source-6.1"
    mkdir -p "$deps/kernels"
    download "$(dpkg --print-architecture)" bookworm linux-source-6.1 || die "no Debian mirror of this system served linux-source-6.1"
    dpkg-deb --fsys-tarfile "$scratch"/fetch/*.deb | tar -xO --wildcards './usr/src/linux-source-*.tar.xz' | xz -dc |
        tar -x -C "$scratch" --exclude='*/drivers/gpu/drm/amd/include/*' --exclude='*/tools/testing/*' || die "cannot unpack linux-source-6.1"
    mv "$scratch"/linux-source-6.1 "$tree"
    rm -rf "$scratch"
    scratch=
}

# hz_kernel NAME ARCH CROSS IMAGE HZ: build/deps/kernels/NAME-hzHZ, compiled with tests/arm/kernels/common.config
hz_kernel() {
    to=$deps/kernels/$1-hz$5 from=$root/tests/arm/kernels/common.config out=$deps/kernels/out-$1
    [ ! "$to" -nt "$from" ] || return 0
    kernel_source
    telling "compiling Linux for $1 with CONFIG_HZ=$5"
    mkdir -p "$out"
    { cat "$from" && echo "CONFIG_HZ_$5=y"; } >"$out/wanted"
    set -- "$@" -s -C "$deps/kernels/source" "O=$out" "ARCH=$2" "CROSS_COMPILE=$3"
    image=$4 arch=$2 hz=$5
    shift 5
    make "$@" "KCONFIG_ALLCONFIG=$out/wanted" allnoconfig >"$out/log" 2>&1 && grep -qx "CONFIG_HZ=$hz" "$out/.config" ||
        die "the kernel's configuration failed, see $out/log"
    nice -n 10 make "$@" -j2 "$image" >"$out/log" 2>&1 || die "the kernel was not compiled: $(grep -m 1 -i 'error' "$out/log"), see $out/log"
    cp "$out/arch/$arch/boot/$image" "$to"
}

setup_hz_kernels() {
    hz_kernel aarch64 arm64 aarch64-linux-gnu- Image 100
    hz_kernel aarch64 arm64 aarch64-linux-gnu- Image 1000
    hz_kernel armhf arm arm-linux-gnueabihf- zImage 100
}

# given DIRECTORY FILE VARIABLE: true when the user named a source tree
given() {
    [ -n "$1" ] || return 1
    [ -f "$1/$2" ] || die "$3=$1 has no $2"
}

setup_deps() {
    given "${NANOPB_DIR:-}" pb_encode.c NANOPB_DIR ||
        pinned nanopb nanopb_0.4.9.1.orig.tar.gz 4575944a468718ef25f05eb01d994364650b581563089a9841986bb1e460eac3 pb_encode.c NANOPB_DIR
    given "${MBEDTLS_DIR:-}" include/mbedtls/ssl.h MBEDTLS_DIR ||
        pinned mbedtls mbedtls_3.6.6.orig.tar.bz2 8fb65fae8dcae5840f793c0a334860a411f884cc537ea290ce1c52bb64ca007a include/mbedtls/ssl.h MBEDTLS_DIR
}

setup_cross() {
    pinned cmocka cmocka_1.1.7.orig.tar.xz 810570eb0b8d64804331f82b29ff47c790ce9cd6b163e98d47a4807047ecad82 src/cmocka.c CMOCKA_DIR
    setup_arm64
    foreign armhf linux-image-armmp
}
setup_arm64() {
    foreign arm64 linux-image-arm64 busybox-static libssl3
}

# ---- other steps ----

setup_dotnet() {
    if command -v dotnet >/dev/null; then
        say ".NET SDK $(dotnet --version 2>/dev/null) is there"
    else
        say "no .NET SDK on PATH: the C# parts are left out"
    fi
}

setup_npm() {
    lock=$root/tools/web/package-lock.json
    [ -f "$lock" ] || return 0
    [ ! "$root/tools/web/node_modules/.package-lock.json" -nt "$lock" ] || return 0
    command -v npm >/dev/null || die "npm is missing: install Node.js 18 or newer"
    telling "installing what the page's tests use (npm ci)"
    scratch=$(mktemp -d)
    (cd "$root/tools/web" && npm ci --no-audit --no-fund --ignore-scripts) >"$scratch/npm.log" 2>&1 ||
        die "npm ci: $(grep -i err "$scratch/npm.log" | head -n 1)"
    touch "$root/tools/web/node_modules/.package-lock.json"
}

# Several tests may want it at once: one fetches it. npm checks the hash.
setup_aot10() {
    from=$root/tests/dotnet/aot10 to=$deps/aot10
    mkdir -p "$deps"
    exec 9>"$deps/.aot10.lock"
    flock 9
    ! cmp -s "$from/package-lock.json" "$to/package-lock.json" || return 0
    command -v npm >/dev/null || die "npm is missing: install Node.js 18 or newer"
    say "fetching Microsoft's library for tests/dotnet/aot10 (npm ci)"
    scratch=$(mktemp -d "$deps/.setup.XXXXXX")
    mkdir "$scratch/tree"
    cp "$from/package.json" "$from/package-lock.json" "$scratch/tree"
    if ! (cd "$scratch/tree" && npm ci --no-audit --no-fund --ignore-scripts) >"$scratch/npm.log" 2>&1; then
        why=$(grep -i err "$scratch/npm.log" | head -n 1)
        ! grep -qE 'EINTEGRITY|EUSAGE|EJSONPARSE' "$scratch/npm.log" || die "npm ci: $why"
        say "npm ci: $why"
        exit 3
    fi
    rm -rf "$to"
    mv -T "$scratch/tree" "$to" || die "cannot write $to"
    rm -rf "$scratch"
    scratch=
}

case ${1:-} in
apt | deps | cross | arm64 | kernels | hz-kernels | dotnet | npm | aot10)
    verb=$(echo "$1" | tr - _)
    shift
    "setup_$verb" "$@"
    ;;
*) die "usage: tools/build/setup.sh apt [SECTION...] | deps | cross | arm64 | kernels | hz-kernels | dotnet | npm | aot10" ;;
esac
