#!/bin/sh
# Every kind of a .NET service on a whole ARM machine against the program's own counts, on the machine that on_machine.py has booted.
#
#   machine.sh EDGEPROF PROGRAMS CRASHER ASYNC     the host tool, the folder of tests/dotnet/Programs by their names, two more programs
set -eu
edgeprof=$1 programs=$2 crasher=$3 async=$4 work=$(realpath "$2")/work
mkdir -p "$work"
failed=
# part NAME COMMAND...: all parts run, whatever fails
part() {
    name=$1
    shift
    echo "-- $name"
    "$@" || failed="$failed $name"
}
waits() {
    rm -f "$work/waits.ep"
    EDGEPROF_LEVEL=high $RUNNER "$programs/Waits" "$work/waits.ep" && tests/dotnet/deadlock.py "$edgeprof" "$work/waits.ep" "$programs"
}
for one in ${MACHINE_PARTS:-kinds heap waits incidents crashes ends tasks}; do
    case $one in
    kinds) part kinds tests/dotnet/kinds.py "$edgeprof" "$programs/Kinds" "$work/kinds" ;;
    heap) part heap tests/dotnet/heap.py "$edgeprof" "$programs/Heap" "$work/heap" ;;
    waits) part waits waits ;;
    # shellcheck disable=SC2086 # a command and its argument
    incidents) part incidents tests/linux/incident/slow.py "$edgeprof" "$programs/Incidents" --dotnet $RUNNER ;;
    crashes) part crashes tests/linux/crash/dotnet.py "$edgeprof" "$crasher" ;;
    ends) part ends tests/dotnet/ends.py "$edgeprof" "$programs/Counted" "$work" ;;
    tasks) part tasks tests/dotnet/tasks.py "$edgeprof" "$async" "$work/tasks" 20000 ;;
    esac
done
[ -z "$failed" ] || { echo "machine.sh: failed:$failed" >&2; exit 1; }
