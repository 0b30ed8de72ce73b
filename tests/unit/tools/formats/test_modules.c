/* Compact messages against a segment: addresses are found in the right module, however many there are. */
#include "tools/formats/compact.h"
#include "tests/unit/test.h"

#include <time.h>

enum { MODULES = 4096, SIZE = 1000, APART = 1024 };

/* A message with these modules and one chain-less node for each address. */
struct message {
    Edgeprof__V1__Message message;
    Edgeprof__V1__Module *module, **modules;
    Edgeprof__V1__Nodes nodes;
};

static void add_modules(struct message *m, const uint32_t *bases, size_t count)
{
    edgeprof__v1__message__init(&m->message);
    m->module = calloc(count, sizeof *m->module);
    m->modules = calloc(count, sizeof(Edgeprof__V1__Module *));
    for (size_t i = 0; i < count; i++) {
        edgeprof__v1__module__init(&m->module[i]);
        m->module[i].start = bases[i];
        m->module[i].size = SIZE;
        m->module[i].address = 0x100000 + bases[i];
        m->modules[i] = &m->module[i];
    }
    m->message.modules = m->modules;
    m->message.n_modules = count;
}

/* Addresses in the message are differences. */
static void add_nodes(struct message *m, const uint64_t *addresses, size_t count)
{
    edgeprof__v1__nodes__init(&m->nodes);
    m->nodes.back = calloc(count, sizeof *m->nodes.back);
    m->nodes.frame = calloc(count, sizeof *m->nodes.frame);
    for (size_t i = 0; i < count; i++) {
        m->nodes.frame[i] = (int64_t)(addresses[i] - (i ? addresses[i - 1] : 0));
    }
    m->nodes.n_back = m->nodes.n_frame = count;
    m->message.nodes = &m->nodes;
}

static void free_message(struct message *m)
{
    free(m->module);
    free(m->modules);
    free(m->nodes.back);
    free(m->nodes.frame);
    *m = (struct message){0};
}

/* Bases APART from each other, in no order: 5 and MODULES have no common divisor. */
static void shuffled(uint32_t bases[MODULES])
{
    for (uint32_t i = 0; i < MODULES; i++) {
        bases[i] = APART * (1 + i * 5 % MODULES);
    }
}

static bool locate(const uint32_t *bases, size_t count, uint64_t address, struct et_wire_node *node)
{
    struct message m = {0};
    struct et_segment segment;
    const char *why = "";
    et_segment_init(&segment);
    add_modules(&m, bases, count);
    add_nodes(&m, &address, 1);
    assert_true(et_message_spans(&m.message, &segment, &why));
    bool found = et_message_nodes(&m.message, &segment, node, &why);
    et_segment_free(&segment);
    free_message(&m);
    return found;
}

TEST(addresses_are_found_in_their_module)
{
    uint32_t bases[MODULES];
    struct et_wire_node node;
    shuffled(bases);
    static const uint32_t looked[] = {0, 1, 777, MODULES - 1};
    for (size_t i = 0; i < sizeof looked / sizeof *looked; i++) {
        uint32_t base = bases[looked[i]];
        static const uint32_t inside[] = {0, 1, SIZE - 1};
        for (size_t k = 0; k < 3; k++) {
            assert_true(locate(bases, MODULES, base + inside[k], &node));
            assert_int_equal(node.span, looked[i] + 1);
            assert_int_equal(node.address, 0x100000 + base + inside[k]);
        }
        assert_false(locate(bases, MODULES, base + SIZE, &node));
        assert_false(locate(bases, MODULES, base + APART - 1, &node));
    }
    assert_false(locate(bases, MODULES, 256, &node));
    assert_false(locate(bases, MODULES, APART - 1, &node));
    assert_true(locate(bases, MODULES, 255, &node));
    assert_int_equal(node.span, 0);
    assert_int_equal(node.address, 255);
}

TEST(overlapping_modules_are_refused)
{
    static const struct {
        uint32_t base;
        bool fits;
    } cases[] = {{2000, true}, {2001, false}, {2999, false}, {3000, false}, {3999, false}, {4000, true},
                 {6000, true}, {6001, false}, {7500, false}, {8000, true},  {1000, true},  {300, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t bases[] = {7000, 3000, cases[i].base};
        struct message m = {0};
        struct et_segment segment;
        const char *why = "";
        et_segment_init(&segment);
        add_modules(&m, bases, 3);
        if (et_message_spans(&m.message, &segment, &why) != cases[i].fits) {
            fail_msg("a module at %u", cases[i].base);
        }
        et_segment_free(&segment);
        free_message(&m);
    }
}

/* CPU time for the same nodes, all in the module that was added last. */
static double seconds_for(const uint32_t *bases, size_t count, size_t nodes)
{
    struct message m = {0};
    struct et_segment segment;
    const char *why = "";
    uint64_t *addresses = calloc(nodes, sizeof *addresses);
    struct et_wire_node *out = calloc(nodes, sizeof *out);
    for (size_t i = 0; i < nodes; i++) {
        addresses[i] = bases[count - 1] + i % SIZE;
    }
    et_segment_init(&segment);
    add_modules(&m, bases, count);
    add_nodes(&m, addresses, nodes);
    assert_true(et_message_spans(&m.message, &segment, &why));
    clock_t start = clock();
    assert_true(et_message_nodes(&m.message, &segment, out, &why));
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    assert_int_equal(out[nodes - 1].span, count);
    et_segment_free(&segment);
    free_message(&m);
    free(addresses);
    free(out);
    return seconds;
}

/* A search through all modules takes some 1000 times as long as with one. */
TEST(many_modules_cost_little)
{
    enum { NODES = 500000 };
    uint32_t bases[MODULES];
    shuffled(bases);
    double one = seconds_for(bases, 1, NODES), many = seconds_for(bases, MODULES, NODES);
    print_message("%d nodes: %.1f ns a node with 1 module, %.1f ns with %d\n", NODES, one * 1e9 / NODES,
                  many * 1e9 / NODES, MODULES);
    assert_true(many < 30 * one + 0.01);
}

TEST_MAIN
