/*
 * Private to port/linux: functions shared by its files. README.md lists them.
 */
#ifndef EP_LINUX_H
#define EP_LINUX_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <edgeprof/port_calls.h>

/* Copies a text, cut to size - 1 bytes. Context: any thread. */
void ep_linux_text_copy(char *to, size_t size, const char *from);

/* Writes a number in base 10 or 16, and a 0: at most EP_LINUX_DIGITS bytes. Returns the number of digits.
 * Context: signal. */
#define EP_LINUX_DIGITS 21u
size_t ep_linux_number_put(char *to, uint64_t number, unsigned base);

/* The bounds of a thread's stack. */
struct ep_linux_bounds {
    uintptr_t start, end;
    uintptr_t root; /* frames at or above it belong to the thread's start; 0: unknown */
};

/* The main thread's stack, up to its limit; zero: unknown. */
extern struct ep_linux_bounds ep_linux_main_bounds;
/* Sets ep_linux_main_bounds. Context: init. */
void ep_linux_main_bounds_find(void);

/* In a forked child without a profiler: after 100 ms of the calling thread's CPU time, and then from time to time, a
 * tick resumes the parked thread EP_ROLE_START. Returns 0 or a negative errno value. Context: init. */
int ep_linux_fork_arm(void);
/* Ends that, before ep_start(). Context: init. */
void ep_linux_fork_disarm(void);

/* Copies the interrupted registers. ucontext is the kernel's argument to a handler. Context: signal. */
void ep_linux_context(const void *ucontext, struct ep_registers *registers);

/* Converts a pc from /proc to one of struct ep_registers (Thumb bit). Context: collect. */
uintptr_t ep_linux_pc(uint32_t tid, uintptr_t pc);

/* Calls each() with path and bias of every module that could be unloaded. Context: init, and the thread that pins. */
void ep_linux_modules_each(void (*each)(const char *path, uintptr_t bias));

/* Pins such modules (pin.c): at once; but for the collect thread another thread does it, and this waits for it at most
 * 20 ms. Context: init, collect. */
void ep_linux_pin(void);
/* Returns true if that module can no longer be unloaded. Context: init, collect. */
bool ep_linux_is_pinned(uintptr_t bias);
/* Waits until that thread has ended, half a second at most. Context: any thread. */
void ep_linux_pins_settle(void);
/* For a forked child, which has no such thread. Context: init. */
void ep_linux_pins_forked(void);

/* Asks the kernel to read a module's unwind tables from the disk, so that handlers need not wait for them. No effect
 * if the kernel refuses. Context: init, collect. */
void ep_linux_tables_fetch(const struct ep_module_info *info);

/* Sets ep_linux_main_bounds.root, if main() runs already: the preload library starts before it. Only the main thread
 * may call it. sp: its stack pointer; a handler may be on another stack. False: the root stays unknown.
 * Context: signal. */
bool ep_linux_main_root_find(uintptr_t sp);
/* How often ep_linux_main_bounds_find() has begun anew. */
extern unsigned ep_linux_main_searches;

/* From then on ep_linux_main_root_find() does nothing, if the function that calls main() is in this code, which cannot
 * be read. Context: init, collect. */
void ep_linux_main_root_unreadable(uintptr_t start, uintptr_t end);

/* True if the instruction before `address`, which is in a module's code, calls to where a register says, as main() is
 * called. Context: signal. */
bool ep_linux_is_behind_call(uintptr_t address);

/* The type of the program header with this architecture's unwind tables. */
extern const uint32_t ep_linux_table_segment;

/* True if a thread's static TLS is above its thread pointer on this architecture, else it is below. */
extern const bool ep_linux_tls_above;

/* The signal number of ticks; 0 before the first start. Context: signal. */
int ep_linux_signal(void);

/* Announces the calling thread: stores its bounds, and arms it if a profiler runs. Context: any thread. */
void ep_linux_thread_begins(struct ep_linux_bounds bounds);
/* Disarms the calling thread and reports its residual CPU time. Context: any thread. */
void ep_linux_thread_ends(void);
/* Marks the calling thread as edgeprof's own: it is never sampled. Context: any thread. */
void ep_linux_thread_own(enum ep_role role);

/* True if the thread blocks edgeprof's signal, and with `pending` also has one pending. False if the system does not
 * show it. Context: any thread. */
bool ep_linux_signal_blocked(uint32_t tid, bool pending);

/* ---- stacks of threads that nobody announced (found_stacks.c) ---- */

/* True and *bounds (root 0): the stack of the calling thread, in which sp is. False: not known yet; the collect thread
 * looks it up. A stack that cannot be found has bounds that contain nothing. Context: signal. */
bool ep_linux_stack_found(uint32_t tid, uintptr_t sp, struct ep_linux_bounds *bounds);
/* Forgets answers that ended threads did not take. Context: collect. */
void ep_linux_stacks_forget(void);

/* ---- threads without a timer (uncovered.c) ---- */

#define EP_LINUX_USED_UNIT 1024u /* ns */

/* tid 0: free. used: CPU time at the last scan, in EP_LINUX_USED_UNIT, modulo 2^32; its lowest bit: see uncovered.c. */
struct ep_linux_watched {
    atomic_uint tid;
    atomic_uint used;
};

/* Starts accounting. memory: zeroed entries. Context: init. */
void ep_linux_uncovered_begin(struct ep_linux_watched *memory, unsigned count);

/* Reports a thread without a timer; counts its reason once. used_ns: its CPU time, 0 at its start. error: the error
 * of ep_linux_arm(); -EXFULL: the table is full; 0: it blocks edgeprof's signal. Returns the CPU time since the last
 * scan, in EP_LINUX_USED_UNIT, 0 if unknown. Context: any thread. */
unsigned ep_linux_uncovered(uint32_t tid, uint64_t used_ns, int error);
/* True if the thread lost its timer because it blocked edgeprof's signal, and still blocks it. Context: collect. */
bool ep_linux_still_blocks(uint32_t tid);

/* CPU time of the process without edgeprof's threads. Read it before the CPU time of armed threads.
 * Context: any thread. */
uint64_t ep_linux_process_ns(void);
/* Adds CPU time that a thread used while it had a timer (modulo 2^64: may be negative). is_guess: its ticks stand for
 * it, because its clock was gone; what is too much will be taken back. Context: any thread. */
void ep_linux_covered(uint64_t ns, bool is_guess);
/* Reports the CPU time of threads without a timer and forgets those that have ended.
 * Context: collect, init. */
void ep_linux_uncovered_tell(uint64_t process_ns);

/* For functions on the path of hooks that call the C library for edgeprof alone: struct ep_own_text.calls_start. */
#define EP_LINUX_CALLS __attribute__((section("ep_calls")))

/* ---- clocks ---- */

/* The clock's time in ns; 0: it cannot be read. Context: signal. */
uint64_t ep_linux_clock_ns(int clock);
/* ep_linux_ticks_begin() begins to measure the rate of ep_port_ticks(); ep_linux_ticks_adjust() ends a measurement, if
 * enough time has passed, and begins the next one. Context: collect, init. */
void ep_linux_ticks_begin(void);
void ep_linux_ticks_adjust(void);
/* Finds out, once, whether ep_port_stayed() can tell. Sleeps for a moment, unless the wait before was enough. Context:
 * init. */
void ep_linux_switches_find(void);
/* Around a wait of the calling thread: what the kernel does there is a part of the answer. True: it was not known, and
 * ep_linux_switches_watched() has to follow. Context: init. */
bool ep_linux_switches_watch(void);
void ep_linux_switches_watched(void);
/* The number in front of abort handlers of restartable sequences (glibc's RSEQ_SIG). One for each architecture. */
extern const uint32_t ep_linux_rseq_signature __attribute__((visibility("hidden")));
/* CPU time of edgeprof's own threads. Context: any thread. */
uint64_t ep_linux_own_ns(void);

/* Opens a folder that only this user and root can replace, with all folders before it. make: creates the last one if it
 * is missing. Returns a descriptor; -EPERM: another user can replace it; or the system's error. Context: init, deliver.
 */
int ep_linux_folder_open(const char *path, bool make);
/* Returns true if RLIMIT_FSIZE forbids a file of that size: the kernel would end the process by SIGXFSZ, even for bytes
 * that the file has. Context: signal. */
bool ep_linux_is_beyond_limit(uint64_t end);
/* Returns 0 if the open file is a regular one of this user or root with a single name; -EPERM or the system's error.
 * Context: init, deliver. */
int ep_linux_file_check(int fd);

/* A descriptor that stays open between calls. Zeroed memory is none. */
struct ep_linux_kept {
    int fd_plus_1;
    uint64_t device, inode;
};

/* Notes which file fd is, and moves it to a number that programs do not count on, where there is one; locks of records
 * are lost by that. Returns 0; on an error the negative errno value, and fd is the caller's. Context: init, deliver. */
int ep_linux_keep(struct ep_linux_kept *kept, int fd);
/* Returns the descriptor, or -1 if the program has closed it, whatever has its number now. Context: signal, any thread.
 */
int ep_linux_kept(const struct ep_linux_kept *kept);
/* Closes it if it is still that file. Context: any thread. */
void ep_linux_kept_close(struct ep_linux_kept *kept);

/* ---- the scan ---- */

/* Calls each() for every thread of the process, or for the first if /proc has numbers of another namespace. 0 or a
 * negative errno value. Context: collect, init. */
int ep_linux_tasks(void (*each)(uint32_t tid));

/* True if the calling thread is edgeprof's own. Context: signal. */
bool ep_linux_here_is_own(void);
/* Marks the calling thread as edgeprof's own for a while, or ends that. Context: init. */
void ep_linux_here_set_own(bool own);
/* True if the thread is edgeprof's own. Context: collect. */
bool ep_linux_thread_is_own(uint32_t tid);

/* True if the start routine is that of edgeprof's own threads. Context: any thread. */
bool ep_linux_is_own_start(void *(*start)(void *));

/* Reads a small file of /proc: at most `size` bytes, 0-terminated. Returns the bytes read or a negative errno value.
 * Context: any thread. */
int ep_linux_read(const char *path, char *text, size_t size);

/* A line of /proc/self/maps. path: "" if there is none, or it has 1024 bytes or more. */
struct ep_linux_mapping {
    uintptr_t start, end;
    char access[4]; /* "rwxp", with '-' for what it has not */
    char path[1024];
};

/* Calls each() for every mapping of the process, until it returns false. Returns 0 or a negative errno value. Context:
 * init, collect. */
int ep_linux_maps_each(bool (*each)(const struct ep_linux_mapping *mapping, void *context), void *context);

/* Copies the path of the file that is mapped at an address; its name may have changed since. Returns false if it is no
 * file's, or the path does not fit; path is then "". Context: init, collect. */
bool ep_linux_path_at(uintptr_t at, char *path, size_t size);
/* Returns the absolute path of a module that stays loaded, by its name and an address in it; the name itself if that is
 * absolute, or nothing better is known. The result stays valid. Context: init, collect; one thread at a time. */
const char *ep_linux_absolute_path(const char *name, uintptr_t at);
/* As ep_linux_path_at(), of the program's file, also where the dynamic linker was started with the program as its
 * argument. */
void ep_linux_program_path(char *path, size_t size);

/* As ep_linux_read(), for a file of a thread: `name` is "/comm" or the like. Context: collect. */
int ep_linux_task_read(uint32_t tid, const char *name, char *text, size_t size);

/* Reads an unsigned decimal at *text and advances *text behind it. Context: any thread. */
uint64_t ep_linux_number(const char **text);

/* The value of a digit as the kernel writes hexadecimal numbers: 0-9, a-f. Context: any thread. */
static inline unsigned ep_linux_hex_digit(char digit)
{
    return (unsigned)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

/* The CPU clock of any thread of this process: MAKE_THREAD_CPUCLOCK of Linux' include/linux/posix-timers.h. */
static inline int ep_linux_cpu_clock(uint32_t tid)
{
    return (int)((~tid << 3) | 6u);
}

/* CPU time of a thread, 0: it has ended. Context: signal. */
static inline uint64_t ep_linux_cpu_ns(uint32_t tid)
{
    return ep_linux_clock_ns(ep_linux_cpu_clock(tid));
}

/* Keeps the calling thread from being cancelled until ep_linux_cancel_back(). A hook of a call where no thread can be
 * cancelled needs this if it calls open(), nanosleep() or the like: the thread would end in the midst of edgeprof.
 * Returns the state before. Context: any thread. */
static inline int ep_linux_cancel_off(void)
{
    int state = PTHREAD_CANCEL_ENABLE;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

static inline void ep_linux_cancel_back(int state)
{
    (void)pthread_setcancelstate(state, &state);
}

/* ---- crashes (crash.c) ---- */

/* The action to install where the program wants the default one of a signal; it returns NULL: the default one. NULL: no
 * crash is recorded. Context: any thread. */
extern const struct sigaction *(*ep_linux_default)(int signal);

/* Describes the crash (crash_event.c). ucontext is the kernel's argument to a handler. Context: crash. */
void ep_linux_crash_event(struct ep_crash_event *event, int signal, const siginfo_t *info, const void *ucontext);

#endif
