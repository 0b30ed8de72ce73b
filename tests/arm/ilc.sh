#!/bin/sh
# The real ILC compiler, run by hand for ARM. The package for x64 compiles for arm64 and arm as well.
#
#   ilc.sh zero OUT            tests/arm/zero/*.cs -> OUT/zero-aarch64.o, OUT/zero-armhf.o
set -eu
here=$(cd "$(dirname "$0")" && pwd)

die() {
    echo "ilc.sh: $*" >&2
    exit 1
}

packages=${NUGET_PACKAGES:-$HOME/.nuget/packages}
# found MAJOR: the newest package of that version
found() {
    ls -d "$packages"/runtime.linux-x64.microsoft.dotnet.ilcompiler/"$1".* 2>/dev/null | sort -V | tail -n 1
}

# The compiler of .NET 9 needs the fewest types of a core library; zero/ has them.
zero() {
    [ -n "$(found 9)" ] || dotnet restore -v quiet -r linux-x64 -p:ForDotNet=9 "-p:EdgeProfBuild=$(realpath -m "$1")/restored/" \
        "$here/../dotnet/aot10/Compiled" >&2
    ilc=$(found 9)/tools/ilc
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

case ${1:-}:$# in
zero:2) zero "$2" ;;
*) die "usage: ilc.sh zero OUT" ;;
esac
