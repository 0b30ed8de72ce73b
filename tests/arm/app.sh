#!/bin/sh
# A whole service for arm64, but for the runtime's own libraries, which cannot be had for ARM here: its compiled IL is
# linked with libedgeprof.a as the package's targets do it, and what is missing after that must be the SDK's.
#
#   app.sh APP.o LIBEDGEPROF.a SDK_PACKAGE OUT            the package's archive, with what is for .NET
#
# "The SDK's": a symbol that its libraries for x64 define, or one of arm64-twins.txt, which stand in for x64 ones.
set -eu
app=$1 library=$2 package=$3 out=$4
here=$(cd "$(dirname "$0")" && pwd)
cross=aarch64-linux-gnu-
mkdir -p "$out"

fail() {
    echo "app.sh: $*" >&2
    exit 1
}

# Everything at once, unresolved names as warnings: they are what is looked at.
${cross}gcc -static -Wl,--eh-frame-hdr -Wl,--warn-unresolved-symbols -Wl,--wrap=pthread_create -Wl,-u,__wrap_pthread_create \
    "$app" "$library" -lpthread -ldl -lm -lresolv -o "$out/app" 2>"$out/link.log" || fail "the link failed: $(tail -n 3 "$out/link.log")"
sed -n "s/.*undefined reference to \`\([^']*\)'.*/\1/p; s/.*undefined reference to \`\([^']*\)\$/\1/p" "$out/link.log" | sort -u >"$out/missing"
${cross}nm --defined-only "$out/app" | awk '{ print $NF }' | sort -u >"$out/defined"
${cross}nm -u "$app" | awk '{ print $NF }' | sort -u >"$out/wanted"

find "$package/sdk" "$package/framework" "$package/native" -name '*.a' -o -name '*.o' 2>/dev/null |
    xargs nm -g --defined-only 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >"$out/sdk"
grep -v '^#' "$here/arm64-twins.txt" | awk '{ print $1 }' | sort -u >"$out/twins"
while read -r twin x64; do
    case $twin in '#'* | '') continue ;; esac
    grep -qx -- "$x64" "$out/sdk" || fail "arm64-twins.txt: the SDK's x64 libraries do not define $x64, of which $twin is to be the twin"
done <"$here/arm64-twins.txt"
sort -u "$out/sdk" "$out/twins" >"$out/known"
comm -23 "$out/missing" "$out/known" >"$out/unknown"

ours=$(grep -c -E '^ep_' "$out/wanted" || true)
[ "$ours" -gt 0 ] || fail "the service does not call the profiler at all: nothing is shown"
grep -E '^ep_' "$out/wanted" | while read -r name; do
    grep -qx -- "$name" "$out/defined" || fail "$name is called by the service and defined nowhere"
done
grep -qx __wrap_pthread_create "$out/defined" || fail "the wrap of pthread_create is not in the program"
! grep -E '^(ep_|edgeprof|__wrap_|__real_)' "$out/missing" || fail "these symbols of the profiler are missing"
[ ! -s "$out/unknown" ] || fail "missing, and not the SDK's: $(tr '\n' ' ' <"$out/unknown")"
[ "$(wc -l <"$out/missing")" -gt 100 ] || fail "only $(wc -l <"$out/missing") symbols are missing: is this an application?"
echo "whole service for arm64: $(wc -l <"$out/wanted") symbols wanted, $ours of the profiler and all of them there;" \
    "$(wc -l <"$out/missing") missing, all of them the SDK's own ($(comm -12 "$out/missing" "$out/twins" | wc -l) ARM twins)"
