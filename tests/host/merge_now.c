/* Merges all of a database that is due, as `serve` does over time. Usage: merge_now DATABASE [drop]; drop: what came is
 * given up as soon as it is merged. */
#include "tests/unit/tools/support/keep.h"
#include "tools/lib/time_text.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const struct et_policy policy = {.fine_ns = argc > 2 && strcmp(argv[2], "drop") == 0 ? 1 : 0};
    const char *why = "usage";
    struct et_store *store = argc > 1 ? et_store_open(argv[1], false, &why) : NULL;
    int err = store ? run_keep_all(store, &policy, et_now()) : -1;
    if (err) {
        fprintf(stderr, "merge_now: %s\n", store ? et_store_why(store) : why);
    }
    et_store_close(store);
    return err ? 1 : 0;
}
