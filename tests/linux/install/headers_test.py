#!/usr/bin/env python3
"""Compiles a file of each public header alone, in C11 and C++17, with many warnings as errors: a program needs no other
include folder. A transport in C and one in C++ need only transport.h.

    headers_test.py INCLUDE SOURCES      INCLUDE: the installed folder; SOURCES: the tree's headers; environment: CC
"""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

STRICT = ['-Wall', '-Wextra', '-Wpedantic', '-Wconversion', '-Wshadow', '-Wundef', '-Werror', '-fsyntax-only']
C, CPP = ['-x', 'c', '-std=c11', '-Wstrict-prototypes'], ['-x', 'c++', '-std=c++17']
# A struct and a function of one name are two things in C++ as well.
CALM = {(header, True): ['-Wno-shadow'] for header in ('hooks.h', 'outlive.h')}
TRANSPORT = """
#include <edgeprof/transport.h>
static int send_(void *state, const struct ep_message *message, const struct ep_deadline *deadline, uint64_t *retry_ns)
{
    *retry_ns = state ? ep_deadline_ns(deadline) : message->size;
    return ep_deadline_passed(deadline) ? -1 : 0;
}
extern const struct ep_transport transport;
const struct ep_transport transport = {"mine", 0, 0, send_, 0, 0};
"""
# Waits are marked in any place where a call of a function may stand.
WAIT = """
#include <edgeprof/edgeprof.h>
extern void (*const end)(void);
void (*const end)(void) = ep_wait_end;
extern int waits(int wanted);
int waits(int wanted)
{
    ep_wait_begin(EP_WAIT_LOCK);
    return wanted ? (SCOPE ep_wait_end(), 1) : 0;
}
"""


def compilers():
    """Pairs of a command and whether it is for C++."""
    gcc = shlex.split(os.environ['CC'])
    gxx = gcc[:-1] + [gcc[-1].replace('gcc', 'g++')]
    for command in (gcc, gxx, ['clang'], ['clang++']) if gcc == ['gcc'] else (gcc, gxx):
        if shutil.which(command[0]):
            yield command, '++' in command[-1]


def main():
    include, sources = map(pathlib.Path, sys.argv[1:])
    names = sorted(path.name for path in sources.glob('*.h'))
    installed = sorted(path.name for path in (include / 'edgeprof').iterdir())
    if names != installed:
        raise SystemExit(f'headers_test: installed {installed} of {names}')
    used, failed = list(compilers()), 0
    with tempfile.TemporaryDirectory() as folder:  # no header of the tree is below it
        for command, cpp in used:
            programs = [(name, f'#include <edgeprof/{name}>\nextern int program;\n') for name in names]
            wait = WAIT.replace('SCOPE', '::' if cpp else '')
            for name, text in [*programs, ('a transport', TRANSPORT), ('a wait', wait)]:
                done = subprocess.run([*command, *STRICT, *(CPP if cpp else C), *CALM.get((name, cpp), []),
                                       '-I', include, '-'], input=text, text=True, cwd=folder, capture_output=True)
                if done.returncode:
                    failed += 1
                    print(f'{shlex.join(command)}: {name}\n{done.stderr}')
    if failed:
        raise SystemExit(f'headers_test: {failed} programs do not compile')
    print(f'headers_test: {len(names)} headers with {", ".join(shlex.join(command) for command, _ in used)}')


if __name__ == '__main__':
    main()
