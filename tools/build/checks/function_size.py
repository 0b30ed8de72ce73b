#!/usr/bin/env python3
"""How long functions are: median <= 15, 90 % <= 50, none > 100 lines, over all C files of the named folders.

    function_size.py FOLDER...

A function starts at its signature's first line and ends at its closing brace, both in column 0 (clang-format sees to
that). Prints the figures a folder, and fails on those of all together and on each function that is too long.
"""
import pathlib
import sys

MEDIAN, P90, MOST = 15, 50, 100


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
    """The smallest size that so many percent do not exceed."""
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
