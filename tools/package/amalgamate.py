#!/usr/bin/env python3
"""Writes the library as two files, edgeprof.c and edgeprof.h, for projects that compile what they use themselves.

    amalgamate.py OUT VERSION --include DIR... --public HEADER... --sources SOURCE...

Headers come first, each once. A file of one architecture is between #if and #endif. Names that only one file knows get the
file's name where two files have the same. The sources of others get the prefix ep_, as in the archive.
"""
import argparse
import collections
import pathlib
import re

ARCHS = {'x86_64': 'defined(__x86_64__)', 'aarch64': 'defined(__aarch64__)', 'arm': 'defined(__arm__)'}
# Tables of code are .eh_frame on 64 bits and .ARM.exidx on 32.
ONLY = {'core/unwind/cfi.c': '!defined(__arm__)', 'core/unwind/exidx.c': ARCHS['arm']}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"].*$', re.M)
# A line, or a token that is no name: names in strings and comments stay, and a member's stays.
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'|/\*.*?\*/|//[^\n]*|(?:->|\.)\s*[A-Za-z_]\w*|[A-Za-z_]\w*', re.S)
# Local names that a header of libc declares, too.
OF_LIBC = {'fork'}
HEAD = """/* edgeprof %s: the library in one file, for Linux on x86-64, aarch64 and ARM. https needs libedgeprof-tls.a, and native
 * memory libedgeprof.a with memory.opt, and write.opt; they are in the whole library only.
 *
 * Compile it with -O2 -fvisibility=hidden -ffunction-sections -fdata-sections, on aarch64 also with -mno-outline-atomics, on ARM with
 * -funwind-tables; link with -Wl,--gc-sections, so that the program has the features that it starts, and with -lpthread
 * -ldl. With -DEP_WRAPS and @link.opt, threads announce themselves and threads that block signals are sampled, too.
 *
 * Made by `make amalgamation`. */
"""


class Amalgam:
    def __init__(self, folders):
        self.folders, self.done, self.system = folders, set(), set()

    def find(self, name, beside):
        for folder in (beside, *self.folders):
            path = (folder / name).resolve()
            if path.is_file():
                return path
        return None

    def inline(self, path):
        """The text of a file with its own headers in place, each once; files that are no headers, each time."""
        def replace(match):
            found = self.find(match[2], path.parent)
            if not found:
                depth = len(re.findall(r'^\s*#\s*if', text[:match.start()], re.M)) - len(re.findall(r'^\s*#\s*endif', text[:match.start()], re.M))
                if depth > (path.suffix == '.h'):
                    return match[0]
                self.system.add(match[2])
                return ''
            if found.suffix == '.h':
                if found in self.done:
                    return ''
                self.done.add(found)
            return self.inline(found)
        text = path.read_text()
        return INCLUDE.sub(replace, text)


def local_names(text):
    """What a source defines for itself: functions, variables, types, constants; declarations begin a line."""
    text = re.sub(r'/\*.*?\*/|^\s*#(?:[^\n\\]|\\\n)*$', '', text, flags=re.M | re.S)
    text = re.sub(r'__attribute__\(\(.*?\)\)\s*|(?<=ElfW)\(\w+\)', '', text)
    names = set(re.findall(r'^(?:struct|union|enum) (\w+)\s*\{', text, re.M)) | set(re.findall(r'^static [\w\s*()]*?[ *](\w+)\(', text, re.M))
    names |= set(re.findall(r'^typedef [^;{]*?\(?\*?(\w+)(?:\)?\([^;]*\))?;', text, re.M))
    names |= set(re.findall(r'^\} (\w+)', text, re.M))
    for body in re.findall(r'^(?:static const |static |typedef )?enum[^{;()]*\{([^}]*)\}', text, re.M):
        names |= {re.match(r'\s*(\w*)', part)[1] for part in body.split(',')}
    for declared in re.findall(r'^static ([\w \n*]+(?:\[[^\n]*\])?(?:,[\w \n*,\[\]]+)?)(?:;| =)', text, re.M):
        names |= {re.findall(r'\w+', re.sub(r'\[.*?\]', '', part))[-1] for part in declared.split(',') if re.search(r'\w', part)}
    return {name for name in names if name and not name.startswith('ep_')}


STRUCT = re.compile(r'^(?:static )?(?:const )?(?:struct|union)(?: \w+)? \{\n.*?^\}', re.M | re.S)


def rename(text, names, to):
    """Renames the names of a file: not members, neither where they are used nor where a type declares them."""
    inside = [match.span() for match in STRUCT.finditer(text)]

    def replace(match):
        member = any(start < match.start() < end for start, end in inside) and re.match(r'\s*[;,\[:]', text[match.end():match.end() + 20])
        return to(match[0]) if match[0] in names and not member else match[0]
    return TOKEN.sub(replace, text)


def defined(text):
    return sorted(set(re.findall(r'^\s*#\s*define (\w+)', text, re.M)))


def condition(source):
    arch = next((arch for arch in ARCHS if source.stem.endswith('_' + arch)), None)
    return ARCHS[arch] if arch else ONLY.get(str(source), 'defined(EP_WRAPS)' if re.search(r'_wrap(_|$)', source.stem) else None)


def squeeze(text):
    return re.sub(r'\n{3,}', '\n\n', text).strip('\n') + '\n'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('out', type=pathlib.Path)
    parser.add_argument('version')
    parser.add_argument('--include', nargs='+', type=pathlib.Path)
    parser.add_argument('--public', nargs='+', type=pathlib.Path)
    parser.add_argument('--sources', nargs='+', type=pathlib.Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    public = Amalgam(args.include)
    texts = []
    for path in args.public:
        if path.resolve() not in public.done:
            public.done.add(path.resolve())
            texts.append(public.inline(path.resolve()))
    system = ''.join(f'#include <{name}>\n' for name in sorted(public.system))
    (args.out / 'edgeprof.h').write_text(f'/* edgeprof {args.version}: the public headers in one. Made by `make amalgamation`. */\n'
                                         '#ifndef EDGEPROF_AMALGAMATION_H\n#define EDGEPROF_AMALGAMATION_H\n\n' + system + '\n' +
                                         squeeze('\n'.join(texts)) + '\n#endif\n')

    inner = Amalgam(args.include)
    inner.done = set(public.done)
    bodies = {}
    headers = []
    for source in args.sources:
        text = source.read_text()
        for match in INCLUDE.finditer(text):
            found = inner.find(match[2], source.resolve().parent)
            if found and found.suffix == '.h' and found not in inner.done:
                inner.done.add(found)
                headers.append(inner.inline(found))
    for source in args.sources:
        bodies[source] = inner.inline(source.resolve())
    users = collections.Counter(name for text in bodies.values() for name in local_names(text))
    macros = set(defined('\n'.join(bodies.values())))
    parts = []
    for source, text in bodies.items():
        mine = {name for name in local_names(text) if users[name] > 1 or name in macros | OF_LIBC}
        stem = re.sub(r'\W', '_', '_'.join(source.with_suffix('').parts[-2:]))
        text = rename(text, mine, lambda name: f'{name}_{stem}')
        text = text.replace('_Thread_local', 'EP_THREAD_LOCAL') if 'tls_model' not in text else text
        undefs = ''.join(f'#undef {name}\n' for name in defined(text) if name != '_GNU_SOURCE')
        text = f'/* ---- {source.parent.name}/{source.name} ---- */\n\n{squeeze(text)}{undefs}'
        guard = condition(source)
        parts.append(f'#if {guard}\n{text}#endif\n' if guard else text)
    whole = '\n'.join(squeeze(part) for part in [*headers, *parts])
    whole = re.sub(r'\bpb_', 'ep_pb_', whole)
    (args.out / 'edgeprof.c').write_text(
        HEAD % args.version + '#define _GNU_SOURCE\n#define _FILE_OFFSET_BITS 64\n#define PB_NO_ERRMSG 1\n' +
        ''.join(f'#include <{name}>\n' for name in sorted(inner.system)) + '#include "edgeprof.h"\n\n'
        # Macros of <resolv.h>.
        '#undef p_type\n#undef REFUSED\n#undef STATUS\n'
        '#define EP_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))\n'
        # Functions that are weak in the archive are always there.
        '#pragma GCC diagnostic ignored "-Waddress"\n#ifdef __clang__\n'
        '#pragma GCC diagnostic ignored "-Wignored-attributes"\n#pragma GCC diagnostic ignored "-Wunused-function"\n'
        '#pragma GCC diagnostic ignored "-Wtautological-pointer-compare"\n#pragma GCC diagnostic ignored "-Wpointer-bool-conversion"\n#endif\n'
        '\n' + whole)


if __name__ == '__main__':
    main()
