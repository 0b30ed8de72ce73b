#!/bin/sh
# Builds Debian packages with debhelper, from a folder that imitates an unpacked source package. package.mk calls it:
#
#   deb.sh FOLDER VERSION ARCHITECTURE PACKAGE...     from FOLDER/debian/PACKAGE/ to FOLDER/*.deb
#
# SOURCE_DATE_EPOCH is the date of all files: equal files give equal packages.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
version=$2
eval "$(dpkg-architecture -a"$3" -s 2>/dev/null)" # includes the variable that finds the cross strip
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

# A cross compiler's C library has its own package; on the target machine it is libc6.
shlibdeps() {
    # shellcheck disable=SC2086 # a list of options
    dh_shlibdeps $only -l"/usr/$DEB_HOST_GNU_TYPE/lib"
    sed -i "s/:$DEB_HOST_ARCH / /g; s/-$DEB_HOST_ARCH-cross / /g" debian/*.substvars
}

# shellcheck disable=SC2086
for step in installdocs installchangelogs lintian installsystemd compress fixperms strip makeshlibs shlibdeps installdeb gencontrol md5sums; do
    case $step in
    shlibdeps) shlibdeps ;;
    strip) dh_strip $only --no-automatic-dbgsym ;;
    fixperms) dh_fixperms $only -Xedgeprof.conf ;; # it may hold secrets
    *) "dh_$step" $only ;;
    esac
done
# shellcheck disable=SC2086
dh_builddeb $only --destdir=.
