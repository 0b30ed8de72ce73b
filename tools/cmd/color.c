/* See color.h. Names are cleaned before colours are added, so an escape sequence in a name does nothing. */
#include "tools/cmd/color.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADING "\033[1m"
#define HOT     "\033[31m"
#define WARM    "\033[33m"
#define COLD    "\033[2m"
#define PLAIN   "\033[0m"

static bool has_colors(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return !(no && *no) && term && strcmp(term, "dumb") != 0 && isatty(STDOUT_FILENO);
}

/* The number before the first '%'; below 0: none. */
static double share_of(const char *line)
{
    const char *percent = strchr(line, '%'), *start = percent;
    while (start && start > line && strchr("0123456789.", start[-1])) {
        start--;
    }
    return percent && start < percent ? strtod(start, NULL) : -1;
}

static void color_line(const char *line, struct et_buf *out)
{
    double share = share_of(line);
    bool heading = line[0] == ' ' && strstr(line, " cum% ");
    const char *color = heading ? HEADING : share < 0 ? "" : share >= 10 ? HOT : share >= 1 ? WARM : COLD;
    et_buf_printf(out, "%s%s%s\n", color, line, *color ? PLAIN : "");
}

int et_print_shares(struct et_buf *out)
{
    struct et_buf colored = {0};
    if (!has_colors()) {
        return et_print_output(out);
    }
    for (size_t at = 0; at < out->size;) {
        const char *end = memchr(out->data + at, '\n', out->size - at);
        size_t length = end ? (size_t)(end - out->data) - at : out->size - at;
        char *line = et_clean(out->data + at, length);
        color_line(line, &colored);
        free(line);
        at += length + 1;
    }
    et_buf_free(out);
    return et_print_bytes(&colored);
}
