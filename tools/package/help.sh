#!/bin/sh
# help.sh EDGEPROF: prints all help texts for help.awk: `--help` after a line `@main`, then each command's after a line
# `@command NAME`. So no help text is written twice.
set -eu

main=$("$1" --help)
printf '@main\n%s\n' "$main"
for command in $(printf '%s\n' "$main" | sed -n 's/^  \([a-z][a-z-]*\)   *[^ ].*/\1/p' | grep -vx edgeprof); do
    text=$("$1" "$command" --help) || { echo "help.sh: edgeprof $command --help failed" >&2; exit 1; }
    printf '@command %s\n%s\n' "$command" "$text"
done
