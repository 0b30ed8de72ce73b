/*
 * mbedtls' platform functions except memory: date and random numbers. No libc function that reads files or allocates,
 * such as gmtime_r, which reads the time zone's file.
 */
#include <mbedtls/error.h>
#include <mbedtls/platform_time.h>
#include <mbedtls/platform_util.h>
#include <psa/crypto.h>
#include <psa/crypto_extra.h>
#include <sys/random.h>

#include "internal.h"
#include <edgeprof/port.h>

/* 2026-03-31, the release date of this mbedtls: an earlier date means that the clock is not set. */
#define CLOCK_FLOOR_S INT64_C(1774915200)

int64_t ep_tls_time(int64_t *time)
{
    int64_t now = (int64_t)(ep_port_unix_ns() / 1000000000u);

    if (time)
        *time = now;
    return now;
}

bool ep_tls_has_clock(void)
{
    return ep_tls_time(NULL) >= CLOCK_FLOOR_S;
}

/* Converts days since 1970-01-01 to a date, by a calendar whose year begins in March and ends with the leap day. */
struct tm *mbedtls_platform_gmtime_r(const mbedtls_time_t *time, struct tm *tm)
{
    int64_t days = *time / 86400, second = *time % 86400;
    if (second < 0) {
        second += 86400;
        days--;
    }
    days += 719468; /* since 0000-03-01 */
    int64_t era = (days >= 0 ? days : days - 146096) / 146097, day = days - era * 146097;
    int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    int64_t day_of_year = day - (365 * year + year / 4 - year / 100), month = (5 * day_of_year + 2) / 153;
    *tm = (struct tm){.tm_sec = (int)(second % 60), .tm_min = (int)(second / 60 % 60), .tm_hour = (int)(second / 3600)};
    tm->tm_mday = (int)(day_of_year - (153 * month + 2) / 5 + 1);
    tm->tm_mon = (int)((month + 2) % 12);
    tm->tm_year = (int)(year + era * 400 + (month >= 10) - 1900);
    return tm;
}

mbedtls_ms_time_t mbedtls_ms_time(void)
{
    return (mbedtls_ms_time_t)(ep_port_uptime_ns() / 1000000u);
}

int ep_tls_random(void *unused, unsigned char *bytes, size_t size)
{
    (void)unused;
    while (size > 0) {
        size_t part = size < 256 ? size : 256; /* getrandom() returns up to 256 bytes completely or not at all */
        if (getrandom(bytes, part, GRND_NONBLOCK) != (ssize_t)part)
            return MBEDTLS_ERR_PLATFORM_HW_ACCEL_FAILED;
        bytes += part;
        size -= part;
    }
    return 0;
}

psa_status_t mbedtls_psa_external_get_random(mbedtls_psa_external_random_context_t *context, uint8_t *output,
                                             size_t output_size, size_t *output_length)
{
    (void)context;
    *output_length = output_size;
    return ep_tls_random(NULL, output, output_size) == 0 ? PSA_SUCCESS : PSA_ERROR_INSUFFICIENT_ENTROPY;
}

/* For mbedtls functions that describe certificates; never called. */
int ep_tls_no_text(char *text, size_t size, const char *format, ...)
{
    (void)format;
    if (size > 0)
        text[0] = 0;
    return -1;
}
