#!/usr/bin/env python3
"""Checks which files may include which headers.

    include_check.py [ROOT]

RULES has the rules for folders: the first rule whose pattern matches a file applies. rooms.txt has the rules for rooms
inside them. The check fails on an include that the rules forbid, a circle of rooms, a folder of tools/ that is not a
room, and a header that no file includes. <system> stands for every header in angle brackets that is not freestanding,
nanopb's or mbedtls's. Generated headers (*.pb.h) count as nanopb's.
"""
import fnmatch
import pathlib
import re
import sys

from report import report

FREESTANDING = {'atomic', 'float.h', 'iso646.h', 'limits.h', 'stdalign.h', 'stdarg.h', 'stdatomic.h', 'stdbool.h', 'stddef.h',
                'stdint.h', 'stdnoreturn.h', 'string.h', 'errno.h'}  # atomic: C++; errno.h: for its constants
PUBLIC = ['core/edgeprof/edgeprof.h', 'core/edgeprof/options.h', 'core/edgeprof/hooks.h', 'core/edgeprof/registers.h']
TRANSPORT = ['core/edgeprof/transport.h', 'core/edgeprof/tls.h']
PORT = ['core/edgeprof/port.h', 'core/edgeprof/port_calls.h', 'core/edgeprof/outlive.h']

# (files, what they may include)
RULES = [
    ('core/edgeprof/*', ['core/edgeprof/*']),
    ('core/features/*/test_*.c', ['core/*', 'tests/*', 'port/sim/*', '<generated>', '<system>']),
    ('core/encode*', ['core/*', '<nanopb>']),
    ('core/features/*/message.c', ['core/*', '<nanopb>']),
    ('core/features/pprof/pprof.c', ['core/*', '<nanopb>']),
    ('core/*', ['core/*']),
    ('transport/tls.h', ['core/edgeprof/tls.h']),
    ('port/nativeaot/managed_transport.c', ['{folder}/*', *PUBLIC, *TRANSPORT, *PORT, '<system>']),
    ('port/*', ['{folder}/*', *PUBLIC, *PORT, 'core/edgeprof/tls.h', '<system>']),
    ('transport/http*', [*PUBLIC, *TRANSPORT, 'transport/*']),
    ('transport/tls/*', [*PUBLIC, *TRANSPORT, 'transport/*', 'core/edgeprof/port.h', '<system>', '<mbedtls>']),
    ('transport/find.c', [*PUBLIC, *TRANSPORT, 'transport/*']),
    ('transport/null.c', [*PUBLIC, *TRANSPORT, 'transport/*']),
    ('transport/*', [*PUBLIC, *TRANSPORT, 'transport/*', 'core/edgeprof/port.h', '<system>']),
    ('boards/*', PUBLIC),
    ('tools/*', ['tools/*', 'core/proto/names.def', '<system>', '<generated>']),
]
# One line each, for programs that use a former name.
FORMER = {'core/edgeprof.h', 'transport/tls.h'}
ROOMS = 'tools/build/checks/rooms.txt'
BUILT = 'tools/tools.mk'   # ET_ROOMS lists the folders that are compiled
SEARCH = ['', 'core', 'tools']
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def resolve(root, file, bracket, name):
    """The path inside the tree, or a class such as <system>."""
    if name.endswith('.pb.h') or (name.startswith('pb') and name in ('pb.h', 'pb_encode.h', 'pb_common.h', 'pb_decode.h')):
        return '<nanopb>'
    if name.startswith(('mbedtls/', 'psa/')) or name == 'ssl_misc.h':
        return '<mbedtls>'
    if bracket == '<' and (root / 'core' / name).is_file():
        return f'core/{name}'
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


class Rooms:
    """The contents of rooms.txt, in file order: folder -> headers of its face, folder -> folders that it uses."""

    def __init__(self, root):
        self.faces, self.uses, self.errors = {}, {}, []
        file, room = root / ROOMS, None
        for number, line in enumerate(file.read_text().splitlines() if file.is_file() else [], 1):
            key, _, words = line.partition('#')[0].partition(':')
            if key == 'room':
                room = words.strip()
                self.faces[room], self.uses[room] = set(), set()
            elif room and key == 'face':
                self.faces[room].update(words.split())
            elif room and key == 'uses':
                self.uses[room].update(words.split())
            elif key.strip():
                self.errors.append(f'{ROOMS}:{number}: not a line such as "room: tools/lib"')
        for pattern in [room for room in self.uses if '*' in room]:
            faces, uses = self.faces.pop(pattern), self.uses.pop(pattern)
            for folder in sorted(root.glob(pattern)):
                name = folder.relative_to(root).as_posix()
                if any(folder.glob('*.c')) and name not in self.uses:
                    self.faces[name], self.uses[name] = set(faces), set(uses)
        self.errors += self.table(root)

    def table(self, root):
        """Errors in the table itself."""
        for room in self.uses:
            yield from (f'{ROOMS}: {room} uses {used}, which is no room' for used in sorted(self.uses[room] - set(self.uses)))
            yield from (f'{ROOMS}: {room}/{header} is in the face and does not exist' for header in sorted(self.faces[room])
                        if not any((root / room).glob(header)))
            circle = self.circle(room)
            if circle and room == min(circle):
                yield f'{ROOMS}: rooms use each other in a circle: {" -> ".join(circle)}'

    def circle(self, first):
        """The shortest path from a room back to itself; None: no circle."""
        ways = [[first]]
        seen = set()
        for way in ways:
            for used in sorted(self.uses.get(way[-1], ())):
                if used == first:
                    return [*way, first]
                if used not in seen:
                    seen.add(used)
                    ways.append([*way, used])
        return None

    def forbids(self, path, target):
        """Why a file may not include another one; None: allowed, or one of them is not in a room."""
        room, other = (str(pathlib.PurePosixPath(p).parent) for p in (path, target))
        if room == other or room not in self.uses or other not in self.uses:
            return None
        if other not in self.uses[room]:
            return f'{room} does not use {other}'
        if not any(fnmatch.fnmatch(pathlib.PurePosixPath(target).name, header) for header in self.faces[other]):
            return f'it is not in the face of {other}'
        return None


def unused(root, rooms, paths, included):
    """Files that no rule builds, and headers that no file includes."""
    built = re.search(r'^ET_ROOMS\s*:=((?:.*\\\n)*.*)', (root / BUILT).read_text(), re.M) if (root / BUILT).is_file() else None
    folders = {f'tools/{word}' for word in built[1].replace('\\', ' ').split()} if built else set(rooms.uses)
    for path in paths if rooms.uses else ():
        if path in FORMER:
            continue
        folder = str(pathlib.PurePosixPath(path).parent)
        if (path.startswith('tools/') or path.startswith('core/')) and folder not in rooms.uses:
            yield f'{path}: its folder is no room in {ROOMS}'
        elif path.startswith('tools/') and path.endswith('.c') and folder not in folders:
            yield f'{path}: nothing builds it, ET_ROOMS in {BUILT} does not have its folder'
        elif path.endswith('.h') and folder in rooms.uses and path not in included:
            yield f'{path}: no file includes it'


def check(root):
    rooms = Rooms(root)
    errors, count, paths, included = list(rooms.errors), 0, [], set()
    for folder in ('core', 'port', 'transport', 'boards', 'tools'):
        for file in sorted((root / folder).rglob('*.[ch]')):
            path = file.relative_to(root).as_posix()
            if {'node_modules', 'obj', 'bin'} & set(file.parts):
                continue
            paths.append(path)
            text = file.read_text(errors='replace')
            for found in INCLUDE.finditer(text):
                count += 1
                target = resolve(root, file, found[1], found[2])
                included.add(target)
                why = rooms.forbids(path, target) if allowed(path, target) else 'the table of folders has no such include'
                if why:
                    line = text.count('\n', 0, found.start(1)) + 1
                    errors.append(f'{path}:{line}: may not include {found[2]}: {why}')
    return [*errors, *unused(root, rooms, paths, included)], count


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else '.').resolve()
    errors, count = check(root)
    return report(errors if count else [*errors, 'no include was found'], f'{count} includes as the table says')


if __name__ == '__main__':
    sys.exit(main())
