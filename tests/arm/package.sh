#!/bin/sh
# The package on ARM, without .NET's ARM runtime: does a project get the right archive and a link that works?
#
#   package.sh NUPKG WORK OBJECTS_aarch64 OBJECTS_armhf
#
# A console project references the package. For linux-arm64 and linux-arm the SDK's own targets are asked what they
# would give to the linker; with those arguments, less the runtime's libraries, the objects of a program of this tree
# (C# compiled by ILC among them) are linked with the package's archive, stripped and run in QEMU. A publish is then
# tried for real: without the runtime packs NuGet's one clear answer is shown, with them the program must be there.
set -eu
nupkg=$(realpath "$1") work=$2 objects_aarch64=$3 objects_armhf=$4
version=$(basename "$nupkg" .nupkg)
version=${version#EdgeProf.}
tree=$(pwd)
rm -rf "$work"
mkdir -p "$work/cc"
work=$(cd "$work" && pwd)

die() {
    echo "package: $*" >&2
    exit 1
}

cat >"$work/cc/cc.csproj" <<END
<Project Sdk="Microsoft.NET.Sdk">
  <PropertyGroup>
    <OutputType>Exe</OutputType><TargetFramework>net9.0</TargetFramework><PublishAot>true</PublishAot>
    <InvariantGlobalization>true</InvariantGlobalization><RestorePackagesPath>$work/packages</RestorePackagesPath>
    <RestoreFallbackFolders>${NUGET_PACKAGES:-$HOME/.nuget/packages}</RestoreFallbackFolders>
    <RestoreAdditionalProjectSources>$(dirname "$nupkg")</RestoreAdditionalProjectSources>
  </PropertyGroup>
  <ItemGroup><PackageReference Include="EdgeProf" Version="$version" /></ItemGroup>
</Project>
END
echo '<Project />' | tee "$work/Directory.Build.props" >"$work/Directory.Build.targets"
echo 'System.Console.WriteLine("hello");' >"$work/cc/Program.cs"
cd "$work/cc"
dotnet restore -r linux-x64 >"$work/restore.log" 2>&1 || die "restore for linux-x64: $(tail -n 3 "$work/restore.log")"

# What the SDK would run: $1 is its name of the architecture. The targets that look for its ARM libraries are left out.
ask() {
    arch=$1 && shift
    dotnet msbuild -nologo "-p:RuntimeIdentifier=linux-$arch" -p:IlcDynamicBuildPropertyDependencies= -p:_originalTargetOS=linux -p:_targetOS=linux \
        "-p:_targetArchitecture=$arch" -p:_hostArchitecture=x64 -p:_hostOS=linux -t:SetupOSSpecificProps "$@"
}

# link ARCH QEMU SYSROOT OBJECT...
link() {
    arch=$1 qemu=$2 sysroot=$3
    shift 3
    flavor=bfd
    [ "$arch" != arm ] || flavor=lld # the package's README says so
    archive=$work/packages/edgeprof/$version/native/linux-$arch/libedgeprof.a
    ask "$arch" -p:LinkerFlavor=$flavor -getItem:LinkerArg | sed -n 's/.*"Identity": "\(.*\)".*/\1/p' |
        sed "s/\\\\u0027/'/g; s/\\\\u002B/+/g" >"$work/arguments-$arch"
    [ "$(grep -cxF -- "$archive" "$work/arguments-$arch")" = 1 ] || die "linux-$arch: the linker does not get $archive"
    grep -qxF -- '-Wl,--wrap=pthread_create' "$work/arguments-$arch" || die "linux-$arch: threads would not be seen when they start"
    grep -vE '^lib[A-Z].*\.a$|^libeventpipe|^libstandalonegc|^libstdc|bootstrapper\.o$|^-lz$' "$work/arguments-$arch" | tr '\n' ' ' >"$work/link-$arch"
    (cd "$tree" && eval "clang -o $work/program-$arch $* $(cat "$work/link-$arch")") 2>"$work/link-$arch.log" ||
        die "linux-$arch: the link fails: $(grep -m 3 -i error "$work/link-$arch.log")"
    llvm-objcopy --strip-unneeded "$work/program-$arch" "$work/stripped-$arch"
    "$qemu" -L "$sysroot" "$work/stripped-$arch" core managed >"$work/run-$arch.log" || die "linux-$arch: the program fails: $(cat "$work/run-$arch.log")"
    echo "linux-$arch: $(wc -l <"$work/run-$arch.log") pieces of C# ran in a program linked as the SDK links it, with the package's archive"
}

# publish RID OPTION MACHINE: for real, where the runtime's packs are to be had.
publish() {
    if dotnet publish -nologo -r "$1" $2 -o "$work/publish-$1" >"$work/publish-$1.log" 2>&1; then
        llvm-readelf -h "$work/publish-$1/cc" | grep -q "Machine: *$3" || die "$1: what was published is not for $3"
        echo "$1: published"
    else
        grep -m 1 -oE 'error (NU1101|NU1102|NU1301).*runtime\.linux-arm[^ ]*' "$work/publish-$1.log" >"$work/why" ||
            die "dotnet publish -r $1: $(grep -m 2 error "$work/publish-$1.log")"
        echo "$1: not published, the package source has no runtime for it ($(cat "$work/why"))"
    fi
}

# shellcheck disable=SC2086 # lists of files
link arm64 qemu-aarch64 /usr/aarch64-linux-gnu $objects_aarch64
# shellcheck disable=SC2086
link arm qemu-arm /usr/arm-linux-gnueabihf $objects_armhf
[ -z "$(ask arm64 -p:RuntimeIdentifier=linux-musl-arm64 -getProperty:_EdgeProfLinks)" ] || die "an archive for glibc is linked for musl"
publish linux-arm64 "" AArch64
publish linux-arm -p:LinkerFlavor=lld ARM
