/*
 * Functions of the vdso, the code that the kernel maps into each process: no file has it, so its names are read from
 * its dynamic symbols in memory, where musl and static programs know none either.
 */
#include "linux.h"

#include <link.h>
#include <string.h>
#include <sys/auxv.h>

/* Each function also has a name as the C library calls it: the one with these two characters is the kernel's. */
static const char own_name[] = "__";

struct image {
    uintptr_t start, bias;
    size_t size;
    const ElfW(Sym) * symbols;
    const char *texts;
    size_t count, text_size;
};

static bool segments_find(const ElfW(Ehdr) * elf, struct image *image, const ElfW(Dyn) * *dynamic)
{
    const ElfW(Phdr) *header = (const void *)((uintptr_t)elf + elf->e_phoff);

    image->start = (uintptr_t)elf;
    for (unsigned i = 0; i < elf->e_phnum; i++) {
        if (header[i].p_type == PT_LOAD && !image->size) {
            image->bias = image->start + header[i].p_offset - header[i].p_vaddr;
            image->size = header[i].p_offset + header[i].p_memsz;
        }
        if (header[i].p_type == PT_DYNAMIC)
            *dynamic = (const void *)(image->start + header[i].p_offset);
    }
    return image->size && *dynamic;
}

/* The linker script of every vdso puts the names behind the symbols. */
static bool image_find(struct image *image)
{
    const ElfW(Ehdr) *elf = (const void *)getauxval(AT_SYSINFO_EHDR);
    const ElfW(Dyn) *dynamic = NULL;
    uintptr_t symbols = 0, texts = 0;

    *image = (struct image){0};
    if (!elf || !segments_find(elf, image, &dynamic))
        return false;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_SYMTAB)
            symbols = image->bias + dynamic->d_un.d_ptr;
        else if (dynamic->d_tag == DT_STRTAB)
            texts = image->bias + dynamic->d_un.d_ptr;
        else if (dynamic->d_tag == DT_STRSZ)
            image->text_size = dynamic->d_un.d_val;
    }
    image->symbols = (const void *)symbols;
    image->texts = (const char *)texts;
    image->count = (texts - symbols) / sizeof *image->symbols;
    return symbols >= image->start && symbols < texts && texts - image->start <= image->size &&
           image->text_size <= image->size - (texts - image->start);
}

bool ep_port_function_next(uintptr_t from, uintptr_t end, struct ep_port_function *function)
{
    struct image image;

    function->start = 0;
    if (!image_find(&image) || from - image.start >= image.size)
        return false;
    for (size_t i = 0; i < image.count; i++) {
        const ElfW(Sym) *symbol = &image.symbols[i];
        const uintptr_t start = (image.bias + symbol->st_value) & ~(uintptr_t)(sizeof(void *) == 4); /* Thumb bit */
        if (!symbol->st_size || start < from || start >= end || symbol->st_name >= image.text_size ||
            strncmp(&image.texts[symbol->st_name], own_name, strlen(own_name)) != 0 ||
            (function->start && start >= function->start))
            continue;
        *function = (struct ep_port_function){start, symbol->st_size, &image.texts[symbol->st_name]};
    }
    return function->start != 0;
}
