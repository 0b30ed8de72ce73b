/* See answer.h. */
#include "tools/symbols/answer.h"

#include <stdlib.h>
#include <string.h>

static void put_text(struct et_buf *out, const char *text)
{
    size_t size = strnlen(text, ET_NAME_MOST);
    while (size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80) {
        size--; /* not within a character */
    }
    et_varint_put(out, size);
    et_buf_add(out, text, size);
}

void et_answer_write(const struct et_resolved *resolved, struct et_buf *out)
{
    et_varint_put(out, resolved->count);
    for (size_t i = 0; i < resolved->count; i++) {
        const struct et_resolved_line *line = &resolved->lines[i];
        et_varint_put(out, line->function != NULL);
        put_text(out, line->function ? line->function : "");
        put_text(out, line->source);
        et_varint_put(out, line->line);
        et_varint_put(out, line->start);
    }
}

struct cursor {
    const uint8_t *at, *end;
};

/* A copy; NULL: there is none. */
static char *get_text(struct cursor *c)
{
    uint64_t size;
    if (!et_varint_get(&c->at, c->end, &size) || size > ET_NAME_MOST || size > (uint64_t)(c->end - c->at)) {
        return NULL;
    }
    char *text = et_clean((const char *)c->at, (size_t)size);
    c->at += size;
    return text;
}

static bool get_line(struct cursor *c, uint64_t address, struct et_resolved_line *line)
{
    uint64_t named = 0, number = 0, start = 0;
    bool whole = et_varint_get(&c->at, c->end, &named) && named <= 1;
    line->function = whole ? get_text(c) : NULL;
    line->source = line->function ? get_text(c) : NULL;
    whole = line->source && et_varint_get(&c->at, c->end, &number) && et_varint_get(&c->at, c->end, &start);
    if (whole && !named) {
        free(line->function);
        line->function = NULL;
    }
    line->line = (uint32_t)number;
    line->start = start;
    return whole && number <= UINT32_MAX && start <= address;
}

bool et_answer_read(const uint8_t *bytes, size_t size, uint64_t address, struct et_resolved *out)
{
    struct cursor c = {bytes, bytes + size};
    uint64_t count;
    if (!et_varint_get(&c.at, c.end, &count) || count < 1 || count > ET_LINES_MOST) {
        return false;
    }
    out->lines = et_alloc((size_t)count, sizeof *out->lines);
    bool good = true;
    while (good && out->count < count) {
        good = get_line(&c, address, &out->lines[out->count++]);
    }
    return good && c.at == c.end;
}
