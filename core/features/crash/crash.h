/*
 * Private to core/features/crash: the record of a crash in its file, and its way to a receiver.
 *
 *   record.c    in the handler: writes the record
 *   read.c      at the next start: finds out what is in the file
 *   message.c   makes the message
 *   crash.c     start and stop, the file's mark, and delivery
 *
 * The file (FORMAT.md, section 10): the mark of the run at 0, the record's head at EP_CRASH_HEAD_AT, its body, which is
 * a sequence of sections, at EP_CRASH_BODY_AT. Nothing outlives the device, so numbers are in its byte order.
 */
#ifndef EP_CRASH_CRASH_H
#define EP_CRASH_CRASH_H

#include "core/sample/profiler.h"

#define EP_CRASH_VERSION      1u
#define EP_CRASH_FILE_SIZE    32768u
#define EP_CRASH_HEAD_AT      4096u
#define EP_CRASH_BODY_AT      4608u
#define EP_CRASH_BODY_MOST    (EP_CRASH_FILE_SIZE - EP_CRASH_BODY_AT)
#define EP_CRASH_THREADS      32u
#define EP_CRASH_MODULES_MOST (EP_MAX_MODULES < 48 ? EP_MAX_MODULES : 48)
#define EP_CRASH_PATH         128u
#define EP_CRASH_DEPTH        1023u /* receivers refuse deeper stacks, the frame of a missing root included */

/* A run of the program. */
struct ep_crash_run {
    uint32_t state; /* enum ep_crash_state */
    uint32_t pid;
    uint32_t signal; /* CRASHED */
    uint32_t count;  /* of a missed run: how many have ended so, this one included */
    uint64_t start_ns, unix_ns;
    char boot_id[40], executable[64];
};
enum ep_crash_state { EP_CRASH_ENDED, EP_CRASH_RUNS, EP_CRASH_CRASHED };

struct ep_crash_mark {
    char magic[4];
    uint32_t crc; /* of what follows */
    struct ep_crash_run run;
    struct ep_crash_run missed; /* the last that ended without a record and was not delivered; count 0: none */
};

struct ep_crash_head {
    char magic[4];
    uint32_t crc; /* of version, size and the body */
    uint32_t version, size;
};

/* Each section begins at a multiple of 8. */
struct ep_crash_section {
    uint32_t type, size;
};
enum ep_crash_section_type {
    EP_CRASH_AT_RUN = 1,
    EP_CRASH_AT_FAULT,
    EP_CRASH_AT_REGISTERS, /* 64-bit numbers */
    EP_CRASH_AT_STACK,     /* struct ep_crash_stack and its program counters, 64-bit numbers */
    EP_CRASH_AT_MODULE,    /* struct ep_crash_module */
    EP_CRASH_AT_TEXT,
    EP_CRASH_AT_FAULTS, /* uint32_t: steps that failed */
};

struct ep_crash_fault {
    int32_t signal, code, error;
    uint32_t tid, sender, reserved;
    uint64_t address, pc, sp, fp, lr, time_ns, unix_ns;
};

struct ep_crash_stack {
    uint32_t tid;
    uint16_t depth;
    uint8_t quality, end; /* struct ep_stack */
    char name[16];
};

struct ep_crash_module {
    uint64_t start, end, bias;
    uint32_t build_id_size;
    uint8_t build_id[36];
    char path[EP_CRASH_PATH];
};

/* CRC-32C; the second continues the first's. Context: crash. */
uint32_t ep_crash_crc(const void *bytes, size_t size);
uint32_t ep_crash_crc_on(uint32_t crc, const void *bytes, size_t size);

/* The body of the record that is written, or was read and waits. There is one at a time: a record that waits keeps the
 * handler from recording. */
extern _Alignas(8) uint8_t ep_crash_body[EP_CRASH_BODY_MOST];

/* What the handler needs to know; written before the signals are watched. */
struct ep_crash_own {
    struct ep_crash_run run;
    bool registers;
    atomic_bool waits; /* a record waits for its delivery: do not overwrite it */
};
extern struct ep_crash_own ep_crash_own;

/* Writes the mark, with the state of the own run. Context: init, deliver, crash. */
int ep_crash_mark_write(void);

/* What a record contains. Pointers go into ep_crash_body. */
struct ep_crash_view {
    struct ep_crash_run run;
    struct ep_crash_fault fault;
    const uint8_t *text, *registers;
    uint32_t text_size, register_count, faults;
    unsigned stacks, modules;
    struct {
        struct ep_crash_stack head;
        const uint8_t *pcs;
    } stack[EP_CRASH_THREADS + 1];
    struct {
        struct ep_crash_module module;
        uint32_t base; /* in the message's address space */
    } module[EP_CRASH_MODULES_MOST];
};

/* Reads the record into ep_crash_body. 0; -ENOENT: there is none; -EBADMSG: damaged, or of another version. The view
 * belongs to this room and stays until the next call. Context: init. */
int ep_crash_read(const struct ep_crash_view **view);

/* The message about a record, or about a missed run (view NULL), without what does not fit into `size` bytes. Returns
 * its size and *segment, its identity: the same for the same record. 0: it does not fit. Context: init. */
uint32_t ep_crash_message(struct ep *ep, const struct ep_crash_view *view, const struct ep_crash_run *missed,
                          uint8_t *bytes, uint32_t size, uint64_t *segment);

#endif
