/*
 * Which writes to files are sampled, and what is known of a descriptor. For the hooks in write_wrap.c,
 * preload_next_write.c and preload_writes.c, which contain write_hooks.h.
 */
#ifndef EP_LINUX_WRITE_H
#define EP_LINUX_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <edgeprof/hooks.h>

/* Of a descriptor: what it is, the number of its label, and how often it was closed. 0 in the lower half: not known. */
#define EP_WRITE_FILES     4096u
#define EP_WRITE_CLASS     0xffu
#define EP_WRITE_KNOWN     0xffffu
#define EP_WRITE_CLOSED_BY 0x10000u
enum { EP_WRITE_NEW, EP_WRITE_FILE, EP_WRITE_OTHER };
extern atomic_uint ep_write_files[EP_WRITE_FILES];

/* left: bytes until ep_write_look() must be called. inside: in a function of stdio, which may call others. As small as
 * it can be: this is static TLS. */
struct ep_write_watcher {
    uint32_t left;
    bool busy, inside;
};
extern _Thread_local struct ep_write_watcher ep_write_mine;

/* The slow path of ep_write_note(), and the end of a sync that began at `from`. A hook must call them itself: its frame
 * is omitted. Context: any thread. */
void ep_write_look(int fd, size_t size);
void ep_write_synced(int fd, uint64_t from);

/* The descriptor has got `size` bytes; <= 0: none. Context: any thread. */
static inline __attribute__((always_inline)) void ep_write_note(int fd, ssize_t size)
{
    struct ep_write_watcher *me = &ep_write_mine;

    if (__builtin_expect(!ep_hook_wants(EP_KIND_WRITE), 1) || size <= 0)
        return;
    const unsigned known = (unsigned)fd < EP_WRITE_FILES
                               ? atomic_load_explicit(&ep_write_files[fd], memory_order_relaxed) & EP_WRITE_CLASS
                               : EP_WRITE_NEW;
    if (known == EP_WRITE_OTHER || me->inside)
        return;
    if (__builtin_expect(known == EP_WRITE_FILE && (size_t)size < me->left, 1))
        me->left -= (uint32_t)size;
    else
        ep_write_look(fd, (size_t)size);
}

/* The descriptors were closed: their numbers may soon mean other files. Context: any thread. */
static inline void ep_write_closed(unsigned first, unsigned last)
{
    for (; first <= last && first < EP_WRITE_FILES; first++) {
        unsigned known = atomic_load_explicit(&ep_write_files[first], memory_order_relaxed);
        if (known & EP_WRITE_KNOWN)
            atomic_store_explicit(&ep_write_files[first], (known | EP_WRITE_KNOWN) + 1, memory_order_relaxed);
    }
}

/* The beginning of a sync, for ep_write_synced(); 0: syncs are not measured. Context: any thread. */
static inline uint64_t ep_write_sync_begins(void)
{
    return __builtin_expect(ep_hook_wants(EP_KIND_SYNC), 0) ? ep_port_ticks() | 1u : 0;
}

#endif
