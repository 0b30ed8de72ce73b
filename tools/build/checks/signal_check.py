#!/usr/bin/env python3
"""Proves the signal path from the compiler's call graph (gcc -fcallgraph-info=su).

    signal_check.py --graph FILE.ci... --root NAME --max BYTES [--allow FILE] [--figure NAME]
                    --sources FILE...

Roots are the handler (--root) and every function whose comment in one of the sources says `Context: signal`. From the
roots, the check allows no call through a pointer, no undefined symbol outside the allow-list, no recursion, and no stack
frame of variable size. The largest stack use must fit into --max. The allow-list gives an assumed size to functions
outside the library (memcpy); the signal path ends at functions of the library that it names. The comment of each
function with external linkage on the path must say `Context: signal`.

The check does not see what the kernel pushes before the handler runs, and inline assembly.
"""
import argparse
import pathlib
import re
import sys

from report import report

NODE = re.compile(r'^node: \{ title: "(?P<title>[^"]+)" label: "(?P<label>[^"]*)"(?P<shape> shape : ellipse)?')
EDGE = re.compile(r'^edge: \{ sourcename: "(?P<source>[^"]+)" targetname: "(?P<target>[^"]+)"')
SIZE = re.compile(r'(\d+) bytes \(([a-z,]+)\)')
COMMENT = re.compile(r'/\*.*?\*/', re.S)
SAYS_SIGNAL = re.compile(r'Context:[^.]*\bsignal\b')
FUNCTION = re.compile(r'^[A-Za-z_][\w\s*]*?\b(\w+)\(', re.M)


class Graph:
    def __init__(self):
        self.size = {}    # defined function -> bytes of its frame
        self.dynamic = set()
        self.calls = {}

    def read(self, path):
        for line in path.read_text().splitlines():
            node, edge = NODE.match(line), EDGE.match(line)
            if node and not node['shape']:
                self.define(node['title'], SIZE.search(node['label']))
            elif edge:
                self.calls.setdefault(edge['source'], set()).add(edge['target'])

    def link(self):
        """Resolves calls to an alias of a function (handler.localalias), and to a weak function, which the compiler calls
        FILE:NAME as if it was static: to each that has the name."""
        local = {}
        for title in self.size:
            if ':' in title:
                local.setdefault(title.rpartition(':')[2], set()).add(title)
        for source, targets in self.calls.items():
            self.calls[source] = set().union(*({t} if t in self.size else self.known(t, local) for t in targets))

    def known(self, title, local):
        folder, colon, name = title.rpartition(':')
        name = name.split('.')[0]
        found = next((t for t in (folder + colon + name, name) if t in self.size), None)
        return {found} if found else local.get(title, {title})

    def define(self, title, size):
        if size is None:
            raise SystemExit(f'signal_check: no frame size for {title}: was it compiled with -fcallgraph-info=su?')
        # A static inline function of a header is in several files; the largest frame counts.
        self.size[title] = max(self.size.get(title, 0), int(size[1]))
        if size[2] == 'dynamic':
            self.dynamic.add(title)


def plain(title):
    """core/a.c:step.part.0 -> step"""
    return title.rsplit(':', 1)[-1].split('.')[0]


def spell(graph, allow, way):
    """step 48 -> memcpy 64"""
    return ' -> '.join(f'{plain(t)} {graph.size.get(t, allow.get(plain(t), 0))}' for t in way)


def signal_functions(path):
    """Names of the functions declared directly after a comment with `Context: signal`."""
    text = path.read_text()
    names = set()
    for comment in COMMENT.finditer(text):
        if SAYS_SIGNAL.search(comment[0]):
            below = re.split(r'\n\s*\n|/\*|\{', text[comment.end():].lstrip('\n'), maxsplit=1)[0]
            names.update(FUNCTION.findall(below))
    return names


def read_allow(path):
    allow = {}
    for line in path.read_text().splitlines() if path else []:
        words = line.split('#')[0].split()
        if words:
            allow[words[0]] = int(words[1])
    return allow


class Walk:
    def __init__(self, graph, allow):
        self.graph, self.allow = graph, allow
        self.depth = {}    # title -> (bytes, path)
        self.problems = {}

    def problem(self, way, what):
        self.problems.setdefault(what, ' -> '.join(plain(t) for t in way))

    def visit(self, title, way):
        if title in way:
            self.problem(way + [title], f'recursion through {plain(title)}')
            return 0, []
        way = way + [title]
        if title not in self.graph.size or plain(title) in self.allow:
            if plain(title) not in self.allow:
                what = 'a call through a pointer' if title == '__indirect_call' else f'{plain(title)}, which is not on the allow-list'
                self.problem(way, f'{what}, in {plain(way[-2]) if len(way) > 1 else "no object"}')
            return self.allow.get(plain(title), 0), [title]
        if title not in self.depth:
            if title in self.graph.dynamic:
                self.problem(way, f'{plain(title)} has a frame of unknown size')
            below = [self.visit(t, way) for t in sorted(self.graph.calls.get(title, ()))]
            size, rest = max(below, default=(0, []))
            self.depth[title] = size + self.graph.size[title], [title] + rest
        return self.depth[title]


def find_roots(graph, names):
    roots, missing = [], []
    for name in sorted(names):
        titles = [t for t in graph.size if plain(t) == name]
        roots += titles
        missing += [] if titles else [name]
    return roots, missing


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--graph', nargs='+', type=pathlib.Path, required=True)
    parser.add_argument('--root', required=True)
    parser.add_argument('--max', type=int, required=True)
    parser.add_argument('--allow', type=pathlib.Path)
    parser.add_argument('--figure')
    parser.add_argument('--sources', nargs='*', default=[], type=pathlib.Path)
    args = parser.parse_args()

    graph = Graph()
    for path in args.graph:
        graph.read(path)
    graph.link()
    documented = set().union(*(signal_functions(p) for p in args.sources))
    roots, missing = find_roots(graph, documented | {args.root})
    walk = Walk(graph, read_allow(args.allow))
    worst = max((walk.visit(root, []) for root in roots), default=(0, []))
    way = spell(graph, walk.allow, worst[1])

    errors = [f'reaches {what}: {way}' for what, way in walk.problems.items()]
    if args.root in missing:
        errors.append(f'{args.root} is in none of the {len(args.graph)} call graphs')
    for title in walk.depth:
        if ':' not in title and plain(title) not in documented:
            errors.append(f'{plain(title)} is on the signal path but its comment does not say `Context: signal`')
    if worst[0] > args.max:
        errors.append(f'needs {worst[0]} bytes of stack, {args.max} are allowed: {way}')
    return report(errors, f'{len(walk.depth)} functions from {len(roots)} roots, at most {worst[0]} of {args.max} bytes of stack: {way}',
                  args.figure and f'{args.figure} {worst[0]} bytes')


if __name__ == '__main__':
    sys.exit(main())
