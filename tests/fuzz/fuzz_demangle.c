/*
 * Any bytes as a symbol: tools/symbols/demangle.c and demangle_dotnet.c, with libiberty's demanglers behind them.
 *
 * Checked: there is a name for every symbol, of a length that is bounded by the symbol's; an iterator's name is cut
 * within the symbol; memory is bounded and given back; CPU time is bounded.
 */
#include "spend.h"
#include "tools/symbols/demangle.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Substitutions and back references of C++ and Rust write a part again. */
enum { NAME_FIXED = 1048576, NAME_PER_BYTE = 65536, MEMORY_FACTOR = 16 };

static void demangle(const char *symbol, enum et_code code)
{
    struct et_buf out = {0};
    et_demangle(symbol, "/opt/App", code, &out);
    REQUIRE(out.size > 0 || !symbol[0]);
    REQUIRE(out.size <= NAME_FIXED + NAME_PER_BYTE * strlen(symbol));
    et_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct et_buf type = {0};
    const long long began = fuzz_begin();
    char *symbol = strndup((const char *)data, size);
    REQUIRE(symbol && et_demangle_state_machine(symbol) <= strlen(symbol));
    for (int code = ET_CODE_NATIVE; code <= ET_CODE_ITERATOR; code++) {
        demangle(symbol, (enum et_code)code);
    }
    et_demangle_type(symbol, "/opt/App", &type);
    et_buf_free(&type);
    free(symbol);
    return fuzz_end(began, size, MEMORY_FACTOR * (NAME_FIXED + NAME_PER_BYTE * size));
}
