#!/bin/sh
# The package warns at build time (EDGEPROF002) when the program gets a NativeAOT runtime that no test ran, once and only then.
#
#   range.sh BUILD
set -eu
build=$(realpath "$1") failed=0

# check WARNINGS PROPERTY...
check() {
    wanted=$1
    shift
    said=$(dotnet msbuild -nologo -v:quiet -p:EdgeProfBuild="$build/" -t:_EdgeProfCheckRuntime "$@" tests/dotnet/Range 2>&1) || true
    got=$(printf '%s\n' "$said" | grep -c 'warning EDGEPROF002: ') || true
    if [ "$got" = "$wanted" ] && { [ "$wanted" = 1 ] || [ -z "$said" ]; }; then
        echo "ok   $*: $wanted warnings"
    else
        echo "FAIL $*: $got warnings, not $wanted: $said"
        failed=1
    fi
}

for version in 8.0.0 8.0.31 9.0.20 10.0.0 10.0.12 11.0.0; do
    check 0 -p:Pack=$version
done
for version in 7.0.20 9.0.0-rc.2.24473.5 10.0.0-preview.1 11.0.0-rc.1.26425.128 12.3.4; do
    check 1 -p:Pack=$version
done
check 1 -p:Pack=12.0.0
for word in 12.0.0 8.0 12.0 'switch off' NoWarn; do
    printf '%s\n' "$said" | grep -qF "$word" || { echo "FAIL the warning does not say $word" && failed=1; }
done
check 1 # a compiler of unknown version
check 1 -p:Pack=9.0.20 -p:TargetPack=12.0.1 # the runtime counts, not the compiler
check 0 -p:Pack=12.0.1 -p:TargetPack=10.0.12
check 0 -p:Pack=12.0.0 -p:Silenced=EDGEPROF002
exit $failed
