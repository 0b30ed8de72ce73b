/*
 * Loaded into a server: parsing does what a fault in a library would. The last byte of a file's ELF identification,
 * which means nothing, says what: c crashes, h never ends, f takes memory until there is none, q ends quietly, w
 * answers nonsense, t crashes unless everything is refused that no parser needs. A small letter
 * does it whenever the file is looked at, a capital when its debugging information is read.
 */
#include "../program.h"

#include <elfutils/libdw.h>
#include <gelf.h>

static void cause(char letter)
{
    switch (letter) {
    case 'c':
        abort();
    case 'q':
        _exit(0);
    case 'h':
        for (volatile int go = 1; go;) {
        }
        break;
    case 'w': {
        char nonsense[4096];
        memset(nonsense, 0xff, sizeof nonsense);
        (void)!write(STDIN_FILENO, nonsense, sizeof nonsense);
        break;
    }
    case 't': {
        char *const arguments[] = {"/bin/true", NULL};
        if (open("/etc/passwd", O_RDONLY) >= 0 || open("/tmp/trouble", O_WRONLY | O_CREAT, 0600) >= 0 ||
            socket(AF_INET, SOCK_STREAM, 0) >= 0 || fork() >= 0 || kill(getppid(), 0) == 0 || dup(STDIN_FILENO) >= 0 ||
            getppid() > 0) {
            abort();
        }
        execv(arguments[0], arguments);
        break;
    }
    case 'f':
        for (char *more; (more = malloc(1 << 20));) {
            memset(more, 1, 1 << 20);
        }
        exit(1);
    default:
        break;
    }
}

GElf_Ehdr *gelf_getehdr(Elf *elf, GElf_Ehdr *header)
{
    GElf_Ehdr *(*real)(Elf *, GElf_Ehdr *) = (GElf_Ehdr * (*)(Elf *, GElf_Ehdr *)) dlsym(RTLD_NEXT, "gelf_getehdr");
    GElf_Ehdr *found = real(elf, header);
    if (found) {
        cause((char)found->e_ident[EI_NIDENT - 1]);
    }
    return found;
}

Dwarf *dwarf_begin_elf(Elf *elf, Dwarf_Cmd command, Elf_Scn *group)
{
    Dwarf *(*real)(Elf *, Dwarf_Cmd, Elf_Scn *) =
        (Dwarf * (*)(Elf *, Dwarf_Cmd, Elf_Scn *)) dlsym(RTLD_NEXT, "dwarf_begin_elf");
    size_t size;
    const char *ident = elf_getident(elf, &size);
    if (ident && size >= EI_NIDENT && ident[EI_NIDENT - 1] >= 'A' && ident[EI_NIDENT - 1] <= 'Z') {
        cause((char)(ident[EI_NIDENT - 1] + 'a' - 'A'));
    }
    return real(elf, command, group);
}
