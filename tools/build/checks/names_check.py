#!/usr/bin/env python3
"""Compares names in the library and the host tool, because devices send only numbers: special frames, loss reasons,
kinds with their units. The tool's lists must equal the library's (core/sample/words.c), in the same order.

    names_check.py [ROOT]
"""
import pathlib
import re
import sys

STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def block(path, start):
    """The text between the braces after the pattern."""
    text = path.read_text()
    found = re.search(start + r'[^{;]*\{(.*?)\n\s*\};', text, re.S)
    if not found:
        sys.exit(f'names_check: {path}: no list at {start!r}')
    return found[1]


def strings(path, start):
    return STRING.findall(block(path, start))


def library_kinds(path):
    """[(number, name, unit)]: sorted by the numbers of enum ep_kind."""
    header = (path.parents[1] / 'edgeprof/edgeprof.h').read_text()
    numbers = {name: int(number) for name, number in re.findall(r'(EP_KIND_\w+) = (\d+),', header)}
    rows = re.findall(r'\[(EP_KIND_\w+)\] = \{"(\w+)", "(\w+)"\}', block(path, r'struct kind_words words\['))
    return sorted((numbers[kind], name, unit) for kind, name, unit in rows)


def tool_kinds(path):
    rows = re.findall(r'\{(\d+), "(\w+)", "[^"]*", "(\w+)"', block(path, r'struct et_kind et_kinds\['))
    return sorted((int(number), name, unit) for number, name, unit in rows if int(number))


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else '.')
    stats = root / 'core/sample/words.c'
    pairs = (('special frames', strings(stats, r'names\[EP_FRAME_SPECIALS\]'),
              strings(root / 'tools/profile/profile.c', r'void et_special_name\([^{]*\{\s*static')),
             ('losses', strings(stats, r'names\[EP_LOSS_REASONS\]'),
              strings(root / 'tools/lib/kinds.c', r'\*et_loss_name\([^{]*\{\s*static')),
             ('kinds', library_kinds(stats), tool_kinds(root / 'tools/lib/kinds.c')))
    wrong = 0
    for what, ours, theirs in pairs:
        for i in range(max(len(ours), len(theirs))):
            pair = [names[i] if i < len(names) else None for names in (ours, theirs)]
            if pair[0] != pair[1]:
                wrong += 1
                print(f'names_check: {what}: number {i}: the library says {pair[0]}, the tool says {pair[1]}', file=sys.stderr)
        if not ours:
            sys.exit(f'names_check: {what}: none found')
    if not wrong:
        print('names_check: ' + ', '.join(f'{len(ours)} {what}' for what, ours, _ in pairs))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
