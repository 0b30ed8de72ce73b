/* names.tsv: symbols of a published NativeAOT service and their readable names; also random names, which must not
 * crash. */
#include "tools/symbols/demangle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *table;

static void names_are_readable(void **state)
{
    (void)state;
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

static void expect(const char *symbol, const char *executable, enum et_code code, const char *wanted)
{
    struct et_buf out = {0};
    et_demangle(symbol, executable, code, &out);
    assert_string_equal(out.data, wanted);
    et_buf_free(&out);
}

static void iterators_are_told_apart(void **state)
{
    (void)state;
    const char *symbol = "App_Shop__Items_d__4__MoveNext";
    expect(symbol, "App", ET_CODE_MANAGED, "Shop.Items(async)");
    expect(symbol, "App", ET_CODE_ITERATOR, "Shop.Items(iterator)");
    assert_int_equal(et_demangle_state_machine(symbol), strlen("App_Shop__Items_d__4"));
    assert_int_equal(et_demangle_state_machine("App_Shop__Items"), 0);
}

static void native_names_stay(void **state)
{
    (void)state;
    expect("__libc_start_main@@GLIBC_2.34", "libc.so.6", ET_CODE_NATIVE, "__libc_start_main");
    expect("a__b_1_2", "app", ET_CODE_NATIVE, "a__b_1_2");
    expect("_ZNotReally", "app", ET_CODE_NATIVE, "_ZNotReally");
    expect("_ZN1A1bEv", "app", ET_CODE_NATIVE, "A::b");
    expect("@odd", "app", ET_CODE_NATIVE, "@odd");
}

/* Both of rustc's manglings, as it wrote them. */
static void rust_names_are_readable(void **state)
{
    (void)state;
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

static void the_file_name_is_the_assembly(void **state)
{
    (void)state;
    expect("My_App_Core_Thing__Do", "/opt/my/My.App", ET_CODE_MANAGED, "Core.Thing.Do");
    expect("My_App_Core_Thing__Do", "/opt/my/other", ET_CODE_MANAGED, "My.App.Core.Thing.Do");
    expect("My_App_Core_Thing__Do", "/opt/libMy.so", ET_CODE_MANAGED, "My.App.Core.Thing.Do");
    expect("Lib_Lib_Thing__Do", "/opt/other", ET_CODE_MANAGED, "Lib.Thing.Do");
}

static void mutate(char *text, uint32_t *seed)
{
    static const char bits[] = "<>__,123abcSystem___Canon\1\377";
    for (int i = 0; i < 3; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        text[(*seed >> 8) % strlen(text)] = bits[(*seed >> 20) % (sizeof bits - 1)];
    }
}

static void random_names_are_survived(void **state)
{
    (void)state;
    char line[8192];
    uint32_t seed = 1;
    FILE *file = fopen(table, "r");
    while (fgets(line, sizeof line, file)) {
        char *symbol = strchr(line, '\t') + 1;
        symbol[strcspn(symbol, "\t")] = '\0';
        for (int round = 0; round < 200 && *symbol; round++) {
            struct et_buf out = {0};
            mutate(symbol, &seed);
            et_demangle(symbol, "Orders.Api", (enum et_code)(round % 3), &out);
            assert_true(out.size > 0 && out.size < 65536);
            et_buf_free(&out);
        }
    }
    fclose(file);
}

static void deep_nesting_ends(void **state)
{
    (void)state;
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
    char path[4096];
    snprintf(path, sizeof path, "%s/names.tsv", argc > 2 ? argv[2] : ".");
    table = path;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_readable),        cmocka_unit_test(iterators_are_told_apart),
        cmocka_unit_test(native_names_stay),         cmocka_unit_test(the_file_name_is_the_assembly),
        cmocka_unit_test(random_names_are_survived), cmocka_unit_test(deep_nesting_ends),
        cmocka_unit_test(rust_names_are_readable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
