/* See tokens.h: what a bound token may send. */
#include "tools/lib/labels.h"
#include "tools/serve/http/tokens.h"

#include <stdlib.h>
#include <string.h>

struct scope_check {
    const char *service, *tags;
    bool bound, named, labelled;
};

static void check_line(void *context, const char *what, const char *value)
{
    struct scope_check *check = context;
    if (strcmp(what, "service") == 0) {
        check->bound = true;
        check->named |= strcmp(value, check->service) == 0;
        return;
    }
    const char *equals = strchr(value, '='), *own = NULL;
    size_t size = 0;
    char *key = et_strdup(value);
    key[equals - value] = '\0';
    own = et_labels_value(check->tags, key, &size);
    check->labelled &= own && size == strlen(equals + 1) && memcmp(own, equals + 1, size) == 0;
    free(key);
}

const char *et_scope_refuses(const char *scope, const char *service, const char *tags)
{
    struct scope_check check = {.service = service, .tags = tags, .labelled = true};
    if (!scope) {
        return NULL;
    }
    et_labels_each(scope, check_line, &check);
    return check.bound && !check.named ? "this token may not send profiles of this service"
           : !check.labelled           ? "this token may only send profiles with the labels of its line"
                                       : NULL;
}
