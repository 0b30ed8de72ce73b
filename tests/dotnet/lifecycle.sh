#!/bin/sh
# Start, stop and end of process of a program with the package EdgeProf.
#
#   lifecycle.sh PROGRAM EDGEPROF WORK     the published NativeAOT program, the host tool, a folder for files
#   lifecycle.sh --jit DLL WORK            the same program on CoreCLR: asked to profile, it says once that it cannot
#
# A program must end with the profiler as it ends without it (same status, same output), and its last profile must
# have been delivered.
set -eu
failed=0
ok() { echo "ok   $*"; }
bad() {
    echo "FAIL $*"
    failed=1
}

# A shell's background processes ignore SIGINT; env undoes that.
# run NAME VARIABLE... -- PROGRAM ARGUMENT...: status in $work/NAME.status; killed with $signal once it says ready, and
# $pause seconds later
pause=0
run() {
    name=$1
    shift
    : >"$work/$name.out" # the last run's "ready" is not this one's
    env --default-signal=INT "$@" >"$work/$name.out" 2>"$work/$name.err" &
    pid=$!
    if [ -n "$signal" ]; then
        for _ in $(seq 200); do
            grep -q ready "$work/$name.out" && break
            kill -0 $pid 2>/dev/null || break
            sleep 0.05
        done
        sleep $pause
        kill "-$signal" $pid
    fi
    status=0
    { wait $pid; } 2>/dev/null || status=$?
    echo $status >"$work/$name.status"
}

# same MODE SIGNAL: with and without the profiler; the profile is there
same() {
    mode=$1 signal=$2
    profile=$work/$mode-$signal.profile
    run plain -u EDGEPROF_ENDPOINT "$program" "$mode"
    run profiled EDGEPROF_ENDPOINT="file://$profile" EDGEPROF_LEVEL=high EDGEPROF_INTERVAL=60000 "$program" "$mode"
    if cmp -s "$work/plain.out" "$work/profiled.out" && cmp -s "$work/plain.status" "$work/profiled.status"; then
        ok "$mode $signal: ends as without the profiler, status $(cat "$work/plain.status")"
    else
        bad "$mode $signal: status $(cat "$work/plain.status") and '$(cat "$work/plain.out")' without the profiler, $(cat "$work/profiled.status") and '$(cat "$work/profiled.out")' with it"
    fi
    if "$edgeprof" cat --folded "$profile" >"$work/folded" 2>"$work/cat.err" && [ -s "$work/folded" ]; then
        ok "$mode $signal: the last profile was delivered"
    else
        bad "$mode $signal: no profile: $(cat "$work/profiled.err" "$work/cat.err")"
    fi
}

jit() {
    signal=
    run jit EDGEPROF_ENDPOINT=file:///dev/null dotnet "$1" Lifecycle return
    [ "$(cat "$work/jit.status")" = 3 ] && ok "jit: the program runs" || bad "jit: status $(cat "$work/jit.status"): $(cat "$work/jit.err")"
    [ "$(grep -c NativeAOT "$work/jit.err")" = 1 ] && ok "jit: $(cat "$work/jit.err")" || bad "jit: says '$(cat "$work/jit.err")'"
    run silent -u EDGEPROF_ENDPOINT dotnet "$1" Lifecycle return
    [ ! -s "$work/silent.err" ] && ok "jit: silent when not asked" || bad "jit: says '$(cat "$work/silent.err")' without being asked"
}

aot() {
    mkdir -p "$work/api"
    "$program" api "$work/api" >"$work/api.out" 2>&1 || bad "api"
    cat "$work/api.out"
    for round in 0 1 2; do
        "$edgeprof" cat "$work/api/round-$round.profile" >"$work/round" 2>&1 && grep -q "lifecycle-ä$round" "$work/round" &&
            ok "round $round: the file is readable and names the service" || bad "round $round: $(head -n 3 "$work/round")"
    done
    "$edgeprof" cat "$work/api/stream.profile" >"$work/stream" 2>&1 && grep -q "streams" "$work/stream" &&
        ok "a stream's bytes are those of a file" || bad "stream: $(head -n 3 "$work/stream")"
    signal=
    run held -u EDGEPROF_ENDPOINT timeout 120 "$program" held "$(realpath "$work")/held.profile"
    [ "$(cat "$work/held.status")" = 10 ] && [ "$(grep -c 'a thread still uses' "$work/held.err")" = 1 ] &&
        ok "held: $(head -n 1 "$work/held.out")" || bad "held: status $(cat "$work/held.status"): $(cat "$work/held.out" "$work/held.err")"
    run stuck -u EDGEPROF_ENDPOINT timeout 60 "$program" stuck
    [ "$(cat "$work/stuck.status")" = 4 ] && ok "stuck: the process ends all the same" || bad "stuck: status $(cat "$work/stuck.status"): $(cat "$work/stuck.out" "$work/stuck.err")"
    same return ''
    same exit ''
    same wait TERM
    same wait INT
    same cancel TERM
    signal=TERM
    run away EDGEPROF_ENDPOINT=http://127.0.0.1:9 EDGEPROF_SERVICE=was-away EDGEPROF_SPOOL="$work/spool" "$program" wait
    pause=4
    run back EDGEPROF_ENDPOINT="file://$work/back.profile" EDGEPROF_SERVICE=is-back EDGEPROF_SPOOL="$work/spool" "$program" wait
    pause=0
    for name in was-away is-back; do
        "$edgeprof" cat "$work/back.profile" 2>&1 | grep -q $name && ok "spool: what was measured by $name arrives" ||
            bad "spool: nothing of $name: $(cat "$work/away.err" "$work/back.err"; ls -l "$work/spool")"
    done
    signal=
    run graceful EDGEPROF_ENDPOINT=http://127.0.0.1:9 EDGEPROF_SERVICE=graceful EDGEPROF_LEVEL=high EDGEPROF_SPOOL="$work/graceful.spool" "$program" graceful
    [ "$(cat "$work/graceful.status")" = 8 ] && grep -q 'told at once' "$work/graceful.out" &&
        ok "graceful: the program knows of SIGTERM before the profiler ends" ||
        bad "graceful: status $(cat "$work/graceful.status"), $(cat "$work/graceful.out" "$work/graceful.err")"
    run handover EDGEPROF_ENDPOINT=http://127.0.0.1:9 "$program" handover
    [ "$(cat "$work/handover.status")" = 9 ] && ok "handover: Start after an automatic start does not wait as Stop does: $(head -n 1 "$work/handover.out")" ||
        bad "handover: status $(cat "$work/handover.status"), $(cat "$work/handover.out" "$work/handover.err")"
    signal=TERM pause=4
    run later EDGEPROF_ENDPOINT="file://$work/later.profile" EDGEPROF_SERVICE=later EDGEPROF_SPOOL="$work/graceful.spool" "$program" wait
    pause=0 signal=
    "$edgeprof" cat --folded "$work/later.profile" >"$work/later.folded" 2>&1 && grep -q 'Shutdown' "$work/later.folded" &&
        ok "graceful: the shutdown's work is in the profile" || bad "graceful: no shutdown: $(head -n 3 "$work/later.folded")"
    run wrong EDGEPROF_ENDPOINT=file:///dev/null EDGEPROF_LEVEL=loud "$program" return
    [ "$(cat "$work/wrong.status")" = 3 ] && [ "$(wc -l <"$work/wrong.err")" = 1 ] && ok "bad variable: $(cat "$work/wrong.err")" ||
        bad "bad variable: status $(cat "$work/wrong.status"), says '$(cat "$work/wrong.err")'"
    run unheard EDGEPROF_ENDPOINT=file:///dev/null EDGEPROF_LEVEL=loud sh -c 'exec "$0" return 2>/dev/full' "$program"
    [ "$(cat "$work/unheard.status")" = 3 ] && ok "bad variable and a full disk for standard error: the program runs" ||
        bad "bad variable and a full disk for standard error: status $(cat "$work/unheard.status")"
    run leaving -u EDGEPROF_ENDPOINT timeout 60 "$program" leaving
    [ "$(cat "$work/leaving.status")" = 6 ] && ok "leaving: the end of the process does not wait for another thread's Stop" ||
        bad "leaving: status $(cat "$work/leaving.status"), $(cat "$work/leaving.out" "$work/leaving.err")"
    case $(uname -m) in
    x86_64)
        run context -u EDGEPROF_ENDPOINT "$program" context
        [ "$(cat "$work/context.status")" = 9 ] && ok "context: async parents are on after a start in a synchronization context" ||
            bad "context: status $(cat "$work/context.status"), $(cat "$work/context.out" "$work/context.err")"
        ;;
    esac
    run empty EDGEPROF_ENDPOINT="file://$work/empty.profile" EDGEPROF_SERVICE=by-variable "$program" empty
    [ "$(cat "$work/empty.status")" = 9 ] && "$edgeprof" cat "$work/empty.profile" 2>&1 | grep -q by-variable &&
        ok "empty: an empty text is as none" || bad "empty: status $(cat "$work/empty.status"), $(cat "$work/empty.err")"
    run fallback EDGEPROF_FORMAT=compact PYROSCOPE_SERVER_ADDRESS="file://$work/fallback.profile" PYROSCOPE_APPLICATION_NAME=by-another-name "$program" return
    "$edgeprof" cat "$work/fallback.profile" 2>&1 | grep -q by-another-name && ok "PYROSCOPE_* are taken" || bad "PYROSCOPE_*: $(cat "$work/fallback.err")"
}

case ${1:-} in
--jit)
    work=$3
    rm -rf "$work" && mkdir -p "$work"
    jit "$2"
    ;;
*)
    program=$1 edgeprof=$2 work=$3
    rm -rf "$work" && mkdir -p "$work"
    work=$(cd "$work" && pwd)
    aot
    ;;
esac
[ $failed = 0 ] && echo "lifecycle: all good"
exit $failed
