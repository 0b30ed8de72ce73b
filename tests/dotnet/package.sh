#!/bin/sh
# A fresh web project that references the package and is published, with no other change, is profiled.
#
#   package.sh NUPKG EDGEPROF WORK
#
# `dotnet new web` makes the project; the two lines that are changed have nothing to do with the package: NativeAOT is
# switched on, and the framework is one that can be published here. The package comes from its folder by way of an own
# package cache, so that nobody's cache keeps an older one of the same version.
set -eu
nupkg=$(realpath "$1") edgeprof=$(realpath "$2") work=$3
version=$(basename "$nupkg" .nupkg)
version=${version#EdgeProf.}
rm -rf "$work"
mkdir -p "$work"
work=$(cd "$work" && pwd)
service=
trap '[ -z "$service" ] || kill -KILL "$service" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM

die() {
    echo "package: $*" >&2
    exit 1
}

# Nothing of this tree's settings may reach the project.
echo '<Project />' >"$work/Directory.Build.props"
echo '<Project />' >"$work/Directory.Build.targets"
cache=${NUGET_PACKAGES:-$HOME/.nuget/packages}
mkdir -p "$cache"
cat >"$work/nuget.config" <<END
<configuration>
  <config><add key="globalPackagesFolder" value="packages" /></config>
  <fallbackPackageFolders><add key="user" value="$cache" /></fallbackPackageFolders>
  <packageSources><add key="edgeprof" value="$(dirname "$nupkg")" /></packageSources>
</configuration>
END
unset NUGET_PACKAGES
cd "$work"
dotnet new web -o fresh --no-restore >new.log 2>&1 || die "dotnet new: $(tail -n 3 new.log)"
cd fresh
sed -i 's,<TargetFramework>.*</TargetFramework>,<TargetFramework>net9.0</TargetFramework><PublishAot>true</PublishAot>,' fresh.csproj
dotnet add package EdgeProf -v "$version" >../add.log 2>&1 || die "dotnet add package: $(tail -n 3 ../add.log)"
dotnet publish -nologo -v quiet >../publish.log 2>&1 || die "dotnet publish: $(cat ../publish.log)"
[ ! -s ../publish.log ] || die "dotnet publish is not silent: $(cat ../publish.log)"
publish=$work/fresh/bin/Release/net9.0/linux-x64/publish
[ ! -e "$publish/libedgeprof.a" ] || die "the archive was copied beside the program"

# Started by the environment alone.
ASPNETCORE_URLS=http://127.0.0.1:0 EDGEPROF_ENDPOINT="file://$work/profile" EDGEPROF_LEVEL=high "$publish/fresh" >"$work/service.log" 2>&1 &
service=$!
for _ in $(seq 100); do
    url=$(sed -n 's,.*\(http://127[^ ]*\).*,\1,p' "$work/service.log" | head -n 1)
    [ -z "$url" ] || break
    sleep 0.1
done
[ -n "$url" ] || die "the service did not start: $(cat "$work/service.log")"
python3 - "$url" <<'END'
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
for _ in range(300):
    assert opener.open(sys.argv[1], timeout=10).read() == b"Hello World!"
END
kill -TERM "$service"
status=0
wait "$service" || status=$?
service=
[ $status = 0 ] || die "the service ended with status $status: $(tail -n 3 "$work/service.log")"
"$edgeprof" cat --folded --symbols "$publish" "$work/profile" >"$work/folded" || die "no profile arrived"
grep -q 'Kestrel' "$work/folded" || die "no function of the service has its C# name: $(head -n 3 "$work/folded")"
echo "package: $(wc -l <"$work/folded") stacks of a fresh project, such as"
grep -m 1 'Kestrel' "$work/folded" | tr ';' '\n' | grep -m 3 'Kestrel'

# Without the environment it is a program like any other: it starts, says nothing of the profiler, and refuses the address.
status=0
ASPNETCORE_URLS=nonsense "$publish/fresh" >"$work/plain.log" 2>&1 || status=$?
[ $status != 0 ] || die "without the environment: the program took the address 'nonsense'"
grep -q "nonsense" "$work/plain.log" || die "without the environment: the program did not start (status $status): $(cat "$work/plain.log")"
! grep -qi edgeprof "$work/plain.log" || die "the profiler spoke without being asked: $(grep -i edgeprof "$work/plain.log")"
