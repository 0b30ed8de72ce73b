/* See profile_file.h. */
#include "tools/cmd/profile_file.h"
#include "tools/cmd/commands.h"
#include "tools/lib/progress.h"
#include "tools/serve/ingest/messages.h"
#include "tools/symbols/symfile.h"

#include <gelf.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file's address of a place in it; the place itself if no segment has it. */
static uint64_t address_of(Elf *elf, size_t segments, uint64_t offset)
{
    for (size_t i = 0; i < segments; i++) {
        GElf_Phdr segment;
        if (gelf_getphdr(elf, (int)i, &segment) && segment.p_type == PT_LOAD && offset >= segment.p_offset &&
            offset - segment.p_offset < segment.p_filesz) {
            return offset - segment.p_offset + segment.p_vaddr;
        }
    }
    return offset;
}

/* A map of a process leads to places in the file, which a program at a fixed address does not have as addresses. */
static void use_addresses(int fd, struct et_profile *profile, uint32_t module)
{
    size_t segments = 0;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    if (elf && elf_getphdrnum(elf, &segments) == 0) {
        for (size_t i = 0; i < profile->frame_count; i++) {
            struct et_frame *frame = &profile->frames[i];
            frame->address = frame->module == module ? address_of(elf, segments, frame->address) : frame->address;
        }
    }
    elf_end(elf);
}

/* Takes the build id of the module's file on this machine, unless that changed after the profile was written. */
static bool find_build_id(struct et_profile *profile, struct et_module *module, const struct stat *file)
{
    const char *path = et_text(&profile->strings, module->path);
    struct stat binary;
    struct et_symfile_facts facts;
    int fd = !module->build_id && path[0] == '/' ? et_symfile_open_file(path) : -1;
    bool found = fd >= 0 && fstat(fd, &binary) == 0 && binary.st_ctime <= file->st_mtime &&
                 et_symfile_examine(fd, &facts) == 0 && facts.build_id[0];
    if (found) {
        module->build_id = et_intern(&profile->strings, facts.build_id);
        use_addresses(fd, profile, (uint32_t)(module - profile->modules) + 1);
    }
    if (fd >= 0) {
        close(fd);
    }
    return found;
}

/* gperftools' files have addresses and no build ids. As `pprof PROGRAM FILE`, this believes in the files at the paths.
 */
static void find_build_ids(const char *path, struct et_profile *profile)
{
    struct stat file;
    size_t found = 0;
    for (size_t i = 0; i < profile->module_count && strcmp(path, "-") != 0 && stat(path, &file) == 0; i++) {
        found += find_build_id(profile, &profile->modules[i], &file);
    }
    if (found) {
        et_error("%s has no build ids; names come from the files at its paths on this machine", path);
    }
}

int et_profile_file_read(const char *path, const struct et_query *query, struct et_profile **profile)
{
    struct et_buf file = {0};
    enum et_foreign format;
    *profile = NULL;
    et_progress("reading %s", path);
    int code = et_messages_read_foreign(path, &file, &format);
    code = code ? code : et_messages_load(path, &file, query, profile);
    et_progress_end();
    et_buf_free(&file);
    if (code == ET_OK && (format == ET_FOREIGN_CPU || format == ET_FOREIGN_HEAP)) {
        find_build_ids(path, *profile);
    }
    return code;
}

int et_profile_load(const char *command, const struct et_options *options, const char *path,
                    struct et_profile **profile)
{
    *profile = NULL;
    if (!path) {
        return et_options_load(options, profile);
    }
    if (et_options_name_source(options)) {
        et_error("%s: FILE cannot be combined with --db or --url", command);
        return ET_USAGE;
    }
    int code = et_profile_file_read(path, &options->wanted.query, profile);
    if (code == ET_OK) {
        et_options_symbolize(options, *profile);
    }
    return code;
}

int et_profile_argument(int argc, char **argv, struct et_options *options, const char **path)
{
    *path = options->first < argc ? argv[options->first++] : NULL;
    return et_no_more_arguments(argc, argv, options);
}
