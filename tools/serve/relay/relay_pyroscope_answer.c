/*
 * What Pyroscope's answer to a refused push says about its parts. The server checks and stores each series by itself.
 * Its answer is either a list of all failures, each with the id that the relay gave; or, when an error of Connect is
 * among them, the text of that one alone, which has the labels of the series and sometimes its time or a limit.
 */
#include "tools/lib/json_read.h"
#include "tools/serve/relay/relay_pyroscope.h"
#include "push.pb-c.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_MS 1000000LL

typedef Push__V1__PushRequest push_request;

/* A part as it was sent. */
struct sent_part {
    const struct et_relay_part *part;
    push_request *push;
};

static const Push__V1__RawProfileSeries *series_of(const struct sent_part *sent)
{
    return sent->push && sent->push->n_series && sent->push->series[0]->n_samples ? sent->push->series[0] : NULL;
}

/* ---- a list of all failures ---- */

static bool judge_list(const struct sent_part *sent, size_t count, const char *words, enum et_relay_verdict *verdicts)
{
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        const Push__V1__RawProfileSeries *series = series_of(&sent[i]);
        bool failed = !series || strstr(words, series->samples[0]->id);
        verdicts[i] = failed ? ET_VERDICT_OPEN : ET_VERDICT_STORED;
        any |= failed;
    }
    return any;
}

/* ---- one failure ---- */

struct refusal {
    char *labels; /* {a="b", c="d"} */
    bool timed;
    int64_t ms;             /* Unix time of the refused profile, if timed */
    int64_t from_ms, to_ms; /* the times that the server takes */
    size_t most_bytes, most_samples;
};

/* Go's time.Time.String(): 2026-11-28 21:40:07.25 +0000 UTC. */
static bool read_time(const char *words, const char *intro, int64_t *ms)
{
    struct tm tm = {0};
    const char *at = strstr(words, intro);
    int64_t fraction = 0;
    at = at ? strptime(at + strlen(intro), "%Y-%m-%d %H:%M:%S", &tm) : NULL;
    if (!at) {
        return false;
    }
    int64_t time = timegm(&tm) * 1000;
    if (*at == '.') {
        int64_t scale = 100;
        for (at++; *at >= '0' && *at <= '9'; at++) {
            fraction += (*at - '0') * scale;
            scale /= 10;
        }
    }
    tm = (struct tm){0};
    if (!strptime(at, " %z", &tm)) {
        return false;
    }
    *ms = time + fraction - tm.tm_gmtoff * 1000;
    return true;
}

static size_t read_limit(const char *words, const char *kind)
{
    const char *at = strstr(words, kind), *limit = at ? strstr(at, "limit: ") : NULL;
    return limit ? strtoul(limit + 7, NULL, 10) : 0;
}

static bool read_refusal(const char *words, struct refusal *out)
{
    const char *begin = strstr(words, "'{"), *end = begin ? strstr(begin, "}'") : NULL;
    if (!end) {
        return false;
    }
    *out = (struct refusal){.labels = strndup(begin + 1, (size_t)(end - begin)),
                            .from_ms = INT64_MIN,
                            .to_ms = INT64_MAX,
                            .most_bytes = read_limit(end, "exceeds the size limit"),
                            .most_samples = read_limit(end, "exceeds the samples count limit")};
    out->timed = read_time(end, "profile timestamp: ", &out->ms);
    (void)read_time(end, "ingestion window starts at ", &out->from_ms);
    (void)read_time(end, "ingestion window ends at ", &out->to_ms);
    return out->labels;
}

/* As the server quotes the value of a label, whose control characters the relay has replaced. */
static void put_pair(struct et_buf *out, const Push__V1__LabelPair *pair)
{
    et_buf_printf(out, "%s=\"", pair->name);
    for (const char *at = pair->value; *at; at++) {
        if (*at == '"' || *at == '\\') {
            et_buf_char(out, '\\');
        }
        et_buf_char(out, *at);
    }
    et_buf_char(out, '"');
}

static bool has_pair(const char *labels, const Push__V1__LabelPair *pair)
{
    struct et_buf text = {0};
    bool found = false;
    put_pair(&text, pair);
    for (const char *at = labels; !found && (at = strstr(at, text.data)); at++) {
        found = (at[-1] == '{' || at[-1] == ' ') && (at[text.size] == ',' || at[text.size] == '}');
    }
    et_buf_free(&text);
    return found;
}

/* The server may have added the labels of stacks, so the part's are some of the text's. */
static bool is_named(const struct refusal *refusal, const struct sent_part *sent)
{
    const Push__V1__RawProfileSeries *series = series_of(sent);
    bool all = series && (!refusal->timed || sent->part->start_ns / NS_PER_MS == refusal->ms);
    for (size_t i = 0; all && i < series->n_labels; i++) {
        all = has_pair(refusal->labels, series->labels[i]);
    }
    return all;
}

/* Of a part that is perhaps not the one: the same limit may have hit it. */
static enum et_relay_verdict judge_other(const struct refusal *refusal, const struct et_relay_part *part)
{
    int64_t ms = part->start_ns / NS_PER_MS;
    if (ms < refusal->from_ms || ms > refusal->to_ms) {
        return ET_VERDICT_REFUSED;
    }
    bool above = (refusal->most_bytes && part->inflated > refusal->most_bytes) ||
                 (refusal->most_samples && part->samples > refusal->most_samples);
    return above ? ET_VERDICT_OPEN : ET_VERDICT_STORED;
}

static bool judge_one(const struct sent_part *sent, size_t count, const char *words, enum et_relay_verdict *verdicts)
{
    struct refusal refusal;
    size_t named = 0, last = 0;
    if (!read_refusal(words, &refusal)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        verdicts[i] = judge_other(&refusal, sent[i].part);
        if (is_named(&refusal, &sent[i])) {
            verdicts[i] = verdicts[i] == ET_VERDICT_REFUSED ? ET_VERDICT_REFUSED : ET_VERDICT_OPEN;
            last = i;
            named++;
        }
    }
    if (named == 1) {
        verdicts[last] = ET_VERDICT_REFUSED;
    }
    free(refusal.labels);
    return named > 0;
}

/* ---- the answer ---- */

/* The message of Connect's JSON, or the words as they are. The caller frees it. */
static char *message_of(const char *words)
{
    struct et_buf why = {0};
    json_t *answer = et_json_read(words, strlen(words), &why);
    const char *message = answer ? et_json_text(answer, "message") : NULL;
    char *text = et_strdup(message ? message : words);
    json_decref(answer);
    et_buf_free(&why);
    return text;
}

enum et_relay_told et_relay_pyroscope_judge(const struct et_relay_part *const *parts, size_t count, const char *words,
                                            enum et_relay_verdict *verdicts)
{
    struct sent_part *sent = et_alloc(count, sizeof *sent);
    char *message = message_of(words);
    for (size_t i = 0; i < count; i++) {
        const struct et_buf *bytes = &parts[i]->bytes;
        sent[i] = (struct sent_part){parts[i],
                                     push__v1__push_request__unpack(NULL, bytes->size, (const uint8_t *)bytes->data)};
    }
    enum et_relay_told told = judge_list(sent, count, message, verdicts)  ? ET_TOLD_ALL
                              : judge_one(sent, count, message, verdicts) ? ET_TOLD_ONE
                                                                          : ET_TOLD_NOTHING;
    for (size_t i = 0; i < count; i++) {
        push__v1__push_request__free_unpacked(sent[i].push, NULL);
    }
    free(sent);
    free(message);
    return told;
}
