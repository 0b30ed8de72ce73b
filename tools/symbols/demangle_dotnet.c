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
 *   symbol -> flatten (groups in <> become one mark) -> member -> state machine | lambda | local | plain -> type
 *
 * An identifier with an underscore of its own comes out with a dot in it; nothing in the symbol tells.
 */
#include "tools/symbols/demangle.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 64, ARGUMENTS = 64, NESTING = 12, MARK = '\1' };

struct text {
    const char *at;
    size_t size;
};

/* A name whose top-level <...> groups stand apart; in flat each is one MARK. */
struct name {
    char *flat;
    struct text groups[GROUPS];
    size_t group_count;
    const char *assembly; /* the program's own, mangled, or "" */
    bool iterator;
    int nesting;
};

static void type_name(const struct name *name, struct text head, const struct text *group, struct et_buf *out);
static void member(const struct name *name, struct text text, struct et_buf *out);

/* ---- text ---- */

static struct text slice(const char *from, const char *to)
{
    return (struct text){from, (size_t)(to - from)};
}

static const char *end_of(struct text text)
{
    return text.size ? text.at + text.size : text.at; /* an absent text has no place */
}

static bool starts(struct text text, const char *with)
{
    size_t size = strlen(with);
    return text.size >= size && memcmp(text.at, with, size) == 0;
}

static bool same(struct text text, const char *other)
{
    return text.size == strlen(other) && starts(text, other);
}

static const char *find(struct text text, const char *what)
{
    return memmem(text.at, text.size, what, strlen(what));
}

static const char *find_last(struct text text, const char *what)
{
    size_t size = strlen(what);
    for (size_t i = text.size; i >= size; i--) {
        if (memcmp(text.at + i - size, what, size) == 0) {
            return text.at + i - size;
        }
    }
    return NULL;
}

static size_t digits(const char *at, const char *end)
{
    size_t count = 0;
    while (at + count < end && isdigit((unsigned char)at[count])) {
        count++;
    }
    return count;
}

/* Removes _12 or _12_0 from the end. */
static struct text without_numbers(struct text text, int most)
{
    while (most-- > 0) {
        size_t size = text.size;
        while (size && isdigit((unsigned char)text.at[size - 1])) {
            size--;
        }
        if (size == text.size || size < 2 || text.at[size - 1] != '_' || text.at[size - 2] == '_') {
            break;
        }
        text.size = size - 1;
    }
    return text;
}

/* ---- flattening ---- */

/* Position behind the group that starts at `at`; the end when it is not closed. */
static const char *skip_group(const char *at, const char *end)
{
    int depth = 0;
    for (; at < end; at++) {
        depth += (*at == '<') - (*at == '>');
        if (depth == 0) {
            return at + 1;
        }
    }
    return end;
}

/* <Name_g>F0123...__Type, a type that only its file sees: _Name_g_F0123...__Type. Leaves _Type. */
static const char *skip_file_type(const char *at, const char *end)
{
    const char *mark = at + 2 < end && at[0] == '_' && at[1] == '_' ? find(slice(at, end), "_g_F") : NULL;
    if (!mark || mark < at + 2 || find(slice(at + 2, mark), "__") || find(slice(at, mark), "<")) {
        return at;
    }
    const char *hash = mark + 4;
    size_t count = 0;
    while (hash + count < end && isxdigit((unsigned char)hash[count])) {
        count++;
    }
    return count >= 40 && hash + count + 2 < end && strncmp(hash + count, "__", 2) == 0 ? hash + count + 1 : at;
}

static void flatten(struct text text, struct name *name)
{
    const char *at = text.at, *end = end_of(text);
    char *out = name->flat = et_alloc(text.size + 1, 1);
    while (at < end) {
        at = skip_file_type(at, end);
        if (starts(slice(at, end), "__Module___")) {
            memcpy(out, "_Module__", 9);
            out += 9;
            at += 11;
        } else if (*at == '<' && at > text.at && at[-1] != '_' && name->group_count < GROUPS) {
            const char *after = skip_group(at, end);
            name->groups[name->group_count++] = slice(at + 1, after > at + 1 ? after - 1 : after);
            *out++ = MARK;
            at = after;
        } else {
            *out++ = *at == MARK ? '?' : *at; /* a symbol may have any byte */
            at++;
        }
    }
}

/* The group of the mark at `at`. */
static const struct text *group_at(const struct name *name, const char *at)
{
    size_t index = 0;
    for (const char *c = name->flat; c < at; c++) {
        index += *c == MARK;
    }
    return &name->groups[index];
}

/* Takes a mark off the end of *text and returns its group. */
static const struct text *last_group(const struct name *name, struct text *text)
{
    if (text->size == 0 || text->at[text->size - 1] != MARK) {
        return NULL;
    }
    text->size--;
    return group_at(name, end_of(*text));
}

/* ---- types ---- */

static const struct {
    const char *mangled, *readable;
} keywords[] = {
    {"Bool", "bool"},       {"Char", "char"},     {"Int8", "sbyte"},
    {"UInt8", "byte"},      {"Int16", "short"},   {"UInt16", "ushort"},
    {"Int32", "int"},       {"UInt32", "uint"},   {"Int64", "long"},
    {"UInt64", "ulong"},    {"IntPtr", "nint"},   {"UIntPtr", "nuint"},
    {"Single", "float"},    {"Double", "double"}, {"Object", "object"},
    {"String", "string"},   {"Void", "void"},     {"SByte", "sbyte"},
    {"Byte", "byte"},       {"Boolean", "bool"},  {"System___Canon", "__Canon"},
    {"__Canon", "__Canon"},
};

static const char *keyword(struct text text)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        if (same(text, keywords[i].mangled)) {
            return keywords[i].readable;
        }
    }
    return NULL;
}

/* First place behind the start where a well-known root namespace begins: Microsoft_X_Microsoft_X_Type. */
static const char *root_namespace(struct text text)
{
    static const char *const roots[] = {"_System_", "_Microsoft_", "_Internal_", "_Interop_"};
    const char *best = NULL;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        const char *at = text.size > 1 ? find(slice(text.at + 1, end_of(text)), roots[i]) : NULL;
        if (at && (!best || at < best)) {
            best = at;
        }
    }
    return best ? best + 1 : NULL;
}

/* Assembly and root namespace often are the same: Name_Name_Type. */
static struct text without_repetition(struct text text)
{
    for (size_t i = 1; 2 * i + 1 < text.size; i++) {
        if (text.at[i] == '_' && memcmp(text.at, text.at + i + 1, i) == 0 && text.at[2 * i + 1] == '_') {
            return slice(text.at + i + 1, end_of(text));
        }
    }
    return text;
}

static struct text without_assembly(const struct name *name, struct text text)
{
    size_t own = strlen(name->assembly);
    if (own && text.size > own + 1 && starts(text, name->assembly) && text.at[own] == '_') {
        return slice(text.at + own + 1, end_of(text));
    }
    if (starts(text, "S_P_") || starts(text, "System_") || starts(text, "Microsoft_") || starts(text, "Internal_")) {
        const char *root = root_namespace(text);
        if (root) {
            return slice(root, end_of(text));
        }
        if (starts(text, "S_P_")) {
            const char *next = memchr(text.at + 4, '_', text.size - 4);
            return next ? slice(next + 1, end_of(text)) : text;
        }
    }
    return without_repetition(text);
}

/* Takes <>c and <>c__DisplayClass1_0 off the end; *group is kept for the type around it. */
static struct text without_closure(struct text text)
{
    static const char closure[] = "___c";
    const char *at = find_last(text, closure);
    struct text rest = at ? slice(at + 4, end_of(text)) : text;
    if (at && at > text.at &&
        (rest.size == 0 || starts(rest, "__DisplayClass") ||
         (rest.size <= 3 && rest.at[0] == '_' && digits(rest.at + 1, end_of(rest)) + 1 == rest.size))) {
        return slice(text.at, at);
    }
    return text;
}

/* Whether a type starts here: what may come after the "__" between two arguments. */
static bool begins_type(const struct name *name, struct text text)
{
    static const char *const roots[] = {"S_P_",    "System_",   "Microsoft_", "Internal_",
                                        "__Array", "__MDArray", "__FnPtr"};
    size_t own = strlen(name->assembly);
    struct text word = text;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        if (starts(text, roots[i])) {
            return true;
        }
    }
    if (own && starts(text, name->assembly) && text.size > own && text.at[own] == '_') {
        return true;
    }
    for (word.size = 0; word.size < text.size && isalnum((unsigned char)text.at[word.size]);) {
        word.size++;
    }
    bool ends = word.size == text.size || text.at[word.size] == '<' || starts(slice(end_of(word), end_of(text)), "__");
    return ends && keyword(word) != NULL;
}

/* Arguments joined by "__"; wanted: how many there should be, 0: unknown. Only where a type is seen to begin is a
 * "__" surely a separator; when that gives too few, the first others are taken. */
static size_t split(const struct name *name, struct text group, size_t wanted, struct text *arguments)
{
    for (int sure = 1;; sure = 0) {
        size_t count = 0;
        const char *start = group.at, *end = end_of(group);
        for (const char *at = start; at < end && count + 1 < ARGUMENTS; at++) {
            if (*at == '<') {
                at = skip_group(at, end) - 1;
                continue;
            }
            bool separator = at > start && at + 2 < end && at[0] == '_' && at[1] == '_';
            separator = separator && !(at - group.at >= 6 && starts(slice(at - 6, end), "System___Canon"));
            struct text next = slice(at + 2, end);
            if (separator && (begins_type(name, next) || (!sure && isalpha((unsigned char)next.at[0]) &&
                                                          at[-1] != '_' && !(wanted && count + 1 >= wanted)))) {
                arguments[count++] = slice(start, at);
                start = at + 2;
                at++;
            }
        }
        arguments[count++] = slice(start, end);
        if (!sure || !wanted || count >= wanted) {
            return count;
        }
    }
}

static void demangle_text(const struct name *name, struct text text, bool is_type, struct et_buf *out);

/* One argument. Well-known types are short: the names are long enough. */
static void argument(const struct name *name, struct text text, struct et_buf *out)
{
    struct et_buf full = {0};
    demangle_text(name, text, true, &full);
    const char *shown = full.data ? full.data : "";
    if (strncmp(shown, "System.", 7) == 0 || strncmp(shown, "Microsoft.", 10) == 0 ||
        strncmp(shown, "Internal.", 9) == 0) {
        size_t head = strcspn(shown, "<([");
        int parts = shown[head] == '(' ? 2 : 1; /* a method is not named without its type */
        while (head && (parts -= shown[head - 1] == '.') > 0) {
            head--;
        }
        shown += head;
    }
    et_buf_text(out, shown);
    et_buf_free(&full);
}

static void argument_list(const struct name *name, const struct text *arguments, size_t count, struct et_buf *out)
{
    et_buf_char(out, '<');
    for (size_t i = 0; i < count; i++) {
        if (i) {
            et_buf_char(out, ',');
        }
        argument(name, arguments[i], out);
    }
    et_buf_char(out, '>');
}

/* Number at `at` (behind an underscore) that says how many parameters the type before it has, 0: none. */
static size_t arity_at(const char *at, const char *end)
{
    size_t count = digits(at, end);
    if (count == 0 || count > 2 || at[0] == '0' || (at + count < end && at[count] != '_' && at[count] != MARK)) {
        return 0;
    }
    return count == 1 ? (size_t)(at[0] - '0') : (size_t)(at[0] - '0') * 10 + (size_t)(at[1] - '0');
}

static size_t arity_sum(struct text text)
{
    size_t sum = 0;
    for (const char *at = text.at; at + 1 < end_of(text); at++) {
        sum += *at == '_' ? arity_at(at + 1, end_of(text)) : 0;
    }
    return sum;
}

/* Outer_1_Inner_2 with three arguments: Outer<a>.Inner<b,c>. */
static void dotted(const struct name *name, struct text text, const struct text *arguments, size_t count,
                   struct et_buf *out)
{
    const char *at = text.at, *end = end_of(text);
    size_t used = 0;
    while (at < end) {
        size_t arity = *at == '_' && at > text.at ? arity_at(at + 1, end) : 0;
        if (arity && used + arity <= count) {
            argument_list(name, arguments + used, arity, out);
            used += arity;
            at += 1 + digits(at + 1, end);
        } else if (*at == '_') {
            while (at < end && *at == '_') {
                at++;
            }
            if (at < end) {
                et_buf_char(out, '.');
            }
        } else if (*at == MARK) {
            at++; /* an outer type's arguments are repeated by the inner one's */
        } else {
            et_buf_char(out, *at++);
        }
    }
    if (used == 0 && count) {
        argument_list(name, arguments, count, out);
    }
}

static void type_name(const struct name *name, struct text head, const struct text *group, struct et_buf *out)
{
    struct text arguments[ARGUMENTS];
    size_t count = 0;
    const char *word = keyword(head);
    if (word) {
        et_buf_text(out, word);
        return;
    }
    if (group) {
        count = split(name, *group, arity_sum(head), arguments);
    }
    head = without_assembly(name, head);
    if (same(head, "Module")) {
        et_buf_text(out, "<Module>");
        return;
    }
    dotted(name, head, arguments, count, out);
}

/* A type with its group, closures left out. */
static void type_of(const struct name *name, struct text text, struct et_buf *out)
{
    const struct text *group = last_group(name, &text);
    type_name(name, without_closure(text), group, out);
}

/* ---- members ---- */

/* <Outer> of a lambda or local function: splits "Type___Outer" where the last three underscores are. */
static bool split_outer(struct text text, struct text *type, struct text *outer)
{
    while (text.size && text.at[text.size - 1] == '_') {
        text.size--;
    }
    const char *at = find_last(text, "___");
    if (!at || at == text.at) {
        return false;
    }
    const char *start = at;
    while (start > text.at && start[-1] == '_') {
        start--;
    }
    *type = slice(text.at, start);
    *outer = slice(at + 3, end_of(text));
    return type->size > 0 && outer->size > 0;
}

static void outer_method(const struct name *name, struct text type, struct text outer, struct et_buf *out)
{
    type_of(name, type, out);
    bool constructor = same(outer, "ctor") || same(outer, "cctor");
    et_buf_text(out, constructor ? ".." : ".");
    et_buf_add(out, outer.at, outer.size);
}

static bool lambda(const struct name *name, struct text text, struct et_buf *out)
{
    struct text type, outer, whole = text;
    last_group(name, &whole);
    const char *mark = find_last(whole, "_b__");
    if (!mark || digits(mark + 4, end_of(whole)) == 0 || !split_outer(slice(whole.at, mark), &type, &outer)) {
        return false;
    }
    const char *number = find_last(slice(mark + 3, end_of(whole)), "_");
    outer_method(name, type, outer, out);
    et_buf_printf(out, "(lambda#%.*s)", (int)digits(number + 1, end_of(whole)), number + 1);
    return true;
}

static bool local_function(const struct name *name, struct text text, struct et_buf *out)
{
    struct text type, outer, whole = text;
    last_group(name, &whole);
    const char *mark = find_last(whole, "_g__");
    if (!mark || !split_outer(slice(whole.at, mark), &type, &outer)) {
        return false;
    }
    struct text local = without_numbers(slice(mark + 4, end_of(whole)), 2);
    outer_method(name, type, outer, out);
    et_buf_printf(out, ".%.*s(local)", (int)local.size, local.at);
    return true;
}

/* ___Name__Method: the second half of a type's name that starts with underscores, not a method's. */
static bool underscored_type(struct text here)
{
    struct text after = slice(here.at + 2, end_of(here));
    if (!starts(here, "___") || starts(after, "_ctor") || starts(after, "_cctor") || starts(after, "_Main__")) {
        return false;
    }
    while (after.size && *after.at == '_') {
        after = slice(after.at + 1, end_of(after));
    }
    const char *next = find(after, "__");
    return next && next + 2 < end_of(after) && isalpha((unsigned char)next[2]);
}

/* Where the type ends and "__Method" begins; NULL: there is no method. */
static const char *method_separator(struct text text)
{
    for (const char *at = text.at + 1; at + 2 < end_of(text); at++) {
        struct text here = slice(at, end_of(text));
        if (here.at[-1] == MARK && starts(here, "__")) {
            return at;
        }
        if (starts(here, "___c__DisplayClass")) {
            at += 17;
        } else if (starts(here, "___c") && (here.size == 4 || here.at[4] == '_' || here.at[4] == MARK)) {
            at += 3;
        } else if (underscored_type(here)) {
            at += 3;
        } else if (starts(here, "__") && !memchr(here.at, MARK, here.size)) {
            return at;
        } else if (starts(here, "__")) {
            const char *mark = memchr(here.at, MARK, here.size);
            bool type_continues = mark + 2 < end_of(text) && mark[1] == '_' && mark[2] == '_';
            if (!type_continues) {
                return at;
            }
        }
    }
    return NULL;
}

/* System_Collections_IEnumerator_get_Current, an explicit implementation: System.Collections.IEnumerator.get_Current */
static void explicit_name(struct text method, struct et_buf *out)
{
    const char *at = method.at, *end = end_of(method);
    while (at < end) {
        if (*at != '_') {
            et_buf_char(out, *at++);
            continue;
        }
        while (at < end && *at == '_') {
            at++;
        }
        et_buf_char(out, '.');
        struct text rest = slice(at, end);
        if (starts(rest, "get_") || starts(rest, "set_") || starts(rest, "add_")) {
            et_buf_add(out, at, rest.size);
            return;
        }
    }
}

static void method_name(const struct name *name, struct text method, struct et_buf *out)
{
    const struct text *group = last_group(name, &method);
    struct text arguments[ARGUMENTS];
    if (starts(method, "global__")) {
        method = slice(method.at + 8, end_of(method));
    }
    if (same(method, "_Main__")) {
        et_buf_text(out, "Main");
    } else if (starts(method, "_ctor") || starts(method, "_cctor")) {
        method = without_numbers(slice(method.at + 1, end_of(method)), 1);
        et_buf_char(out, '.');
        et_buf_add(out, method.at, method.size);
    } else if (starts(method, "System_") || starts(method, "Microsoft_")) {
        explicit_name(without_numbers(method, 1), out);
    } else {
        method = without_numbers(method, 1);
        et_buf_add(out, method.at, method.size);
    }
    if (group) {
        argument_list(name, arguments, split(name, *group, 0, arguments), out);
    }
}

static void plain(const struct name *name, struct text text, struct et_buf *out)
{
    const char *separator = method_separator(text);
    if (!separator) {
        type_of(name, text, out);
        return;
    }
    type_of(name, slice(text.at, separator), out);
    et_buf_char(out, '.');
    method_name(name, slice(separator + 2, end_of(text)), out);
}

/* What follows "_d" of a state machine's type: its number, parameters, a method. false: it is none. */
static bool machine_tail(const char *at, const char *end, bool *numbered, struct text *method)
{
    *numbered = end - at > 2 && at[0] == '_' && at[1] == '_' && digits(at + 2, end) > 0;
    at += *numbered ? 2 + digits(at + 2, end) : 0;
    if (end - at > 1 && at[0] == '_' && arity_at(at + 1, end)) {
        at += 1 + digits(at + 1, end);
    }
    at += at < end && *at == MARK;
    *method = slice(at, end);
    if (method->size == 0) {
        return true;
    }
    bool named = method->size > 2 && starts(*method, "__") && isalpha((unsigned char)method->at[2]);
    *method = slice(at + 2, end);
    return named;
}

static bool state_machine(const struct name *name, struct text text, struct et_buf *out)
{
    for (const char *at = find_last(text, "_d"); at; at = find_last(slice(text.at, at), "_d")) {
        struct text method, before = slice(text.at, at);
        bool numbered;
        if (!machine_tail(at + 2, end_of(text), &numbered, &method) || !find(before, "__") ||
            (!numbered && !find(before, "_b__") && !find(before, "_g__"))) {
            continue;
        }
        bool iterator =
            name->iterator || starts(method, "System_Collections_") || starts(method, "System_IDisposable_");
        member(name, before, out);
        et_buf_text(out, iterator ? "(iterator)" : "(async)");
        if (method.size && !same(method, "MoveNext")) {
            et_buf_char(out, '.');
            method_name(name, method, out);
        }
        return true;
    }
    return false;
}

static void member(const struct name *name, struct text text, struct et_buf *out)
{
    if (!state_machine(name, text, out) && !lambda(name, text, out) && !local_function(name, text, out)) {
        plain(name, text, out);
    }
}

/* ---- whole names ---- */

static bool wrapped_type(const struct name *name, struct text text, struct et_buf *out)
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
        if (text.size > start + end && starts(text, wraps[i].start) &&
            same(slice(end_of(text) - end, end_of(text)), wraps[i].end) &&
            (start == 0 || skip_group(text.at + start - 1, end_of(text)) == end_of(text))) {
            struct text inner = slice(text.at + start, end_of(text) - end);
            inner = strcmp(wraps[i].after, "[,]") == 0
                        ? slice(inner.at, find_last(inner, "__") ? find_last(inner, "__") : end_of(inner))
                        : inner;
            et_buf_text(out, wraps[i].before);
            demangle_text(name, inner, true, out);
            et_buf_text(out, wraps[i].after);
            return true;
        }
    }
    return false;
}

static void demangle_text(const struct name *from, struct text text, bool is_type, struct et_buf *out)
{
    struct name name = {
        .assembly = from->assembly, .iterator = from->iterator && !is_type, .nesting = from->nesting + 1};
    if (name.nesting > NESTING) {
        et_buf_text(out, "...");
        return;
    }
    if (is_type && wrapped_type(&name, text, out)) {
        return;
    }
    flatten(text, &name);
    struct text flat = {name.flat, strlen(name.flat)};
    if (!is_type) {
        member(&name, flat, out);
    } else if (!state_machine(&name, flat, out)) {
        type_of(&name, flat, out);
    }
    free(name.flat);
}

/* The file's name as an assembly's is mangled: Orders.Api -> Orders_Api. */
static char *assembly_of(const char *executable)
{
    const char *slash = strrchr(executable, '/');
    char *name = et_strdup(slash ? slash + 1 : executable);
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
    struct name name = {.assembly = assembly};
    struct et_buf shown = {0};
    demangle_text(&name, (struct text){own, strlen(own)}, true, &shown);
    drop_marks(&shown, 0);
    type_word(shown.size ? in_box(&shown) : own, out);
    et_buf_text(out, is_boxed ? "(boxed)" : "");
    et_buf_free(&shown);
    free(assembly);
}

void et_demangle_dotnet(const char *symbol, const char *executable, bool iterator, struct et_buf *out)
{
    char *assembly = assembly_of(executable), *plain = unboxed(symbol);
    struct name name = {.assembly = assembly, .iterator = iterator};
    size_t before = out->size;
    demangle_text(&name, (struct text){plain, strlen(plain)}, false, out);
    drop_marks(out, before);
    if (out->size == before) {
        et_buf_text(out, symbol);
    }
    free(plain);
    free(assembly);
}
