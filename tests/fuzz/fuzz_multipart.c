/*
 * Any bytes as a Content-Type, up to a NUL, and a body: tools/formats/multipart.c.
 *
 * Checked: a boundary is of 1 to 70 characters; a field lies within the body and does not contain the boundary's
 * delimiter; nothing is allocated; CPU time is bounded.
 */
#include "memory.h"
#include "spend.h"
#include "tools/formats/multipart.h"

#include <errno.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fields(const char *body, size_t size, const char *boundary)
{
    static const char *const names[] = {"profile", "sample_type_config", "", "a"};
    char delimiter[ET_BOUNDARY + 4];
    int length = snprintf(delimiter, sizeof delimiter, "\r\n--%s", boundary);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *field = NULL;
        size_t field_size = 0;
        int found = et_multipart_field(body, size, boundary, names[i], &field, &field_size);
        REQUIRE(found == 1 || found == 0 || found == -EBADMSG);
        if (found == 1) {
            REQUIRE(field >= body && field_size <= size && field + field_size <= body + size);
            REQUIRE(!memmem(field, field_size, delimiter, (size_t)length));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, 0, size);
    char boundary[ET_BOUNDARY];
    if (!end) {
        return 0;
    }
    fuzz_memory_begin();
    long long began = fuzz_cpu_ns();
    if (et_multipart_boundary((const char *)data, boundary)) {
        REQUIRE(memchr(boundary, 0, sizeof boundary) && boundary[0]);
        fields((const char *)end + 1, size - (size_t)(end + 1 - data), boundary);
    }
    fuzz_spent(began, size);
    REQUIRE(fuzz_memory_asked() == 0);
    return 0;
}
