#!/usr/bin/env python3
"""Checks the undefined symbols, global symbols and size of a library.

    symbols_check.py --allow FILE --prefix PREFIX... --data-max BYTES --text-max BYTES [--figure NAME]
                     [--weigh WITH WITHOUT] [--weak FILE] ARCHIVE

The check fails on an undefined symbol outside the allow-list (such as malloc or printf), a global symbol without one
of the prefixes, too much initialised writable data, and too much code: in the archive, or added to a program (the
difference of two programs, with and without the library). FILE has the library's own weak functions: each must be on
the list, and each on the list must be weak. NM and SIZE name the tools.
"""
import argparse
import collections
import os
import pathlib
import subprocess
import sys

from report import report


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(archive):
    """The undefined and the global defined symbols of the archive as a whole."""
    undefined, defined = collections.defaultdict(set), set()
    member = ''
    for line in run(os.environ.get('NM', 'nm'), '-g', archive).splitlines():
        words = line.split()
        if line.endswith(':'):
            member = line[:-1]
        elif len(words) == 2 and words[0] in 'Uwv':
            undefined[words[1]].add(member)
        elif len(words) == 3:
            defined.add(words[2])
    return {name: members for name, members in undefined.items() if name not in defined}, defined


def listed(file):
    """The names in a list with comments."""
    return {line.split('#')[0].strip() for line in file.read_text().splitlines()} - {''}


def weak_errors(archive, file, prefixes):
    """What differs between the archive's weak functions of its own and the list."""
    lines = run(os.environ.get('NM', 'nm'), archive).splitlines()
    words = [line.split() for line in lines if not line.endswith(':')]
    weak = {word[-1] for word in words if len(word) >= 2 and word[-2] in 'wW' and word[-1].startswith(tuple(prefixes))}
    return ([f'{name} is weak and not in {file.name}' for name in sorted(weak - listed(file))] +
            [f'{name} is in {file.name} and not weak' for name in sorted(listed(file) - weak)])


def kind(section):
    if section.startswith(('.data.rel.ro', '.data.rel.local.ro', '.relro')):
        return 'relro'
    if section.startswith(('.data', '.tdata')):
        return 'data'
    if section.startswith(('.text', '.init', '.fini')) and not section.startswith(('.init_array', '.fini_array')):
        return 'text'
    if section.startswith('.rodata'):
        return 'rodata'
    if section.startswith(('.bss', '.tbss')):
        return 'bss'
    return None


def sizes(archive):
    total, data = collections.Counter(), []
    for line in run(os.environ.get('SIZE', 'size'), '-A', archive).splitlines():
        words = line.split()
        if len(words) == 3 and words[1].isdigit() and kind(words[0]):
            total[kind(words[0])] += int(words[1])
            if kind(words[0]) == 'data' and int(words[1]) > 0:
                data.append(words[0])
    return total, data


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--allow', type=pathlib.Path, required=True)
    parser.add_argument('--prefix', nargs='+', default=[])
    parser.add_argument('--data-max', type=int, required=True)
    parser.add_argument('--text-max', type=int, required=True)
    parser.add_argument('--figure')
    parser.add_argument('--weigh', nargs=2)
    parser.add_argument('--weak', type=pathlib.Path)
    parser.add_argument('archive')
    args = parser.parse_args()

    allow = listed(args.allow)
    undefined, defined = symbols(args.archive)
    total, data = sizes(args.archive)
    errors = [f'{name} is used by {", ".join(sorted(members))} and not on the allow-list'
              for name, members in sorted(undefined.items()) if name not in allow]
    errors += [f'{name} is defined and has none of the prefixes {" ".join(args.prefix)}'
               for name in sorted(defined) if not name.startswith(tuple(args.prefix))]
    if total['data'] > args.data_max:
        errors.append(f'{total["data"]} bytes of writable data, {args.data_max} are allowed: {", ".join(data)}')
    code = total['text']
    if args.weigh:
        code = sizes(args.weigh[0])[0]['text'] - sizes(args.weigh[1])[0]['text']
    if code > args.text_max:
        errors.append(f'{code} bytes of code, {args.text_max} are allowed')
    if args.weak:
        errors += weak_errors(args.archive, args.weak, ['ep_'])
    if not defined:
        errors.append(f'{args.archive} defines nothing')
    return report(errors, f'{len(undefined)} symbols from outside, {len(defined)} defined; a program gets {code} of {args.text_max} bytes of '
                  f'code; text {total["text"]}, rodata {total["rodata"]}, .data.rel.ro {total["relro"]}, data {total["data"]}, bss {total["bss"]} bytes',
                  args.figure and f'{args.figure} {code} bytes')


if __name__ == '__main__':
    sys.exit(main())
