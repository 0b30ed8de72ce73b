/*
 * The processes in which symbol files are parsed: one that opens files and starts the others, and one for each file,
 * which may do nothing but compute. reader.h is what the rest of the tool uses.
 */
#ifndef ET_READER_PROCESS_H
#define ET_READER_PROCESS_H

#include "tools/symbols/symfile.h"

#include <limits.h>
#include <sys/stat.h>

/* ---- to the process that opens files: one message each, by a SOCK_SEQPACKET socket ---- */

enum et_order_kind { ET_ORDER_OPEN, ET_ORDER_READ, ET_ORDER_END };

struct et_order {
    int32_t kind;
    int32_t process;     /* ET_ORDER_END: to be ended */
    char path[PATH_MAX]; /* ET_ORDER_OPEN, ET_ORDER_READ; sent as far as its NUL */
};

struct et_file_identity {
    uint64_t device, inode, size;
    int64_t changed_ns;
};

struct et_file_identity et_file_identity(const struct stat *status);

/* With a descriptor: for ET_ORDER_OPEN the socket of the file's process, for ET_ORDER_READ the file itself, whose bytes
 * the server passes on. */
struct et_order_done {
    int32_t error; /* a negative errno value */
    int32_t process;
    int32_t status; /* ET_ORDER_END: as of waitpid() */
    struct et_file_identity file;
};

/* ---- to a file's process: by a SOCK_STREAM socket ---- */

enum et_question_kind { ET_ASK_FACTS, ET_ASK_OPEN, ET_ASK_NAMES, ET_ASK_LACKS, ET_SUPPLY };

enum { ET_ADDRESSES_MOST = 64 };

struct et_question {
    uint32_t kind;
    uint32_t count; /* ET_ASK_NAMES, ET_ASK_LACKS: of addresses */
    uint64_t addresses[ET_ADDRESSES_MOST];
    uint64_t size; /* ET_SUPPLY: of the bytes that follow, if the answer, an int32_t, is 1; then the same once more */
    struct et_companion companion;
    char module[PATH_MAX]; /* the path that senders have for the file */
};

struct et_facts_answer {
    int32_t error;
    struct et_symfile_facts facts;
};

struct et_open_answer {
    int32_t opened;     /* 0 or 1 */
    int32_t companions; /* et_symfile_has_companions() */
    uint32_t quality;   /* et_symfile_quality() */
    char why[128];      /* why it is not, or et_symfile_trouble() */
};

struct et_lacks_answer {
    int32_t lacks; /* 0 or 1 */
    struct et_companion companion;
};

/* ET_ASK_NAMES is answered for each address, in order: the size in 4 bytes, and what answer.h has. */

/* Codes with which a file's process ends. Out of memory ends it with ET_FAILED. */
enum { ET_READER_CHANGED = 11 };

/* Seconds of CPU time, and bytes of memory besides the file's own pages, that one of these bytes may take. */
unsigned et_reader_seconds(uint64_t bytes);
uint64_t et_reader_memory_most(uint64_t bytes);

/* Serves orders until the socket is closed. confined: gives up rights. */
_Noreturn void et_reader_process(int orders, bool confined);

#endif
