/*
 * What the files of the TLS client share. Only files of this folder include mbedtls.
 *
 *   setup.c        configuration, keys, start and end
 *   stream.c       a connection as an ep_stream; https as an ep_transport
 *   verify.c       is it the right server: pins, names that are addresses, dates
 *   authority.c    trusted certificates, one at a time
 *   error.c        what mbedtls returned -> errno and one line
 *   host.c         time and random numbers for mbedtls
 *   arena.c        memory for mbedtls
 *   environment.c  EDGEPROF_TLS_*
 */
#ifndef EP_TLS_INTERNAL_H
#define EP_TLS_INTERNAL_H

#define MBEDTLS_ALLOW_PRIVATE_ACCESS /* the number of an alert that was received */

#include <mbedtls/ssl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http.h"
#include "tls.h"

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
    mbedtls_x509_crt cert; /* own; version 0: none */
    mbedtls_pk_context key;

    struct ep_tls_authority authority; /* neither file nor bytes: pins alone count */
    uint8_t pin[EP_TLS_PINS][32];
    unsigned pins;
    uint32_t flags;
    char *server_name; /* NULL: the host that is connected to */

    /* the session that the next connection tries to go on with */
    mbedtls_ssl_session session;
    bool has_session;
    uint64_t session_since_ns; /* when the server's certificate was verified */

    /* the connection */
    void *tcp; /* state of ep_stream_tcp below it; NULL: none */
    const struct ep_deadline *deadline;
    unsigned late;       /* reads since the deadline has passed */
    bool waited;         /* nothing was to be had before the deadline */
    int broken;          /* what ep_stream_tcp said last, if that was an error */
    bool heard, alien;   /* the first byte has come; it is no TLS */
    bool verified;       /* a certificate was looked at: no session was resumed */
    const char *name;    /* that the certificate must have */
    uint8_t address[16]; /* the same as an address */
    size_t address_size; /* 0: it is none */

    _Atomic uint64_t handshakes, resumed, failed; /* as in struct ep_tls_info; any thread reads them */
    _Atomic unsigned version;
};

/* ---- arena.c ---- */

/* All of calloc and free from here on. Aligned to 16. NULL, 0: there is none. Context: init. */
void ep_tls_arena_set(void *memory, size_t size);

/* Farthest byte that was ever used. Context: any thread. */
size_t ep_tls_arena_peak(void);

/* Whether an allocation has failed since this was asked last. Context: init, deliver. */
bool ep_tls_arena_short(void);

/* Zeroes size bytes; the compiler may not leave it out. Context: any thread. */
void ep_tls_wipe(void *bytes, size_t size);

/* ---- host.c ---- */

/* For mbedtls: 0, or MBEDTLS_ERR_PLATFORM_HW_ACCEL_FAILED early in boot when the kernel has no random numbers yet. */
int ep_tls_random(void *unused, unsigned char *bytes, size_t size);

/* Whether the device knows the date. Context: deliver. */
bool ep_tls_has_clock(void);

/* ---- authority.c ---- */

/* Whether there is a certificate at all. 0, -EINVAL: there is none, else why the file cannot be read. Context: init. */
int ep_tls_authority_check(const struct ep_tls_authority *authority);

/* mbedtls_x509_crt_ca_cb_t, context: struct ep_tls_authority. Those with the name of the child's issuer. */
int ep_tls_authority_find(void *authority, const mbedtls_x509_crt *child, mbedtls_x509_crt **found);

/* ---- verify.c ---- */

/* Parses a list of pins. 0 or -EINVAL. Context: init. */
int ep_tls_pins_parse(struct ep_tls *tls, const char *text);

/* Notes what the certificate of the next connection must be good for; what the server is to be told of it comes back:
 * NULL for an address. Context: deliver. */
const char *ep_tls_expect(struct ep_tls *tls, const char *host);

/* mbedtls' verification callback, context: struct ep_tls. Once for each certificate, the server's own at depth 0. */
int ep_tls_verify(void *tls, mbedtls_x509_crt *cert, int depth, uint32_t *flags);

/* ---- error.c ---- */

/* Sets the line that ep_tls_error() returns: pieces joined, for setup. Returns error. Context: init. */
int ep_tls_refuse(int error, const char *what, const char *name);

/* A connection was made: there is no line. Context: deliver. */
void ep_tls_fine(void);

/* What a failed call of mbedtls on a connection means, as an errno value; sets the line. Context: deliver. */
int ep_tls_failed(struct ep_tls *tls, int result);

/* The same for an errno value and a line that is known, a string that stays. */
int ep_tls_fail(struct ep_tls *tls, int error, const char *text);

/* ---- stream.c ---- */

extern const struct ep_transport ep_transport_tls;

/* Takes no further part in any session. Context: init, deliver. */
void ep_tls_forget(struct ep_tls *tls);

/* The one that is set up; NULL: none. */
extern struct ep_tls *ep_tls_instance;

#endif
