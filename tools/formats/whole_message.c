/* See whole_message.h. */
#include "tools/formats/whole_message.h"
#include "tools/lib/json_write.h"

#include <stdlib.h>

static uint32_t add_module(struct et_profile *profile, const Edgeprof__V1__Module *module)
{
    struct et_buf id = {0};
    for (size_t i = 0; i < module->build_id.len; i++) {
        et_buf_printf(&id, "%02x", module->build_id.data[i]);
    }
    uint32_t number = et_profile_module(profile, id.data ? id.data : "", module->path);
    et_buf_free(&id);
    return number;
}

static void add_frames(struct et_profile *profile, const et_message *message, struct et_whole *whole)
{
    uint32_t *modules = et_alloc(message->n_modules + 1, sizeof *modules);
    whole->frames = et_alloc(whole->count + 1, sizeof *whole->frames);
    for (size_t i = 0; i < message->n_modules; i++) {
        modules[i + 1] = add_module(profile, message->modules[i]);
    }
    for (size_t i = 0; i < whole->count; i++) {
        struct et_frame frame = {.module = modules[whole->nodes[i].span], .address = whole->nodes[i].address};
        whole->frames[i] = et_profile_frame(profile, frame);
    }
    free(modules);
}

bool et_whole_read(const et_message *message, struct et_profile **profile, struct et_whole *whole, const char **why)
{
    struct et_segment segment;
    *whole = (struct et_whole){.count = et_message_node_count(message)};
    whole->nodes = et_alloc(whole->count + 1, sizeof *whole->nodes);
    et_segment_init(&segment);
    bool ok = et_message_spans(message, &segment, why) && et_message_nodes(message, &segment, whole->nodes, why);
    if (ok) {
        *profile = *profile ? *profile : et_profile_new();
        add_frames(*profile, message, whole);
    } else {
        et_whole_free(whole);
    }
    et_segment_free(&segment);
    return ok;
}

void et_whole_free(struct et_whole *whole)
{
    free(whole->nodes);
    free(whole->frames);
    *whole = (struct et_whole){0};
}

void et_json_tags(struct et_buf *out, const Edgeprof__V1__Origin *origin)
{
    for (size_t i = 0; i < origin->n_tags; i++) {
        et_buf_text(out, i ? "," : "{");
        et_json_string(out, origin->tags[i]->key);
        et_buf_char(out, ':');
        et_json_string(out, origin->tags[i]->value);
    }
    et_buf_text(out, origin->n_tags ? "}" : "{}");
}
