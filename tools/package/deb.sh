#!/bin/sh
# Debian packages of files that lie where they will be installed: debhelper, on a folder that looks like an unpacked
# source package's. Called by package.mk:
#
#   deb.sh FOLDER VERSION ARCHITECTURE PACKAGE...     from FOLDER/debian/PACKAGE/ to FOLDER/*.deb
#
# SOURCE_DATE_EPOCH is the date of everything in them: the same files give the same bytes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
version=$2
eval "$(dpkg-architecture -a"$3" -s 2>/dev/null)" # among them the type by which a cross strip is found
export DH_COMPAT=13
shift 3
for package in "$@"; do
    only="${only:-} -p$package"
done

cp "$here"/debian/* "$here/edgeprof.service" debian/
cat >debian/changelog <<END
edgeprof ($version) unstable; urgency=medium

  * Version $version.

 -- $(sed -n 's/^Maintainer: //p' debian/control)  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END

# A cross compiler's C library is a package of its own, which is libc6 on the machine itself.
shlibdeps() {
    # shellcheck disable=SC2086 # a list of options
    dh_shlibdeps $only -l"/usr/$DEB_HOST_GNU_TYPE/lib"
    sed -i "s/:$DEB_HOST_ARCH / /g; s/-$DEB_HOST_ARCH-cross / /g" debian/*.substvars
}

# shellcheck disable=SC2086
for step in installdocs installchangelogs installsystemd compress fixperms strip makeshlibs shlibdeps installdeb gencontrol md5sums; do
    case $step in
    shlibdeps) shlibdeps ;;
    strip) dh_strip $only --no-automatic-dbgsym ;;
    *) "dh_$step" $only ;;
    esac
done
# shellcheck disable=SC2086
dh_builddeb $only --destdir=.
