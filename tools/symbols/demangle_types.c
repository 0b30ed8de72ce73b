/* See demangle_types.h: flattening groups, and the names of types with their arguments. */
#include "tools/symbols/demangle_types.h"

#include <stdlib.h>

static void type_name(const struct et_dotnet_name *name, struct et_dotnet_text head, const struct et_dotnet_text *group,
                      struct et_buf *out);

const char *et_dotnet_skip_group(const char *at, const char *end)
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
    const char *mark =
        at + 2 < end && at[0] == '_' && at[1] == '_' ? et_text_find(et_text_slice(at, end), "_g_F") : NULL;
    if (!mark || mark < at + 2 || et_text_find(et_text_slice(at + 2, mark), "__") ||
        et_text_find(et_text_slice(at, mark), "<")) {
        return at;
    }
    const char *hash = mark + 4;
    size_t count = 0;
    while (hash + count < end && isxdigit((unsigned char)hash[count])) {
        count++;
    }
    return count >= 40 && hash + count + 2 < end && strncmp(hash + count, "__", 2) == 0 ? hash + count + 1 : at;
}

void et_dotnet_flatten(struct et_dotnet_text text, struct et_dotnet_name *name)
{
    const char *at = text.at, *end = et_text_end(text);
    char *out = name->flat = et_alloc(text.size + 1, 1);
    while (at < end) {
        at = skip_file_type(at, end);
        if (et_text_starts(et_text_slice(at, end), "__Module___")) {
            memcpy(out, "_Module__", 9);
            out += 9;
            at += 11;
        } else if (*at == '<' && at > text.at && at[-1] != '_' && name->group_count < GROUPS) {
            const char *after = et_dotnet_skip_group(at, end);
            name->groups[name->group_count++] = et_text_slice(at + 1, after > at + 1 ? after - 1 : after);
            *out++ = MARK;
            at = after;
        } else {
            *out++ = *at == MARK ? '?' : *at; /* a symbol may have any byte */
            at++;
        }
    }
}

/* The group of the mark at `at`. */
static const struct et_dotnet_text *group_at(const struct et_dotnet_name *name, const char *at)
{
    size_t index = 0;
    for (const char *c = name->flat; c < at; c++) {
        index += *c == MARK;
    }
    return &name->groups[index];
}

const struct et_dotnet_text *et_dotnet_last_group(const struct et_dotnet_name *name, struct et_dotnet_text *text)
{
    if (text->size == 0 || text->at[text->size - 1] != MARK) {
        return NULL;
    }
    text->size--;
    return group_at(name, et_text_end(*text));
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

static const char *keyword(struct et_dotnet_text text)
{
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        if (et_text_is(text, keywords[i].mangled)) {
            return keywords[i].readable;
        }
    }
    return NULL;
}

/* First place behind the start where a well-known root namespace begins: Microsoft_X_Microsoft_X_Type. */
static const char *root_namespace(struct et_dotnet_text text)
{
    static const char *const roots[] = {"_System_", "_Microsoft_", "_Internal_", "_Interop_"};
    const char *best = NULL;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        const char *at = text.size > 1 ? et_text_find(et_text_slice(text.at + 1, et_text_end(text)), roots[i]) : NULL;
        if (at && (!best || at < best)) {
            best = at;
        }
    }
    return best ? best + 1 : NULL;
}

/* Assembly and root namespace often are the et_text_is: Name_Name_Type. */
static struct et_dotnet_text without_repetition(struct et_dotnet_text text)
{
    for (size_t i = 1; 2 * i + 1 < text.size; i++) {
        if (text.at[i] == '_' && memcmp(text.at, text.at + i + 1, i) == 0 && text.at[2 * i + 1] == '_') {
            return et_text_slice(text.at + i + 1, et_text_end(text));
        }
    }
    return text;
}

static struct et_dotnet_text without_assembly(const struct et_dotnet_name *name, struct et_dotnet_text text)
{
    size_t own = strlen(name->assembly);
    if (own && text.size > own + 1 && et_text_starts(text, name->assembly) && text.at[own] == '_') {
        return et_text_slice(text.at + own + 1, et_text_end(text));
    }
    if (et_text_starts(text, "S_P_") || et_text_starts(text, "System_") || et_text_starts(text, "Microsoft_") ||
        et_text_starts(text, "Internal_")) {
        const char *root = root_namespace(text);
        if (root) {
            return et_text_slice(root, et_text_end(text));
        }
        if (et_text_starts(text, "S_P_")) {
            const char *next = memchr(text.at + 4, '_', text.size - 4);
            return next ? et_text_slice(next + 1, et_text_end(text)) : text;
        }
    }
    return without_repetition(text);
}

/* Takes <>c, <>c__1 and <>c__DisplayClass1_0, with the number of their parameters, off the end. */
static struct et_dotnet_text without_closure(struct et_dotnet_text text)
{
    static const char closure[] = "___c";
    const char *at = et_text_find_last(text, closure);
    if (!at || at == text.at) {
        return text;
    }
    struct et_dotnet_text rest = et_text_slice(at + 4, et_text_end(text));
    size_t numbers = 0;
    while (numbers < rest.size && (rest.at[numbers] == '_' || isdigit((unsigned char)rest.at[numbers]))) {
        numbers++;
    }
    bool numbered = numbers == rest.size && (numbers == 0 || rest.at[0] == '_');
    return numbered || et_text_starts(rest, "__DisplayClass") ? et_text_slice(text.at, at) : text;
}

/* Whether a type et_text_starts here: what may come after the "__" between two arguments. */
static bool begins_type(const struct et_dotnet_name *name, struct et_dotnet_text text)
{
    static const char *const roots[] = {"S_P_",    "System_",   "Microsoft_", "Internal_",
                                        "__Array", "__MDArray", "__FnPtr"};
    size_t own = strlen(name->assembly);
    struct et_dotnet_text word = text;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        if (et_text_starts(text, roots[i])) {
            return true;
        }
    }
    if (own && et_text_starts(text, name->assembly) && text.size > own && text.at[own] == '_') {
        return true;
    }
    for (word.size = 0; word.size < text.size && isalnum((unsigned char)text.at[word.size]);) {
        word.size++;
    }
    bool ends = word.size == text.size || text.at[word.size] == '<' ||
                et_text_starts(et_text_slice(et_text_end(word), et_text_end(text)), "__");
    return ends && keyword(word) != NULL;
}

size_t et_dotnet_split(const struct et_dotnet_name *name, struct et_dotnet_text group, size_t wanted,
                       struct et_dotnet_text *arguments)
{
    for (int sure = 1;; sure = 0) {
        size_t count = 0;
        const char *start = group.at, *end = et_text_end(group);
        for (const char *at = start; at < end && count + 1 < ARGUMENTS; at++) {
            if (*at == '<') {
                at = et_dotnet_skip_group(at, end) - 1;
                continue;
            }
            bool separator = at > start && at + 2 < end && at[0] == '_' && at[1] == '_';
            separator =
                separator && !(at - group.at >= 6 && et_text_starts(et_text_slice(at - 6, end), "System___Canon"));
            struct et_dotnet_text next = et_text_slice(at + 2, end);
            if (separator && (begins_type(name, next) || (!sure && isalpha((unsigned char)next.at[0]) &&
                                                          at[-1] != '_' && !(wanted && count + 1 >= wanted)))) {
                arguments[count++] = et_text_slice(start, at);
                start = at + 2;
                at++;
            }
        }
        arguments[count++] = et_text_slice(start, end);
        if (!sure || !wanted || count >= wanted) {
            return count;
        }
    }
}

/* One argument. Well-known types are short: the names are long enough. */
static void argument(const struct et_dotnet_name *name, struct et_dotnet_text text, struct et_buf *out)
{
    struct et_buf full = {0};
    et_dotnet_demangle(name, text, true, &full);
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

void et_dotnet_arguments(const struct et_dotnet_name *name, const struct et_dotnet_text *arguments, size_t count,
                         struct et_buf *out)
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

size_t et_dotnet_arity(const char *at, const char *end)
{
    size_t count = et_text_digits(at, end);
    if (count == 0 || count > 2 || at[0] == '0' || (at + count < end && at[count] != '_' && at[count] != MARK)) {
        return 0;
    }
    return count == 1 ? (size_t)(at[0] - '0') : (size_t)(at[0] - '0') * 10 + (size_t)(at[1] - '0');
}

static size_t arity_sum(struct et_dotnet_text text)
{
    size_t sum = 0;
    for (const char *at = text.at; at + 1 < et_text_end(text); at++) {
        sum += *at == '_' ? et_dotnet_arity(at + 1, et_text_end(text)) : 0;
    }
    return sum;
}

/* Outer_1_Inner_2 with three arguments: Outer<a>.Inner<b,c>. */
static void dotted(const struct et_dotnet_name *name, struct et_dotnet_text text,
                   const struct et_dotnet_text *arguments, size_t count, struct et_buf *out)
{
    const char *at = text.at, *end = et_text_end(text);
    size_t used = 0;
    while (at < end) {
        size_t arity = *at == '_' && at > text.at ? et_dotnet_arity(at + 1, end) : 0;
        if (arity && used + arity <= count) {
            et_dotnet_arguments(name, arguments + used, arity, out);
            used += arity;
            at += 1 + et_text_digits(at + 1, end);
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
        et_dotnet_arguments(name, arguments, count, out);
    }
}

static void type_name(const struct et_dotnet_name *name, struct et_dotnet_text head, const struct et_dotnet_text *group,
                      struct et_buf *out)
{
    struct et_dotnet_text arguments[ARGUMENTS];
    size_t count = 0;
    const char *word = keyword(head);
    if (word) {
        et_buf_text(out, word);
        return;
    }
    if (group) {
        count = et_dotnet_split(name, *group, arity_sum(head), arguments);
    }
    head = without_assembly(name, head);
    if (et_text_starts(head, "__f__AnonymousType")) {
        head = et_text_slice(head.at + 5, et_text_end(head));
    }
    if (et_text_is(head, "Module")) {
        et_buf_text(out, "<Module>");
        return;
    }
    dotted(name, head, arguments, count, out);
}

void et_dotnet_type(const struct et_dotnet_name *name, struct et_dotnet_text text, struct et_buf *out)
{
    const struct et_dotnet_text *group = et_dotnet_last_group(name, &text);
    struct et_dotnet_text type = without_closure(text);
    /* A closure's arguments begin with those of the types around it. */
    if (type.size < text.size && !arity_sum(type)) {
        group = NULL;
    } else if (!group && arity_sum(type)) {
        group = name->machine;
    }
    type_name(name, type, group, out);
}
