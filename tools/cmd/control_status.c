/* See control_status.h. */
#include "tools/cmd/control_status.h"
#include "tools/formats/unsampled.h"
#include "tools/lib/json_read.h"
#include "tools/lib/kinds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t number_of(const json_t *object, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(object, name));
    return value > 0 ? (uint64_t)value : 0;
}

static void print_losses(const json_t *status)
{
    const char *name, *between = "lost     ";
    json_t *loss;
    json_object_foreach(json_object_get(status, "losses"), name, loss)
    {
        et_printf("%s%s %" PRIu64, between, name, number_of(loss, "count"));
        between = ", ";
    }
    if (between[0] == ',') {
        et_printf("\n");
    }
}

/* Prints a line about threads that are not sampled. */
static void print_unsampled(const json_t *status)
{
    struct et_buf line = {0};
    struct et_unsampled all = {0};
    size_t i, k;
    const json_t *of, *name;
    json_array_foreach(json_object_get(status, "unsampled"), i, of)
    {
        et_unsampled_add(&all, (uint32_t)number_of(of, "number"), number_of(of, "threads"),
                         (uint32_t)number_of(of, "error"), number_of(of, "limit"));
        json_array_foreach(json_object_get(of, "names"), k, name)
        {
            et_unsampled_name(&all, json_string_value(name) ? json_string_value(name) : "");
        }
    }
    all.cpu_ns = number_of(status, "unsampled_ns");
    all.of_ns = number_of(status, "weight_ns") + number_of(status, "thread_exit_ns");
    et_unsampled_text(&all, &line);
    if (line.size) {
        et_printf("threads  %s\n", line.data);
    }
    et_unsampled_free(&all);
    et_buf_free(&line);
}

/* Prints a line about detail that was given up. */
static void print_degraded(const json_t *status)
{
    uint64_t contexts = number_of(status, "degraded_labels"), addresses = number_of(status, "degraded_addresses"),
             frames = number_of(status, "degraded_frames");
    if (contexts || addresses || frames) {
        et_printf("detail   nothing could be sent and the memory was used up: given up %" PRIu64
                  " times labels and spans, %" PRIu64 " addresses in functions, %" PRIu64
                  " deep frames; totals are right\n",
                  contexts, addresses, frames);
    }
}

/* Prints the rate that the kernel's timers held since the start, and the rate that they were asked for. */
static void print_rate(const json_t *status)
{
    const json_t *cpu = json_object_get(json_object_get(status, "kinds"), "cpu");
    double weight_s = (double)number_of(status, "weight_ns") / 1e9;
    uint64_t period = number_of(cpu, "period"), samples = number_of(status, "samples");
    if (!period || !samples || weight_s <= 0) {
        return;
    }
    double held = (double)samples / weight_s, asked = 1e9 / (double)period;
    uint64_t hz = number_of(status, "tick_hz");
    et_printf("rate     %.0f samples a second of CPU time so far, %.0f asked for", held, asked);
    if (hz && asked > 1.01 * (double)hz) {
        et_printf("; the kernel ticks %" PRIu64 " times a second, so each sample stands for a tick", hz);
    }
    et_printf("\n");
}

/* Prints a line about the clock of CPU samples, if perf events were asked for. */
static void print_clock(const json_t *status)
{
    const char *clock = json_string_value(json_object_get(status, "clock"));
    uint64_t error = number_of(status, "clock_error");

    if (error) {
        et_printf("clock    not every thread has a perf event (%s); now: %s\n", strerror((int)error),
                  clock ? clock : "?");
    } else if (clock && strcmp(clock, "perf") == 0) {
        et_printf("clock    perf events\n");
    }
}

/* Prints a line about timed samples that waited for a disk, if there are any. */
static void print_faults(const json_t *status)
{
    if (number_of(status, "timed_faults")) {
        et_printf("faults   %" PRIu64 " page faults waited for a disk in %" PRIu64 " timed samples\n",
                  number_of(status, "timed_faults"), number_of(status, "timed_samples"));
    }
}

/* Prints a line about enabled kinds with a limit of events per second, if there are any. */
static void print_limits(const json_t *kinds)
{
    struct et_buf line = {0};
    for (size_t i = 0; i < et_kind_count; i++) {
        const json_t *kind = json_object_get(kinds, et_kinds[i].name);
        if (json_is_true(json_object_get(kind, "on")) && number_of(kind, "rate")) {
            const char *unit = json_string_value(json_object_get(kind, "unit"));
            et_buf_printf(&line, "%s %s %" PRIu64 "/s, one in %" PRIu64 " %s", line.size ? ";" : "", et_kinds[i].name,
                          number_of(kind, "rate"), number_of(kind, "period"), unit ? unit : "");
        }
    }
    if (line.size) {
        et_printf("limits  %s\n", line.data);
    }
    et_buf_free(&line);
}

/* Prints a line for each kind that the program cannot measure. */
static void print_unavailable(const json_t *kinds)
{
    for (size_t i = 0; i < et_kind_count; i++) {
        const char *why = json_string_value(json_object_get(json_object_get(kinds, et_kinds[i].name), "unavailable"));
        if (why) {
            et_printf("missing  %s: %s\n", et_kinds[i].name, why);
        }
    }
}

static void print_cost(const json_t *governor)
{
    et_printf("cost     %.3g %% of the CPU time", (double)number_of(governor, "cost_ppm") / 1e4);
    if (number_of(governor, "budget_ppm")) {
        et_printf(", budget %.3g %%, periods %" PRIu64 " %% of the level's",
                  (double)number_of(governor, "budget_ppm") / 1e4, number_of(governor, "stretch_pct"));
    }
    et_printf("\n");
}

static void print_stacks(const json_t *status)
{
    uint64_t exact = number_of(status, "exact"), gap = number_of(status, "gap"), cut = number_of(status, "cut");
    double all = (double)(exact + gap + cut);
    if (all > 0) {
        et_printf("stacks   %.1f %% exact, %.1f %% with a gap, %.1f %% cut, of %.0f of all kinds\n",
                  100 * (double)exact / all, 100 * (double)gap / all, 100 * (double)cut / all, all);
    }
}

static void print_status(const json_t *status)
{
    const json_t *kinds = json_object_get(status, "kinds");
    const char *level = et_json_words(status, "level");
    et_printf("level    %s\n", *level ? level : "none: the profiler is not running");
    et_printf("kinds   ");
    for (size_t i = 0; i < et_kind_count; i++) {
        if (json_is_true(json_object_get(json_object_get(kinds, et_kinds[i].name), "on"))) {
            et_printf(" %s", et_kinds[i].name);
        }
    }
    et_printf("\n");
    print_unavailable(kinds);
    print_rate(status);
    print_clock(status);
    print_cost(json_object_get(status, "governor"));
    print_stacks(status);
    print_faults(status);
    print_limits(kinds);
    et_printf("sent     %" PRIu64 " of %" PRIu64 " messages", number_of(status, "delivered"),
              number_of(status, "messages"));
    if (number_of(status, "unanswered")) {
        et_printf(", %" PRIu64 " answers lost", number_of(status, "unanswered"));
    }
    et_printf("\n");
    print_losses(status);
    print_unsampled(status);
    print_degraded(status);
}

int et_control_show_status(const struct et_buf *answer)
{
    struct et_buf why = {0};
    json_t *status = et_json_read(answer->data ? answer->data : "", answer->size, &why);
    int code = status ? ET_OK : ET_FAILED;
    if (status) {
        print_status(status);
    } else {
        et_error("unexpected answer (%s); is this edgeprof's endpoint?", why.data ? why.data : "empty");
    }
    json_decref(status);
    et_buf_free(&why);
    return code;
}
