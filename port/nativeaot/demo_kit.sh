# What the demos share (demo.sh, machine/demo.sh). They are in the root of the tree, and have $build and $work.
make=${MAKE:-make}
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

seconds=${DEMO_SECONDS:-}
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

# make_quietly LOG WHAT TARGET...: a build whose log is only shown if it fails
make_quietly() {
    log=$work/$1 what=$2
    shift 2
    $make -s --no-print-directory "$@" >"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        die "$what, the log is $log"
    }
}

# compare TOOL OPTION...: the profile with the functions' own clocks, the last line that the program has written: when it
# ended, and so did they
compare() {
    tool=$1
    shift
    set -- "$tool" top --db "$work/edgeprof.db" --service sensor-gateway "$@"
    "$@" -n 20 || die "no profile arrived (service: $(tail -n 1 "$work/service.log"))"
    "$@" -n 1000000 --json >"$work/top.json"
    tr -d '\r' <"$work/service.log" | sed -n 's/.*\({.*"shares".*}\).*/\1/p' | tail -n 1 >"$work/truth.json"
    say "the program measured the CPU time of three functions with clocks of its own; the profile must agree:"
    python3 port/nativeaot/burn_shares.py "$work/top.json" "$work/truth.json"
}
