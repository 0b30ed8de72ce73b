/* Symbols of sample.c, as built, stripped, and from a debug file: names, lines and inlined calls of its addresses are
 * known. */
#include "tools/symbols/symbols.h"
#include "tools/symbols/reader.h"
#include "tests/unit/test.h"

#include <link.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of the sanitizer's allocator; gcc does not always have the header. */
size_t __sanitizer_get_current_allocated_bytes(void);

static char *folder;
static const char *sources;

static char *in_folder(const char *name)
{
    struct et_buf path = {0};
    et_buf_printf(&path, "%s/%s", folder, name);
    return path.data;
}

/* 0; -ENOENT: it has none. */
static int build_id_of(const char *path, char id[129])
{
    struct et_symfile_facts facts;
    int err = et_reader_examine(path, &facts);
    snprintf(id, 129, "%s", facts.build_id);
    return err ? err : id[0] ? 0 : -ENOENT;
}

/* The line of sample.c with the mark. */
static uint32_t marked(const char *mark)
{
    char path[4096], line[512], wanted[64];
    uint32_t number = 0, found = 0;
    snprintf(path, sizeof path, "%s/sample.c", sources);
    snprintf(wanted, sizeof wanted, "mark: %s ", mark);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        number++;
        found = strstr(line, wanted) ? number : found;
    }
    fclose(file);
    assert_true(found > 0);
    return found;
}

struct lines {
    char text[16][256];
    uint32_t line[16];
    int count;
};

static void on_line(void *context, const char *function, const char *source, uint32_t line)
{
    struct lines *lines = context;
    assert_true(lines->count < 16);
    snprintf(lines->text[lines->count], 256, "%s|%s", function ? function : "", source ? source : "");
    lines->line[lines->count++] = line;
}

/* The first address of the function, found by trying every address of the file's code. */
static uint64_t find_function(struct et_symfile *file, const char *name)
{
    for (uint64_t address = 0; address < 0x10000; address++) {
        const char *symbol = et_symfile_symbol(file, address);
        if (symbol && strcmp(symbol, name) == 0) {
            return address;
        }
    }
    fail_msg("no function %s", name);
    return 0;
}

static struct et_symfile *open_sample(const char *name)
{
    char *path = in_folder(name);
    const char *why = "";
    int fd = et_symfile_open_file(path);
    assert_true(fd >= 0);
    struct et_symfile *file = et_symfile_open(fd, true, &why);
    if (!file) {
        fail_msg("%s: %s", path, why);
    }
    close(fd);
    free(path);
    return file;
}

TEST(inlined_calls_are_listed)
{
    struct et_symfile *file = open_sample("sample");
    uint64_t start = find_function(file, "outer");
    bool seen = false;
    for (uint64_t address = start; address < start + 64 && !seen; address++) {
        struct lines lines = {.count = 0};
        et_symfile_lines(file, address, on_line, &lines);
        if (lines.count == 3 && lines.line[0] == marked("inner")) {
            assert_memory_equal(lines.text[0], "inner|", 6);
            assert_memory_equal(lines.text[1], "middle|", 7);
            assert_memory_equal(lines.text[2], "outer|", 6);
            assert_int_equal(lines.line[1], marked("middle"));
            assert_int_equal(lines.line[2], marked("outer"));
            assert_non_null(strstr(lines.text[1], "sample.c"));
            seen = true;
        }
    }
    assert_true(seen);
    et_symfile_close(file);
}

TEST(no_names_outside_the_code)
{
    struct et_symfile *file = open_sample("sample");
    static const uint64_t outside[] = {0, 1, 0x10000000, UINT64_MAX - 1, UINT64_MAX};
    struct lines lines = {.count = 0};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        assert_null(et_symfile_symbol(file, outside[i]));
        assert_int_equal(et_symfile_lines(file, outside[i], on_line, &lines), 0);
        assert_false(et_symfile_managed(file, outside[i]));
    }
    et_symfile_close(file);
}

TEST(debug_files_are_better)
{
    char *built = in_folder("sample"), *stripped = in_folder("sample-stripped"), *debug = in_folder("debug/sample.dbg");
    char a[129], b[129], c[129];
    assert_int_equal(build_id_of(built, a), 0);
    assert_int_equal(build_id_of(stripped, b), 0);
    assert_int_equal(build_id_of(debug, c), 0);
    assert_int_equal(strlen(a), 40);
    assert_string_equal(a, b);
    assert_string_equal(a, c);
    struct et_symfile_facts worse, better;
    assert_int_equal(et_reader_examine(stripped, &worse), 0);
    assert_int_equal(et_reader_examine(debug, &better), 0);
    assert_true(better.quality > worse.quality);
    assert_int_equal(build_id_of("/dev/null", a), -EINVAL);
    assert_int_equal(build_id_of("/nowhere/at/all", a), -ENOENT);
    free(built);
    free(stripped);
    free(debug);
}

/* Checks the name for a frame of the module. */
static void expect_name(struct et_symbols *symbols, const char *build_id, const char *path, uint64_t address,
                        const char *wanted, size_t lines)
{
    struct et_profile *profile = et_profile_new();
    uint32_t module = et_profile_module(profile, build_id, path);
    uint32_t index = et_profile_frame(profile, (struct et_frame){.module = module, .address = address});
    et_symbolize(symbols, profile);
    const struct et_frame *frame = &profile->frames[index];
    assert_int_equal(frame->line_count, lines);
    const struct et_line *last = &profile->lines[frame->first_line + frame->line_count - 1];
    assert_string_equal(et_text(&profile->strings, last->function), wanted);
    et_profile_free(profile);
}

TEST(modules_are_found_by_build_id)
{
    char *path = in_folder("sample"), *stripped = in_folder("sample-stripped"), *debug = in_folder("debug"),
         *linked = in_folder("linked/sample-linked");
    char id[129];
    struct et_symfile *file = open_sample("sample");
    uint64_t hot = find_function(file, "hot");
    et_symfile_close(file);
    assert_int_equal(build_id_of(path, id), 0);
    struct et_symbols *symbols = et_symbols_new();
    et_symbols_add_folder(symbols, debug);
    expect_name(symbols, id, "/device/only/app", hot, "hot", 1); /* by the folder */
    expect_name(symbols, id, stripped, hot, "hot", 1);           /* the debug file is preferred */
    et_symbols_free(symbols);
    symbols = et_symbols_new();
    expect_name(symbols, id, path, hot, "hot", 1);   /* by the path on this machine */
    expect_name(symbols, id, linked, hot, "hot", 1); /* by the link in the stripped file */
    struct et_buf wanted = {0};
    et_buf_printf(&wanted, "sample+0x%llx", (unsigned long long)hot);
    expect_name(symbols, "00112233", path, hot, wanted.data, 1); /* another build */
    expect_name(symbols, "", path, hot, wanted.data, 1);
    et_buf_free(&wanted);
    et_symbols_free(symbols);
    free(path);
    free(stripped);
    free(linked);
    free(debug);
}

TEST(managed_code_is_told_apart)
{
    char *path = in_folder("sample");
    char id[129];
    struct et_symfile *file = open_sample("sample");
    uint64_t buy = find_function(file, "App_Shop__Buy"), items = find_function(file, "App_Shop__Items_d__4__MoveNext");
    uint64_t hot = find_function(file, "hot");
    assert_true(et_symfile_managed(file, buy));
    assert_false(et_symfile_managed(file, hot));
    assert_int_equal(items - buy, 64);
    et_symfile_close(file);
    assert_int_equal(build_id_of(path, id), 0);
    struct et_symbols *symbols = et_symbols_new();
    expect_name(symbols, id, path, buy + 1, "App.Shop.Buy", 1);
    expect_name(symbols, id, path, buy + 40, "App.Shop.Buy", 1); /* the funclet behind it */
    expect_name(symbols, id, path, items + 1, "App.Shop.Items(iterator)", 1);
    et_symbols_free(symbols);
    free(path);
}

/* As the device names ranges of it, with no file to read. */
TEST(kernel_code_is_named_by_the_device)
{
    struct et_symbols *symbols = et_symbols_new();
    expect_name(symbols, "", "[vdso]:__kernel_rt_sigreturn", 0x7bc, "__kernel_rt_sigreturn", 1);
    expect_name(symbols, "", "[vdso]:__kernel_clock_gettime", 0x5f0, "__kernel_clock_gettime", 1);
    et_symbols_free(symbols);
}

TEST(kernel_code_has_names)
{
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)getauxval(AT_SYSINFO_EHDR);
    if (!header) {
        skip();
    }
    char *path = in_folder("vdso.so"), id[129];
    size_t size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
    assert_int_equal(et_write_file(path, header, size), 0);
    assert_int_equal(build_id_of(path, id), 0);
    assert_null(et_symfile_open_vdso("0123"));
    struct et_symfile *file = et_symfile_open_vdso(id);
    assert_non_null(file);
    size_t named = 0;
    for (uint64_t address = 0; address < size; address++) {
        const char *name = et_symfile_symbol(file, address);
        named += name && strstr(name, "gettime") != NULL;
    }
    assert_true(named > 0);
    et_symfile_close(file);
    unlink(path);
    free(path);
}

TEST(only_functions_name_code)
{
    static const char *const files[] = {"sample", "sample-stripped", "debug/sample.dbg"};
    static const char *const others[] = {"V1.0", "CONSTANT", "each_thread", "__start_unnamed_code", "no_size"};
    struct et_symfile *whole = open_sample("sample");
    uint64_t init = find_function(whole, "_init"), buy = find_function(whole, "App_Shop__Buy");
    et_symfile_close(whole);
    assert_true(init < buy);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct et_symfile *file = open_sample(files[i]);
        for (uint64_t address = 0; address < buy + 0x1000; address++) {
            const char *symbol = et_symfile_symbol(file, address);
            for (size_t j = 0; symbol && j < sizeof others / sizeof *others; j++) {
                if (strcmp(symbol, others[j]) == 0 && (j < 4 || (address >= init && address < buy))) {
                    fail_msg("%s: %#llx is called %s", files[i], (unsigned long long)address, symbol);
                }
            }
        }
        et_symfile_close(file);
    }
}

TEST(code_without_a_symbol_has_its_functions_offset)
{
    char *stripped = in_folder("sample-stripped"), id[129];
    struct et_symfile *file = open_sample("sample");
    uint64_t hot = find_function(file, "hot"), start = find_function(file, "_start");
    et_symfile_close(file);
    assert_int_equal(build_id_of(stripped, id), 0);
    struct et_symbols *symbols = et_symbols_new();
    struct et_buf wanted = {0};
    et_buf_printf(&wanted, "sample-stripped+0x%llx", (unsigned long long)hot);
    expect_name(symbols, id, stripped, hot, wanted.data, 1);
    expect_name(symbols, id, stripped, hot + 5, wanted.data, 1);
    expect_name(symbols, id, stripped, start + 4, "_start", 1);
    et_buf_free(&wanted);
    et_symbols_free(symbols);
    free(stripped);
}

/* 32-bit ARM has no .eh_frame. An entry that is a table belongs to one function. Linkers join neighbours with the same
 * entry of one word: it is one function's if one push saves lr. What cannot be unwound may be many functions. */
TEST(unwind_tables_of_32_bit_arm_begin_functions)
{
    enum { TEXT = 0x1000, INDEX = 0x2000 };
    const uint32_t POP_R7_LR = 0x808408b0;
    static const uint16_t code[] = {
        0xb500, 0xbd00, 0xbf00, 0xbf00,                         /* 0x1000 named */
        0xb500, 0xbf00, 0xb500, 0xbf00, 0xbf00, 0xbf00, 0xbd00, /* 0x1008 a table; a symbol at 0x1014 */
        0xbf00, 0xb580, 0x4667, 0xdf00, 0xbd80,                 /* 0x1018 push {r7, lr} ... pop {r7, pc} */
        0xb580, 0xbd80, 0xb580, 0xbd80,                         /* 0x1020 two functions */
        0xb580, 0xbd80, 0xb580, 0xbd80,                         /* 0x1028 no way back */
        0x4080, 0xe92d, 0x8080, 0xe8bd,                         /* 0x1030 the same in ARM code */
        0xe92d, 0x4080, 0xbd80, 0xbf00,                         /* 0x1038 a long push */
    };
    static const struct {
        uint64_t address, start;
    } wanted[] = {{0xffe, 0xffe},   {0x1009, 0x1008}, {0x1012, 0x1008}, {0x1016, 0x1016},        {0x1018, 0x1018},
                  {0x101c, 0x1018}, {0x101e, 0x1018}, {0x1022, 0x1022}, {0x1026, 0x1026},        {0x102e, 0x102e},
                  {0x1034, 0x1030}, {0x103c, 0x1038}, {0x1042, 0x1042}, {0x90001018, 0x90001018}};
    const uint32_t entries[][2] = {{0x1000, POP_R7_LR}, {0x1008, 0x100},     {0x1018, POP_R7_LR}, {0x1020, POP_R7_LR},
                                   {0x1028, 1},         {0x1030, POP_R7_LR}, {0x1038, POP_R7_LR}, {0x1040, 0x80b0b0b0}};
    static const char names[] = "\0.text\0.ARM.exidx\0.symtab\0.strtab\0named";
    struct {
        Elf32_Ehdr header;
        uint16_t code[sizeof code / sizeof *code];
        uint32_t index[sizeof entries / sizeof *entries][2];
        Elf32_Sym symbols[3];
        char names[sizeof names];
        Elf32_Shdr sections[5];
    } image = {
        .header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT},
                   .e_type = ET_DYN,
                   .e_machine = EM_ARM,
                   .e_version = EV_CURRENT,
                   .e_ehsize = sizeof(Elf32_Ehdr),
                   .e_shentsize = sizeof(Elf32_Shdr),
                   .e_shnum = 5,
                   .e_shstrndx = 4},
        .symbols = {{.st_name = 0},
                    {.st_name = 34, .st_value = TEXT | 1, .st_size = 8, .st_info = STT_FUNC, .st_shndx = 1},
                    {.st_name = 34, .st_value = 0x1015, .st_size = 2, .st_info = STT_FUNC, .st_shndx = 1}},
        .sections = {{.sh_name = 0},
                     {1, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT, 0, sizeof code, 0, 0, 4, 0},
                     {7, SHT_ARM_EXIDX, SHF_ALLOC, INDEX, 0, sizeof entries, 0, 0, 4, 0},
                     {18, SHT_SYMTAB, 0, 0, 0, sizeof image.symbols, 4, 1, 4, sizeof(Elf32_Sym)},
                     {26, SHT_STRTAB, 0, 0, 0, sizeof names, 0, 0, 1, 0}},
    };
    image.header.e_shoff = (uint32_t)((char *)image.sections - (char *)&image);
    const void *const parts[] = {image.code, image.index, image.symbols, image.names};
    for (size_t i = 0; i < 4; i++) {
        image.sections[i + 1].sh_offset = (uint32_t)((const char *)parts[i] - (const char *)&image);
    }
    memcpy(image.code, code, sizeof code);
    memcpy(image.names, names, sizeof names);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        image.index[i][0] = (entries[i][0] - (INDEX + 8 * (uint32_t)i)) & 0x7fffffff;
        image.index[i][1] = entries[i][1];
    }
    char *path = in_folder("arm.elf");
    assert_int_equal(et_write_file(path, &image, sizeof image), 0);
    struct et_symfile *file = open_sample("arm.elf");
    assert_string_equal(et_symfile_symbol(file, TEXT + 2), "named");
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        assert_int_equal(et_symfile_function(file, wanted[i].address), wanted[i].start);
    }
    et_symfile_close(file);
    unlink(path);
    free(path);
}

enum { LINKS = 200, ROUNDS = 20 };

struct scan {
    const char *folder, *build_id;
    pthread_barrier_t *barrier;
    unsigned worst;
};

static void *scan_folder(void *context)
{
    struct scan *scan = context;
    scan->worst = 4;
    for (int round = 0; round < ROUNDS; round++) {
        struct et_symbols *symbols = et_symbols_new();
        et_symbols_add_folder(symbols, scan->folder);
        pthread_barrier_wait(scan->barrier);
        unsigned quality = et_symbols_quality(symbols, scan->build_id, "/nowhere/sample", NULL);
        scan->worst = quality < scan->worst ? quality : scan->worst;
        et_symbols_free(symbols);
    }
    return NULL;
}

/* Links to the debug file, so that reading the folder takes a while; made or removed. */
static void link_debug_files(const char *folder, bool make)
{
    char *debug = in_folder("debug/sample.dbg"), path[4096];
    assert_true(!make || mkdir(folder, 0700) == 0 || errno == EEXIST); /* of a run that crashed */
    for (int i = 0; i < LINKS; i++) {
        snprintf(path, sizeof path, "%s/%d.dbg", folder, i);
        int gone = unlink(path);
        assert_int_equal(make ? link(debug, path) : gone, 0);
    }
    assert_true(make || rmdir(folder) == 0);
    free(debug);
}

/* Each table has the files of its own folder, and only these. */
TEST(two_tables_read_folders_at_once)
{
    char *folders[] = {in_folder("links-1"), in_folder("links-2")}, *sample = in_folder("sample"), id[129];
    pthread_barrier_t barrier;
    pthread_t threads[2];
    struct scan scans[2];
    assert_int_equal(build_id_of(sample, id), 0);
    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < 2; i++) {
        link_debug_files(folders[i], true);
        scans[i] = (struct scan){.folder = folders[i], .build_id = id, .barrier = &barrier};
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, scan_folder, &scans[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        link_debug_files(folders[i], false);
        free(folders[i]);
    }
    pthread_barrier_destroy(&barrier);
    free(sample);
    assert_int_equal(scans[0].worst, 4);
    assert_int_equal(scans[1].worst, 4);
}

TEST(special_and_given_names)
{
    struct et_symbols *symbols = et_symbols_new();
    struct et_profile *profile = et_profile_new();
    uint32_t cut = et_profile_frame(profile, (struct et_frame){.address = 2});
    uint32_t odd = et_profile_frame(profile, (struct et_frame){.address = 200});
    uint32_t given = et_profile_frame(profile, (struct et_frame){.name = et_intern(&profile->strings, "Given.Name")});
    et_symbolize(symbols, profile);
    assert_string_equal(et_text(&profile->strings, profile->lines[profile->frames[cut].first_line].function),
                        "[stack cut]");
    assert_string_equal(et_text(&profile->strings, profile->lines[profile->frames[odd].first_line].function),
                        "[special 200]");
    assert_string_equal(et_text(&profile->strings, profile->lines[profile->frames[given].first_line].function),
                        "Given.Name");
    et_profile_free(profile);
    et_symbols_free(symbols);
}

/* Redirects standard error to a file while call() runs; returns the number of lines. */
static size_t lines_on_stderr(void (*call)(void *context), void *context)
{
    char *path = in_folder("stderr"), text[65536];
    fflush(stderr);
    int before = dup(2);
    assert_non_null(freopen(path, "w+", stderr));
    call(context);
    fflush(stderr);
    rewind(stderr);
    size_t size = fread(text, 1, sizeof text - 1, stderr), lines = 0;
    for (size_t i = 0; i < size; i++) {
        lines += text[i] == '\n';
    }
    dup2(before, 2);
    close(before);
    free(path);
    return lines;
}

static void ask_twice(void *context)
{
    struct et_symbols *symbols = context;
    expect_name(symbols, "abcdef", "/nowhere/app", 16, "app+0x10", 1);
    expect_name(symbols, "abcdef", "/nowhere/app", 32, "app+0x20", 1);
    expect_name(symbols, "abcdef", "/nowhere/app", 16, "app+0x10", 1);
}

TEST(a_missing_file_is_reported_once)
{
    struct et_symbols *symbols = et_symbols_new();
    assert_int_equal(lines_on_stderr(ask_twice, symbols), 1);
    et_symbols_free(symbols);
}

static void copy_of(const char *from, const char *to, size_t size, uint32_t seed)
{
    struct et_buf bytes = {0};
    assert_int_equal(et_read_file(from, 1 << 24, &bytes), 0);
    size = size < bytes.size ? size : bytes.size;
    for (uint32_t i = 0, changes = 1 + seed % 24; seed && i < changes; i++) {
        seed = seed * 1664525u + 1013904223u;
        size_t at = seed >> 4;
        /* section headers are at the end; the ELF header itself seldom */
        at = i % 8 == 7 ? at % 64 : i % 4 == 1 ? size - 1 - at % 3000 : at % size;
        bytes.data[at] = (char)(seed >> 24);
    }
    assert_int_equal(et_write_file(to, bytes.data, size), 0);
    et_buf_free(&bytes);
}

static off_t size_of(int fd)
{
    return lseek(fd, 0, SEEK_END);
}

/* Any file gives an answer or none, without a crash or an endless loop. */
static bool ask_everything(const char *path)
{
    const char *why = "";
    struct et_symfile_facts facts;
    int fd = et_symfile_open_file(path);
    assert_true(fd >= 0);
    (void)et_symfile_examine(fd, &facts);
    struct et_symfile *file = et_symfile_open(fd, size_of(fd) % 2, &why);
    close(fd);
    if (!file) {
        assert_true(*why != '\0');
        return false;
    }
    for (uint64_t address = 0x1000; address < 0x1400; address += 7) {
        struct lines lines = {.count = 0};
        et_symfile_symbol(file, address);
        et_symfile_lines(file, address, on_line, &lines);
    }
    et_symfile_close(file);
    return true;
}

TEST(corrupt_files_are_survived)
{
    char *debug = in_folder("debug/sample.dbg"), *path = in_folder("corrupt.elf");
    unsigned opened = 0;
    for (uint32_t seed = 1; seed <= 1500; seed++) {
        copy_of(debug, path, SIZE_MAX, seed * 2654435761u | 1);
        opened += ask_everything(path);
    }
    assert_true(opened > 300 && opened < 1500); /* neither all nor none */
    for (size_t size = 0; size < 12000; size += 97) {
        copy_of(debug, path, size, 0);
        ask_everything(path);
    }
    unlink(path);
    free(debug);
    free(path);
}

static void ignore_line(void *context, const char *function, const char *source, uint32_t line)
{
    (void)context;
    (void)function;
    (void)source;
    (void)line;
}

/* 100 functions of 60,000 ranges, which all share one list of 1 MB. */
TEST(shared_ranges_are_bounded)
{
    static const char text[] = ".section .debug_abbrev\n.uleb128 1,0x11\n.byte 1\n.uleb128 0x11,1,0x12,7,0,0\n"
                               ".uleb128 2,0x2e\n.byte 0\n.uleb128 0x55,0x17,0,0\n.byte 0\n"
                               ".section .debug_info\n.long 2f-1f\n1: .short 4\n.long 0\n.byte 8\n"
                               ".uleb128 1\n.quad 0x1000,0x100000\n.rept 100\n.uleb128 2\n.long 0\n.endr\n"
                               ".byte 0\n2:\n.section .debug_ranges\n.set i,0x1000\n"
                               ".rept 60000\n.quad i,i+1\n.set i,i+2\n.endr\n.quad 0,0\n";
    char *source = in_folder("ranges.s"), *object = in_folder("ranges.o");
    const char *why = "";
    struct et_buf command = {0};
    assert_int_equal(et_write_file(source, text, sizeof text - 1), 0);
    et_buf_printf(&command, "as -o '%s' '%s'", object, source);
    assert_int_equal(system(command.data), 0);
    int fd = et_symfile_open_file(object);
    struct et_symfile *file = et_symfile_open(fd, true, &why);
    close(fd);
    assert_non_null(file);
    size_t before = __sanitizer_get_current_allocated_bytes();
    assert_int_equal(et_symfile_lines(file, 0x1000, ignore_line, NULL), 1);
    assert_in_range(__sanitizer_get_current_allocated_bytes() - before, 1, 100 << 20);
    et_symfile_close(file);
    et_buf_free(&command);
    free(source);
    free(object);
}

int main(int argc, char **argv)
{
    folder = realpath(argc > 1 ? argv[1] : ".", NULL);
    if (!folder) {
        perror("test_symbols");
        return 1;
    }
    sources = argc > 2 ? argv[2] : ".";
    int failed = test_run();
    free(folder);
    return failed;
}
