/* See json_write.h. */
#include "tools/lib/json_write.h"
#include "tools/lib/kinds.h"

#include <stdlib.h>
#include <string.h>

void et_json_string(struct et_buf *out, const char *text)
{
    et_buf_char(out, '"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            et_buf_char(out, '\\');
            et_buf_char(out, (char)c);
        } else if (c < 0x20 || c == '<' || c == '>' || c == '&' || c == 0x7f) {
            et_buf_printf(out, "\\u%04x", c);
        } else {
            et_buf_char(out, (char)c);
        }
    }
    et_buf_char(out, '"');
}

void et_json_clean_field(struct et_buf *out, const char *name, const char *text)
{
    char *clean = et_clean(text, strlen(text));
    et_buf_printf(out, ",\"%s\":", name);
    et_json_string(out, clean);
    free(clean);
}

void et_json_seconds(struct et_buf *out, int64_t ns)
{
    int64_t ms = ns / 1000000;
    et_buf_printf(out, "%lld.%03d", (long long)(ms / 1000), (int)(ms % 1000));
}

void et_json_title(struct et_buf *out, const char *kind)
{
    struct et_buf title = {0};
    et_kind_title(kind, &title);
    et_json_string(out, title.data ? title.data : "");
    et_buf_free(&title);
}
