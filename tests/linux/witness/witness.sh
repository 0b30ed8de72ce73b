#!/bin/sh
# edgeprof with a witness: what `edgeprof run` shows and says is compared with what the kernel says of the program.
here=$(dirname "$0")
export WITNESS_THEN="$LD_PRELOAD" LD_PRELOAD="$here/libwitness.so"
exec "$here/edgeprof-real" "$@"
