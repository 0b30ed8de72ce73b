/*
 * See demangle.h: names of .NET NativeAOT. Its mangling is not reversible: every character that C would not allow has
 * become an underscore, and assembly, namespace, types and method are joined by underscores as well. What is here is
 * a set of rules that recover what the C# compiler's and ILC's habits allow:
 *
 *   Assembly_Namespace_Outer_1_Inner<Arg__Arg>__Method<Arg>   one "__" before the method, arity after a generic name
 *   ___c, ___c__DisplayClass1_0                               <>c, <>c__DisplayClass1_0: where lambdas live
 *   ___Method_b__3_1                                          <Method>b__3_1, a lambda
 *   ___Method_g__Local_3_1                                    <Method>g__Local|3_1, a local function
 *   __Method_d__7__MoveNext                                   <Method>d__7.MoveNext, async method or iterator
 *
 *   symbol -> et_dotnet_flatten (groups in <> become one mark) -> member -> state machine | lambda | local | plain ->
 * type
 *
 * An identifier with an underscore of its own comes out with a dot in it; nothing in the symbol tells.
 */
#include "tools/symbols/demangle.h"
#include "tools/symbols/demangle_types.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static void member(const struct et_dotnet_name *name, struct et_dotnet_text text, struct et_buf *out);

/* ---- members ---- */

/* <Outer> of a lambda or local function: splits "Type___Outer" where the last three underscores are. */
static bool split_outer(struct et_dotnet_text text, struct et_dotnet_text *type, struct et_dotnet_text *outer)
{
    while (text.size && text.at[text.size - 1] == '_') {
        text.size--;
    }
    const char *at = et_text_find_last(text, "___");
    if (!at || at == text.at) {
        return false;
    }
    const char *start = at;
    while (start > text.at && start[-1] == '_') {
        start--;
    }
    *type = et_text_slice(text.at, start);
    *outer = et_text_slice(at + 3, et_text_end(text));
    return type->size > 0 && outer->size > 0;
}

static void outer_method(const struct et_dotnet_name *name, struct et_dotnet_text type, struct et_dotnet_text outer,
                         struct et_buf *out)
{
    et_dotnet_type(name, type, out);
    bool constructor = et_text_is(outer, "ctor") || et_text_is(outer, "cctor");
    et_buf_text(out, constructor ? ".." : ".");
    et_buf_add(out, outer.at, outer.size);
}

static bool lambda(const struct et_dotnet_name *name, struct et_dotnet_text text, struct et_buf *out)
{
    struct et_dotnet_text type, outer, whole = text;
    et_dotnet_last_group(name, &whole);
    const char *mark = et_text_find_last(whole, "_b__");
    if (!mark || et_text_digits(mark + 4, et_text_end(whole)) == 0 ||
        !split_outer(et_text_slice(whole.at, mark), &type, &outer)) {
        return false;
    }
    const char *number = et_text_find_last(et_text_slice(mark + 3, et_text_end(whole)), "_");
    outer_method(name, type, outer, out);
    et_buf_printf(out, "(lambda#%.*s)", (int)et_text_digits(number + 1, et_text_end(whole)), number + 1);
    return true;
}

static bool local_function(const struct et_dotnet_name *name, struct et_dotnet_text text, struct et_buf *out)
{
    struct et_dotnet_text type, outer, whole = text;
    et_dotnet_last_group(name, &whole);
    const char *mark = et_text_find_last(whole, "_g__");
    if (!mark || !split_outer(et_text_slice(whole.at, mark), &type, &outer)) {
        return false;
    }
    struct et_dotnet_text local = et_text_without_numbers(et_text_slice(mark + 4, et_text_end(whole)), 2);
    outer_method(name, type, outer, out);
    et_buf_printf(out, ".%.*s(local)", (int)local.size, local.at);
    return true;
}

/* ___Name__Method: the second half of a type's name that et_text_starts with underscores, not a method's. */
static bool underscored_type(struct et_dotnet_text here)
{
    struct et_dotnet_text after = et_text_slice(here.at + 2, et_text_end(here));
    if (!et_text_starts(here, "___") || et_text_starts(after, "_ctor") || et_text_starts(after, "_cctor") ||
        et_text_starts(after, "_Main__")) {
        return false;
    }
    while (after.size && *after.at == '_') {
        after = et_text_slice(after.at + 1, et_text_end(after));
    }
    const char *next = et_text_find(after, "__");
    return next && next + 2 < et_text_end(after) && isalpha((unsigned char)next[2]);
}

/* Where the type ends and "__Method" begins; NULL: there is no method. */
static const char *method_separator(struct et_dotnet_text text)
{
    for (const char *at = text.at + 1; at + 2 < et_text_end(text); at++) {
        struct et_dotnet_text here = et_text_slice(at, et_text_end(text));
        if (here.at[-1] == MARK && et_text_starts(here, "__")) {
            return at;
        }
        if (et_text_starts(here, "___c__DisplayClass")) {
            at += 17;
        } else if (et_text_starts(here, "___c") && (here.size == 4 || here.at[4] == '_' || here.at[4] == MARK)) {
            at += 3;
        } else if (underscored_type(here)) {
            at += 3;
        } else if (et_text_starts(here, "__") && !memchr(here.at, MARK, here.size)) {
            return at;
        } else if (et_text_starts(here, "__")) {
            const char *mark = memchr(here.at, MARK, here.size);
            bool type_continues = mark + 2 < et_text_end(text) && mark[1] == '_' && mark[2] == '_';
            if (!type_continues) {
                return at;
            }
        }
    }
    return NULL;
}

/* System_Collections_IEnumerator_get_Current, an explicit implementation: System.Collections.IEnumerator.get_Current */
static void explicit_name(struct et_dotnet_text method, struct et_buf *out)
{
    const char *at = method.at, *end = et_text_end(method);
    while (at < end) {
        if (*at != '_') {
            et_buf_char(out, *at++);
            continue;
        }
        while (at < end && *at == '_') {
            at++;
        }
        et_buf_char(out, '.');
        struct et_dotnet_text rest = et_text_slice(at, end);
        if (et_text_starts(rest, "get_") || et_text_starts(rest, "set_") || et_text_starts(rest, "add_")) {
            et_buf_add(out, at, rest.size);
            return;
        }
    }
}

static void method_name(const struct et_dotnet_name *name, struct et_dotnet_text method, struct et_buf *out)
{
    const struct et_dotnet_text *group = et_dotnet_last_group(name, &method);
    struct et_dotnet_text arguments[ARGUMENTS];
    if (et_text_starts(method, "global__")) {
        method = et_text_slice(method.at + 8, et_text_end(method));
    }
    if (et_text_is(method, "_Main__") || et_text_is(method, "_Main_")) {
        et_buf_text(out, "Main");
    } else if (et_text_starts(method, "_ctor") || et_text_starts(method, "_cctor")) {
        method = et_text_without_numbers(et_text_slice(method.at + 1, et_text_end(method)), 1);
        et_buf_char(out, '.');
        et_buf_add(out, method.at, method.size);
    } else if (et_text_starts(method, "System_") || et_text_starts(method, "Microsoft_")) {
        explicit_name(et_text_without_numbers(method, 1), out);
    } else {
        method = et_text_without_numbers(method, 1);
        et_buf_add(out, method.at, method.size);
    }
    if (group) {
        et_dotnet_arguments(name, arguments, et_dotnet_split(name, *group, 0, arguments), out);
    }
}

static void plain(const struct et_dotnet_name *name, struct et_dotnet_text text, struct et_buf *out)
{
    const char *separator = method_separator(text);
    if (!separator) {
        et_dotnet_type(name, text, out);
        return;
    }
    et_dotnet_type(name, et_text_slice(text.at, separator), out);
    et_buf_char(out, '.');
    method_name(name, et_text_slice(separator + 2, et_text_end(text)), out);
}

/* What follows "_d" of a state machine's type: its number, parameters, a method. false: it is none. */
static bool machine_tail(const char *at, const char *end, bool *numbered, struct et_dotnet_text *method)
{
    *numbered = end - at > 2 && at[0] == '_' && at[1] == '_' && et_text_digits(at + 2, end) > 0;
    at += *numbered ? 2 + et_text_digits(at + 2, end) : 0;
    if (end - at > 1 && at[0] == '_' && et_dotnet_arity(at + 1, end)) {
        at += 1 + et_text_digits(at + 1, end);
    }
    at += at < end && *at == MARK;
    *method = et_text_slice(at, end);
    if (method->size == 0) {
        return true;
    }
    bool named = method->size > 2 && et_text_starts(*method, "__") &&
                 (isalpha((unsigned char)method->at[2]) || et_text_is(*method, "___ctor"));
    *method = et_text_slice(at + 2, end);
    return named;
}

static bool state_machine(const struct et_dotnet_name *name, struct et_dotnet_text text, struct et_buf *out)
{
    for (const char *at = et_text_find_last(text, "_d"); at; at = et_text_find_last(et_text_slice(text.at, at), "_d")) {
        struct et_dotnet_text method, before = et_text_slice(text.at, at);
        bool numbered;
        if (!machine_tail(at + 2, et_text_end(text), &numbered, &method) || !et_text_find(before, "__") ||
            (!numbered && !et_text_find(before, "_b__") && !et_text_find(before, "_g__"))) {
            continue;
        }
        const char *mark = memchr(at, MARK, (size_t)(et_text_end(text) - at));
        struct et_dotnet_text head = mark ? et_text_slice(at, mark + 1) : (struct et_dotnet_text){0};
        struct et_dotnet_name inner = *name;
        inner.machine = et_dotnet_last_group(name, &head);
        bool moves = method.size == 0 || et_text_is(method, "MoveNext") || et_text_is(method, "SetStateMachine");
        bool iterator = name->iterator || !moves;
        member(&inner, before, out);
        et_buf_text(out, iterator ? "(iterator)" : "(async)");
        if (method.size && !et_text_is(method, "MoveNext")) {
            et_buf_char(out, '.');
            method_name(name, method, out);
        }
        return true;
    }
    return false;
}

static void member(const struct et_dotnet_name *name, struct et_dotnet_text text, struct et_buf *out)
{
    if (!state_machine(name, text, out) && !lambda(name, text, out) && !local_function(name, text, out)) {
        plain(name, text, out);
    }
}

/* ---- whole names ---- */

static bool wrapped_type(const struct et_dotnet_name *name, struct et_dotnet_text text, struct et_buf *out)
{
    static const struct {
        const char *start, *end, *before, *after;
    } wraps[] = {
        {"__Array<", ">", "", "[]"},
        {"__MDArray<", ">", "", "[,]"},
        {"", "<ByRef>", "ref ", ""},
        {"", "<Pointer>", "", "*"},
    };
    for (size_t i = 0; i < sizeof wraps / sizeof *wraps; i++) {
        size_t start = strlen(wraps[i].start), end = strlen(wraps[i].end);
        if (text.size > start + end && et_text_starts(text, wraps[i].start) &&
            et_text_is(et_text_slice(et_text_end(text) - end, et_text_end(text)), wraps[i].end) &&
            (start == 0 || et_dotnet_skip_group(text.at + start - 1, et_text_end(text)) == et_text_end(text))) {
            struct et_dotnet_text inner = et_text_slice(text.at + start, et_text_end(text) - end);
            inner = strcmp(wraps[i].after, "[,]") == 0
                        ? et_text_slice(inner.at, et_text_find_last(inner, "__") ? et_text_find_last(inner, "__")
                                                                                 : et_text_end(inner))
                        : inner;
            et_buf_text(out, wraps[i].before);
            et_dotnet_demangle(name, inner, true, out);
            et_buf_text(out, wraps[i].after);
            return true;
        }
    }
    return false;
}

void et_dotnet_demangle(const struct et_dotnet_name *from, struct et_dotnet_text text, bool is_type, struct et_buf *out)
{
    struct et_dotnet_name name = {
        .assembly = from->assembly, .iterator = from->iterator && !is_type, .nesting = from->nesting + 1};
    if (name.nesting > NESTING) {
        et_buf_text(out, "...");
        return;
    }
    if (is_type && wrapped_type(&name, text, out)) {
        return;
    }
    et_dotnet_flatten(text, &name);
    struct et_dotnet_text flat = {name.flat, strlen(name.flat)};
    if (!is_type) {
        member(&name, flat, out);
    } else if (!state_machine(&name, flat, out)) {
        et_dotnet_type(&name, flat, out);
    }
    free(name.flat);
}

/* The file's name as an assembly's is mangled: Orders.Api -> Orders_Api. */
static char *assembly_of(const char *executable)
{
    char *name = et_strdup(et_base_name(executable));
    size_t size = strlen(name);
    if (size > 3 && strcmp(name + size - 3, ".so") == 0) {
        name[size - 3] = '\0';
    }
    for (char *c = name; *c; c++) {
        *c = isalnum((unsigned char)*c) ? *c : '_';
    }
    return name;
}

/* <Boxed>Type<Args>__<unbox>Type__Method is Type<Args>__Method on a boxed value. */
static char *unboxed(const char *symbol)
{
    static const char boxed[] = "<Boxed>", unbox[] = "__<unbox>", stub[] = "unbox_";
    const char *middle = strstr(symbol, unbox);
    struct et_buf plain = {0};
    if (strncmp(symbol, boxed, sizeof boxed - 1) == 0 && middle) {
        const char *type = symbol + sizeof boxed - 1, *again = middle + sizeof unbox - 1;
        size_t head = strcspn(type, "<");
        head = head < (size_t)(middle - type) ? head : (size_t)(middle - type);
        et_buf_add(&plain, type, (size_t)(middle - type));
        et_buf_text(&plain, strncmp(type, again, head) == 0 ? again + head : again);
    } else {
        et_buf_text(&plain, strncmp(symbol, stub, sizeof stub - 1) == 0 ? symbol + sizeof stub - 1 : symbol);
    }
    return plain.data;
}

/* .NET 11's runtime-async: Type__<AsyncCallable>Type__Method is the method's code, and Module___<Resume>X, *resumes,
 * goes on with it. */
static const char *runtime_async(const char *symbol, bool *resumes)
{
    static const char resume[] = "Internal_CompilerGenerated__Module___<Resume>", callable[] = "__<AsyncCallable>";

    *resumes = strncmp(symbol, resume, sizeof resume - 1) == 0 && symbol[sizeof resume - 1];
    symbol += *resumes ? sizeof resume - 1 : 0;
    const char *found = strstr(symbol, callable);
    return found && found[sizeof callable - 1] ? found + sizeof callable - 1 : symbol;
}

/* Takes out what flattening has left in. */
static void drop_marks(struct et_buf *out, size_t before)
{
    size_t kept = before;
    for (size_t i = before; i < out->size; i++) {
        if (out->data[i] != MARK) {
            out->data[kept++] = out->data[i];
        }
    }
    if (out->data) {
        out->data[out->size = kept] = '\0';
    }
}

/* C#'s word as the type is called: a type that stands alone has its whole name. */
static void type_word(const char *shown, struct et_buf *out)
{
    static const char *const words[][2] = {
        {"bool", "Boolean"},  {"char", "Char"},     {"sbyte", "SByte"},  {"byte", "Byte"},     {"short", "Int16"},
        {"ushort", "UInt16"}, {"int", "Int32"},     {"uint", "UInt32"},  {"long", "Int64"},    {"ulong", "UInt64"},
        {"nint", "IntPtr"},   {"nuint", "UIntPtr"}, {"float", "Single"}, {"double", "Double"}, {"object", "Object"},
        {"string", "String"}, {"void", "Void"},
    };
    size_t size = strspn(shown, "abcdefghijklmnopqrstuvwxyz");
    for (size_t i = 0; i < sizeof words / sizeof *words && strchr("[*", shown[size]); i++) {
        if (strlen(words[i][0]) == size && strncmp(shown, words[i][0], size) == 0) {
            et_buf_printf(out, "System.%s", words[i][1]);
            shown += size;
            break;
        }
    }
    et_buf_text(out, shown);
}

/* The box that an async method lives in while it waits is called as the method. */
static const char *in_box(struct et_buf *shown)
{
    static const char builder[] = "System.Runtime.CompilerServices.AsyncTaskMethodBuilder<",
                      box[] = ">.AsyncStateMachineBox<";
    const char *found =
        shown->size && strncmp(shown->data, builder, sizeof builder - 1) == 0 ? strstr(shown->data, box) : NULL;
    if (!found || shown->data[shown->size - 1] != '>' || !strstr(found, "(async)>")) {
        return shown->data;
    }
    shown->data[--shown->size] = '\0';
    return found + sizeof box - 1;
}

void et_demangle_type(const char *type, const char *executable, struct et_buf *out)
{
    static const char boxed[] = "Boxed_";
    bool is_boxed = strncmp(type, boxed, sizeof boxed - 1) == 0 && type[sizeof boxed - 1];
    const char *own = is_boxed ? type + sizeof boxed - 1 : type;
    char *assembly = assembly_of(executable);
    struct et_dotnet_name name = {.assembly = assembly};
    struct et_buf shown = {0};
    et_dotnet_demangle(&name, (struct et_dotnet_text){own, strlen(own)}, true, &shown);
    drop_marks(&shown, 0);
    type_word(shown.size ? in_box(&shown) : own, out);
    et_buf_text(out, is_boxed ? "(boxed)" : "");
    et_buf_free(&shown);
    free(assembly);
}

void et_demangle_dotnet(const char *symbol, const char *executable, bool iterator, struct et_buf *out)
{
    bool resumes;
    char *assembly = assembly_of(executable), *plain = unboxed(runtime_async(symbol, &resumes));
    struct et_dotnet_name name = {.assembly = assembly, .iterator = iterator};
    size_t before = out->size;
    et_dotnet_demangle(&name, (struct et_dotnet_text){plain, strlen(plain)}, false, out);
    drop_marks(out, before);
    if (out->size == before) {
        et_buf_text(out, symbol);
    } else if (resumes) {
        et_buf_text(out, "(resume)");
    }
    free(plain);
    free(assembly);
}
