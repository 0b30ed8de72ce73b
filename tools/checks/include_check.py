#!/usr/bin/env python3
"""Who may include what: the architecture as a table.

    include_check.py [ROOT]

The first rule whose pattern fits a file decides. <system> stands for every header in angle brackets that is neither
freestanding nor nanopb's nor mbedtls'; what is generated (*.pb.h) counts as nanopb's.
"""
import fnmatch
import pathlib
import re
import sys

FREESTANDING = {'float.h', 'iso646.h', 'limits.h', 'stdalign.h', 'stdarg.h', 'stdatomic.h', 'stdbool.h', 'stddef.h',
                'stdint.h', 'stdnoreturn.h', 'string.h', 'errno.h'}  # errno.h for its constants
PUBLIC = ['core/edgeprof.h', 'core/config.h', 'core/hooks.h']
CONTRACTS = ['port/port.h', 'transport/transport.h']

# (files, what they may include)
RULES = [
    ('core/encode*', ['core/*', *CONTRACTS, '<nanopb>']),
    ('core/*', ['core/*', *CONTRACTS]),
    ('port/port.h', []),
    ('port/nativeaot/managed_transport.c', ['{folder}/*', *PUBLIC, *CONTRACTS, '<system>']),
    ('port/*', ['{folder}/*', *PUBLIC, 'port/port.h', 'transport/tls.h', '<system>']),
    ('transport/http*', [*PUBLIC, 'transport/*']),
    ('transport/transport.h', PUBLIC),
    ('transport/tls.h', []),
    ('transport/tls/*', [*PUBLIC, 'transport/*', 'port/port.h', '<system>', '<mbedtls>']),
    ('transport/find.c', [*PUBLIC, 'transport/*']),
    ('transport/null.c', [*PUBLIC, 'transport/*']),
    ('transport/*', [*PUBLIC, 'transport/*', 'port/port.h', '<system>']),
    ('boards/*', PUBLIC),
    ('tools/*', ['tools/*', '<system>', '<generated>']),
]
SEARCH = ['', 'core', 'port', 'transport', 'tools']
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def resolve(root, file, bracket, name):
    """The path inside the tree, or <what it stands for>."""
    if name.endswith('.pb.h') or (name.startswith('pb') and name in ('pb.h', 'pb_encode.h', 'pb_common.h', 'pb_decode.h')):
        return '<nanopb>'
    if name.startswith(('mbedtls/', 'psa/')) or name == 'ssl_misc.h':
        return '<mbedtls>'
    if bracket == '<':
        return f'<free:{name}>' if name in FREESTANDING else '<system>'
    for folder in [file.parent.relative_to(root), *map(pathlib.Path, SEARCH)]:
        if (root / folder / name).is_file():
            return (root / folder / name).resolve().relative_to(root).as_posix()
    return '<generated>'


def allowed(path, target):
    for pattern, may in RULES:
        if fnmatch.fnmatch(path, pattern):
            folder = str(pathlib.PurePosixPath(path).parent)
            return target.startswith('<free:') or any(
                target == m or fnmatch.fnmatch(target, m.format(folder=folder)) for m in may)
    return True


def check(root):
    errors, count = [], 0
    for folder in ('core', 'port', 'transport', 'boards', 'tools'):
        for file in sorted((root / folder).rglob('*.[ch]')):
            path = file.relative_to(root).as_posix()
            if {'node_modules', 'obj', 'bin'} & set(file.parts):
                continue
            text = file.read_text(errors='replace')
            for found in INCLUDE.finditer(text):
                count += 1
                if not allowed(path, resolve(root, file, found[1], found[2])):
                    line = text.count('\n', 0, found.start(1)) + 1
                    errors.append(f'{path}:{line}: may not include {found[2]}')
    return errors, count


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else '.').resolve()
    errors, count = check(root)
    for error in errors:
        print(f'include_check: {error}', file=sys.stderr)
    if not errors:
        print(f'include_check: {count} includes as the table says')
    return 1 if errors or count == 0 else 0


if __name__ == '__main__':
    sys.exit(main())
