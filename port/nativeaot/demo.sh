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
make=${MAKE:-make}
build=${BUILD:-build/host}
seconds=${DEMO_SECONDS:-}
work=$build/demo
server= service= load=

say() { echo "demo: $*" >&2; }
die() {
    echo "demo: error: $*" >&2
    exit 1
}

# Terminates one child, and kills it if it does not end.
end() {
    [ -n "$1" ] && kill -TERM "$1" 2>/dev/null || return 0
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.25
    done
    kill -KILL "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}
clean() {
    trap '' INT TERM
    end "$load"
    end "$service"
    end "$server"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

case $seconds in
'' | [1-9] | [1-9][0-9] | [1-9][0-9][0-9]) ;;
*) die "DEMO_SECONDS=$seconds: expected a whole number from 1 to 999" ;;
esac

# await FILE PATTERN PID WHAT: waits for the first match in FILE, which the process PID writes
await() {
    for _ in $(seq 100); do
        found=$(sed -n "s,.*\($2\).*,\1,p" "$1" | head -n 1)
        [ -z "$found" ] || return 0
        kill -0 "$3" 2>/dev/null || break
        sleep 0.1
    done
    die "$4 did not start: $(tail -n 1 "$1")"
}

prepare() {
    $make -s --no-print-directory setup-demo
    say "building the library and the host tool"
    $make -s --no-print-directory lib "$build/edgeprof" >"$work/build.log" 2>&1 || {
        tail -n 20 "$work/build.log" >&2
        die "the build failed, its log is $work/build.log"
    }
    kind=csample
    if [ "${DEMO_SAMPLE:-}" = c ]; then
        say "profiling a C program, as asked"
    elif ! command -v dotnet >/dev/null; then
        say "there is no .NET SDK here: profiling a C program instead of the C# service"
    else
        kind=sample
        say "publishing the sample service (about a minute the first time)"
    fi
    $make -s --no-print-directory $kind >"$work/sample.log" 2>&1 || {
        tail -n 20 "$work/sample.log" >&2
        die "the sample was not built, the log is $work/sample.log"
    }
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

# Afterwards the functions' CPU times are in $work/truth.json, and all profiles have been delivered.
finish() {
    [ $kind = csample ] || python3 port/nativeaot/burn_shares.py fetch "$url/burn" >"$work/truth.json" ||
        die "the service does not answer: $(tail -n 1 "$work/service.log")"
    end "$service"
    service=
    [ $kind = sample ] || tail -n 1 "$work/service.log" >"$work/truth.json"
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
finish
top() { "$build/edgeprof" top --db "$work/edgeprof.db" --symbols "$(dirname "$program")" --service sensor-gateway "$@"; }
top -n 20 || die "no profile arrived (service: $(tail -n 1 "$work/service.log"))"
top -n 1000000 --json >"$work/top.json"
say "the program measured the CPU time of three functions with clocks of its own; the profile must agree:"
python3 port/nativeaot/burn_shares.py compare "$work/top.json" "$work/truth.json"
say "right. Without DEMO_SECONDS the demo goes on until Ctrl-C, and the page shows flame graphs"
