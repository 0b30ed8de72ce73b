/*
 * See target.h. This file predicts the dynamic linker's decision from ELF headers before the program starts: a static
 * program, or one of another architecture, would not report why there is no profile.
 */
#include "tools/cmd/target.h"

#include <fcntl.h>
#include <gelf.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { SCRIPTS = 5 /* nested interpreters; Linux's limit */ };

struct elf_headers {
    unsigned machine, class;
    char loader[256]; /* path of the dynamic linker; "": none */
    bool is_library;  /* it has a soname */
};

/* ---- files ---- */

static bool is_program(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 && S_ISREG(file.st_mode) && access(path, X_OK) == 0;
}

/* Searches PATH as execvp() does. */
static bool find_program(const char *command, char path[PATH_MAX])
{
    const char *folders = getenv("PATH");
    if (strchr(command, '/')) {
        snprintf(path, PATH_MAX, "%s", command);
        return is_program(path);
    }
    for (const char *at = folders ? folders : "/bin:/usr/bin";; at++) {
        size_t size = strcspn(at, ":");
        snprintf(path, PATH_MAX, "%.*s%s%s", (int)size, at, size ? "/" : "./", command);
        if (is_program(path)) {
            return true;
        }
        at += size;
        if (!*at) {
            return false;
        }
    }
}

/* Replaces a script's path by its interpreter's. Returns whether it was a script. */
static bool resolve_script(char path[PATH_MAX])
{
    char line[PATH_MAX] = "";
    FILE *file = fopen(path, "re");
    bool read = file && fgets(line, sizeof line, file);
    if (file) {
        fclose(file);
    }
    if (!read || strncmp(line, "#!", 2) != 0) {
        return false;
    }
    const char *start = line + 2 + strspn(line + 2, " \t");
    snprintf(path, PATH_MAX, "%.*s", (int)strcspn(start, " \t\r\n"), start);
    return true;
}

static bool has_soname(Elf *file, const GElf_Phdr *header)
{
    Elf_Data *data = elf_getdata_rawchunk(file, (int64_t)header->p_offset, header->p_filesz, ELF_T_DYN);
    GElf_Dyn entry;
    for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++) {
        if (entry.d_tag == DT_SONAME) {
            return true;
        }
    }
    return false;
}

static bool read_headers(Elf *file, int fd, struct elf_headers *out)
{
    GElf_Ehdr header;
    size_t count = 0;
    if (!file || !gelf_getehdr(file, &header) || elf_getphdrnum(file, &count) != 0) {
        return false;
    }
    *out = (struct elf_headers){.machine = header.e_machine, .class = header.e_ident[EI_CLASS]};
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr segment;
        if (!gelf_getphdr(file, (int)i, &segment)) {
            return false;
        }
        if (segment.p_type == PT_INTERP) {
            size_t size = segment.p_filesz < sizeof out->loader ? segment.p_filesz : sizeof out->loader - 1;
            if (pread(fd, out->loader, size, (off_t)segment.p_offset) != (ssize_t)size) {
                return false;
            }
        }
        out->is_library |= segment.p_type == PT_DYNAMIC && has_soname(file, &segment);
    }
    return true;
}

static bool read_elf(const char *path, struct elf_headers *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    elf_version(EV_CURRENT);
    Elf *file = elf_begin(fd, ELF_C_READ, NULL);
    bool ok = read_headers(file, fd, out);
    elf_end(file);
    close(fd);
    return ok;
}

/* ---- obstacles ---- */

static void write_machine_name(const struct elf_headers *elf, char name[32])
{
    static const struct {
        unsigned machine;
        const char *name;
    } names[] = {{EM_X86_64, "x86-64"}, {EM_386, "i386"},     {EM_AARCH64, "aarch64"},
                 {EM_ARM, "ARM"},       {EM_RISCV, "RISC-V"}, {EM_PPC64, "ppc64"}};
    unsigned bits = elf->class == ELFCLASS32 ? 32 : 64;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].machine == elf->machine) {
            snprintf(name, 32, "%s (%u bits)", names[i].name, bits);
            return;
        }
    }
    snprintf(name, 32, "ELF machine %u (%u bits)", elf->machine, bits);
}

static bool has_other_machine(const char *path, const struct elf_headers *elf, const char *preload, struct et_buf *why)
{
    struct elf_headers profiler;
    char theirs[32], ours[32];
    if (!read_elf(preload, &profiler) || (profiler.machine == elf->machine && profiler.class == elf->class)) {
        return false;
    }
    write_machine_name(elf, theirs);
    write_machine_name(&profiler, ours);
    et_buf_printf(why, "%s is for %s, but this profiler is for %s; use one for %s with --preload FILE", path, theirs,
                  ours, theirs);
    return true;
}

/* A set-user-id program: the dynamic linker ignores LD_PRELOAD and removes it from the environment. */
static bool gains_rights(const char *path, struct et_buf *why)
{
    static const char end[] = "so the system ignores LD_PRELOAD; run edgeprof as";
    struct stat file;
    struct statvfs mount;
    if (stat(path, &file) != 0 || (statvfs(path, &mount) == 0 && (mount.f_flag & ST_NOSUID))) {
        return false;
    }
    const struct passwd *user = getpwuid(file.st_uid);
    const struct group *group = getgrgid(file.st_gid);
    if ((file.st_mode & S_ISUID) && file.st_uid != getuid()) {
        et_buf_printf(why, "%s is set-user-id, %s user %s", path, end, user ? user->pw_name : "its owner");
    } else if ((file.st_mode & S_ISGID) && (file.st_mode & S_IXGRP) && file.st_gid != getgid()) {
        et_buf_printf(why, "%s is set-group-id, %s group %s", path, end, group ? group->gr_name : "its own");
    } else if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0) {
        et_buf_printf(why, "%s has file capabilities, %s root", path, end);
    } else {
        return false;
    }
    return true;
}

static bool is_glibc(const char *loader)
{
    static const char *const names[] = {"ld-linux", "ld-2.", "ld.so", "ld64.so"};
    const char *slash = strrchr(loader, '/');
    const char *name = slash ? slash + 1 : loader;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strncmp(name, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_dynamic_linker(const char *command)
{
    const char *slash = strrchr(command, '/'), *name = slash ? slash + 1 : command;
    return is_glibc(name) || strncmp(name, "ld-musl-", 8) == 0;
}

const char *et_target_program(char **argv)
{
    static const char *const with_value[] = {"--library-path",     "--inhibit-rpath", "--audit",
                                             "--preload",          "--argv0",         "--glibc-hwcaps-prepend",
                                             "--glibc-hwcaps-mask"};
    char **at = argv + 1;
    if (!is_dynamic_linker(argv[0])) {
        return argv[0];
    }
    for (; *at && (*at)[0] == '-'; at++) {
        for (size_t i = 0; i < sizeof with_value / sizeof *with_value; i++) {
            if (strcmp(*at, with_value[i]) == 0 && at[1]) {
                at++;
                break;
            }
        }
    }
    return *at ? *at : argv[0];
}

enum et_target et_target_look(const char *command, const char *preload, struct et_buf *why)
{
    char path[PATH_MAX];
    struct elf_headers elf;
    bool found = find_program(command, path);
    for (int i = 0; found && i < SCRIPTS && resolve_script(path); i++) {
        found = is_program(path);
    }
    if (!found || !read_elf(path, &elf)) {
        return ET_TARGET_FINE; /* the failing start reports the error */
    }
    if (has_other_machine(path, &elf, preload, why)) {
        return ET_TARGET_REFUSES;
    }
    if (gains_rights(path, why)) {
        return ET_TARGET_PASSES;
    }
    if (!elf.loader[0] && !elf.is_library) { /* the dynamic linker itself is a library */
        et_buf_printf(why,
                      "%s is linked statically, so only dynamic programs that it starts are profiled; link "
                      "libedgeprof.a into it",
                      path);
        return ET_TARGET_PASSES;
    }
    if (elf.loader[0] && !is_glibc(elf.loader)) {
        et_buf_printf(why,
                      "%s does not use glibc (%s), so the profiler cannot be preloaded; link "
                      "libedgeprof.a into it",
                      path, elf.loader);
        return ET_TARGET_REFUSES;
    }
    return ET_TARGET_FINE;
}
