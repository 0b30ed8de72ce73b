/*
 * Any bytes as a bundle of CA certificates, and names to look for in it: transport/tls/authority.c, over the private
 * mbedtls.
 *
 * Checked: a bundle has a certificate or is refused as such; a search finds at most four, each with the issuer's name
 * as its subject, or nothing in it when mbedtls cannot read it; memory is given back; CPU time is bounded.
 */
#include "memory.h"
#include "spend.h"
#include "internal.h"

#include <errno.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In place of arena.c. */
void *ep_tls_calloc(size_t count, size_t size)
{
    return calloc(count, size);
}

void ep_tls_free(void *memory)
{
    free(memory);
}

enum { CANDIDATES = 4 };

static const unsigned char wanted[] = "\x30\x0d\x31\x0b\x30\x09\x06\x03\x55\x04\x03\x0c\x02\x63\x61"; /* CN=ca */

static void find(struct ep_tls_authority *authority, unsigned char *name, size_t size)
{
    mbedtls_x509_crt child = {0}, *found = NULL;
    unsigned count = 0;
    child.issuer_raw.p = name;
    child.issuer_raw.len = size;
    if (ep_tls_authority_find(authority, &child, &found) == 0) {
        for (const mbedtls_x509_crt *one = found; one; one = one->next) {
            REQUIRE(one->subject_raw.len == 0 || one->subject_raw.len == size);
            REQUIRE(one->subject_raw.len == 0 || memcmp(one->subject_raw.p, name, size) == 0);
            count++;
        }
    }
    REQUIRE(count <= CANDIDATES);
    mbedtls_x509_crt_free(found);
    free(found); /* the first; mbedtls frees those behind it */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char name[sizeof wanted - 1];
    struct ep_tls_authority authority = {.bytes = data, .size = size};
    if (size == 0) {
        return 0;
    }
    memcpy(name, wanted, sizeof name);
    fuzz_memory_begin();
    long long began = fuzz_cpu_ns();
    int err = ep_tls_authority_check(&authority);
    REQUIRE(err == 0 || err == -EINVAL);
    find(&authority, name, sizeof name);
    fuzz_spent(began, size);
    REQUIRE(fuzz_memory_held() == 0);
    return 0;
}
