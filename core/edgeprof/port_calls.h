/*
 * A port calls these functions of the core. port.h has the functions that the core calls, and the rules for both.
 */
#ifndef EP_PORT_CALLS_H
#define EP_PORT_CALLS_H

#include <edgeprof/port.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ep;
struct ep_config;

/* These two keep the profiler and the port's memory valid. A thread of the program calls the functions below only
 * between them. ep_hold() returns the profiler; NULL: no profiler runs, and ep_release() must not be called.
 * Context: signal. */
struct ep *ep_hold(void);
void ep_release(void);

/* Copies the configuration of the profiler that runs, with its strings in a buffer of EP_STRINGS_BYTES, so that the
 * port can start it again: without EP_ZERO_MEMORY, which holds for one run. Returns false if none runs. Context: any
 * thread. */
bool ep_settings_copy(struct ep_config *config, char *strings);

/* Passes a line to the function that ep_notice_to() has set. Only programs that call ep_notice_to() link this function,
 * so a port refers to it weakly. Context: any thread. */
void ep_notice_line(const char *line);

/* Records one sample that stands for `ns` of CPU time of the calling thread. `ep` is the result of ep_hold(). Returns
 * 0, or -ENOSPC: the ring has no room, because the collect thread gets no processor. Nothing is lost then: the port
 * adds `ns` to the thread's next sample, or to its residual CPU time if it ends before. Context: signal. */
int ep_capture(struct ep *ep, const struct ep_registers *registers, uint32_t tid, uint64_t ns);

/* Opens a wait. The port implements ep_wait_begin() of core/edgeprof/edgeprof.h, which calls this with the registers
 * that its caller has after the call. The low three bits of the stack pointer, which are otherwise 0, hold the class of
 * the wait. Context: signal. */
void ep_wait_open(uintptr_t sp_and_wait, uintptr_t pc, uintptr_t fp, uintptr_t base);

/* Returns the class of a wait for this descriptor (enum ep_wait of core/edgeprof/edgeprof.h). Keeps errno. Context:
 * signal. */
unsigned ep_port_descriptor_wait(int fd);

#define EP_WORK_WAITING 60

/* A thread's work: its labels, its span and its open waits. The port keeps one for each thread, zero at the thread's
 * start. Only the thread itself writes it (core/sample/tags.c); signal handlers on that thread read it. */
struct ep_work {
    EP_ATOMIC(unsigned) guard; /* odd while other members are being written */
    uint32_t run;              /* run of the profiler that `tags` belongs to */
    uint32_t tags;             /* tag set, 0: none */
    uint32_t pushed_beyond;    /* pushes without room, whose pops do nothing */
    uint64_t span_id, trace_high, trace_low;
    uint64_t waiting[EP_WORK_WAITING]; /* struct ep_waiting of core/sample/waiting.h */
};

/* Reports residual CPU time: the CPU time of a thread that no sample stands for, when the thread ends or sampling
 * stops. It may be negative. tid 0: CPU time of threads that cannot be sampled. Context: any thread, signal. */
void ep_thread_residual(uint32_t tid, int64_t residual_ns);

/* Counts ticks that the port held back while the thread's stack had no room for the handler (EP_LOSS_SMALL_STACK).
 * `ep` is the result of ep_hold(). Context: signal. */
void ep_ticks_waited(struct ep *ep, uint32_t count);

/* Reports residual CPU time of a running thread that no tick ever met on its processor ([unsampled]). The port reports
 * this time only once. Context: any thread. */
void ep_thread_missed(uint32_t tid, uint64_t residual_ns);

/* Reports CPU time of a thread in the kernel, where the port's clock takes no samples ([kernel]). Context: any thread.
 */
void ep_thread_in_kernel(uint32_t tid, uint64_t kernel_ns);

/* Reports that the process is no longer single-threaded: edgeprof's parked threads may start. Context: any thread. */
void ep_threads_needed(void);

/* Reports a thread that is not sampled, once for each. reason: enum ep_loss; error, limit: as in struct ep_unsampled
 * of core/edgeprof/edgeprof.h. Context: any thread. */
void ep_thread_refused(unsigned reason, uint32_t tid, int error, uint64_t limit);

/* Reports that such a thread ends: the core reads its name a last time. Context: any thread. */
void ep_thread_unsampled_ends(uint32_t tid);

/* Reports that this process is a forked child, in which no profiler runs. Context: init, in the child. */
void ep_forked(void);

/* Reports one range of a module; called by ep_port_modules_scan() only. Returns 1 if it was not known and there is
 * room. Context: init, collect. */
int ep_module_seen(const struct ep_module_info *info);

/* ---- crash records, for programs that have them ---- */

/* core/features/crash/ implements these three. If ep_crash_begin() returns false, nothing is to be recorded, and the
 * port must not call the other two. Context: crash. */
bool ep_crash_begin(const struct ep_crash_event *event);
void ep_crash_step(enum ep_crash_step_number step);
void ep_crash_end(void);

#ifdef __cplusplus
}
#endif

#endif
