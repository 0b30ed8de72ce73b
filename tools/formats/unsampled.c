/* See unsampled.h. */
#include "tools/formats/unsampled.h"
#include "tools/formats/compact.h"
#include "tools/lib/kinds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* EP_THREADS_MOST of the library: more memory has no more places. */
#define THREADS_MOST 4096

enum { NO_TIMER, NO_SLOT, SIGNAL_BLOCKED };

static const uint32_t reasons[ET_UNSAMPLED_REASONS] = {ET_LOSS_NO_TIMER, ET_LOSS_NO_SLOT, ET_LOSS_SIGNAL_BLOCKED};

void et_unsampled_add(struct et_unsampled *all, uint32_t reason, uint64_t threads, uint32_t error, uint64_t limit)
{
    for (size_t i = 0; i < ET_UNSAMPLED_REASONS; i++) {
        if (reasons[i] == reason && threads) {
            all->threads += threads;
            all->why[i].threads += threads;
            all->why[i].limit = limit;
            all->why[i].error = error;
        }
    }
}

void et_unsampled_name(struct et_unsampled *all, const char *name)
{
    char *sound = et_clean(name, strlen(name));
    bool known = false;
    for (size_t i = 0; i < all->distinct; i++) {
        known |= strcmp(all->names[i], sound) == 0;
    }
    if (known || all->distinct == ET_UNSAMPLED_NAMES || !*sound) {
        free(sound);
        return;
    }
    all->names[all->distinct++] = sound;
}

void et_unsampled_stats(struct et_unsampled *all, const void *bytes, size_t size)
{
    Edgeprof__V1__Stats *stats = bytes ? edgeprof__v1__stats__unpack(NULL, size, bytes) : NULL;
    if (!stats) {
        return;
    }
    for (size_t i = 0; i < stats->n_losses; i++) {
        const Edgeprof__V1__Loss *loss = stats->losses[i];
        et_unsampled_add(all, loss->reason, loss->count, loss->error, loss->limit);
        for (size_t k = 0; k < loss->n_threads; k++) {
            et_unsampled_name(all, loss->threads[k]);
        }
    }
    all->cpu_ns += stats->unsampled_ns;
    all->of_ns += stats->weight_ns + stats->thread_exit_ns;
    edgeprof__v1__stats__free_unpacked(stats, NULL);
}

static void put_no_timer(uint32_t error, uint64_t limit, struct et_buf *out)
{
    if (error == EAGAIN || error == 0) { /* 0: the agent does not send it */
        et_buf_text(out, "the limit of pending signals (RLIMIT_SIGPENDING");
        if (error) {
            et_buf_printf(out, ", %llu", (unsigned long long)limit);
        }
        et_buf_text(out, ") is reached; raise it with \"ulimit -i\"");
    } else {
        et_buf_printf(out,
                      "the kernel refuses timers (%s); allow timer_create() and timer_settime() in the "
                      "seccomp filter or sandbox",
                      strerror((int)(error & 0xfff)));
    }
}

static void put_why(const struct et_unsampled *all, size_t why, struct et_buf *out)
{
    unsigned long long limit = (unsigned long long)all->why[why].limit;
    if (why == NO_TIMER) {
        put_no_timer(all->why[why].error, all->why[why].limit, out);
    } else if (why == NO_SLOT) {
        et_buf_printf(out,
                      limit < THREADS_MOST
                          ? "edgeprof's memory has places for %llu threads; a program that is linked with edgeprof has "
                            "more with a larger memory_size"
                          : "edgeprof samples at most %llu threads at once",
                      limit);
    } else {
        et_buf_printf(
            out,
            "they block edgeprof's signal (%llu) or have no room for its handler; remove it from their signal mask, "
            "or give them a larger alternate stack",
            limit);
    }
}

static void put_names(const struct et_unsampled *all, struct et_buf *out)
{
    for (size_t i = 0; i < all->distinct; i++) {
        et_buf_printf(out, "%s%s", i ? ", " : " (", all->names[i]);
    }
    et_buf_text(out, all->distinct == 0 ? "" : all->threads > all->distinct ? ", ...)" : ")");
}

void et_unsampled_text(const struct et_unsampled *all, struct et_buf *out)
{
    if (!all->threads) {
        return;
    }
    et_buf_printf(out, "%llu thread%s not sampled", (unsigned long long)all->threads,
                  all->threads == 1 ? " was" : "s were");
    put_names(all, out);
    if (all->of_ns && all->cpu_ns) {
        double share = 100.0 * (double)all->cpu_ns / (double)all->of_ns;
        if (share < 1) {
            et_buf_text(out, ", less than 1 % of the CPU time");
        } else {
            et_buf_printf(out, ", %.0f %% of the CPU time", share > 100 ? 100 : share);
        }
    }
    const char *between = ": ";
    for (size_t i = 0; i < ET_UNSAMPLED_REASONS; i++) {
        if (all->why[i].threads) {
            et_buf_text(out, between);
            if (all->why[i].threads < all->threads) {
                et_buf_printf(out, "of %llu ", (unsigned long long)all->why[i].threads);
            }
            put_why(all, i, out);
            between = "; ";
        }
    }
}

void et_unsampled_free(struct et_unsampled *all)
{
    for (size_t i = 0; i < all->distinct; i++) {
        free(all->names[i]);
    }
    *all = (struct et_unsampled){0};
}
