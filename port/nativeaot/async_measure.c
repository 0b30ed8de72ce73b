/*
 * Where fields of .NET's tasks, boxes and continuations are: measured at the start, with objects that managed code has
 * made, and then all of it is tried in a continuation whose parent is known. What is not as expected switches async
 * parents off, with a reason.
 *
 *   ep_dotnet_async_measure    types and fields          -> measure_types, measure_fields
 *   ep_dotnet_async_task       the frame that runs tasks -> find_keepers
 *   ep_dotnet_async_suspended  runtime-async: fields     -> measure_state
 *   ep_dotnet_async_resumed    its dispatcher            -> measure_running -> measure_dispatcher, measure_dispatch
 *   ep_dotnet_async_check      all of it                 -> measure_mover
 */
#include <link.h>
#include <string.h>

#include "async_objects.h"

#define LARGEST      1024u /* bytes of an object that is measured */
#define KEEPERS_MOST 16u
#define KEPT_MOST    256u /* bytes */

/* A frame of `function`, which has a task in the register, or `kept` bytes from its frame pointer. */
struct keeper {
    uintptr_t function, call; /* where its call returns to */
    unsigned kept;
};

/* ---- measuring, with objects of managed code ---- */

static int data_of_module(struct dl_phdr_info *info, size_t size, void *argument)
{
    const uintptr_t type = *(const uintptr_t *)argument;

    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type != PT_LOAD || type - start >= info->dlpi_phdr[i].p_memsz)
            continue;
        ep_async.data_start = start;
        ep_async.data_end = start + info->dlpi_phdr[i].p_memsz;
        return 1;
    }
    return 0;
}

/* Offset of the one field that holds the value; 0: none, or several. */
static unsigned offset_of(uintptr_t object, uintptr_t value)
{
    const struct ep_async_type *type = ep_async_type_of(object);
    unsigned found = 0;

    if (!type || type->size.base_size > LARGEST)
        return 0;
    for (unsigned at = EP_ASYNC_WORD; at + 2 * EP_ASYNC_WORD <= type->size.base_size; at += EP_ASYNC_WORD)
        if (ep_async_word_at(object + at) == value) {
            if (found)
                return 0;
            found = at;
        }
    return found;
}

/* The only interface that a box has and a task has not; NULL: none, or several. */
static const struct ep_async_type *added_interface(const struct ep_async_type *box, const struct ep_async_type *task)
{
    const struct ep_async_type *found = NULL;

    if (!ep_async_is_whole(box) || !ep_async_is_whole(task))
        return NULL;
    for (unsigned i = 0; i < box->interfaces; i++) {
        const struct ep_async_type *one = (const struct ep_async_type *)box->table[box->slots + i];
        if (!ep_async_is_data((uintptr_t)one) || (!ep_async_has_interface(task, one) && found))
            return NULL;
        if (!ep_async_has_interface(task, one))
            found = one;
    }
    return found;
}

static uintptr_t continuation_of(uintptr_t task)
{
    return ep_async_field_of(task, ep_async_type_of(task), ep_async.continuation);
}

static int measure_types(const uintptr_t *object)
{
    const struct ep_async_type *boxes[] = {ep_async_type_of(object[EP_ASYNC_BOX]),
                                           ep_async_type_of(object[EP_ASYNC_BOX_TEXT]),
                                           ep_async_type_of(object[EP_ASYNC_BOX_VOID])};
    const struct ep_async_type *task = ep_async_type_of(object[EP_ASYNC_TASK]);

    if (!task || !boxes[0] || !boxes[1] || !boxes[2] || !ep_async_is_data((uintptr_t)task->base))
        return ep_async_refuse("types are not in the program's data");
    if (boxes[0]->base != task || task->base->base == task->base || !ep_async_is_a(boxes[1], task->base) ||
        !ep_async_is_a(boxes[2], task->base))
        return ep_async_refuse("an async method's box is not derived from Task<T>");
    ep_async.task = task->base;
    ep_async.box = added_interface(boxes[0], task);
    if (!ep_async.box || !ep_async_has_interface(boxes[1], ep_async.box) ||
        !ep_async_has_interface(boxes[2], ep_async.box))
        return ep_async_refuse("a box does not have one interface more than a task");
    return 0;
}

static int measure_fields(const uintptr_t *object)
{
    ep_async.continuation = offset_of(object[EP_ASYNC_TASK], object[EP_ASYNC_BOX]);
    if (!ep_async.continuation)
        return ep_async_refuse("a task does not hold the box that waits for it");
    ep_async.action = ep_async_type_of(object[EP_ASYNC_ACTION]);
    ep_async.target = offset_of(object[EP_ASYNC_ACTION], object[EP_ASYNC_TARGET]);
    if (!ep_async.action || !ep_async.target ||
        continuation_of(object[EP_ASYNC_ACTION_TASK]) != object[EP_ASYNC_ACTION])
        return ep_async_refuse("a task does not hold the Action that waits for it");
    const uintptr_t flowing = continuation_of(object[EP_ASYNC_FLOW_TASK]);
    ep_async.await = ep_async_type_of(flowing);
    ep_async.await_action = offset_of(flowing, object[EP_ASYNC_FLOW_ACTION]);
    const uintptr_t then = continuation_of(object[EP_ASYNC_THEN_TASK]);
    ep_async.continue_by = ep_async_type_of(then);
    ep_async.continue_task = offset_of(then, object[EP_ASYNC_THEN]);
    if (!ep_async.await || !ep_async.await_action || !ep_async.continue_by || !ep_async.continue_task)
        return ep_async_refuse("a task's continuation does not hold what it continues with");
    const uintptr_t list = continuation_of(object[EP_ASYNC_LIST_TASK]);
    ep_async.list = ep_async_type_of(list);
    for (unsigned at = EP_ASYNC_WORD;
         ep_async.list && at + 2 * EP_ASYNC_WORD <= ep_async.list->size.base_size && !ep_async.items;
         at += EP_ASYNC_WORD) {
        const struct ep_async_type *array = ep_async_type_of(ep_async_word_at(list + at));
        ep_async.items = array && array->size.flags & EP_TYPE_HAS_ELEMENTS ? at : 0;
    }
    if (!ep_async.items || ep_async_first_of(list, ep_async.list) != object[EP_ASYNC_LIST_FIRST])
        return ep_async_refuse("a task does not hold a list of those that wait for it");
    return 0;
}

int ep_dotnet_async_measure(void *const *objects, uint32_t count)
{
    const uintptr_t *object = (const uintptr_t *)(const void *)objects;

    if (count != EP_ASYNC_OBJECTS || !&g_lowest_address || !&g_highest_address)
        return ep_async_refuse("the collector does not say where its heap is");
    memset(&ep_async, 0, sizeof ep_async);
    for (unsigned i = 0; i < count; i++)
        if (object[i] == 0)
            return ep_async_refuse("an object is missing");
    uintptr_t type = *(const uintptr_t *)object[EP_ASYNC_TASK];
    if (!dl_iterate_phdr(data_of_module, &type))
        return ep_async_refuse("types are not in the program's data");
    return measure_types(object) ? -1 : measure_fields(object);
}

/* The frame that moves the box on, and by which virtual function of the type it can be told. */
static int measure_mover(uintptr_t box)
{
    const struct ep_async_type *type = ep_async_type_of(box);
    struct ep_hook_walk walk;
    bool found = false;

    if (!ep_async_is_box(type) || !ep_hook_walk_here(&walk))
        return ep_async_refuse("no profiler runs");
    for (unsigned i = 0; i < EP_ASYNC_FRAMES && !found && ep_hook_walk_next(&walk); i++) {
        const uintptr_t function = walk.at.base == box ? ep_hook_walk_function(&walk) : 0;
        for (unsigned slot = 0; function && !found && slot < type->slots; slot++) {
            found = ep_async_slot_of(type, slot) == function;
            ep_async.slot = slot;
        }
    }
    ep_hook_walk_end(&walk);
    return found ? 0 : ep_async_refuse("the box is not where its method keeps it in the runtimes that are known");
}

/* Each frame that has the task in the register or among its own words, which end at its caller's sp. */
static unsigned find_keepers(void *const *objects, struct keeper *keeper)
{
    const uintptr_t task = (uintptr_t)objects[0], here = (uintptr_t)objects;
    struct ep_hook_walk walk, frame;
    unsigned count = 0;

    if (!ep_hook_walk_here(&walk))
        return 0;
    bool more = ep_hook_walk_next(&walk); /* this function has the task, too */
    for (unsigned i = 0; more && i < EP_ASYNC_FRAMES; i++) {
        frame = walk;
        more = ep_hook_walk_next(&walk);
        if (!more || here - frame.at.sp < walk.at.sp - frame.at.sp) /* so has the method that asks */
            continue;
        for (unsigned at = 0; at < KEPT_MOST && (at == 0 || frame.at.fp + at < walk.at.sp);
             at += (unsigned)EP_ASYNC_WORD)
            if (at != EP_ASYNC_WORD && count < KEEPERS_MOST &&
                (at ? ep_async_word_of(&frame, at) : frame.at.base) == task)
                keeper[count++] = (struct keeper){ep_hook_walk_function(&frame), frame.at.pc, at};
    }
    ep_hook_walk_end(&walk);
    return count;
}

void ep_dotnet_async_task(void *const *objects, uint32_t turn)
{
    static struct keeper before[KEEPERS_MOST];
    static unsigned count;
    struct keeper now[KEEPERS_MOST];

    if (turn == 0)
        count = find_keepers(objects, before);
    const unsigned found = turn ? find_keepers(objects, now) : 0;
    for (unsigned i = 0; i < found; i++)
        for (unsigned k = 0; k < count; k++)
            if (!ep_async.execute && now[i].function && now[i].function == before[k].function &&
                now[i].kept == before[k].kept) {
                ep_async.call[0] = before[k].call;
                ep_async.call[1] = now[i].call;
                ep_async.kept = now[i].kept;
                ep_async.execute = now[i].function;
            }
}

/* ---- measuring runtime-async ---- */

/* The only field that holds a continuation: its type is derived from one that is derived from Object. */
static unsigned measure_state(uintptr_t task)
{
    const struct ep_async_type *type = ep_async_type_of(task), *object = ep_async.task->base;
    unsigned found = 0;
    uintptr_t ip;

    for (unsigned at = EP_ASYNC_WORD; type && at + 2 * EP_ASYNC_WORD <= type->size.base_size && at < LARGEST;
         at += EP_ASYNC_WORD) {
        const uintptr_t one = ep_async_word_at(task + at);
        const struct ep_async_type *kind = ep_async_type_of(one);
        if (!kind || !ep_async_is_data((uintptr_t)kind->base) || kind->base->base != object ||
            ep_async_is_a(kind, ep_async.task) || !ep_async_is_data(ep_async_field_of(one, kind, 2 * EP_ASYNC_WORD)) ||
            !ep_async_next_of(one, &ip))
            continue;
        ep_async.continuation_type = kind->base;
        found = found ? LARGEST : at;
    }
    return found;
}

void ep_dotnet_async_suspended(void *const *objects)
{
    const uintptr_t *object = (const uintptr_t *)(const void *)objects;
    const struct ep_async_type *type = ep_async_type_of(object[0]);

    ep_async.state = 0;
    ep_async.suspended = 0;
    if (*ep_dotnet_async_reason() || !type || !ep_async_is_a(type, ep_async.task) ||
        ep_async_has_interface(type, ep_async.box))
        return;
    const unsigned state = measure_state(object[0]);
    const uintptr_t resume = continuation_of(object[1]);
    ep_async.resume = ep_async_type_of(resume);
    ep_async.resumes = offset_of(resume, object[0]);
    if (state == 0 || state >= LARGEST || !ep_async.resumes)
        return;
    for (uintptr_t one = ep_async_word_at(object[0] + state), ip = 0;
         ep_async_is_a(ep_async_type_of(one), ep_async.continuation_type);) {
        one = ep_async_next_of(one, &ip);
        ep_async.suspended = ip ? ip : ep_async.suspended;
    }
    ep_async.state = state;
}

/* Offset of the thread's variable that leads to the dispatcher of the task, in this frame; 0: none. */
static unsigned measure_dispatcher(const struct ep_hook_walk *frame, uintptr_t end, uintptr_t task)
{
    const uintptr_t statics = tls_InlinedThreadStatics;
    const struct ep_async_type *type = ep_async_type_of(statics);

    for (unsigned at = EP_ASYNC_WORD; type && at + 2 * EP_ASYNC_WORD <= type->size.base_size; at += EP_ASYNC_WORD) {
        const uintptr_t one = ep_async_word_at(statics + at);
        if (one % EP_ASYNC_WORD || one < frame->at.sp || one >= end || end - one < sizeof(struct ep_async_dispatcher))
            continue;
        const struct ep_async_dispatcher *dispatcher = (const struct ep_async_dispatcher *)one;
        if (dispatcher->task == task && dispatcher->next == 0)
            return at;
    }
    return 0;
}

/* The virtual function of a task that leads to the frame's function, and is not every task's; 0: none. */
static unsigned measure_dispatch(const struct ep_hook_walk *frame, const struct ep_async_type *type)
{
    const uintptr_t function = ep_hook_walk_function(frame);

    for (unsigned slot = 0; function && slot < type->slots; slot++)
        if (ep_async_slot_of(type, slot) == function && ep_async_slot_of(ep_async.task, slot) != function)
            return slot;
    return 0;
}

/* Walks from what a continuation calls to its dispatcher. */
static unsigned measure_running(uintptr_t task)
{
    struct ep_hook_walk walk, frame;
    bool method = false;
    unsigned found = 0;

    if (!ep_hook_walk_here(&walk))
        return 0;
    frame = walk;
    frame.at.pc = ep_async.suspended + 1;
    const uintptr_t suspended = ep_hook_walk_function(&frame);
    bool more = ep_hook_walk_next(&walk);
    for (unsigned i = 0; more && i < EP_ASYNC_FRAMES && !found; i++) {
        frame = walk;
        more = ep_hook_walk_next(&walk);
        method = method || (suspended && ep_hook_walk_function(&frame) == suspended);
        found = more && method ? measure_dispatcher(&frame, walk.at.sp, task) : 0;
    }
    if (found)
        ep_async.dispatch_slot = measure_dispatch(&frame, ep_async_type_of(task));
    ep_hook_walk_end(&walk);
    return ep_async.dispatch_slot ? found : 0;
}

int ep_dotnet_async_resumed(void *const *objects, uint32_t turn)
{
    const uintptr_t *object = (const uintptr_t *)(const void *)objects;
    struct ep_hook_parents parents;
    uintptr_t next;
    const unsigned before = ep_async.dispatcher;

    ep_async.dispatcher = ep_async.state && ep_async.suspended ? measure_running(object[0]) : 0;
    if (!ep_async.dispatcher || (turn && ep_async.dispatcher != before) ||
        ep_async_find_box_here(EP_ASYNC_HOOK, &parents, &next) != object[0]) {
        ep_async.dispatcher = 0;
        return -1;
    }
    ep_async_follow(object[0], next, &parents);
    if (parents.count != 1 || parents.parent[0] != (uintptr_t)ep_async_type_of(object[1])) {
        ep_async.dispatcher = 0;
        return -1;
    }
    return 0;
}

int ep_dotnet_async_check(void *const *objects, uint32_t turn)
{
    struct ep_hook_parents parents;
    const uintptr_t *object = (const uintptr_t *)(const void *)objects;
    uintptr_t next;

    if (*ep_dotnet_async_reason())
        return -1;
    if (turn == 0 && measure_mover(object[0]))
        return -1;
    if (ep_async_find_box_here(EP_ASYNC_HOOK, &parents, &next) != object[0])
        return ep_async_refuse("the box that is found is not the method's");
    ep_async_follow(object[0], next, &parents);
    if (parents.count != 1 || parents.parent[0] != (uintptr_t)ep_async_type_of(object[1]))
        return ep_async_refuse("the method that waits is not found");
    return 0;
}
