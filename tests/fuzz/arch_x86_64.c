/* What the fuzz target knows of x86-64. */
#include <string.h>

#include "pieces_cfi.h"

static const struct ep_cfi_registers registers = {.sp = 7, .fp = 6, .base = 3, .ra = 16};

int fuzz_row(const struct ep_module *module, uintptr_t pc, struct ep_cfi_row *row)
{
    return ep_cfi_find(module, &registers, pc, row);
}

uintptr_t fuzz_pc(uintptr_t any)
{
    return any;
}

unsigned fuzz_code(uint8_t *to, uint32_t random)
{
    /* A byte of ?? becomes random. */
    static const struct {
        uint8_t size, operand, code[8];
    } pieces[] = {
        {1, 0, {0x55}},                         /* push %rbp */
        {1, 0, {0x5d}},                         /* pop %rbp */
        {1, 0, {0x5b}},                         /* pop %rbx */
        {2, 0, {0x41, 0x5c}},                   /* pop %r12 */
        {2, 0, {0x41, 0x5f}},                   /* pop %r15 */
        {1, 0, {0xc3}},                         /* ret */
        {2, 0, {0xf3, 0xc3}},                   /* rep ret */
        {1, 0, {0xc9}},                         /* leave */
        {3, 0, {0x48, 0x89, 0xe5}},             /* mov %rsp,%rbp */
        {3, 0, {0x48, 0x89, 0xec}},             /* mov %rbp,%rsp */
        {4, 3, {0x48, 0x83, 0xc4, 0}},          /* add $n,%rsp */
        {7, 3, {0x48, 0x81, 0xc4, 0, 0, 0, 0}}, /* add $n,%rsp */
        {4, 3, {0x48, 0x8d, 0x65, 0}},          /* lea n(%rbp),%rsp */
        {7, 3, {0x48, 0x8d, 0xa5, 0, 0, 0, 0}}, /* lea n(%rbp),%rsp */
        {5, 4, {0x48, 0x8d, 0x64, 0x24, 0}},    /* lea n(%rsp),%rsp */
        {3, 0, {0xc5, 0xf8, 0x77}},             /* vzeroupper */
        {5, 1, {0xe9, 0, 0, 0, 0}},             /* jmp */
        {2, 1, {0xeb, 0}},                      /* jmp */
        {2, 0, {0xff, 0xe0}},                   /* jmp *%rax */
        {6, 2, {0xff, 0x25, 0, 0, 0, 0}},       /* jmp *n(%rip) */
        {5, 0, {0x48, 0x83, 0xc7, 0x08, 0xe9}}, /* add $8,%rdi; jmp */
        {7, 0, {0x48, 0x89, 0xe0, 0x48, 0x83, 0xe4, 0xf0}},
        {4, 3, {0x48, 0x83, 0xec, 0}},          /* sub $n,%rsp */
        {7, 3, {0x48, 0x81, 0xec, 0, 0, 0, 0}}, /* sub $n,%rsp */
        {7, 6, {0x48, 0x81, 0xec, 0, 0, 0, 0}}, /* the same, much */
        {1, 0, {0x53}},                         /* push %rbx */
        {2, 1, {0x74, 0}},                      /* je */
        {6, 2, {0x0f, 0x85, 0, 0, 0, 0}},       /* jne */
        {5, 1, {0xe8, 0, 0, 0, 0}},             /* call */
        {5, 4, {0x48, 0x8b, 0x6c, 0x24, 0}},    /* mov n(%rsp),%rbp */
        {3, 2, {0xff, 0x60, 0}},                /* jmp *n(%rax) */
        {5, 0, {0x48, 0x01, 0xf8, 0xff, 0xe0}}, /* add %rdi,%rax; jmp *%rax: a jump table */
        {2, 0, {0x0f, 0x0b}},                   /* ud2 */
        {5, 4, {0x64, 0x48, 0x8b, 0x04, 0x25}}, /* mov %fs:n,%rax, cut short */
    };
    unsigned which = random % (sizeof pieces / sizeof pieces[0]);

    memcpy(to, pieces[which].code, pieces[which].size);
    if (pieces[which].operand)
        to[pieces[which].operand] = (uint8_t)(random >> 16);
    return pieces[which].size;
}

unsigned fuzz_table(uint8_t *to, uint32_t random)
{
    return fuzz_cfi(to, random, &registers);
}
