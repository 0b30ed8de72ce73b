#!/bin/sh
# The real ILC compiler, run by hand for ARM. It comes with the x64 package that a NativeAOT publish restores, and
# compiles for arm64 and arm as well; only the runtime's own libraries for ARM are missing there.
#
#   ilc.sh zero OUT            tests/arm/zero/*.cs -> OUT/zero-aarch64.o, OUT/zero-armhf.o
#   ilc.sh app ILC.RSP OUT     what a publish for linux-x64 compiled, once more -> OUT/app-aarch64.o
#   ilc.sh sdk                 the folder of the package
set -eu
here=$(cd "$(dirname "$0")" && pwd)

die() {
    echo "ilc.sh: $*" >&2
    exit 1
}

packages=${NUGET_PACKAGES:-$HOME/.nuget/packages}
package=$(ls -d "$packages"/runtime.linux-x64.microsoft.dotnet.ilcompiler/9.* 2>/dev/null | sort -V | tail -n 1)
[ -n "$package" ] || die "no runtime.linux-x64.Microsoft.DotNet.ILCompiler 9.x in $packages: 'make sample' restores it"
ilc=$package/tools/ilc

zero() {
    sdk=$(dotnet --list-sdks | tail -n 1 | sed 's,^\([^ ]*\) \[\(.*\)\]$,\2/\1,')
    [ -f "$sdk/Roslyn/bincore/csc.dll" ] || die "the .NET SDK in $sdk has no C# compiler"
    mkdir -p "$1"
    dotnet "$sdk/Roslyn/bincore/csc.dll" -nologo -noconfig -nostdlib -runtimemetadataversion:v4.0.30319 -target:library \
        -unsafe -optimize+ -langversion:latest -nowarn:CS0649,CS0169 "-out:$1/zero.dll" "$here"/zero/*.cs
    for pair in aarch64:arm64 armhf:arm; do
        "$ilc" "$1/zero.dll" -o "$1/zero-${pair%:*}.o" --systemmodule zero --targetos linux --targetarch "${pair#*:}" \
            --nativelib -O --directpinvoke:native
    done
}

app() {
    [ -f "$1" ] || die "no $1: 'make sample' writes it"
    mkdir -p "$2"
    grep -vE '^(-o:|--targetarch|--targetos|--exportsfile|-g$)' "$1" >"$2/arm64.rsp"
    "$ilc" "@$2/arm64.rsp" -o "$2/app-aarch64.o" --targetos:linux --targetarch:arm64
}

case ${1:-}:$# in
zero:2) zero "$2" ;;
app:3) app "$2" "$3" ;;
sdk:1) echo "$package" ;;
*) die "usage: ilc.sh zero OUT | app ILC.RSP OUT | sdk" ;;
esac
