#!/usr/bin/env python3
"""Checks the length of functions in all C files of the folders: median <= 15, 90 % <= 50, maximum 80 lines.

    function_size.py FOLDER...

A function reaches from the first line of its signature to its closing brace, both in column 0 (clang-format ensures
that). The script prints statistics per folder. It fails on the statistics of all folders and on each too long function.
"""
import pathlib
import sys

MEDIAN, P90, MOST = 15, 50, 80


def functions(path):
    """(name line, first line number, lines) of each function."""
    lines = path.read_text(errors='replace').splitlines()
    for at, line in enumerate(lines):
        if line != '{' or at == 0:
            continue
        first = at
        while first > 0 and lines[first - 1].strip() and not lines[first - 1].startswith(('#', '}', '/*', ' *', '//')) \
                and not lines[first - 1].rstrip().endswith((';', '*/')):
            first -= 1
        last = next((i for i in range(at, len(lines)) if lines[i].startswith('}')), len(lines) - 1)
        yield lines[first], first + 1, last - first + 1


def share(sizes, percent):
    """The size that so many percent do not exceed."""
    return sorted(sizes)[max(0, -(-len(sizes) * percent // 100) - 1)] if sizes else 0


def main():
    every, errors = [], []
    for folder in sys.argv[1:]:
        sizes = []
        for path in sorted(pathlib.Path(folder).rglob('*.c')):
            if {'node_modules', 'obj', 'bin'} & set(path.parts):
                continue
            for name, line, size in functions(path):
                sizes.append(size)
                if size > MOST:
                    errors.append(f'{path}:{line}: {size} lines, {MOST} are allowed: {name}')
        every += sizes
        print(f'function_size: {folder:10} {len(sizes):4} functions, median {share(sizes, 50):3}, '
              f'p90 {share(sizes, 90):3}, longest {max(sizes, default=0):3}')
    for name, is_, most in (('median', share(every, 50), MEDIAN), ('p90', share(every, 90), P90)):
        if is_ > most:
            errors.append(f'the {name} of all is {is_} lines, {most} are allowed')
    if not every:
        errors.append('no function was found')
    for error in errors:
        print(f'function_size: {error}', file=sys.stderr)
    return 1 if errors else 0


if __name__ == '__main__':
    sys.exit(main())
