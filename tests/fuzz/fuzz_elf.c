/*
 * Any bytes as an ELF file with symbols and DWARF: tools/symbols/symfile.c, over libelf and libdw.
 *
 * Checked: a file that is refused has a reason; a build id is text of an even number of hexadecimal digits; a debug
 * link's name is without folders; a function begins at or below its address; lines of an address are bounded in number
 * and innermost first, with the last call's rule of names; CPU time is bounded. Sections are unpacked (zlib, zstd, xz
 * in .gnu_debugdata), and the file is given as each companion that it lacks: what refers to itself ends. libelf is not
 * instrumented, so memory is bounded only by what is given back.
 */
#include "memory.h"
#include "spend.h"
#include "tools/symbols/symfile.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINES_MOST = 4096, COMPANIONS_MOST = 8 };

static void line(void *context, const char *function, const char *source, uint32_t number)
{
    (void)source;
    (void)number;
    (void)function;
    ++*(int *)context;
}

static void ask(struct et_symfile *file, uint64_t address)
{
    int calls = 0;
    const char *symbol = et_symfile_symbol(file, address);
    REQUIRE(!symbol || strlen(symbol) < 1048576);
    REQUIRE(et_symfile_function(file, address) <= address);
    (void)et_symfile_managed(file, address);
    REQUIRE(et_symfile_lines(file, address, line, &calls) == calls && calls <= LINES_MOST);
}

/* The file is its own companion: a common file that names itself, a package in which each unit is its own other half.
 */
static void supply(struct et_symfile *file, int fd, uint64_t address)
{
    struct et_companion lacked;
    off_t size = lseek(fd, 0, SEEK_END);
    for (int i = 0; i < COMPANIONS_MOST && et_symfile_lacks(file, address, &lacked); i++) {
        REQUIRE(lacked.kind != ET_COMPANION_NONE && memchr(lacked.name, 0, sizeof lacked.name));
        char *room = et_symfile_room(file, (uint64_t)size);
        REQUIRE(!room || pread(fd, room, (size_t)size, 0) == (ssize_t)size);
        (void)(room && et_symfile_supply(file, &lacked, room, (uint64_t)size));
    }
}

static void read_file(int fd, bool map)
{
    struct et_symfile_facts facts;
    const char *why = NULL;
    int err = et_symfile_examine(fd, &facts);
    REQUIRE((err == 0 || err == -EINVAL) && facts.quality <= 7);
    REQUIRE(strlen(facts.build_id) % 2 == 0 && strspn(facts.build_id, "0123456789abcdef") == strlen(facts.build_id));
    REQUIRE(memchr(facts.debuglink, 0, sizeof facts.debuglink) && !strchr(facts.debuglink, '/'));
    struct et_symfile *file = et_symfile_open(fd, map, &why);
    REQUIRE(file || (why && why[0]));
    if (file) {
        static const uint64_t addresses[] = {0, 0x10, 0x1000, 0x1004, 0x1010, 0x1024, 0x401000, UINT64_MAX};
        for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
            ask(file, addresses[i]);
            supply(file, fd, addresses[i]);
            ask(file, addresses[i]);
        }
        (void)et_symfile_is_iterator(file, "ma", 2);
        et_symfile_close(file);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    struct et_buf said = {0};
    fd = fd < 0 ? memfd_create("elf", MFD_CLOEXEC) : fd;
    REQUIRE(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    et_error_to(&said);
    long long began = fuzz_cpu_ns();
    read_file(fd, size & 1);
    fuzz_spent(began, size);
    et_error_to(NULL);
    et_buf_free(&said);
    return 0;
}
