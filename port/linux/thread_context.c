/*
 * The thread context (OTEP 4947) of another module: a thread-local pointer in its dynamic symbols, which the signal
 * handler reads for the interrupted thread.
 *
 *   ep_port_thread_context_find -> look, for each module -> symbol_find, is_static
 *   ep_work_shown -> record_read -> slot_find -> the thread pointer and an offset, or the thread's vector (DTV)
 *
 * A module that was there at the start, or found room later, has its variables at one offset from the thread pointer.
 * Those of any other are found by the thread's vector, as debuggers do. Memory that is not certain to be there is read
 * only if the kernel can read it (readable.c). Only the interrupted
 * thread writes its record, so what is read is whole, or not valid.
 *
 * A valid record counts instead of a span that the thread has by ep_span_set(): such a tracer detaches it where its
 * span ends, so it is the inner one.
 */
#include "linux.h"
#include "sampler.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A record: the trace's id, the span's, both in the byte order of the network, 1 if they are valid, and more. */
#define RECORD       28
#define RECORD_SPAN  16
#define RECORD_VALID 24

#define PROBE 8u /* bytes that can_read() is for */

/* Where the C library has the thread's vector, and its entries. */
#ifdef __GLIBC__
#define DTV_AT    (ep_linux_tls_above ? 0 : (ptrdiff_t)sizeof(uintptr_t))
#define DTV_WORDS 2
#define DTV_COUNT (-2) /* the number of modules, in words from its beginning */
#else
#define DTV_AT    (ep_linux_tls_above ? -(ptrdiff_t)sizeof(uintptr_t) : (ptrdiff_t)sizeof(uintptr_t))
#define DTV_WORDS 1
#define DTV_COUNT 0
#endif

/* Dynamic relocations of a variable: its offset from the thread pointer; a descriptor, with the word that may have the
 * offset. C libraries have different names for them. */
#if defined(__x86_64__)
#define RELOCATION_OFFSET     18
#define RELOCATION_DESCRIPTOR 36
#define DESCRIPTOR_WORD       1
#elif defined(__aarch64__)
#define RELOCATION_OFFSET     1030
#define RELOCATION_DESCRIPTOR 1031
#define DESCRIPTOR_WORD       1
#else
#define RELOCATION_OFFSET     19
#define RELOCATION_DESCRIPTOR 13
#define DESCRIPTOR_WORD       0
#endif
#if UINTPTR_MAX > 0xffffffffu
#define RELOCATION_TYPE   ELF64_R_TYPE
#define RELOCATION_SYMBOL ELF64_R_SYM
#define SYMBOL_TYPE       ELF64_ST_TYPE
#else
#define RELOCATION_TYPE   ELF32_R_TYPE
#define RELOCATION_SYMBOL ELF32_R_SYM
#define SYMBOL_TYPE       ELF32_ST_TYPE
#endif

/* The C library's function for variables of any module. */
struct variable {
    size_t module, offset;
};
void *__tls_get_addr(struct variable *variable);

/* Written before `state`, once. */
static struct {
    atomic_uint state;
    ptrdiff_t offset; /* from the thread pointer */
    struct variable variable;
} found;
enum { NOT_FOUND, STATIC, DYNAMIC };

/* The members of struct ep_work in front of `waiting`, which are all that a sample shows: a whole one would take half a
 * KiB of each thread. Zero but for what SHOW() writes. */
_Static_assert(EP_LINUX_SHOWN * sizeof(uint64_t) >= offsetof(struct ep_work, waiting), "room for what is shown");
#define SHOW(member, value) memcpy((char *)shown + offsetof(struct ep_work, member), &(value), sizeof(value))

static const char *wanted; /* NULL: nothing is looked for */
static bool without_own;

/* ---- a module's dynamic section ---- */

struct tables {
    uintptr_t bias;
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *gnu_hash, *hash;
    uintptr_t relocations[2];
    size_t relocations_size[2];
    size_t entry; /* of a relocation */
};

/* The C library has made most addresses absolute. */
static uintptr_t absolute(uintptr_t bias, uintptr_t address)
{
    return address < bias ? address + bias : address;
}

static void tables_read(struct tables *tables, const ElfW(Dyn) * entry)
{
    tables->entry = sizeof(ElfW(Rel));
    for (; entry->d_tag != DT_NULL; entry++) {
        const uintptr_t address = absolute(tables->bias, entry->d_un.d_ptr);
        switch (entry->d_tag) {
        case DT_SYMTAB:
            tables->symbols = (const void *)address;
            break;
        case DT_STRTAB:
            tables->names = (const void *)address;
            break;
        case DT_GNU_HASH:
            tables->gnu_hash = (const void *)address;
            break;
        case DT_HASH:
            tables->hash = (const void *)address;
            break;
        case DT_RELA:
            tables->entry = sizeof(ElfW(Rela)); /* fall through */
        case DT_REL:
            tables->relocations[0] = address;
            break;
        case DT_RELASZ:
        case DT_RELSZ:
            tables->relocations_size[0] = entry->d_un.d_val;
            break;
        case DT_JMPREL:
            tables->relocations[1] = address;
            break;
        case DT_PLTRELSZ:
            tables->relocations_size[1] = entry->d_un.d_val;
            break;
        default:
            break;
        }
    }
}

static bool is_symbol(const struct tables *tables, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &tables->symbols[index];

    return SYMBOL_TYPE(symbol->st_info) == STT_TLS && symbol->st_shndx != SHN_UNDEF &&
           strcmp(tables->names + symbol->st_name, name) == 0;
}

/* By the hash table of binutils: head, filter, buckets, then the hashes of each bucket's symbols, the last one odd. */
static uint32_t gnu_hash_find(const struct tables *tables, const char *name)
{
    const uint32_t *head = tables->gnu_hash;
    const uint32_t *buckets = head + 4 + head[2] * (sizeof(ElfW(Addr)) / sizeof *head), *chain = buckets + head[0];
    uint32_t hash = 5381;

    for (const char *c = name; *c; c++)
        hash = hash * 33 + (uint8_t)*c;
    uint32_t index = head[0] ? buckets[hash % head[0]] : 0;
    for (; index >= head[1] && index; index++) {
        const uint32_t other = chain[index - head[1]];
        if ((other | 1) == (hash | 1) && is_symbol(tables, index, name))
            return index;
        if (other & 1)
            break;
    }
    return 0;
}

/* 0: not there. */
static uint32_t symbol_find(const struct tables *tables, const char *name)
{
    if (!tables->symbols || !tables->names)
        return 0;
    if (tables->gnu_hash)
        return gnu_hash_find(tables, name);
    for (uint32_t i = 1; tables->hash && i < tables->hash[1]; i++)
        if (is_symbol(tables, i, name))
            return i;
    return 0;
}

/* True if a relocation of the symbol says that its offset from the thread pointer is this one in each thread. */
static bool is_static(const struct tables *tables, uint32_t symbol, ptrdiff_t offset)
{
    for (unsigned i = 0; i < 2; i++)
        for (size_t at = 0; at < tables->relocations_size[i]; at += tables->entry) {
            const ElfW(Rel) *relocation = (const void *)(tables->relocations[i] + at);
            const intptr_t *word = (const void *)(tables->bias + relocation->r_offset);
            if (RELOCATION_SYMBOL(relocation->r_info) != symbol)
                continue;
            if (RELOCATION_TYPE(relocation->r_info) == RELOCATION_OFFSET)
                return true;
            if (RELOCATION_TYPE(relocation->r_info) == RELOCATION_DESCRIPTOR && word[DESCRIPTOR_WORD] == offset)
                return true;
        }
    return false;
}

/* ---- the search ---- */

struct module {
    struct tables tables;
    uint32_t symbol; /* 0: not there */
    size_t tls;
    bool own, program;
};

static bool module_read(const struct dl_phdr_info *info, const char *name, struct module *module)
{
    const uintptr_t here = (uintptr_t)module_read;

    *module = (struct module){.tables = {.bias = info->dlpi_addr}, .tls = info->dlpi_tls_modid};
    module->program = !info->dlpi_name || !info->dlpi_name[0];
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD && here >= start && here - start < header->p_memsz)
            module->own = true;
        if (header->p_type == PT_DYNAMIC)
            tables_read(&module->tables, (const void *)start);
    }
    module->symbol = module->tls ? symbol_find(&module->tables, name) : 0;
    return module->symbol != 0;
}

static int look(struct dl_phdr_info *info, size_t size, void *context)
{
    struct module module;

    (void)size;
    (void)context;
    if (!module_read(info, wanted, &module) || (module.own && without_own))
        return 0;
    found.variable = (struct variable){module.tls, module.tables.symbols[module.symbol].st_value};
    found.offset = (char *)__tls_get_addr(&found.variable) - (char *)__builtin_thread_pointer();
    bool fixed = module.program || is_static(&module.tables, module.symbol, found.offset);
    atomic_store(&found.state, fixed ? STATIC : DYNAMIC);
    return 1;
}

static void search(void)
{
    if (wanted && atomic_load(&found.state) == NOT_FOUND)
        (void)dl_iterate_phdr(look, NULL);
}

int ep_port_thread_context_find(const char *name, bool skip_own)
{
    wanted = name;
    without_own = skip_own;
    search();
    return atomic_load(&found.state) != NOT_FOUND;
}

/* result: 0 if it is ours. Not by `wanted`: the collect thread may be searching. */
struct wanted_symbol {
    const char *name;
    int result;
};

static int symbol_look(struct dl_phdr_info *info, size_t size, void *context)
{
    struct module module;
    struct wanted_symbol *symbol = context;

    (void)size;
    if (module_read(info, symbol->name, &module) && symbol->result != -EEXIST)
        symbol->result = module.own ? 0 : -EEXIST;
    return 0;
}

int ep_port_context_symbol(const char *name)
{
    struct wanted_symbol symbol = {.name = name, .result = -ENOENT};

    (void)dl_iterate_phdr(symbol_look, &symbol);
    return symbol.result;
}

/* ---- in the handler ---- */

/* PROBE bytes. Context: signal. */
static bool can_read(uintptr_t from)
{
    return ep_port_readable(from) && (from % PROBE == 0 || ep_port_readable(from + PROBE - 1));
}

/* size: at least PROBE, at most a page. */
static bool copy(uintptr_t from, void *to, size_t size)
{
    if (!can_read(from) || !can_read(from + size - PROBE))
        return false;
    memcpy(to, (const void *)from, size);
    return true;
}

static bool word_read(uintptr_t from, uintptr_t *word)
{
    if (!can_read(from))
        return false;
    *word = *(const uintptr_t *)from;
    return true;
}

/* The address of the thread's variable, 0: it has none yet. */
static uintptr_t slot_find(void)
{
    const uintptr_t self = (uintptr_t)__builtin_thread_pointer();
    uintptr_t vector, count, block;

    if (atomic_load_explicit(&found.state, memory_order_acquire) == STATIC)
        return self + (uintptr_t)found.offset;
    vector = *(const uintptr_t *)(self + (uintptr_t)DTV_AT);
    const uintptr_t entry = vector + found.variable.module * DTV_WORDS * sizeof(uintptr_t);
    if (!word_read(vector + (uintptr_t)DTV_COUNT * sizeof(uintptr_t), &count) || found.variable.module > count ||
        !word_read(entry, &block) || !block || block == UINTPTR_MAX)
        return 0;
    return block + found.variable.offset;
}

static bool record_read(uint8_t record[RECORD])
{
    const unsigned state = atomic_load_explicit(&found.state, memory_order_acquire);
    const uintptr_t slot = state == NOT_FOUND ? 0 : slot_find();
    uintptr_t at = 0;

    if (!slot)
        return false;
    if (state == STATIC)
        at = *(const uintptr_t *)slot;
    else if (!word_read(slot, &at))
        return false;
    return at && copy(at, record, RECORD) && record[RECORD_VALID] == 1;
}

static uint64_t id_read(const uint8_t *bytes)
{
    uint64_t id = 0;

    for (unsigned i = 0; i < 8; i++)
        id = id << 8 | bytes[i];
    return id;
}

/* Context: signal. */
struct ep_work *ep_work_shown(void)
{
    struct ep_work *own = ep_port_work();
    struct ep_linux_here *here = ep_linux_here();
    uint8_t record[RECORD];

    if (!here || !record_read(record))
        return own;
    uint64_t *shown = here->shown;
    const uint64_t span_id = id_read(record + RECORD_SPAN);
    const uint64_t high = id_read(record), low = id_read(record + 8);
    if (!span_id || !(high | low))
        return own;
    const bool whole = (atomic_load_explicit(&own->guard, memory_order_relaxed) & 1) == 0;
    const uint32_t run = own->run, tags = whole ? own->tags : 0;
    SHOW(run, run);
    SHOW(tags, tags);
    SHOW(span_id, span_id);
    SHOW(trace_high, high);
    SHOW(trace_low, low);
    return (struct ep_work *)(void *)shown;
}
