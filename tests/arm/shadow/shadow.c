/*
 * See shadow.h. shadow_run() lets step_<arch>.c make single steps; before each instruction shadow_step() keeps the
 * shadow stack, and check() asks the walker and compares.
 *
 * Nothing in here allocates or calls libc while stepping: what is stepped may be in the middle of it.
 */
#include "step.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#define WRONG_SLOTS 8192 /* power of two */
#define RANGES      128

struct range {
    uintptr_t start, end, bias;
    enum shadow_place place;
    const char *path;
};

/* One place where the unwinder was wrong, with the first example. */
struct wrong {
    uintptr_t pc;
    uint64_t count, sure;
    int frame; /* first frame that differs */
    int depth, got_depth;
    uintptr_t callee; /* the last frame that was right: the step from here went wrong */
    uintptr_t expected, got;
};

static struct {
    const struct shadow_walker *walker;
    struct shadow_figures figures;
    struct range range[RANGES];
    int ranges;
    uintptr_t stack_start, stack_end;
    enum shadow_place (*classify)(uintptr_t pc);
    uint64_t left;

    struct shadow_call call[SHADOW_DEPTH];
    int depth;
    bool overflow;
    struct ep_registers before;

    uintptr_t outer[SHADOW_DEPTH]; /* frames below the base at the first rooted step of this run */
    int outers;
    struct shadow_stack answer;
    struct wrong wrong[WRONG_SLOTS];
} shadow;

uint64_t shadow_signed;

/* Bounds that the linker makes for the section with ILC's code; absent in a plain C program. */
extern const char managed_start[] __asm__("__start___managedcode") __attribute__((weak, visibility("hidden")));
extern const char managed_stop[] __asm__("__stop___managedcode") __attribute__((weak, visibility("hidden")));
extern const char unbox_start[] __asm__("__start___unbox") __attribute__((weak, visibility("hidden")));
extern const char unbox_stop[] __asm__("__stop___unbox") __attribute__((weak, visibility("hidden")));

/* ---- what code is where ---- */

static void add_range(uintptr_t start, uintptr_t end, uintptr_t bias, enum shadow_place place, const char *path)
{
    if (start < end && shadow.ranges < RANGES)
        shadow.range[shadow.ranges++] = (struct range){start, end, bias, place, path};
}

static int add_module(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    const bool program = info->dlpi_name[0] == '\0';
    const bool libc = strstr(info->dlpi_name, "/libc.so") != NULL;
    const enum shadow_place place = program ? SHADOW_PROGRAM : libc ? SHADOW_LIBC : SHADOW_OTHER;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD || (header->p_flags & PF_X) == 0)
            continue;
        const uintptr_t start = info->dlpi_addr + header->p_vaddr;
        add_range(start, start + header->p_memsz, info->dlpi_addr, place, program ? "/proc/self/exe" : info->dlpi_name);
    }
    return 0;
}

static void find_ranges(void)
{
    shadow.ranges = 0;
    add_range((uintptr_t)managed_start, (uintptr_t)managed_stop, 0, SHADOW_MANAGED, "");
    add_range((uintptr_t)unbox_start, (uintptr_t)unbox_stop, 0, SHADOW_MANAGED, "");
    dl_iterate_phdr(add_module, NULL);
}

static enum shadow_place place_of(uintptr_t pc)
{
    const enum shadow_place place = shadow.classify ? shadow.classify(pc) : SHADOW_PLACES;
    if (place != SHADOW_PLACES)
        return place;
    for (int i = 0; i < shadow.ranges; i++)
        if (pc >= shadow.range[i].start && pc < shadow.range[i].end)
            return shadow.range[i].place;
    return SHADOW_OTHER;
}

/* ---- the shadow stack ---- */

struct shadow_call *shadow_top(void)
{
    return shadow.depth > 0 ? &shadow.call[shadow.depth - 1] : NULL;
}

void shadow_push(uintptr_t slot, uintptr_t to, bool fault)
{
    shadow.figures.calls += !fault;
    if (shadow.depth < SHADOW_DEPTH)
        shadow.call[shadow.depth++] = (struct shadow_call){slot, to, fault, false};
    else
        shadow.overflow = true;
}

void shadow_pop(void)
{
    shadow.depth--;
}

void shadow_returned(bool right)
{
    shadow.figures.returns++;
    shadow.figures.faults += !right;
}

/* ---- comparing ---- */

/* An interrupted frame is not a return address: walkers that keep return addresses - 1 show it one off. */
static bool same(const struct shadow_call *call, uintptr_t got)
{
    return got == call->to || (call->fault && got == call->to + 1);
}

/* First frame in which the answer differs from the truth, -1 when it does not. */
static int first_difference(uintptr_t pc, const struct shadow_stack *answer)
{
    if (answer->count < 1 || answer->pc[0] != pc)
        return 0;
    for (int i = 1; i <= shadow.depth; i++) {
        if (i >= answer->count)
            return answer->deep ? -1 : i;
        if (!same(&shadow.call[shadow.depth - i], answer->pc[i]))
            return i;
    }
    return -1;
}

/* The truth: 0 is the interrupted instruction, then its callers. */
static uintptr_t true_frame(uintptr_t pc, int frame)
{
    return frame <= 0 ? pc : shadow.call[shadow.depth - frame].to;
}

static void note_wrong(uintptr_t pc, int frame, const struct shadow_stack *answer)
{
    size_t slot = (size_t)(pc * 0x9e3779b97f4a7c15u >> 40) & (WRONG_SLOTS - 1);
    for (int tries = 0; tries < 64; tries++, slot = (slot + 1) & (WRONG_SLOTS - 1)) {
        struct wrong *wrong = &shadow.wrong[slot];
        if (wrong->count == 0)
            *wrong = (struct wrong){.pc = pc,
                                    .frame = frame,
                                    .depth = shadow.depth + 1,
                                    .got_depth = answer->count,
                                    .callee = true_frame(pc, frame - 1),
                                    .expected = true_frame(pc, frame),
                                    .got = frame < answer->count ? answer->pc[frame] : 0};
        if (wrong->pc == pc) {
            wrong->count++;
            wrong->sure += answer->sure;
            return;
        }
    }
    shadow.figures.places_lost++;
}

/* Frames below the base are nobody's truth, but they cannot change while the function runs. */
static void compare_outer(const struct shadow_stack *answer)
{
    const int first = shadow.depth + 1, count = answer->count - first;
    if (!answer->sure || answer->deep || count < 0)
        return;
    const size_t size = (size_t)count * sizeof(uintptr_t);
    if (shadow.outers < 0) {
        shadow.outers = count;
        memcpy(shadow.outer, &answer->pc[first], size);
    }
    shadow.figures.outer_steps++;
    shadow.figures.outer_same += count == shadow.outers && memcmp(shadow.outer, &answer->pc[first], size) == 0;
}

static void check(const struct ep_registers *now)
{
    const enum shadow_place place = place_of(now->pc);
    struct shadow_stack *answer = &shadow.answer;
    if (place == SHADOW_SKIPPED)
        return;
    shadow.walker->walk(now, answer);
    const int difference = first_difference(now->pc, answer);
    shadow.figures.steps[place]++;
    if (difference < 0) {
        shadow.figures.exact[place]++;
        compare_outer(answer);
        return;
    }
    shadow.figures.sure_but_wrong[place] += answer->sure;
    note_wrong(now->pc, difference, answer);
}

bool shadow_step(struct ep_registers *now)
{
    if (shadow.left-- == 0)
        return false;
    now->stack_start = shadow.stack_start;
    now->stack_end = shadow.stack_end;
    if (shadow.before.pc != 0)
        shadow_follow(&shadow.before, now);
    if (shadow.overflow)
        shadow.figures.overflows++;
    else if (shadow.depth > 0)
        check(now);
    shadow.before = *now;
    return true;
}

/* ---- running ---- */

void shadow_classify(enum shadow_place (*classify)(uintptr_t pc))
{
    shadow.classify = classify;
}

int shadow_start(const char *walker)
{
    if (strcmp(walker, shadow_walker_fp.name) == 0)
        shadow.walker = &shadow_walker_fp;
    else if (strcmp(walker, shadow_walker_core.name) == 0)
        shadow.walker = &shadow_walker_core;
    else
        return -EINVAL;
    const int err = shadow_step_prepare();
    if (err != 0)
        return err;
    return shadow.walker->prepare();
}

static int find_stack(void)
{
    pthread_attr_t attributes;
    void *start;
    size_t size;
    int err = pthread_getattr_np(pthread_self(), &attributes);
    if (err != 0)
        return -err;
    err = pthread_attr_getstack(&attributes, &start, &size);
    pthread_attr_destroy(&attributes);
    shadow.stack_start = (uintptr_t)start;
    shadow.stack_end = (uintptr_t)start + size;
    return -err;
}

void shadow_run(void (*function)(void *), void *argument, uint64_t limit)
{
    if (find_stack() != 0)
        return;
    find_ranges();
    shadow.walker->refresh();
    shadow.depth = 0;
    shadow.overflow = false;
    shadow.outers = -1;
    shadow.before.pc = 0;
    shadow.left = limit;
    shadow_step_run(function, argument);
}

struct shadow_figures shadow_figures(void)
{
    return shadow.figures;
}

/* ---- reporting ---- */

static void print_place(FILE *out, const char *name, enum shadow_place place)
{
    const struct shadow_figures *figures = &shadow.figures;
    const uint64_t steps = figures->steps[place];
    if (steps != 0)
        fprintf(out, "steps %s: %llu, exact %.3f %%, wrong %llu, wrong and sure of it %llu\n", name,
                (unsigned long long)steps, 100.0 * (double)figures->exact[place] / (double)steps,
                (unsigned long long)(steps - figures->exact[place]),
                (unsigned long long)figures->sure_but_wrong[place]);
}

/* The program's own code is the .NET runtime's where there is managed code beside it. */
static const char *kind_of(enum shadow_place place)
{
    const char *own = &managed_start[0] != &managed_stop[0] || shadow.classify ? "runtime" : "c";
    return place == SHADOW_MANAGED    ? "managed"
           : place == SHADOW_PROGRAM  ? own
           : place == SHADOW_ASSEMBLY ? "assembly"
           : place == SHADOW_LIBC     ? "libc"
                                      : "other";
}

static void print_figures(FILE *out)
{
    for (enum shadow_place place = SHADOW_MANAGED; place < SHADOW_PLACES; place++) {
        const uint64_t steps = shadow.figures.steps[place];
        if (steps == 0)
            continue;
        fprintf(out, "figure shadow_wrong_exact_%s %llu stacks\n", kind_of(place),
                (unsigned long long)shadow.figures.sure_but_wrong[place]);
        if (place != SHADOW_MANAGED)
            fprintf(out, "figure exact_steps_" SHADOW_ARCH "_%s_pct %.3f pct\n", kind_of(place),
                    100.0 * (double)shadow.figures.exact[place] / (double)steps);
    }
}

static void print_wrong(FILE *places)
{
    fprintf(places, "walker %s\n", shadow.walker->name);
    fprintf(places, "lost %llu\n", (unsigned long long)shadow.figures.places_lost);
    for (int i = 0; i < shadow.ranges; i++)
        if (shadow.range[i].path[0] != '\0')
            fprintf(places, "module %#lx %#lx %#lx %s\n", shadow.range[i].start, shadow.range[i].end,
                    shadow.range[i].bias, shadow.range[i].path);
    for (int i = 0; i < WRONG_SLOTS; i++) {
        const struct wrong *wrong = &shadow.wrong[i];
        if (wrong->count != 0)
            fprintf(
                places, "wrong %llu sure %llu place %d pc %#lx frame %d of %d,%d callee %#lx expected %#lx got %#lx\n",
                (unsigned long long)wrong->count, (unsigned long long)wrong->sure, (int)place_of(wrong->pc), wrong->pc,
                wrong->frame, wrong->depth, wrong->got_depth, wrong->callee, wrong->expected, wrong->got);
    }
}

void shadow_report(FILE *out, FILE *places)
{
    const struct shadow_figures *figures = &shadow.figures;
    print_place(out, "managed", SHADOW_MANAGED);
    print_place(out, "program", SHADOW_PROGRAM);
    print_place(out, "libc", SHADOW_LIBC);
    print_place(out, "other", SHADOW_OTHER);
    print_place(out, "assembly", SHADOW_ASSEMBLY);
    fprintf(out, "truth: %llu calls, %llu returns, %llu of them not where the shadow says, %llu steps too deep\n",
            (unsigned long long)figures->calls, (unsigned long long)figures->returns,
            (unsigned long long)figures->faults, (unsigned long long)figures->overflows);
    fprintf(out, "frames below the base: %llu of %llu rooted stacks agree\n", (unsigned long long)figures->outer_same,
            (unsigned long long)figures->outer_steps);
    if (figures->places_lost != 0)
        fprintf(out, "places: the list is full, %llu wrong steps are not in it\n",
                (unsigned long long)figures->places_lost);
    if (shadow_signed != 0)
        fprintf(out, "truth: %llu return addresses were signed\n", (unsigned long long)shadow_signed);
    print_figures(out);
    if (places != NULL)
        print_wrong(places);
}

int shadow_report_to(const char *path, double least_managed_steps)
{
    const uint64_t steps = shadow.figures.steps[SHADOW_MANAGED];
    FILE *places = path != NULL ? fopen(path, "w") : NULL;
    if (path != NULL && places == NULL) {
        fprintf(stderr, "shadow: %s cannot be written: %s\n", path, strerror(errno));
        return 2;
    }
    shadow_report(stdout, places);
    if (places != NULL)
        fclose(places);
    printf("figure exact_steps_" SHADOW_ARCH "_pct %.3f pct\n",
           steps == 0 ? 0 : 100.0 * (double)shadow.figures.exact[SHADOW_MANAGED] / (double)steps);
    fflush(stdout);
    if (shadow.figures.faults == 0 && (double)steps >= least_managed_steps)
        return 0;
    fprintf(stderr, "shadow: %llu managed steps (at least %.0f are wanted), %llu faults of the truth itself\n",
            (unsigned long long)steps, least_managed_steps, (unsigned long long)shadow.figures.faults);
    return 1;
}
