/* See keeper.h. */
#include "tools/serve/keeper.h"
#include "tools/lib/pause.h"
#include "tools/lib/time_text.h"
#include "tools/store/age.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Interval of checks for due work, and the minimum pause between two steps. */
static const int64_t LOOK_NS = 10000000000, PAUSE_NS = 5000000;

enum { SAID_AFTER = 6 };

/* Deleted hours are reported at most once in this time. */
static const int64_t QUIET_NS = 3600000000000;

struct et_keeper {
    struct et_server *server;
    struct et_policy policy;
    pthread_t thread;
    struct et_pause pause;
    int failures;   /* consecutive */
    uint64_t hours; /* deleted for the size limit, as last reported */
    int64_t said_ns;
    bool exceeded;           /* reported: the limit cannot be held */
    enum et_age_doubt doubt; /* reported */
};

/* ---- the thread ---- */

struct keep_call {
    const struct et_policy *policy;
    struct et_age *age;
    int got;
    uint64_t deleted[ET_DELETED_COUNT];
    struct et_keep_limit limit;
};

/* A failing step is rolled back alone, without affecting senders in the same group. */
static enum et_outcome run_step(struct et_store *store, void *context, const char **why)
{
    struct keep_call *step = context;
    struct et_keep_time now = {.clock_ns = et_now()};
    step->got = et_age_step(step->age, store, now.clock_ns, et_since_boot());
    now.count_ns = step->age->count_ns;
    step->got = step->got ? step->got : et_keep_step(store, step->policy, &now);
    *why = step->got < 0 ? et_store_why(store) : "ok";
    step->limit = et_keep_limit(store);
    if (step->got >= 0 && et_store_deleted(store, step->deleted)) {
        step->got = -EIO;
    }
    return ET_REPEATED;
}

/* One line when hours were deleted, and one when the limit begins or ceases to be exceeded. */
static void report_limit(struct et_keeper *keeper, const struct keep_call *step)
{
    static const double MIB = 1 << 20;
    const struct et_keep_limit *limit = &step->limit;
    double most = (double)keeper->policy.max_bytes / MIB;
    uint64_t hours = step->deleted[ET_DELETED_BIG_HOURS];
    keeper->hours = keeper->hours == UINT64_MAX ? hours : keeper->hours;
    if (hours > keeper->hours && step->got == 0 && et_monotonic() - keeper->said_ns > QUIET_NS) {
        et_error("--max-size: deleted the oldest %llu hours of profiles to stay below %.1f MiB",
                 (unsigned long long)(hours - keeper->hours), most);
        keeper->hours = hours;
        keeper->said_ns = et_monotonic();
    }
    if (limit->exceeded && !keeper->exceeded) {
        et_error(
            "--max-size: the database has %.1f MiB, more than %.1f MiB, but the newest %lld hours of profiles (about"
            " %.1f MiB) are kept; the rest is the names and stacks that they use: raise the limit",
            (double)limit->used / MIB, most, (long long)limit->hours, (double)limit->profiles / MIB);
    } else if (keeper->exceeded && !limit->exceeded) {
        et_error("--max-size: the database is below %.1f MiB again", most);
    }
    keeper->exceeded = limit->exceeded;
}

/* One line when the clock becomes doubtful, and one when it no longer is. */
static void report_clock(struct et_keeper *keeper, const struct et_age *age)
{
    static const int64_t DAY_NS = INT64_C(86400) * 1000000000;
    long long days = (age->off_ns < 0 ? -age->off_ns : age->off_ns) / DAY_NS;
    if (age->confirmed) {
        et_error("the clock is believed: profiles of %d hours agree with it", ET_AGE_HOURS);
    } else if (age->doubt != keeper->doubt && age->doubt == ET_CLOCK_AHEAD) {
        et_error(
            "the clock is %lld days ahead of the newest time in the database: is it right? until it is, or profiles"
            " of %d hours agree with it, stored profiles age only by the time that the server runs",
            days, ET_AGE_HOURS);
    } else if (age->doubt != keeper->doubt && age->doubt == ET_CLOCK_BEHIND) {
        et_error("the clock is %lld days behind the newest time in the database: is it right? until it is, stored"
                 " profiles age only by the time that the server runs",
                 days);
    } else if (age->doubt != keeper->doubt) {
        et_error("the clock is right again");
    }
    keeper->doubt = age->doubt;
}

static void *keeper_thread(void *context)
{
    struct et_keeper *keeper = context;
    int64_t pause = PAUSE_NS;
    while (et_pause_wait(&keeper->pause, pause)) {
        int64_t before = et_monotonic();
        struct keep_call step = {.policy = &keeper->policy, .age = et_server_age(keeper->server)};
        struct et_buf why = {0};
        bool kept = et_server_write(keeper->server, run_step, &step, &why) == ET_REPEATED;
        int64_t took = et_monotonic() - before;
        pause = !kept || step.got != 1 || took > LOOK_NS ? LOOK_NS : took > PAUSE_NS ? took : PAUSE_NS;
        keeper->failures = kept && step.got < 0 ? keeper->failures + 1 : 0;
        if (kept && step.got >= 0) {
            report_limit(keeper, &step);
            report_clock(keeper, step.age);
        }
        if (keeper->failures == SAID_AFTER) { /* the server reports a database that cannot be written */
            et_error("cannot merge or delete profiles in the database: %s", why.data);
        }
        et_buf_free(&why);
    }
    return NULL;
}

struct et_keeper *et_keeper_start(struct et_server *server, const struct et_policy *policy)
{
    struct et_keeper *keeper = et_alloc(1, sizeof *keeper);
    keeper->policy = *policy;
    keeper->server = server;
    keeper->hours = UINT64_MAX; /* not known yet */
    keeper->said_ns = et_monotonic() - QUIET_NS - 1;
    et_pause_init(&keeper->pause);
    if (pthread_create(&keeper->thread, NULL, keeper_thread, keeper) == 0) {
        return keeper;
    }
    et_error("cannot start the thread that limits the database's size");
    et_pause_destroy(&keeper->pause);
    free(keeper);
    return NULL;
}

void et_keeper_stop(struct et_keeper *keeper)
{
    if (!keeper) {
        return;
    }
    et_pause_stop(&keeper->pause);
    pthread_join(keeper->thread, NULL);
    et_pause_destroy(&keeper->pause);
    free(keeper);
}

/* ---- settings ---- */

bool et_policy_keep(const char *text, struct et_policy *policy)
{
    if (strcmp(text, "forever") == 0) {
        policy->keep_ns = 0;
        return true;
    }
    return et_parse_duration(text, &policy->keep_ns) && policy->keep_ns >= 3600000000000;
}

bool et_policy_size(const char *text, struct et_policy *policy)
{
    static const char units[] = "MGT";
    size_t digits = strspn(text, "0123456789");
    const char *unit = text[digits] && !text[digits + 1] ? strchr(units, text[digits]) : NULL;
    if (strcmp(text, "any") == 0) {
        policy->max_bytes = 0;
        return true;
    }
    if (!unit || digits == 0 || digits > 6 || strtol(text, NULL, 10) == 0) {
        return false;
    }
    policy->max_bytes = (int64_t)strtol(text, NULL, 10) << (20 + 10 * (unit - units));
    return true;
}

static bool read_one(const struct et_config *config, const struct et_section *section, const char *key,
                     bool (*parse)(const char *text, struct et_policy *policy), const char *form,
                     struct et_policy *policy)
{
    const struct et_setting *setting = et_config_setting(section, key);
    if (setting && !parse(setting->value, policy)) {
        et_config_error(config, setting->line, "%s = %s: expected %s", key, setting->value, form);
        return false;
    }
    return true;
}

bool et_policy_read(const struct et_config *config, const struct et_section *section, struct et_policy *policy)
{
    static const char *const keys[] = {"for", "size", "fine", "five-minutes", NULL};
    bool ok = et_config_keys(config, section, keys);
    ok = ok && read_one(config, section, "for", et_policy_keep, "a time such as 14d (at least 1h), or forever", policy);
    ok = ok && read_one(config, section, "size", et_policy_size, "a size such as 500M or 4G, or any", policy);
    ok = ok && et_config_duration(config, section, "fine", true, &policy->fine_ns);
    return ok && et_config_duration(config, section, "five-minutes", true, &policy->five_ns);
}
