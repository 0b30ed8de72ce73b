/* Keyed hashes, and the map that uses them: keys that were chosen to collide cost no more than others. */
#include "tools/lib/hash.h"
#include "tools/lib/util.h"
#include "tests/unit/test.h"

#include <time.h>

/* The example of the paper on SipHash: key 00 01 .. 0f, message 00 01 .. 0e. */
TEST(siphash_is_that_of_its_paper)
{
    const uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    uint8_t message[15];
    for (uint8_t i = 0; i < sizeof message; i++) {
        message[i] = i;
    }
    assert_true(et_hash_keyed(key, message, sizeof message) == 0xa129ca6149be45e5);
    assert_true(et_hash_keyed(key, message, 14) != et_hash_keyed(key, message, 15));
    assert_true(et_hash_pair(1, 2) != et_hash_pair(2, 1));
}

static uint64_t dice_state = 1;
static uint64_t dice(uint64_t sides)
{
    dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
    return (dice_state >> 33) % sides;
}

TEST(removed_keys_are_gone_and_others_stay)
{
    enum { KEYS = 300 };
    struct et_map map = {0};
    uint64_t wanted[KEYS] = {0};
    size_t count = 0;
    for (int i = 0; i < 20000; i++) {
        uint64_t key = dice(KEYS);
        if (dice(2)) {
            count += !wanted[key];
            wanted[key] = *et_map_at(&map, key) = 1 + dice(1000);
        } else {
            count -= wanted[key] != 0;
            wanted[key] = 0;
            et_map_remove(&map, key);
        }
        uint64_t other = dice(KEYS), *found = et_map_find(&map, other);
        assert_int_equal(found ? *found : 0, wanted[other]);
        assert_int_equal(map.count, count);
    }
    assert_true(map.capacity <= 2048);
    et_map_free(&map);
}

/* The inverse of the public function that the map used before. */
static uint64_t invert_old_hash(uint64_t x)
{
    x ^= x >> 31 ^ x >> 62;
    x *= 0x319642b2d24d8ec3u;
    x ^= x >> 27 ^ x >> 54;
    x *= 0x96de1b173f119089u;
    return x ^ x >> 30 ^ x >> 60;
}

static double fill_seconds(bool chosen)
{
    struct et_map map = {0};
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (uint64_t i = 1; i <= 20000; i++) {
        *et_map_at(&map, chosen ? invert_old_hash(i << 32) : i * 0x9e3779b97f4a7c15u) = i;
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    assert_int_equal(map.count, 20000);
    et_map_free(&map);
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

TEST(chosen_keys_cost_no_more)
{
    double ratio = 1e9;
    for (int i = 0; i < 5; i++) {
        double usual = fill_seconds(false), chosen = fill_seconds(true);
        ratio = chosen / usual < ratio ? chosen / usual : ratio;
    }
    if (ratio > 10) {
        fail_msg("chosen keys cost %.0f times as much", ratio);
    }
}

TEST_MAIN
