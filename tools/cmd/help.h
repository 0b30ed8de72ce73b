/* Help texts shared by commands. */
#ifndef ET_HELP_H
#define ET_HELP_H

#define ET_SYMBOLS_HELP                                                                                                \
    "  --symbols DIR       search DIR and below for .dbg and ELF files by build id; may be given several times\n"      \
    "  --debuginfod URL    ask that server for what has no DWARF here; may be given several times (DEBUGINFOD_URLS)\n"

#define ET_QUERY_HELP                                                                                                  \
    "\n"                                                                                                               \
    "  --db FILE           read this database (./edgeprof.db)\n"                                                       \
    "  --url URL           ask the server there instead, http or https\n"                                              \
    "  --token-file FILE   its token, in one line; or EDGEPROF_TOKEN has it\n"                                         \
    "  --ca FILE           who may sign its certificate, PEM (the system's authorities)\n"                             \
    "  --service NAME      or 'NAME{key=\"value\",key!=\"value\",key=~\"regex\",key!~\"regex\"}' of labels and "       \
    "tags;\n"                                                                                                          \
    "                      needed when there are several\n"                                                            \
    "  --tag KEY=VALUE     only profiles of processes with that tag; may be given several times\n"                     \
    "  --kind KIND         cpu, wall, wait, lock, alloc, live, exception, gc, thread or heap (cpu); live, heap: "      \
    "what\n"                                                                                                           \
    "                      each process had at the end of the time that is asked for\n"                                \
    "  --value VALUE       value: time, bytes; or count: objects, contentions, waits, pauses, samples (value)\n"       \
    "  --label KEY=VALUE   only stacks with that label, or of processes with that tag; several must all match\n"       \
    "                      span_id=16 and trace_id=32 hexadecimal digits are labels, too\n"                            \
    "  --group-by KEY      put stacks under a frame for the label's value\n"                                           \
    "  --last TIME         only the last 90s, 10m, 2h, 7d\n"                                                           \
    "  --from T, --to T    now, now-10m, Unix seconds, 2026-01-31T12:00:00Z (default: all there is)\n" ET_SYMBOLS_HELP \
    "  --help\n"

#endif
