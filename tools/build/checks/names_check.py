#!/usr/bin/env python3
"""Compares what documents say of the names in core/proto/names.def with it: the tables of special frames and losses in
core/FORMAT.md (the same rows), the enum of compact.proto (numbers and names), and the tables of docs/troubleshooting.md
(only known names, and every loss). Kinds with their units must be the same in the library and the host tool.

    names_check.py [ROOT]
"""
import pathlib
import re
import sys

ROW = re.compile(r'^EP_NAME_(FRAME|LOSS)\((\w+), (\d+), "([^"]*)", "((?:[^"\\]|\\.)*)"\)$', re.M)
OTHER_FRAMES = {'[short processes]', '[lost: ...]'}  # made by `edgeprof run`; all that begin in this way


def block(path, start):
    """The text between the braces after the pattern."""
    text = path.read_text()
    found = re.search(start + r'[^{;]*\{(.*?)\n\s*\};', text, re.S)
    if not found:
        sys.exit(f'names_check: {path}: no list at {start!r}')
    return found[1]


def names(root):
    """The frames and the losses of names.def: [(number, name, meaning)]; errors in their numbers."""
    lists = {'FRAME': [], 'LOSS': []}
    for kind, _, number, name, meaning in ROW.findall((root / 'core/proto/names.def').read_text()):
        lists[kind].append((int(number), name, meaning.replace('\\"', '"')))
    errors = [f'names.def: {kind}: number {number} is not in order' for kind, rows in lists.items()
              for i, (number, _, _) in enumerate(rows) if i != number]
    return lists['FRAME'], lists['LOSS'], errors if all(lists.values()) else [*errors, 'names.def: no rows were found']


def table(path, head):
    """The cells of the rows below a table's head."""
    rows = path.read_text().partition(head + '\n')[2].split('\n\n')[0].splitlines()[1:]
    return [[cell.strip() for cell in re.split(r'(?<!\\)\|', row)[1:-1]] for row in rows]


def format_errors(root, what, head, rows):
    ours = [[str(number), f'`{name}`', meaning] for number, name, meaning in rows]
    theirs = table(root / 'core/FORMAT.md', head)
    for i in range(max(len(ours), len(theirs))):
        pair = [rows[i] if i < len(rows) else None for rows in (ours, theirs)]
        if pair[0] != pair[1]:
            yield f'FORMAT.md: {what}: number {i}: names.def says {pair[0]}, the table says {pair[1]}'


def proto_errors(root, frames):
    text = (root / 'core/proto/compact.proto').read_text()
    theirs = {int(number): name for number, name in re.findall(r'^  FRAME_\w+ = (\d+);\s*// (\[[^]]*\])', text, re.M)}
    ours = {number: name for number, name, _ in frames if number}
    for number in sorted(ours.keys() | theirs.keys()):
        if ours.get(number) != theirs.get(number):
            yield f'compact.proto: frame {number}: names.def says {ours.get(number)}, the enum says {theirs.get(number)}'


def page_errors(root, frames, losses):
    page = root / 'docs/troubleshooting.md'
    known = {name for _, name, _ in frames} | OTHER_FRAMES
    for name in re.findall(r'^\| `(\[[^`]*\])`', (root / 'docs/frames.md').read_text(), re.M):
        if name not in known:
            yield f'frames.md: `{name}` is no frame of names.def'
    theirs = [name for cells in table(page, '| reason | meaning | what to do |') for name in cells[0].split(', ')]
    ours = [name for _, name, _ in losses]
    for name in sorted(set(ours) ^ set(theirs)):
        yield f'troubleshooting.md: losses: {name} is only in ' + ('names.def' if name in ours else 'the table')


def library_kinds(root):
    """[(number, name, unit)]: sorted by the numbers of enum ep_kind."""
    header = (root / 'core/edgeprof/edgeprof.h').read_text()
    numbers = {name: int(number) for name, number in re.findall(r'(EP_KIND_\w+) = (\d+),', header)}
    rows = re.findall(r'\[(EP_KIND_\w+)\] = \{"(\w+)", "(\w+)"\}', block(root / 'core/sample/words.c', r'struct kind_words words\['))
    return sorted((numbers[kind], name, unit) for kind, name, unit in rows)


def tool_kinds(root):
    rows = re.findall(r'\{(\d+), "(\w+)", "[^"]*", "(\w+)"', block(root / 'tools/lib/kinds.c', r'struct et_kind et_kinds\['))
    return sorted((int(number), name, unit) for number, name, unit in rows if int(number))


def kind_errors(ours, theirs):
    for i in range(max(len(ours), len(theirs))):
        pair = [kinds[i] if i < len(kinds) else None for kinds in (ours, theirs)]
        if pair[0] != pair[1]:
            yield f'kinds: the library says {pair[0]}, the tool says {pair[1]}'


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else '.')
    frames, losses, errors = names(root)
    kinds = library_kinds(root)
    errors += [*format_errors(root, 'special frames', '| frame | name | meaning |', frames),
               *format_errors(root, 'losses', '| reason | name | meaning |', losses),
               *proto_errors(root, frames), *page_errors(root, frames, losses), *kind_errors(kinds, tool_kinds(root))]
    for error in errors:
        print(f'names_check: {error}', file=sys.stderr)
    if not errors:
        print(f'names_check: {len(frames)} special frames, {len(losses)} losses, {len(kinds)} kinds')
    return 1 if errors else 0


if __name__ == '__main__':
    sys.exit(main())
