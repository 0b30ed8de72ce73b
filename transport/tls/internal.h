/*
 * Private to the files of the TLS client. Only files of this folder include mbedtls.
 *
 *   setup.c        configuration, keys, start and end
 *   stream.c       a connection as an ep_stream; https as an ep_transport
 *   verify.c       checks of the server: pins, IP addresses as names, dates
 *   authority.c    trusted certificates, one at a time
 *   chain.c        order of the server's chain, unsupported algorithms
 *   error.c        mbedtls' results -> errno value and one line
 *   host.c         time and random numbers for mbedtls
 *   arena.c        memory for mbedtls
 *   environment.c  EDGEPROF_TLS_*
 */
#ifndef EP_TLS_INTERNAL_H
#define EP_TLS_INTERNAL_H

#define MBEDTLS_ALLOW_PRIVATE_ACCESS /* for the number of a received alert */

#include <mbedtls/ssl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/http.h"
#include <edgeprof/tls.h>

#define EP_TLS_PINS 4

/* Trusted certificates: a file, or bytes in memory. */
struct ep_tls_authority {
    char *file;
    const uint8_t *bytes;
    size_t size;
};

struct ep_tls {
    mbedtls_ssl_config config;
    mbedtls_ssl_context ssl;
    mbedtls_x509_crt cert; /* this device's; version 0: none */
    mbedtls_pk_context key;

    struct ep_tls_authority authority; /* neither file nor bytes: only pins are checked */
    uint8_t pin[EP_TLS_PINS][32];
    unsigned pins;
    uint32_t flags;
    char *server_name; /* NULL: the endpoint's host */

    /* the session that the next connection tries to resume */
    mbedtls_ssl_session session;
    bool has_session;
    uint64_t session_since_ns; /* when the server's certificate was last verified */

    /* the connection */
    void *tcp; /* state of its ep_stream_tcp; NULL: not connected */
    const struct ep_deadline *deadline;
    unsigned late;           /* number of reads since the deadline has passed */
    bool waited;             /* the last read or write timed out */
    int broken;              /* last error of ep_stream_tcp; 0: none */
    bool heard, alien;       /* heard: the first byte has arrived; alien: it is not TLS */
    bool verified;           /* a certificate was verified: the session was not resumed */
    const char *name;        /* name that the certificate must have */
    uint8_t address[16];     /* the same as a binary address */
    size_t address_size;     /* 0: not an address */
    unsigned ranked;         /* number of signatures that were checked to choose issuers */
    const char *unsupported; /* line about an algorithm of a certificate that was left out; NULL: none */

    _Atomic uint64_t handshakes, resumed, failed; /* as in struct ep_tls_info; read by any thread */
    _Atomic unsigned version;
};

/* ---- arena.c ---- */

/* Sets the arena's memory, aligned to 16. NULL, 0: none. Context: init. */
void ep_tls_arena_set(void *memory, size_t size);

/* The highest number of bytes ever used. Context: any thread. */
size_t ep_tls_arena_peak(void);

/* True if an allocation has failed since the last call. Context: init, deliver. */
bool ep_tls_arena_short(void);

/* Zeroes `size` bytes; the compiler cannot optimise this away. Context: any thread. */
void ep_tls_wipe(void *bytes, size_t size);

/* ---- host.c ---- */

/* Random numbers for mbedtls. Returns 0, or MBEDTLS_ERR_PLATFORM_HW_ACCEL_FAILED if the kernel has none yet, early
 * in boot. */
int ep_tls_random(void *unused, unsigned char *bytes, size_t size);

/* True if the device knows the date. Context: deliver. */
bool ep_tls_has_clock(void);

/* ---- authority.c ---- */

/* Checks that there is a certificate. Returns 0; -EINVAL: none; else the error of reading the file. Context: init. */
int ep_tls_authority_check(const struct ep_tls_authority *authority);

/* Implements mbedtls_x509_crt_ca_cb_t; context: struct ep_tls. It finds the best certificate with the name of the
 * child's issuer. */
int ep_tls_authority_find(void *tls, const mbedtls_x509_crt *child, mbedtls_x509_crt **found);

/* Returns true if this very certificate is trusted. Context: deliver. */
bool ep_tls_authority_has(const struct ep_tls_authority *authority, const mbedtls_x509_crt *cert);

/* ---- chain.c ---- */

#define EP_TLS_RANK_BEST 2 /* has signed the child, and its dates are right */

/* Returns true if the candidate is a better issuer of the child than the best one so far (NULL: there is none), and
 * sets *rank to its rank. *rank: of the best one; -1: not checked, as long as it is the only one. Context: deliver. */
bool ep_tls_issuer_is_better(struct ep_tls *tls, const mbedtls_x509_crt *child, mbedtls_x509_crt *best,
                             mbedtls_x509_crt *candidate, int *rank);

/* Returns true if both encoded names are equal, or almost. Context: deliver. */
bool ep_tls_name_may_match(const mbedtls_x509_buf *a, const mbedtls_x509_buf *b);

/* Sets tls->unsupported if mbedtls' result means that the certificate has an unsupported algorithm. Returns true then.
 * Context: deliver. */
bool ep_tls_note_algorithm(struct ep_tls *tls, int result, const uint8_t *der, size_t size);

/* ---- verify.c ---- */

/* Parses a list of pins. Returns 0 or -EINVAL. Context: init. */
int ep_tls_pins_parse(struct ep_tls *tls, const char *text);

/* Sets the name that the next connection's certificate must have. Returns the name to send to the server: NULL for
 * an address. Context: deliver. */
const char *ep_tls_expect(struct ep_tls *tls, const char *host);

/* Implements mbedtls' verification callback; context: struct ep_tls. mbedtls calls it for each certificate, the
 * server's own with depth 0. */
int ep_tls_verify(void *tls, mbedtls_x509_crt *cert, int depth, uint32_t *flags);

/* ---- error.c ---- */

/* Sets the line of ep_tls_error() to both texts joined, for setup. Returns error. Context: init. */
int ep_tls_refuse(int error, const char *what, const char *name);

/* The same for "WHAT: FIGURE bytes, LIMIT". Context: init. */
int ep_tls_refuse_size(int error, const char *what, size_t figure, const char *limit);

/* Clears the line after a successful connection. Context: deliver. */
void ep_tls_fine(void);

/* Converts a failed mbedtls call on a connection to an errno value; sets the line. Context: deliver. */
int ep_tls_failed(struct ep_tls *tls, int result);

/* The same for a known errno value and line, a string that stays valid. */
int ep_tls_fail(struct ep_tls *tls, int error, const char *text);

/* ---- stream.c ---- */

extern const struct ep_transport ep_transport_tls;

/* Forgets the session to resume. Context: init, deliver. */
void ep_tls_forget(struct ep_tls *tls);

/* The current setup; NULL: none. */
extern struct ep_tls *ep_tls_instance;

#endif
