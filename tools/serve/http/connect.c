/* See connect.h. */
#include "tools/serve/http/connect.h"
#include "tools/lib/json_write.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool et_content_type_is(const struct et_request *request, const char *type)
{
    const char *own = et_header(request, "Content-Type");
    size_t size = strlen(type);
    return own && strncasecmp(own, type, size) == 0 && strchr("; ", own[size]);
}

static const char *code_of(unsigned status)
{
    switch (status) {
    case 400:
        return "invalid_argument";
    case 404:
        return "not_found";
    case 413:
    case 429:
        return "resource_exhausted";
    case 501:
        return "unimplemented";
    case 503:
        return "unavailable";
    default:
        return "internal";
    }
}

void et_connect_error(struct et_answer *answer, unsigned status, const char *message)
{
    answer->status = status;
    answer->type = "application/json";
    answer->body.size = 0;
    et_buf_printf(&answer->body, "{\"code\":\"%s\",\"message\":", code_of(status));
    et_json_string(&answer->body, message);
    et_buf_char(&answer->body, '}');
}

void et_connect_error_again(struct et_answer *answer)
{
    et_buf_text(&answer->body, "");
    char *text = et_strdup(answer->body.data);
    text[strcspn(text, "\n")] = '\0';
    et_connect_error(answer, answer->status, text);
    free(text);
}
