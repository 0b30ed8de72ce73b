#!/bin/sh
# Stands for the linker's driver of a publish (CppLinker) and writes its arguments, one a line, to $LINK_RECORD.
[ -z "${LINK_RECORD:-}" ] || printf '%s\n' "$@" >"$LINK_RECORD"
exec gcc "$@"
