/*
 * Lists what pending async methods wait for, on demand. A managed thread waits for the request and makes the garbage
 * collector run a full, blocking collection. At its end all threads still stand and the heap has only live objects, so
 * the collector's own walk over its heap finds the tasks. Before the first request it costs nothing but that thread.
 *
 *   endpoint: ask, then read_text until the list is there
 *   C#:       ep_dotnet_tasks_next -> GC.Collect -> (GcDone, gc_hooks.c) ep_dotnet_tasks_walk -> ep_dotnet_tasks_group
 *             -> ep_dotnet_tasks_answer
 *
 * A chain begins with a pending task that no other one leads to, and names the methods that wait from there on.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "glue.h"
#include "runtime.h"

#define TASKS      (1u << 20)
#define PLACES     (2 * TASKS) /* of a hash table: their number + 1, 0: free */
#define GROUPS     2048u
#define GROUPED    (2 * GROUPS)
#define TEXT       (256u << 10)
#define KINDS      1024u      /* of types, cached */
#define COMPLETED  0x1600000u /* RanToCompletion, Canceled, Faulted of Task.m_stateFlags */
#define FOREVER_NS UINT64_C(3600000000000)

/* GCHeap::DiagWalkHeap(bool (*)(Object *, void *), void *, int, bool): of the workstation's and the server's collector.
 */
#define WALK(collector) _ZN3##collector##6GCHeap12DiagWalkHeapEPFbP6ObjectPvES3_ib
typedef void heap_walk(void *heap, bool (*each)(uintptr_t object, void *context), void *context, int generation,
                       bool large);
EP_RUNTIME_FUNCTION heap_walk WALK(WKS), WALK(SVR);
EP_RUNTIME_FUNCTION uintptr_t *g_theGCHeap;
#define VIRTUALS 128u /* of GCHeap */

struct memory {
    uintptr_t task[TASKS];
    bool led[TASKS]; /* another task leads to it */
    uint32_t place[PLACES];
    struct ep_dotnet_task_group group[GROUPS];
    uint16_t grouped[GROUPED]; /* hash table of groups, likewise */
    uintptr_t kind[KINDS];     /* type | enum ep_dotnet_task_kind */
};

static struct memory *memory; /* while a list is made */
static char *text;
static unsigned state_at; /* offset of Task.m_stateFlags; 0: not known */
static unsigned tasks;
static struct ep_dotnet_task_list list;
static atomic_bool wanted; /* by the next full collection */
static struct ep_event asked;
static atomic_uint question, answer; /* numbers of the last ones; different while a list is made */
static atomic_uint shown;            /* number of the list in `text`; 0: none, or it is being written */
static atomic_bool serving, ending;
static atomic_uint text_size;

/* ---- the heap, while all threads stand ---- */

static enum ep_dotnet_task_kind kind_of(uintptr_t type)
{
    uintptr_t *seen = &memory->kind[(type >> 4 ^ type >> 14) % KINDS];

    if ((*seen & ~(uintptr_t)3) != type)
        *seen = type | ep_dotnet_task_kind(type);
    return (enum ep_dotnet_task_kind)(*seen & 3);
}

static uint32_t *place_of(uintptr_t task)
{
    uint32_t at = (uint32_t)(task >> 3) * 2654435761u % PLACES;

    while (memory->place[at] && memory->task[memory->place[at] - 1] != task)
        at = (at + 1) % PLACES;
    return &memory->place[at];
}

static bool is_pending(uintptr_t task)
{
    return !(*(const volatile uint32_t *)(task + state_at) & COMPLETED);
}

static bool each_object(uintptr_t object, void *unused)
{
    const uintptr_t type = *(const uintptr_t *)object & ~(uintptr_t)7; /* the collector's marks */

    (void)unused;
    if (kind_of(type) == EP_TASK_NONE || !is_pending(object))
        return true;
    if (tasks == TASKS) {
        list.left_out++;
        return true;
    }
    memory->task[tasks++] = object;
    *place_of(object) = tasks;
    return true;
}

/* The chain from a task on; depth 0: no method is in it. */
static struct ep_dotnet_task_group chain_of(uintptr_t task)
{
    struct ep_dotnet_task_group chain = {.type = {*(const uintptr_t *)task}, .count = 1, .depth = 1};
    bool method = kind_of(chain.type[0]) == EP_TASK_METHOD;

    for (unsigned hop = 0; hop < 2 * EP_DOTNET_TASK_DEPTH && (task = ep_dotnet_task_waiter(task)); hop++) {
        const uintptr_t type = *(const uintptr_t *)task;
        if (kind_of(type) != EP_TASK_METHOD)
            continue;
        method = true;
        if (chain.depth == EP_DOTNET_TASK_DEPTH)
            break;
        chain.type[chain.depth++] = type;
    }
    chain.depth = method ? chain.depth : 0;
    return chain;
}

static void add_to_group(const struct ep_dotnet_task_group *chain)
{
    uint64_t hash = chain->depth;

    for (unsigned i = 0; i < chain->depth; i++)
        hash = (hash ^ chain->type[i]) * UINT64_C(0x9e3779b97f4a7c15);
    for (unsigned at = (unsigned)(hash >> 40) % GROUPED;; at = (at + 1) % GROUPED) {
        if (memory->grouped[at] == 0) {
            if (list.groups == GROUPS) {
                list.left_out++;
                return;
            }
            memory->group[list.groups++] = *chain;
            memory->grouped[at] = (uint16_t)list.groups;
            return;
        }
        struct ep_dotnet_task_group *group = &memory->group[memory->grouped[at] - 1];
        if (group->depth == chain->depth &&
            memcmp(group->type, chain->type, chain->depth * sizeof chain->type[0]) == 0) {
            group->count++;
            return;
        }
    }
}

static void group_all(void)
{
    for (unsigned i = 0; i < tasks; i++) {
        const uintptr_t waiter = ep_dotnet_task_waiter(memory->task[i]);
        const uint32_t number = waiter ? *place_of(waiter) : 0;
        list.methods += kind_of(*(const uintptr_t *)memory->task[i]) == EP_TASK_METHOD;
        if (number)
            memory->led[number - 1] = true;
    }
    for (unsigned i = 0; i < tasks; i++) {
        if (memory->led[i])
            continue;
        const struct ep_dotnet_task_group chain = chain_of(memory->task[i]);
        if (chain.depth)
            add_to_group(&chain);
    }
}

/* Whose virtual functions the heap has; NULL: of no known collector. */
static heap_walk *walk_of_heap(void)
{
    const uintptr_t *functions = &g_theGCHeap && g_theGCHeap ? (const uintptr_t *)*g_theGCHeap : NULL;

    for (unsigned i = 0; functions && i < VIRTUALS && ep_dotnet_is_readable((uintptr_t)&functions[i]); i++) {
        if (WALK(WKS) && functions[i] == (uintptr_t)WALK(WKS))
            return WALK(WKS);
        if (WALK(SVR) && functions[i] == (uintptr_t)WALK(SVR))
            return WALK(SVR);
    }
    return NULL;
}

void ep_dotnet_tasks_walk(void)
{
    if (!atomic_load_explicit(&wanted, memory_order_acquire))
        return;
    const uint64_t from = ep_port_uptime_ns();
    heap_walk *const walk = walk_of_heap();
    if (walk) {
        walk(g_theGCHeap, each_object, NULL, 2, true);
        group_all();
        list.walked_ns = ep_port_uptime_ns() - from;
    }
    atomic_store_explicit(&wanted, false, memory_order_release);
}

/* ---- the managed thread ---- */

int ep_dotnet_tasks_measure(void *const *objects, uint32_t count)
{
    static const uint32_t wants[] = {0, 0x1000000, 0x200000, 0x400000}; /* pending, completed, faulted, cancelled */
    const uintptr_t *object = (const uintptr_t *)(const void *)objects;
    unsigned found = 0;

    if (state_at)
        return 0;
    if (count != sizeof wants / sizeof wants[0] || !walk_of_heap())
        return -ENOSYS;
    for (unsigned i = 0; i < count; i++)
        if (!object[i] || ep_dotnet_task_kind(*(const uintptr_t *)object[i]) != EP_TASK_OTHER)
            return -ENOSYS;
    const struct ep_dotnet_type *type = *(const struct ep_dotnet_type *const *)object[0];
    for (unsigned at = sizeof(uintptr_t); at + sizeof(uintptr_t) + 4 <= type->base_size; at += 4) {
        bool fits = true;
        for (unsigned i = 0; i < count; i++)
            fits &= (*(const uint32_t *)(object[i] + at) & COMPLETED) == wants[i];
        if (fits) {
            found++;
            state_at = at;
        }
    }
    state_at = found == 1 ? state_at : 0;
    return state_at ? 0 : -ENOSYS;
}

static void *memory_map(size_t size)
{
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return bytes != MAP_FAILED ? bytes : NULL;
}

int ep_dotnet_tasks_begin(void)
{
    text = text ? text : memory_map(TEXT);
    memory = memory ? memory : memory_map(sizeof *memory); /* a list that was not made has not touched it */
    if (!text || !memory)
        return -ENOMEM;
    tasks = 0;
    list = (struct ep_dotnet_task_list){0};
    atomic_store_explicit(&wanted, true, memory_order_release);
    return 0;
}

int ep_dotnet_tasks_list(struct ep_dotnet_task_list *about)
{
    if (atomic_exchange(&wanted, false))
        return -EAGAIN; /* no collection was complete */
    *about = list;
    return list.walked_ns ? 0 : -ENOSYS;
}

const struct ep_dotnet_task_group *ep_dotnet_tasks_group(uint32_t number)
{
    return number < list.groups ? &memory->group[number] : NULL;
}

void ep_dotnet_tasks_answer(const char *lines, uint32_t size)
{
    const unsigned number = atomic_load(&question);

    atomic_store(&shown, 0);
    atomic_store(&text_size, 0);
    atomic_thread_fence(memory_order_seq_cst);
    if (text && size <= TEXT) {
        memcpy(text, lines, size);
        atomic_store(&text_size, size);
    }
    atomic_store(&shown, number);
    if (memory)
        (void)munmap(memory, sizeof *memory);
    memory = NULL;
    atomic_store(&answer, number);
}

/* ---- the endpoint ---- */

static int ask(void)
{
    unsigned number = atomic_load(&question);

    if (!atomic_load(&serving))
        return -ENOSYS;
    /* A request during the making of a list gets that list. A failed exchange reads another endpoint's number. */
    if (number == atomic_load(&answer) && atomic_compare_exchange_strong(&question, &number, number + 1)) {
        number++;
        ep_port_wake(&asked);
    }
    return (int)number;
}

/* Which list is in `text`, for a client that wants `list`; or an error. */
static int shown_for(unsigned list, size_t from)
{
    const unsigned number = atomic_load(&shown);

    if (atomic_load(&ending))
        return -ESRCH;
    if (from && number != list)
        return -ESTALE;
    return (int)(number - list) >= 0 ? (int)number : -EAGAIN;
}

static int read_text(unsigned *list, size_t from, char *part, size_t room)
{
    const int number = shown_for(*list, from);
    const size_t all = atomic_load(&text_size);
    size_t size = from < all ? all - from : 0;

    if (number < 0)
        return number;
    if (size > room) {
        size = room;
        while (size && ((unsigned char)text[from + size] & 0xc0) == 0x80) /* within a character */
            size--;
    }
    for (size_t i = 0; i < size; i++)
        part[i] = text[from + i];
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&shown) != (unsigned)number)
        return from ? -ESTALE : -EAGAIN; /* the next list was written meanwhile */
    *list = (unsigned)number;
    return all ? (int)size : -ENOSYS;
}

int ep_dotnet_tasks_next(void)
{
    static const struct ep_tasks_source source = {.ask = ask, .read = read_text};

    if (!atomic_exchange(&serving, true))
        ep_tasks_attach(&source);
    for (;;) {
        const unsigned seen = atomic_load(&asked.value);
        if (atomic_load(&ending)) {
            atomic_store(&serving, false);
            return -ESRCH;
        }
        if (atomic_load(&question) != atomic_load(&answer))
            return 0;
        ep_port_wait(&asked, seen, FOREVER_NS);
    }
}

void ep_dotnet_tasks_end(int32_t end)
{
    atomic_store(&ending, end != 0);
    ep_port_wake(&asked);
}
