/* names.tsv: symbols of a published NativeAOT service and their readable names. dotnet_names.tsv: symbols, what the
 * runtime on the device knows of the same methods, and the name that both sides make of it
 * (tests/dotnet/Programs/Names.cs). Also random names, which must not crash. */
#include "tools/symbols/demangle.h"
#include "tests/unit/test.h"

static const char *table, *shared_table;

TEST(names_are_readable)
{
    char line[8192];
    unsigned count = 0, wrong = 0;
    FILE *file = fopen(table, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        char *rest = line, *executable = strsep(&rest, "\t"), *symbol = strsep(&rest, "\t"),
             *wanted = strsep(&rest, "\n");
        struct et_buf out = {0};
        assert_non_null(wanted);
        et_demangle(symbol, executable, ET_CODE_MANAGED, &out);
        if (strcmp(out.data, wanted) != 0) {
            printf("%s\n  is     %s\n  wanted %s\n", symbol, out.data, wanted);
            wrong++;
        }
        et_buf_free(&out);
        count++;
    }
    fclose(file);
    assert_true(count > 100);
    assert_int_equal(wrong, 0);
}

TEST(names_are_those_of_the_device)
{
    char line[8192];
    unsigned count = 0, wrong = 0;
    FILE *file = fopen(shared_table, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        char *rest = line, *symbol = strsep(&rest, "\t"), *code = strsep(&rest, "\t"), *type = strsep(&rest, "\t"),
             *method = strsep(&rest, "\t"), *wanted = strsep(&rest, "\n");
        struct et_buf out = {0};
        assert_non_null(type);
        assert_non_null(method);
        assert_non_null(wanted);
        et_demangle(symbol, "names", strcmp(code, "iterator") == 0 ? ET_CODE_ITERATOR : ET_CODE_MANAGED, &out);
        if (strcmp(out.data, wanted) != 0) {
            printf("%s\n  is     %s\n  wanted %s\n", symbol, out.data, wanted);
            wrong++;
        }
        et_buf_free(&out);
        count++;
    }
    fclose(file);
    assert_true(count > 80);
    assert_int_equal(wrong, 0);
}

static void expect(const char *symbol, const char *executable, enum et_code code, const char *wanted)
{
    struct et_buf out = {0};
    et_demangle(symbol, executable, code, &out);
    assert_string_equal(out.data, wanted);
    et_buf_free(&out);
}

TEST(iterators_are_told_apart)
{
    const char *symbol = "App_Shop__Items_d__4__MoveNext";
    expect(symbol, "App", ET_CODE_MANAGED, "Shop.Items(async)");
    expect(symbol, "App", ET_CODE_ITERATOR, "Shop.Items(iterator)");
    assert_int_equal(et_demangle_state_machine(symbol), strlen("App_Shop__Items_d__4"));
    assert_int_equal(et_demangle_state_machine("App_Shop__Items"), 0);
}

TEST(native_names_stay)
{
    expect("__libc_start_main@@GLIBC_2.34", "libc.so.6", ET_CODE_NATIVE, "__libc_start_main");
    expect("a__b_1_2", "app", ET_CODE_NATIVE, "a__b_1_2");
    expect("_ZNotReally", "app", ET_CODE_NATIVE, "_ZNotReally");
    expect("_ZN1A1bEv", "app", ET_CODE_NATIVE, "A::b");
    expect("@odd", "app", ET_CODE_NATIVE, "@odd");
}

TEST(only_versions_are_cut_at_the_at_sign)
{
    static const char *const whole[] = {"*Array(Int32)@Enumerable(Int32)#sum:Int32",
                                        "~proc(Int32)@./foo.cr:2",
                                        "*Foo@Bar#baz",
                                        "foo@",
                                        "foo@bar:1",
                                        "a@@@@b"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        expect(whole[i], "app", ET_CODE_NATIVE, whole[i]);
    }
    expect("memcpy@GLIBC_2.14", "app", ET_CODE_NATIVE, "memcpy");
    expect("std_foo$1@@@lib-1.0+x", "app", ET_CODE_NATIVE, "std_foo$1");
    expect("_ZNSo3putEc@@GLIBCXX_3.4", "app", ET_CODE_NATIVE, "std::ostream::put");
}

/* A part or a copy of a function counts as the function. */
TEST(suffixes_of_compilers_are_cut)
{
    static const char *const suffixes[] = {".llvm.16060613865988731851",
                                           ".llvm.A5310EB9",
                                           ".lto_priv.0",
                                           ".__uniq.123",
                                           ".constprop.0",
                                           ".isra.0",
                                           ".part.12",
                                           ".cold",
                                           ".cold.3",
                                           ".clone.1",
                                           ".localalias",
                                           ".specialized.1",
                                           ".isra.0.part.1",
                                           ".constprop.0.isra.0.cold",
                                           ".__uniq.12.llvm.34",
                                           ".lto_priv.0.cold"};
    static const struct {
        const char *symbol, *wanted;
    } names[] = {{"helper", "helper"},
                 {"_ZN3app5Queue4pushEi", "app::Queue::push"},
                 {"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"},
                 {"_RNvCs6xxl1lAjzDf_1a4grow", "a::grow"},
                 {"$s3app3hotyS2uF", "$s3app3hotyS2uF"},
                 {"_D3app3hotFiZi", "app.hot(int)"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (size_t k = 0; k < sizeof suffixes / sizeof *suffixes; k++) {
            char symbol[256];
            snprintf(symbol, sizeof symbol, "%s%s", names[i].symbol, suffixes[k]);
            expect(symbol, "app", ET_CODE_NATIVE, names[i].wanted);
        }
    }
    static const char *const whole[] = {"f.part",     "f.llvm", ".cold",       ".part.0",     "main.main.func1.2",
                                        "f.resolver", "f.avx2", "foo.coldest", "f._omp_fn.0", "a.1"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        expect(whole[i], "app", ET_CODE_NATIVE, whole[i]);
    }
}

TEST(more_manglings_are_readable)
{
    expect("_D3std5stdio4File5closeMFNeZv", "app", ET_CODE_NATIVE, "std.stdio.File.close()");
    expect("_Dmain", "app", ET_CODE_NATIVE, "D main");
    expect("_Dfoo", "app", ET_CODE_NATIVE, "_Dfoo");
    expect("__ZN3app5Queue4pushEi", "app", ET_CODE_NATIVE, "app::Queue::push");
    expect("_$s3app3hotyS2uF", "app", ET_CODE_NATIVE, "_$s3app3hotyS2uF");
    expect("?push@Queue@app@@QEAAXH@Z", "app", ET_CODE_NATIVE, "?push@Queue@app@@QEAAXH@Z");
}

/* 30 levels of pair<X, X>: a readable form of 2^30 names. */
TEST(names_that_unfold_without_end_stay)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    struct et_buf symbol = {0}, out = {0};
    et_buf_text(&symbol, "_Z1fISt4pairI1AS1_E");
    for (int last = 2; last < 32; last++) {
        et_buf_printf(&symbol, "S0_IS%c_S%c_E", digits[last], digits[last]);
    }
    et_buf_text(&symbol, "Evv");
    et_demangle(symbol.data, "app", ET_CODE_NATIVE, &out);
    assert_string_equal(out.data, symbol.data);
    et_buf_free(&symbol);
    et_buf_free(&out);
}

/* Both of rustc's manglings, as it wrote them. */
TEST(rust_names_are_readable)
{
    static const struct {
        const char *symbol, *wanted;
    } names[] = {
        {"_RNvCs6xxl1lAjzDf_1a4grow", "a::grow"},
        {"_RINvNtCsgEmfK2I1SDS_4core3ptr13drop_in_placeNCNvCs6xxl1lAjzDf_1a4main0EBK_",
         "core::ptr::drop_in_place::<a::main::{closure#0}>"},
        {"_RNvMs4_NtCslNYArtu3iFV_5alloc7raw_vecNtB5_11RawVecInner11finish_growB7_",
         "<alloc::raw_vec::RawVecInner>::finish_grow"},
        {"_RNvMs_NtCsaHoT4Qhn9Nt_4core3fmtNtB4_9Formatter9write_str@@V1", "<core::fmt::Formatter>::write_str"},
        {"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"},
        {"_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE",
         "<Test + 'static as foo::Bar<Test>>::bar"},
        {"_RNotRust", "_RNotRust"},
        {"_R", "_R"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        expect(names[i].symbol, "app", ET_CODE_NATIVE, names[i].wanted);
    }
}

TEST(the_file_name_is_the_assembly)
{
    expect("My_App_Core_Thing__Do", "/opt/my/My.App", ET_CODE_MANAGED, "Core.Thing.Do");
    expect("My_App_Core_Thing__Do", "/opt/my/other", ET_CODE_MANAGED, "My.App.Core.Thing.Do");
    expect("My_App_Core_Thing__Do", "/opt/libMy.so", ET_CODE_MANAGED, "My.App.Core.Thing.Do");
    expect("Lib_Lib_Thing__Do", "/opt/other", ET_CODE_MANAGED, "Lib.Thing.Do");
}

TEST(deep_nesting_ends)
{
    struct et_buf symbol = {0}, out = {0};
    for (int i = 0; i < 5000; i++) {
        et_buf_text(&symbol, "A_1<");
    }
    et_demangle(symbol.data, "", ET_CODE_MANAGED, &out);
    assert_non_null(strstr(out.data, "..."));
    et_buf_free(&symbol);
    et_buf_free(&out);
}

int main(int argc, char **argv)
{
    char path[4096], shared_path[4096];
    snprintf(path, sizeof path, "%s/names.tsv", argc > 2 ? argv[2] : ".");
    snprintf(shared_path, sizeof shared_path, "%s/dotnet_names.tsv", argc > 2 ? argv[2] : ".");
    table = path;
    shared_table = shared_path;
    return test_run();
}
