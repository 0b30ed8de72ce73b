/*
 * The functions of locations: names that encoding->names finds, and addresses for all others.
 */
#include "core/features/pprof/parts.h"

#include <string.h>

const struct ep_module *ep_pprof_module(const struct ep_encoding *encoding, unsigned id)
{
    uint32_t frame = encoding->tree->node[id].frame;

    return frame < EP_FRAME_FIRST_ADDRESS ? NULL : ep_module_of_linear(encoding->table, frame);
}

uint64_t ep_pprof_address(const struct ep_encoding *encoding, const struct ep_module *module, unsigned id)
{
    return encoding->tree->node[id].frame - module->base + (module->start - module->bias);
}

/* Returns the function with that name, and adds it if needed. */
static uint16_t function_of_name(struct ep_named *named, unsigned name)
{
    if (!named->function[name] && named->count < EP_NAMED_MOST) {
        named->name[named->count] = (uint16_t)name;
        named->function[name] = (uint16_t)++named->count;
    }
    return named->function[name];
}

void ep_pprof_names_find(const struct ep_encoding *encoding, const struct ep_deadline *deadline)
{
    struct ep_named *named = encoding->names->memory();
    struct ep_place place = {0};
    const struct ep_module *last = NULL;
    unsigned index = 0;

    encoding->names->begin(deadline);
    named->count = 0;
    memset(named->function, 0, sizeof named->function);
    for (unsigned id = 1; id < encoding->tree->nodes && index < EP_NAMED_LOCATIONS; id++) {
        if (!ep_tree_is_marked(encoding->tree, id))
            continue;
        const struct ep_module *module = ep_pprof_module(encoding, id);
        named->of[index] = 0;
        if (module) {
            place.hint = module == last ? place.hint : 0;
            place.build_id = module->build_id;
            place.build_id_size = module->build_id_size;
            place.path = module->path;
            place.address = ep_pprof_address(encoding, module, id);
            last = module;
            unsigned name = encoding->names->find(&place);
            named->of[index] = name ? function_of_name(named, name) : 0;
        }
        index++;
    }
}

unsigned ep_pprof_function(const struct ep_encoding *encoding, unsigned id, unsigned rank)
{
    unsigned function = 0;

    if (!encoding->names || encoding->tree->node[id].frame < EP_FRAME_FIRST_ADDRESS)
        return 0;
    if (rank <= EP_NAMED_LOCATIONS)
        function = encoding->names->memory()->of[rank - 1];
    return function ? function : EP_PPROF_BY_ADDRESS;
}

void ep_pprof_address_name(const struct ep_encoding *encoding, unsigned id, char *text)
{
    const struct ep_module *module = ep_pprof_module(encoding, id);
    const char *path = module ? module->path : "", *slash = strrchr(path, '/');
    uint64_t address = module ? ep_pprof_address(encoding, module, id) : 0;
    unsigned size = 0, shift = 60;

    for (path = slash ? slash + 1 : path; *path && size < EP_PPROF_NAME_MOST; path++)
        text[size++] = *path;
    memcpy(text + size, "+0x", 3);
    size += 3;
    while (shift && !(address >> shift & 15))
        shift -= 4;
    for (;; shift -= 4) {
        text[size++] = "0123456789abcdef"[address >> shift & 15];
        if (!shift)
            break;
    }
    text[size] = 0;
}
