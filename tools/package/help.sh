#!/bin/sh
# help.sh EDGEPROF: all that it says of itself: the text of `--help` after a line `@main`, then that of each command in
# it after a line `@command NAME`. What help.awk reads; nothing of it is written down a second time.
set -eu

main=$("$1" --help)
printf '@main\n%s\n' "$main"
for command in $(printf '%s\n' "$main" | sed -n 's/^  \([a-z][a-z-]*\)   *[^ ].*/\1/p' | grep -vx edgeprof); do
    text=$("$1" "$command" --help) || { echo "help.sh: edgeprof $command --help failed" >&2; exit 1; }
    printf '@command %s\n%s\n' "$command" "$text"
done
