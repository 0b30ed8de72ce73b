/* See api.h: crashes. */
#include "tools/formats/crash.h"
#include "tools/serve/query/api.h"

struct crash_list {
    struct et_store *store;
    struct et_crashes crashes;
};

static bool add_crash(void *context, int64_t received_ns, const void *bytes, size_t size)
{
    enum { MEMORY = 20, FRAME_MEMORY = 128 }; /* what a byte of a message and a frame become, about */
    struct crash_list *list = context;
    const char *why;
    if (et_store_counts(list->store, size * MEMORY) < 0) {
        return false;
    }
    et_message *message = et_message_decode(bytes, size, &why);
    size_t frames = list->crashes.frame_count;
    if (message) {
        (void)et_crashes_add(&list->crashes, message, received_ns, &why); /* was checked when it came */
    }
    return et_store_counts(list->store, (list->crashes.frame_count - frames) * FRAME_MEMORY) == 0;
}

unsigned et_api_crashes(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                        struct et_buf *out)
{
    struct crash_list list = {.store = store};
    unsigned status = et_store_crashes(store, query, add_crash, &list) < 0 ? et_api_failed(store, out) : 200;
    if (status == 200) {
        if (list.crashes.count) {
            et_symbolize(symbols, list.crashes.profile);
        }
        et_crashes_group(&list.crashes);
        et_crashes_json(&list.crashes, out);
    }
    et_crashes_free(&list.crashes);
    return status;
}
