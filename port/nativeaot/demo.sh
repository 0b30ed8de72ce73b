#!/bin/sh
# Profiles a service on this machine and shows the result: `make demo`.
#
# Installs what is missing, builds the library, the host tool and the sample service (NativeAOT; a C program when there
# is no .NET SDK), starts `edgeprof serve` with a fresh database, the service with EDGEPROF_ENDPOINT, and drives load.
#
#   DEMO_SECONDS=15     drive load for this time, stop the service, print a top table and the line
#                       `burn shares: A B C of N samples`, which burn_shares.py compares with the functions' CPU
#                       clocks; exit 1 if they differ or if no profile arrived
#   DEMO_SAMPLE=c       profile the C program although there is an SDK
#   no DEMO_SECONDS     keep going, and print the page's address, until Ctrl-C
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build/host}
work=$build/demo
. port/nativeaot/demo_kit.sh

prepare() {
    $make -s --no-print-directory setup-demo
    say "building the library and the host tool"
    make_quietly build.log "the build failed" lib "$build/edgeprof"
    kind=csample
    if [ "${DEMO_SAMPLE:-}" = c ]; then
        say "profiling a C program, as asked"
    elif ! command -v dotnet >/dev/null; then
        say "there is no .NET SDK here: profiling a C program instead of the C# service"
    else
        kind=sample
        say "publishing the sample service (about a minute the first time)"
    fi
    make_quietly sample.log "the sample was not built" $kind
    program=$($make -s --no-print-directory print-$kind)
}

start() {
    : >"$work/serve.log" >"$work/service.log"
    "$build/edgeprof" serve --listen 127.0.0.1:0 --db "$work/edgeprof.db" --symbols "$(dirname "$program")" \
        >"$work/serve.log" 2>&1 &
    server=$!
    await "$work/serve.log" 'http://127[^ ]*' "$server" "edgeprof serve"
    page=$found
    ASPNETCORE_URLS=http://127.0.0.1:0 EDGEPROF_ENDPOINT=$page EDGEPROF_SERVICE=sensor-gateway EDGEPROF_LEVEL=high \
        EDGEPROF_INTERVAL=2000 EDGEPROF_TAGS=version=demo "$program" >"$work/service.log" 2>&1 &
    service=$!
    [ $kind = csample ] || await "$work/service.log" 'http://127[^ ]*' "$service" "the sample service"
    url=$found
}

# drive SECONDS: drives load if the sample is a service
drive() {
    if [ $kind = csample ]; then
        sleep "$1" &
    else
        env -u EDGEPROF_ENDPOINT "$program" --load "$url" --seconds "$1" >"$work/load.log" 2>&1 &
    fi
    load=$!
    wait "$load" || die "the load driver failed: $(tail -n 1 "$work/load.log")"
    load=
}

rm -rf "$work"
mkdir -p "$work"
prepare
start
if [ -z "$seconds" ]; then
    say "the page: $page - open it in a browser; the first profile is there after 2 s"
    say "profiling until Ctrl-C"
    while :; do drive 600; done
fi
say "the page: $page - it is there until the demo ends"
[ $kind = csample ] && say "profiling for $seconds s" || say "driving load for $seconds s"
drive "$seconds"
end "$service" # which delivers all
service=
compare "$build/edgeprof" --symbols "$(dirname "$program")"
say "right. Without DEMO_SECONDS the demo goes on until Ctrl-C, and the page shows flame graphs"
