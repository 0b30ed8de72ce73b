#!/usr/bin/env python3
"""Compiles the library's two files alone, in an empty folder, with gcc and clang and for each architecture; links a program
with each and looks at its flame graph.

    amalgamation_test.py FOLDER WORK EDGEPROF        FOLDER: edgeprof.c, edgeprof.h, link.opt
"""
import pathlib
import shutil
import sys

from install_test import EXAMPLE, parts, run

WARNINGS = '-Wall -Wextra -Werror'
# Name, compiler, options of the compiler, of the link, and what starts the program.
BUILDS = [
    ('gcc', 'gcc', '-O1 -DEP_WRAPS', '@link.opt', ''),
    ('clang', 'clang', '-O1', '', ''),
    ('aarch64', 'aarch64-linux-gnu-gcc', '-O1 -mno-outline-atomics -DEP_WRAPS', '-static @link.opt', 'qemu-aarch64'),
    ('arm', 'arm-linux-gnueabihf-gcc', '-O1 -funwind-tables -DEP_WRAPS', '-static @link.opt', 'qemu-arm'),
]


def check(folder, work, edgeprof, build):
    name, compiler, options, link, start = build
    here = work / name
    here.mkdir(parents=True)
    for file in folder / 'edgeprof.c', folder / 'edgeprof.h', folder / 'link.opt', EXAMPLE / 'config.h':
        shutil.copy(file, here)
    (here / 'device.c').write_text((EXAMPLE / 'device.c').read_text().replace('<edgeprof/edgeprof.h>', '"edgeprof.h"'))
    sections = '-g -fvisibility=hidden -ffunction-sections -fdata-sections'
    run(compiler, *options.split(), *sections.split(), *WARNINGS.split(), '-c', 'edgeprof.c', cwd=here)
    run(compiler, *options.split(), *sections.split(), '-Wno-unused-result', '-Wl,--build-id', '-Wl,--gc-sections', 'device.c', 'edgeprof.o',
        *link.split(), '-lpthread', '-ldl', '-o', 'device', cwd=here)
    run(*start.split(), './device', '2', f'file://{here}/profile', cwd=here)
    shares = parts(edgeprof, here / 'device', here / 'profile')
    text = ', '.join(f'{function} {share:.0f} %' for function, share in shares.items())
    print(f'    {name}: {text}')
    if min(shares.values()) < 10 or sum(shares.values()) < 80:
        raise SystemExit(f'amalgamation_test: {name}: {text}: both functions must be there, and be nearly all')


def main():
    folder, work, edgeprof = map(pathlib.Path, sys.argv[1:])
    shutil.rmtree(work, ignore_errors=True)
    for build in BUILDS:
        check(folder.resolve(), work, edgeprof.resolve(), build)
    shutil.rmtree(work)
    print(f'amalgamation_test: {len(BUILDS)} programs')


if __name__ == '__main__':
    main()
