/*
 * Async parents on objects and types made here: what is measured of them, that other layouts switch the feature off,
 * and where a chain of continuations ends. The test says what the frames of the stack are.
 */
#include "unit.h"

static bool fake_begin(struct ep_hook_walk *walk, const struct ep_registers *registers);
static bool fake_here(struct ep_hook_walk *walk);
static bool fake_next(struct ep_hook_walk *walk);
static uintptr_t fake_function(const struct ep_hook_walk *walk);
static void fake_end(struct ep_hook_walk *walk);
#define ep_hook_walk_begin    fake_begin
#define ep_hook_walk_here     fake_here
#define ep_hook_walk_next     fake_next
#define ep_hook_walk_function fake_function
#define ep_hook_walk_end      fake_end
#include "port/nativeaot/runtime.h"
static bool fake_is_managed(uintptr_t pc);
#define ep_dotnet_is_managed fake_is_managed
#include "port/nativeaot/async_measure.c"
#include "port/nativeaot/async_parents.c"

/* No object is in the collector's heap: all are in this program's data. */
const uintptr_t g_lowest_address = 8, g_highest_address = 16;

/* A MethodTable with two virtual functions. */
struct fake_type {
    uint32_t flags, base_size;
    const struct fake_type *base;
    uint16_t slots, interfaces;
    uint32_t hash;
    uintptr_t table[4];
};
_Static_assert(offsetof(struct fake_type, table) == offsetof(struct ep_async_type, table), "as in async_objects.h");

/* All objects have this size. An array's length is its first field. */
struct object {
    const struct fake_type *type;
    uintptr_t field[6];
};
enum { TARGET = 1, AWAIT_ACTION = 2, CONTINUATION = 3, CONTINUE_TASK = 4, ITEMS = 5 };

static struct fake_type plain, disposable, boxes, task, number, box[3], action, list, array, await, posts, then;
static struct object heap[96], *object[EP_ASYNC_OBJECTS];
static unsigned used;
static uintptr_t code[3]; /* the functions of box[i] that move it on */
static struct ep_hook_walk frame[4];
static unsigned frames = 3;
static uintptr_t began_with;

/* Native code is below. */
static bool fake_is_managed(uintptr_t pc)
{
    return pc >= 0x1000;
}

static bool cooperative;
static unsigned begun, ended;

bool ep_dotnet_is_cooperative(void)
{
    return cooperative;
}

bool ep_dotnet_cooperative_begin(struct ep_dotnet_mode *mode)
{
    (void)mode;
    begun += !cooperative;
    return !cooperative;
}

void ep_dotnet_cooperative_end(struct ep_dotnet_mode *mode)
{
    (void)mode;
    ended++;
}

bool ep_dotnet_is_readable(uintptr_t at)
{
    return at != 0;
}

uintptr_t ep_dotnet_jump_target(uintptr_t function)
{
    return function;
}

static bool fake_begin(struct ep_hook_walk *walk, const struct ep_registers *registers)
{
    began_with = registers->base;
    *walk = (struct ep_hook_walk){.at = {.pc = registers->pc}};
    return true;
}

static bool fake_here(struct ep_hook_walk *walk)
{
    *walk = (struct ep_hook_walk){.depth = 0};
    return true;
}

static bool fake_next(struct ep_hook_walk *walk)
{
    const unsigned depth = walk->depth;

    if (depth == frames)
        return false;
    *walk = frame[depth];
    walk->depth = depth + 1;
    return true;
}

static uintptr_t fake_function(const struct ep_hook_walk *walk)
{
    return walk->at.pc & ~(uintptr_t)0xff;
}

static void fake_end(struct ep_hook_walk *walk)
{
    (void)walk;
}

static void set_type(struct fake_type *type, const struct fake_type *base, const struct fake_type *one,
                     const struct fake_type *two)
{
    *type = (struct fake_type){.base_size = sizeof(struct object) + EP_ASYNC_WORD, .base = base, .slots = 2};
    type->table[0] = 0x100;
    type->table[1] = 0x200;
    type->table[2] = (uintptr_t)one;
    type->table[3] = (uintptr_t)two;
    type->interfaces = (uint16_t)((one != NULL) + (two != NULL));
}

static struct object *new_object(const struct fake_type *type)
{
    assert_true(used < sizeof heap / sizeof *heap);
    heap[used].type = type;
    return &heap[used++];
}

static struct object *waits_for(struct object *waiter, struct object *awaited)
{
    awaited->field[CONTINUATION] = (uintptr_t)waiter;
    return waiter;
}

static struct object *holder(const struct fake_type *type, unsigned field, const struct object *held)
{
    struct object *new = new_object(type);

    new->field[field] = (uintptr_t)held;
    return new;
}

static struct object *list_of(const struct object *first, const struct object *second)
{
    struct object *items = new_object(&array);

    items->field[0] = 4;
    items->field[1] = (uintptr_t)first;
    items->field[2] = (uintptr_t)second;
    return holder(&list, ITEMS, items);
}

static void make_types(void)
{
    set_type(&plain, NULL, NULL, NULL);
    set_type(&disposable, NULL, NULL, NULL);
    set_type(&boxes, NULL, NULL, NULL);
    set_type(&task, &plain, &disposable, NULL);
    set_type(&number, &task, &disposable, NULL);
    for (unsigned i = 0; i < 3; i++) {
        set_type(&box[i], i == 0 ? &number : &task, &disposable, &boxes);
        box[i].table[1] = code[i] = 0x1000u * (i + 1);
    }
    set_type(&action, &plain, NULL, NULL);
    set_type(&list, &plain, NULL, NULL);
    set_type(&array, &plain, NULL, NULL);
    array.flags = EP_TYPE_HAS_ELEMENTS | EP_ASYNC_WORD;
    set_type(&await, &plain, NULL, NULL);
    set_type(&posts, &await, NULL, NULL);
    set_type(&then, &plain, NULL, NULL);
}

/* What C# makes, in a runtime as it is known. */
static void make(void)
{
    memset(heap, 0, sizeof heap);
    memset(frame, 0, sizeof frame);
    used = 0;
    make_types();
    for (unsigned i = 0; i < 3; i++)
        object[EP_ASYNC_BOX + i] = new_object(&box[i]);
    object[EP_ASYNC_TARGET] = new_object(&plain);
    object[EP_ASYNC_ACTION] = holder(&action, TARGET, object[EP_ASYNC_TARGET]);
    object[EP_ASYNC_FLOW_ACTION] = holder(&action, TARGET, object[EP_ASYNC_TARGET]);
    object[EP_ASYNC_THEN] = new_object(&task);
    object[EP_ASYNC_LIST_FIRST] = new_object(&box[0]);
    object[EP_ASYNC_TASK] = holder(&number, CONTINUATION, object[EP_ASYNC_BOX]);
    object[EP_ASYNC_ACTION_TASK] = holder(&number, CONTINUATION, object[EP_ASYNC_ACTION]);
    object[EP_ASYNC_FLOW_TASK] =
        holder(&number, CONTINUATION, holder(&await, AWAIT_ACTION, object[EP_ASYNC_FLOW_ACTION]));
    object[EP_ASYNC_THEN_TASK] = holder(&number, CONTINUATION, holder(&then, CONTINUE_TASK, object[EP_ASYNC_THEN]));
    object[EP_ASYNC_LIST_TASK] =
        holder(&number, CONTINUATION, list_of(object[EP_ASYNC_LIST_FIRST], object[EP_ASYNC_BOX_TEXT]));
    atomic_store(&why, NULL);
    atomic_store(&on, false);
    memset(place, 0, sizeof place);
}

static int measure(void)
{
    void *objects[EP_ASYNC_OBJECTS];

    for (unsigned i = 0; i < EP_ASYNC_OBJECTS; i++)
        objects[i] = object[i];
    return ep_dotnet_async_measure(objects, EP_ASYNC_OBJECTS);
}

/* The outermost frame runs a box. */
static void run(const struct object *running, unsigned which)
{
    frame[0] = (struct ep_hook_walk){.at = {.pc = 0x7011, .base = (uintptr_t)heap}};
    frame[1] = (struct ep_hook_walk){.at = {.pc = 0x7111, .base = 3}};
    frame[2] = (struct ep_hook_walk){.at = {.pc = code[which] + 0x22, .base = (uintptr_t)running}};
}

static int check(struct object *running, struct object *waiter)
{
    void *objects[2] = {running, waiter};

    run(running, 1);
    return ep_dotnet_async_check(objects, 0);
}

static void ready(void)
{
    make();
    assert_int_equal(measure(), 0);
    struct object *running = new_object(&box[1]);
    assert_int_equal(check(running, waits_for(new_object(&box[2]), running)), 0);
    assert_string_equal(ep_dotnet_async_reason(), "");
}

TEST(known_layouts_are_measured)
{
    ready();
    assert_ptr_equal(ep_async.task, &task);
    assert_ptr_equal(ep_async.box, &boxes);
    assert_int_equal(ep_async.continuation, offsetof(struct object, field[CONTINUATION]));
    assert_int_equal(ep_async.slot, 1);
    ep_dotnet_async_enable(1);
    assert_true(atomic_load(&on));
}

TEST(other_layouts_are_refused)
{
    for (unsigned which = 0; which < 9; which++) {
        make();
        object[EP_ASYNC_TASK]->field[CONTINUATION] *= which != 0;
        object[EP_ASYNC_ACTION_TASK]->field[CONTINUATION] *= which != 1;
        ((struct object *)object[EP_ASYNC_FLOW_TASK]->field[CONTINUATION])->field[AWAIT_ACTION] *= which != 2;
        ((struct object *)object[EP_ASYNC_THEN_TASK]->field[CONTINUATION])->field[CONTINUE_TASK] *= which != 3;
        object[EP_ASYNC_LIST_TASK]->field[CONTINUATION] *= which != 4;
        box[1].interfaces = which == 5 ? 1 : box[1].interfaces; /* not the interface that the others have */
        box[0].base = which == 6 ? &plain : box[0].base;
        box[0].slots = which == 7 ? 500 : box[0].slots;
        object[EP_ASYNC_TASK]->field[0] = which == 8 ? object[EP_ASYNC_TASK]->field[CONTINUATION] : 0; /* two fields */
        assert_int_equal(measure(), -1);
        assert_true(strlen(ep_dotnet_async_reason()) > 10);
        ep_dotnet_async_enable(1);
        assert_false(atomic_load(&on));
    }
}

TEST(a_wrong_try_is_refused)
{
    for (unsigned which = 0; which < 3; which++) {
        make();
        assert_int_equal(measure(), 0);
        struct object *running = new_object(&box[1]), *waiter = waits_for(new_object(&box[2]), running);
        if (which == 0)
            box[1].table[1] = 0x5000; /* no virtual function is the frame's */
        if (which == 1)
            waiter = new_object(&box[0]);
        if (which == 2)
            running->field[CONTINUATION] = 0;
        assert_int_equal(check(running, waiter), -1);
        ep_dotnet_async_enable(1);
        assert_false(atomic_load(&on));
    }
}

static struct ep_hook_parents found_from(const struct object *running, unsigned which)
{
    const struct ep_registers registers = {.pc = 1};
    struct ep_hook_parents parents;

    run(running, which);
    ep_dotnet_async_find(&registers, &parents);
    return parents;
}

TEST(continuations_are_followed)
{
    ready();
    struct object *a = new_object(&box[0]), *b = new_object(&box[1]), *c = new_object(&box[2]),
                  *all = new_object(&task);
    a->field[CONTINUATION] = (uintptr_t)list_of(NULL, holder(&posts, AWAIT_ACTION, holder(&action, TARGET, b)));
    b->field[CONTINUATION] = (uintptr_t)holder(&then, CONTINUE_TASK, all); /* a task of the library is no method */
    (void)waits_for(c, all);
    c->field[CONTINUATION] = (uintptr_t)new_object(&plain); /* what marks a completed task */
    for (unsigned again = 0; again < 2; again++) {
        const struct ep_hook_parents parents = found_from(a, 0);
        assert_int_equal(parents.count, 2);
        assert_int_equal(parents.parent[0], (uintptr_t)&box[1]);
        assert_int_equal(parents.parent[1], (uintptr_t)&box[2]);
        assert_false(parents.more);
        assert_int_equal(parents.depth, 3);
        assert_int_equal(parents.pc, frame[2].at.pc);
    }
}

TEST(chains_end)
{
    ready();
    struct object *a = new_object(&box[0]), *b = waits_for(new_object(&box[1]), a);
    (void)waits_for(a, b);
    assert_int_equal(found_from(a, 0).count, 0); /* a cycle */
    b->field[CONTINUATION] = (uintptr_t)b;
    assert_int_equal(found_from(a, 0).count, 0);
    b->field[CONTINUATION] = UINTPTR_MAX - 7; /* outside of all that is readable */
    assert_int_equal(found_from(a, 0).count, 1);
    b->field[CONTINUATION] = (uintptr_t)new_object((const struct fake_type *)8);
    assert_int_equal(found_from(a, 0).count, 1);
    struct object *last = b;
    for (unsigned i = 0; i < EP_HOOK_PARENTS + 3; i++)
        last = waits_for(new_object(&box[2]), last);
    const struct ep_hook_parents parents = found_from(a, 0);
    assert_int_equal(parents.count, EP_HOOK_PARENTS);
    assert_true(parents.more);
}

/* Another method's box is in the register of a frame that does not run it. */
TEST(only_the_frame_that_runs_a_box_counts)
{
    ready();
    struct object *a = new_object(&box[0]), *held = new_object(&box[1]);
    (void)waits_for(new_object(&box[2]), a);
    (void)waits_for(new_object(&box[0]), held);
    run(a, 0);
    frame[0].at.base = (uintptr_t)held;
    const struct ep_registers registers = {.pc = 1};
    struct ep_hook_parents parents;
    ep_dotnet_async_find(&registers, &parents);
    assert_int_equal(parents.depth, 3);
    assert_int_equal(parents.parent[0], (uintptr_t)&box[2]);
    frame[2].at.base = (uintptr_t)held; /* nor is it this function's */
    ep_dotnet_async_find(&registers, &parents);
    assert_int_equal(parents.count, 0);
}

/* A stack of frames of eight words, with the word that a frame has before its own, or in the register. */
static uintptr_t stack_words[4 * 8];

static void stack_frame(unsigned which, uintptr_t pc, unsigned word, const struct object *kept)
{
    const uintptr_t sp = (uintptr_t)&stack_words[8 * which], end = (uintptr_t)&stack_words[4 * 8];

    frame[which] = (struct ep_hook_walk){.at = {.pc = pc, .sp = sp, .fp = sp, .end = end}};
    if (word)
        stack_words[8 * which + word] = (uintptr_t)kept;
    else
        frame[which].at.base = (uintptr_t)kept;
}

/* A thread that runs its own task (turn 0) or the pool (1) calls what calls the delegate, which asks. */
static void run_task(struct object *running, uint32_t turn, unsigned word)
{
    void *const *objects = (void *const *)&stack_words[2];

    memset(stack_words, 0, sizeof stack_words);
    stack_frame(0, 0x7011, 2, running);
    stack_frame(1, turn ? 0x8111 : 0x7111, turn ? 5 : 4, running);
    stack_frame(2, turn ? 0x9044 : 0x9022, word, running);
    stack_frame(3, 0xa011, 3, running);
    ep_dotnet_async_task(objects, turn);
}

static unsigned parents_of_task(const struct object *running, uintptr_t pc, unsigned word)
{
    struct ep_hook_parents parents;

    memset(stack_words, 0, sizeof stack_words);
    for (unsigned i = 0; i < 4; i++)
        stack_frame(i, 0x7011 + 0x100 * i, 0, NULL);
    stack_frame(2, pc, word, running);
    ep_dotnet_async_find(NULL, &parents);
    return parents.count;
}

/* Where a task is is what both ways to run one have in common, and it counts at the calls that were seen. */
TEST(a_running_task_is_found_at_its_calls)
{
    for (unsigned word = 0; word < 8; word += 7) { /* in the register, on the stack */
        ready();
        frames = 4;
        struct object *running = new_object(&task);
        (void)waits_for(new_object(&box[2]), running);
        run_task(running, 0, word);
        assert_int_equal(ep_async.execute, 0);
        run_task(running, 1, word);
        assert_int_equal(ep_async.execute, 0x9000);
        assert_int_equal(parents_of_task(running, 0x9022, word), 1);
        assert_int_equal(parents_of_task(running, 0x9044, word), 1);
        assert_int_equal(parents_of_task(running, 0x9066, word), 0); /* when the delegate has run */
        assert_int_equal(parents_of_task(running, 0x7022, word), 0);
        assert_int_equal(parents_of_task(running, 0x9022, word ? 6 : 7), 0);
        frames = 3;
    }
}

/* The register was noted before managed code ran. */
TEST(an_exceptions_register_is_not_used)
{
    const struct ep_registers registers = {.base = 1234};

    ready();
    ep_dotnet_async_enable(1);
    for (enum ep_kind kind = EP_KIND_ALLOC; kind <= EP_KIND_EXCEPTION; kind++) {
        const struct ep_hook_event event = {.kind = kind, .registers = &registers};
        assert_int_equal(ep_dotnet_event(&event), -ESRCH); /* no profiler runs */
        assert_int_equal(began_with, kind == EP_KIND_EXCEPTION ? 0 : 1234);
    }
}

/* box[1], which box[2] awaits. */
static struct object *awaited_box(void)
{
    ready();
    struct object *running = new_object(&box[1]);
    (void)waits_for(new_object(&box[2]), running);
    run(running, 1);
    return running;
}

/* The collector knows what managed code has saved, and moves objects while the thread waits. */
TEST(a_waits_register_counts_once_managed_code_has_saved_it)
{
    const uintptr_t running = (uintptr_t)awaited_box();
    struct ep_hook_parents parents;

    cooperative = false;
    begun = ended = 0;
    frame[0] = (struct ep_hook_walk){.at = {.pc = 0x100, .base = running}};
    frame[1] =
        (struct ep_hook_walk){.at = {.pc = code[1] + 0x22, .base = running}}; /* called the function that waits */
    frame[2] = (struct ep_hook_walk){.at = {.pc = 0x7111, .base = running}};
    assert_false(ep_dotnet_async_find_waited(NULL, &parents));
    frame[2].at.pc = code[1] + 0x22;
    assert_true(ep_dotnet_async_find_waited(NULL, &parents));
    assert_int_equal(parents.count, 1);
    assert_int_equal(parents.parent[0], (uintptr_t)&box[2]);
    assert_int_equal(parents.depth, 3);
    assert_int_equal(begun, 2);
    assert_int_equal(ended, 2);
    cooperative = true; /* or not known */
    assert_false(ep_dotnet_async_find_waited(NULL, &parents));
    assert_int_equal(ended, 2);
}

TEST(an_unknown_register_teaches_nothing)
{
    const uintptr_t running = (uintptr_t)awaited_box();
    struct ep_hook_parents parents;

    frame[2].at.base = 0;
    ep_dotnet_async_find(NULL, &parents);
    assert_int_equal(parents.count, 0);
    frame[2].at.base = running;
    ep_dotnet_async_find(NULL, &parents);
    assert_int_equal(parents.count, 1);
}

/* The collector itself is called by way of functions that are not managed code. */
TEST(at_most_one_native_frame_is_passed_in_a_sample)
{
    const struct ep_registers registers = {.pc = 1};
    struct ep_hook_parents parents;

    (void)awaited_box();
    cooperative = true;
    assert_false(ep_hook_interrupted(&registers, &parents)); /* off */
    ep_dotnet_async_enable(1);
    for (unsigned native = 0; native < 2; native++)
        for (unsigned mode = 0; mode < 2; mode++) {
            cooperative = mode == 1;
            frame[0].at.pc = native ? 0x100 : 0x7011;
            assert_int_equal(ep_hook_interrupted(&registers, &parents), cooperative && !native);
        }
    const struct ep_registers managed = {.pc = 0x7000};
    frame[0].at.pc = 0x100; /* as seen from managed code: no matter */
    assert_true(ep_hook_interrupted(&managed, &parents));
    assert_int_equal(parents.parent[0], (uintptr_t)&box[2]);
}

TEST_MAIN
