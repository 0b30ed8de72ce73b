/* See tokens.h: what a bound token may send. */
#include "tools/lib/labels.h"
#include "tools/serve/http/tokens.h"

#include <stdlib.h>
#include <string.h>

struct scope_check {
    const char *service, *tags;
    bool bound, named, labelled;
};

/* Whether the lines have the label of "K=V"; *differs: with another value. */
static bool has_label(const char *lines, const char *label, bool *differs)
{
    const char *equals = strchr(label, '=');
    size_t size = 0;
    char *key = et_strdup(label);
    key[equals - label] = '\0';
    const char *own = et_labels_value(lines, key, &size);
    bool same = own && size == strlen(equals + 1) && memcmp(own, equals + 1, size) == 0;
    *differs = own && !same;
    free(key);
    return same;
}

static void check_line(void *context, const char *what, const char *value)
{
    struct scope_check *check = context;
    bool differs;
    if (strcmp(what, "service") == 0) {
        check->bound = true;
        check->named |= strcmp(value, check->service) == 0;
    } else {
        check->labelled &= has_label(check->tags, value, &differs);
    }
}

static void check_stack_line(void *context, const char *what, const char *value)
{
    struct scope_check *check = context;
    bool differs = false;
    (void)(strcmp(what, "label") == 0 && has_label(check->tags, value, &differs));
    check->labelled &= !differs;
}

static const char WRONG_LABELS[] = "this token may only send profiles with the labels of its line";

const char *et_scope_refuses(const char *scope, const char *service, const char *tags)
{
    struct scope_check check = {.service = service, .tags = tags, .labelled = true};
    if (!scope) {
        return NULL;
    }
    et_labels_each(scope, check_line, &check);
    return check.bound && !check.named ? "this token may not send profiles of this service"
           : !check.labelled           ? WRONG_LABELS
                                       : NULL;
}

const char *et_scope_refuses_stacks(const char *scope, const char *lines)
{
    struct scope_check check = {.tags = lines, .labelled = true};
    if (scope && *lines) {
        et_labels_each(scope, check_stack_line, &check);
    }
    return check.labelled ? NULL : WRONG_LABELS;
}
