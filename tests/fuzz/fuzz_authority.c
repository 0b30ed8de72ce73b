/*
 * Any bytes as a bundle of CA certificates, and names to look for in it; and as a server's chain:
 * transport/tls/authority.c and chain.c, over the private mbedtls.
 *
 * Checked: a bundle has a certificate or is refused as such; a search finds at most one, with the issuer's name as its
 * subject; memory is given back; CPU time is bounded.
 */
#include "memory.h"
#include "spend.h"
#include "internal.h"

#include "ep_mbedtls_chain.h"

#include <errno.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct ep_tls *ep_tls_instance; /* in place of stream.c */

/* In place of arena.c. */
void *ep_tls_calloc(size_t count, size_t size)
{
    return calloc(count, size);
}

void ep_tls_free(void *memory)
{
    free(memory);
}

static const unsigned char wanted[] = "\x30\x0d\x31\x0b\x30\x09\x06\x03\x55\x04\x03\x0c\x02\x63\x61"; /* CN=ca */

static void find(struct ep_tls *tls, unsigned char *name, size_t size)
{
    mbedtls_x509_crt child = {0}, *found = NULL;
    child.issuer_raw.p = name;
    child.issuer_raw.len = size;
    if (ep_tls_authority_find(tls, &child, &found) == 0 && found) {
        REQUIRE(ep_tls_name_may_match(&found->subject_raw, &child.issuer_raw));
        REQUIRE(!found->next);
    }
    mbedtls_x509_crt_free(found);
    free(found);
}

/* The bytes as a server's chain: certificates in DER, one behind the other. */
static void verify(struct ep_tls *tls, const uint8_t *data, size_t size)
{
    mbedtls_x509_crt chain;
    uint32_t flags;
    mbedtls_x509_crt_init(&chain);
    for (size_t at = 0; at + 4 <= size && data[at] == 0x30 && data[at + 1] == 0x82;) {
        const size_t length = 4 + (size_t)(data[at + 2] << 8 | data[at + 3]);
        if (length > size - at || ep_tls_chain_add(&chain, data + at, length) != 0)
            break;
        at += length;
    }
    if (chain.version != 0) {
        (void)ep_tls_chain_verify(&chain, ep_tls_authority_find, tls, &mbedtls_x509_crt_profile_default, "localhost",
                                  &flags, NULL, NULL);
    }
    mbedtls_x509_crt_free(&chain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char name[sizeof wanted - 1];
    struct ep_deadline deadline = {UINT64_MAX};
    struct ep_tls tls = {.authority = {.bytes = data, .size = size}, .deadline = &deadline};
    if (size == 0) {
        return 0;
    }
    memcpy(name, wanted, sizeof name);
    fuzz_memory_begin();
    long long began = fuzz_cpu_ns();
    int err = ep_tls_authority_check(&tls.authority);
    REQUIRE(err == 0 || err == -EINVAL);
    find(&tls, name, sizeof name);
    ep_tls_instance = &tls;
    verify(&tls, data, size);
    fuzz_spent(began, size);
    REQUIRE(fuzz_memory_held() == 0);
    return 0;
}
