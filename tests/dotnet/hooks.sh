#!/bin/sh
# The hooks of port/nativeaot/ against a stand-in for the runtime (hooks/): counts, and the stacks that they tell.
#
#   hooks.sh EDGEPROF PROGRAM WORK [EMULATOR...]
set -eu
edgeprof=$1 program=$2 work=$3
shift 3
mkdir -p "$work"
work=$(cd "$work" && pwd) # a file's endpoint is absolute
rm -f "$work/hooks.profile"
"$@" "$program" "$work/hooks.profile" >"$work/figures" || { cat "$work/figures"; echo "hooks.sh: $program fails" >&2; exit 1; }
# stack KIND PATTERN: such a stack is there, from the root to the leaf.
stack() {
    "$edgeprof" cat --folded --kind "$1" --value count --symbols "$(dirname "$program")" "$work/hooks.profile" >"$work/$1"
    grep -qE "(^|;)main;count;$2\$" "$work/$1" || { echo "hooks.sh: $program: no $1 at $2:" >&2; head -n 5 "$work/$1" >&2; exit 1; }
}
stack alloc 'make_small;small_type [0-9]+'
stack alloc 'make_large;bytes_type 20'
stack alloc 'make_raw;bytes_type 20'
stack live 'make_large;bytes_type 20'
stack exception 'throw_odd;odd_type 20'
stack gc 'collect;\[gc gen0\] 7'
stack gc 'collect;\[gc gen2\] 6'
# A level: the last one alone. Its parts add up to what is committed.
cat >"$work/heap.expected" <<END
[gc gen0] 1
[gc gen1] 18
[gc gen1];[gc fragmentation] 2
[gc gen2] 2923
[gc gen2];[gc fragmentation] 77
[gc loh] 39992
[gc loh];[gc fragmentation] 8
[gc poh] 500
[gc unused] 156479
END
"$edgeprof" cat --folded --kind heap "$work/hooks.profile" | LC_ALL=C sort >"$work/heap"
LC_ALL=C sort "$work/heap.expected" | diff - "$work/heap" || { echo "hooks.sh: $program: wrong sizes of the heap" >&2; exit 1; }
echo "hooks.sh: $(basename "$(dirname "$(dirname "$program")")"): counts and stacks of allocations, exceptions and pauses, sizes of the heap are right"
grep figure "$work/figures"
