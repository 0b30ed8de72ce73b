/*
 * Any bytes as the messages of an incident, as the server reads them back and `edgeprof incident FILE` reads a file:
 * tools/formats/incident.c and firefox.c, behind tools/formats/compact.c. "EPMS" in the input stands between messages.
 *
 * Checked: what is refused has a reason; each sample of an accepted part is in the incident, with a thread and a node
 * that exist, and ends no earlier than it starts; both files are JSON; in ours, samples, stacks and functions point at
 * what exists, and callers come first; in Firefox's, each thread's columns are of one length, its times rise, stacks
 * and categories exist, and the weights are no more than its time; the memory is bounded by the size of the messages,
 * threads and stacks, and given back; CPU time is bounded.
 */
#include "spend.h"
#include "tools/formats/incident.h"
#include "tools/lib/json_read.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MESSAGES = 8, MEMORY_FIXED = 524288, MEMORY_PER_BYTE = 16384, MEMORY_PER_CELL = 2048 };

static void add(struct et_incident *incident, et_message *message)
{
    const char *why = NULL;
    const size_t before = incident->count, more = message->timeline->n_after;
    const uint32_t parts = incident->parts;
    const bool ok = et_incident_add(incident, message, 1, &why);
    REQUIRE(ok || (why && why[0]));
    REQUIRE(incident->parts == parts + ok && incident->count == before + (ok ? more : 0));
    for (size_t i = before; i < incident->count; i++) {
        const struct et_incident_sample *sample = &incident->samples[i];
        REQUIRE(sample->thread < incident->thread_count && sample->node < incident->profile->node_count);
        REQUIRE(sample->start_ns <= sample->end_ns);
    }
}

static void read_all(const uint8_t *data, size_t size, struct et_incident *incident)
{
    const uint8_t *at = data, *end = data + size;
    for (unsigned count = 0; at && count < MESSAGES; count++) {
        const uint8_t *next = at < end ? memmem(at, (size_t)(end - at), "EPMS", 4) : NULL;
        const char *why = NULL;
        et_message *message = et_message_decode(at, (size_t)((next ? next : end) - at), &why);
        REQUIRE(message || (why && why[0]));
        if (message && message->timeline) {
            add(incident, message);
        } else if (message) {
            et_message_free(message);
        }
        at = next ? next + 4 : NULL;
    }
}

static json_t *document_of(struct et_buf *text)
{
    struct et_buf why = {0};
    json_t *document = et_json_read(text->data, text->size, &why);
    REQUIRE(document);
    et_buf_free(&why);
    et_buf_free(text);
    return document;
}

/* An index: from `least` to below `end`. */
static void points(const json_t *value, json_int_t least, size_t end)
{
    REQUIRE(json_is_integer(value));
    REQUIRE(json_integer_value(value) >= least && json_integer_value(value) < (json_int_t)end);
}

static size_t sound_json(const struct et_incident *incident)
{
    struct et_buf text = {0};
    et_incident_json(incident, &text);
    json_t *document = document_of(&text), *item;
    const json_t *samples = json_object_get(document, "samples"), *stacks = json_object_get(document, "stacks");
    const size_t functions = json_array_size(json_object_get(document, "functions")), calls = json_array_size(stacks);
    const size_t threads = json_array_size(json_object_get(document, "threads"));
    size_t i;
    REQUIRE(json_array_size(samples) == incident->count && threads == incident->thread_count);
    json_array_foreach(stacks, i, item)
    {
        points(json_array_get(item, 0), -1, i);
        points(json_array_get(item, 1), 0, functions);
    }
    json_array_foreach(samples, i, item)
    {
        REQUIRE(json_number_value(json_array_get(item, 1)) >= 0);
        points(json_array_get(item, 2), 0, threads);
        REQUIRE(json_is_string(json_array_get(item, 3)));
        points(json_array_get(item, 4), -1, calls);
    }
    json_decref(document);
    return calls;
}

static void sound_columns(const json_t *table)
{
    const json_int_t length = json_integer_value(json_object_get(table, "length"));
    const char *name;
    json_t *column;
    REQUIRE(json_is_integer(json_object_get(table, "length")));
    json_object_foreach((json_t *)(uintptr_t)table, name, column)
    {
        REQUIRE(!json_is_array(column) || json_array_size(column) == (size_t)length);
    }
}

static void sound_thread(const json_t *thread, size_t calls, size_t categories)
{
    static const char *const tables[] = {"samples",    "markers",   "stackTable",
                                         "frameTable", "funcTable", "nativeSymbols"};
    const json_t *samples = json_object_get(thread, "samples"), *times = json_object_get(samples, "time");
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        sound_columns(json_object_get(thread, tables[i]));
    }
    const json_t *weights = json_object_get(samples, "weight"), *stacks = json_object_get(thread, "stackTable");
    for (size_t i = 0; i < calls; i++) {
        const json_t *category = json_array_get(json_object_get(stacks, "category"), i);
        points(category, 0, categories);
        REQUIRE(json_equal(category,
                           json_array_get(json_object_get(json_object_get(thread, "frameTable"), "category"), i)));
    }
    double weight = 0;
    for (size_t i = 0; i < json_array_size(times); i++) {
        const json_t *stack = json_array_get(json_object_get(samples, "stack"), i);
        const double own = json_number_value(json_array_get(weights, i));
        REQUIRE(own >= 0 && (own == 0 || !json_is_null(stack)));
        weight += own;
        if (!json_is_null(stack)) {
            points(stack, 0, calls);
        }
        REQUIRE(i == 0 ||
                json_number_value(json_array_get(times, i - 1)) <= json_number_value(json_array_get(times, i)));
    }
    const size_t last = json_array_size(times);
    const double whole = last ? json_number_value(json_array_get(times, last - 1)) : 0;
    REQUIRE(weight <= whole + 0.002 * (double)last + whole / 1e9); /* written with three and four digits */
}

static void sound_firefox(const struct et_incident *incident, size_t calls)
{
    struct et_buf text = {0};
    et_incident_firefox(incident, &text);
    json_t *document = document_of(&text), *thread;
    const json_t *threads = json_object_get(document, "threads");
    size_t i;
    const size_t categories = json_array_size(json_object_get(json_object_get(document, "meta"), "categories"));
    REQUIRE(json_array_size(threads) >= incident->thread_count);
    json_array_foreach(threads, i, thread)
    {
        sound_thread(thread, calls, categories);
    }
    json_decref(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool seeded;
    struct et_incident incident = {0};
    size_t cells = 0;
    if (!seeded) {
        json_object_seed(1); /* jansson reads /dev/urandom otherwise, at the first object */
        seeded = true;
    }
    const long long began = fuzz_begin();
    read_all(data, size, &incident);
    if (incident.head) {
        const size_t calls = sound_json(&incident);
        sound_firefox(&incident, calls);
        cells = (incident.thread_count + 1) * (calls + incident.count + 1);
    }
    et_incident_free(&incident);
    return fuzz_end(began, size + cells, MEMORY_FIXED + MEMORY_PER_BYTE * size + MEMORY_PER_CELL * cells);
}
