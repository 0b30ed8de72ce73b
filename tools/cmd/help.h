/* Help texts shared by commands. */
#ifndef ET_HELP_H
#define ET_HELP_H

#define ET_SYMBOLS_HELP                                                                                                \
    "  --symbols DIR       search DIR and its subfolders for .dbg and ELF files by build id; repeatable\n"             \
    "  --debuginfod URL    query this server for modules without DWARF here; repeatable (DEBUGINFOD_URLS)\n"

#define ET_QUERY_HELP                                                                                                  \
    "\n"                                                                                                               \
    "  --db FILE           read this database (./edgeprof.db)\n"                                                       \
    "  --url URL           query this server instead, http or https\n"                                                 \
    "  --token-file FILE   file with its token in one line; or EDGEPROF_TOKEN is the token\n"                          \
    "  --ca FILE           CA certificates that may sign the server's, PEM (the system's)\n"                           \
    "  --service NAME      or 'NAME{key=\"value\",key!=\"value\",key=~\"regex\",key!~\"regex\"}' of labels and "       \
    "tags;\n"                                                                                                          \
    "                      required when there are several services\n"                                                 \
    "  --tag KEY=VALUE     only profiles of processes with this tag; repeatable\n"                                     \
    "  --kind KIND         cpu, wall, wait, lock, alloc, live, exception, gc, thread or heap (cpu); live, heap: "      \
    "the\n"                                                                                                            \
    "                      value of each process at the end of the range\n"                                            \
    "  --value VALUE       value: time, bytes; or count: objects, contentions, waits, pauses, samples (value)\n"       \
    "  --label KEY=VALUE   only stacks with this label, or of processes with this tag; repeatable, all must match\n"   \
    "                      span_id=16 and trace_id=32 hexadecimal digits are labels, too\n"                            \
    "  --group-by KEY      group stacks below a frame for the label's value\n"                                         \
    "  --last TIME         only the last 90s, 10m, 2h, 7d\n"                                                           \
    "  --from T, --to T    now, now-10m, Unix seconds, 2026-01-31T12:00:00Z (default: all time)\n" ET_SYMBOLS_HELP     \
    "  --help\n"

#endif
