/*
 * A program that has an mbedtls of its own, of another version and with its own allocator, and https beside it. Its own
 * works before, between and after, takes its memory from its own calloc only, and edgeprof's takes none of that.
 *
 *     own_mbedtls ENDPOINT        EDGEPROF_TLS_CA
 */
#include <mbedtls/bignum.h>
#include <mbedtls/sha256.h>
#include <mbedtls/version.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <edgeprof/port.h>
#include <edgeprof/tls.h>
#include <edgeprof/transport.h>

static alignas(16) uint8_t memory[EP_TLS_MEMORY];
static unsigned long callocs;

void *__libc_calloc(size_t count, size_t size);

/* In place of the C library's, for shared libraries as well. */
void *calloc(size_t count, size_t size)
{
    callocs++;
    return __libc_calloc(count, size);
}

static int fail(const char *what)
{
    fprintf(stderr, "own_mbedtls: %s: %s\n", what, ep_tls_error());
    return 1;
}

/* 3 to the power of 200 modulo 2^127 - 1, by its own numbers. */
static int own_works(void)
{
    mbedtls_mpi base, power, modulus, result;
    unsigned char hash[32];
    unsigned long before = callocs;

    mbedtls_mpi_init(&base), mbedtls_mpi_init(&power), mbedtls_mpi_init(&modulus), mbedtls_mpi_init(&result);
    int err = mbedtls_mpi_lset(&base, 3) | mbedtls_mpi_lset(&power, 200) |
              mbedtls_mpi_read_string(&modulus, 16, "7fffffffffffffffffffffffffffffff") |
              mbedtls_mpi_exp_mod(&result, &base, &power, &modulus, NULL) |
              mbedtls_mpi_read_string(&power, 16, "8221DEBD28E3482D638CB0C2EA5D889");
    int good = err == 0 && mbedtls_mpi_cmp_mpi(&power, &result) == 0;
    mbedtls_mpi_free(&base), mbedtls_mpi_free(&power), mbedtls_mpi_free(&modulus), mbedtls_mpi_free(&result);
    (void)mbedtls_sha256_ret((const unsigned char *)"abc", 3, hash, 0);
    return good && hash[0] == 0xba && hash[31] == 0xad && callocs > before;
}

int main(int argc, char **argv)
{
    static uint64_t state[EP_TRANSPORT_BYTES / sizeof(uint64_t)];
    struct ep_tls_config tls = {.memory = memory, .memory_size = sizeof memory};

    if (argc != 2 || !own_works())
        return fail("its own mbedtls does not work");
    unsigned long before = callocs;
    if (ep_tls_config_from_env(&tls) != 0 || ep_tls_setup(&tls) != 0)
        return fail("setup");
    const struct ep_target target = {.endpoint = argv[1], .service = "test", .tags = ""};
    const struct ep_transport *transport = ep_transport_find(argv[1]);
    if (!transport || transport->open(state, &target) != 0)
        return fail("open");
    struct ep_message message = {.data = (const uint8_t *)"test", .size = 4, .format = EP_FORMAT_COMPACT, .segment = 1};
    struct ep_deadline deadline = {ep_port_uptime_ns() + UINT64_C(10000000000)};
    uint64_t retry_ns = 0;
    if (transport->send(state, &message, &deadline, &retry_ns) != 0)
        return fail("send");
    if (callocs != before)
        return fail("edgeprof has used the program's allocator");
    if (!own_works())
        return fail("its own mbedtls does not work beside a connection");
    transport->close(state);
    ep_tls_end();
    if (!own_works())
        return fail("its own mbedtls does not work any more");
    printf("own_mbedtls: the program's is %s, with %lu callocs\n", MBEDTLS_VERSION_STRING_FULL, callocs);
    return 0;
}
