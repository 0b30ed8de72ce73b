#!/usr/bin/env python3
"""Compiles levels.c as C and C++ at every level of optimization, and runs it under the profiler.

    levels.py --arch NAME --compiler PREFIX --lib ARCHIVE --out DIR [--run "QEMU ..."] [--need PCT] [--ms N] [--clang]

PREFIX is that of gcc and g++, such as arm-linux-gnueabihf-. Prints a row for each build: the stacks that are exact, that
have a gap and that are cut. Exit code 1: in a row fewer than PCT percent are exact, or 1 percent is cut.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEVELS = ['-O0', '-Og', '-O1', '-O2', '-O3', '-Os']
MORE = {'arm': ['-O0 -marm', '-O2 -marm', '-O2 -mthumb', '-O0 -fno-unwind-tables', '-O2 -fno-unwind-tables',
                '-O2 -fno-omit-frame-pointer', '-O2 -fno-omit-frame-pointer -marm']}
ALWAYS = ['-O0 -fomit-frame-pointer', '-O2 -fomit-frame-pointer', '-O2 -flto']


def build(args, compiler, language, flags, program):
    tables = ['-funwind-tables'] if args.arch == 'arm' else []
    command = compiler + ['-x', language, '-g', '-D_GNU_SOURCE', '-D_FILE_OFFSET_BITS=64', f'-I{ROOT}/core', f'-I{ROOT}',
                          *tables, *flags.split(), str(ROOT / 'tests/arm/levels.c'), '-x', 'none', args.lib,
                          '@port/linux/link.opt', '-lpthread', '-ldl', '-o', str(program)]
    subprocess.run(command, cwd=ROOT, check=True)


def measure(args, program):
    profile = program.resolve().with_suffix('.profile')
    profile.unlink(missing_ok=True)
    done = subprocess.run([*args.run.split(), str(program), str(args.ms), f'file://{profile}'], stdout=subprocess.PIPE, text=True)
    found = re.fullmatch(r'exact (\d+) gap (\d+) cut (\d+)\n', done.stdout)
    if done.returncode != 0 or not found:
        sys.exit(f'levels.py: {program}: exit code {done.returncode}, "{done.stdout}"')
    return [int(n) for n in found.groups()]


def main():
    parser = argparse.ArgumentParser()
    for name in ('--arch', '--compiler', '--lib', '--out'):
        parser.add_argument(name, required=True)
    parser.add_argument('--run', default='')
    parser.add_argument('--need', type=float, default=99)
    parser.add_argument('--ms', type=int, default=60)
    parser.add_argument('--clang', action='store_true')
    args = parser.parse_args()
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    target = ['clang', f'--target={args.compiler.rstrip("-")}'] if args.compiler else ['clang']
    compilers = {'gcc': ([args.compiler + 'gcc'], 'c')}
    if shutil.which(args.compiler + 'g++'):
        compilers['g++'] = ([args.compiler + 'g++'], 'c++')
    if args.clang:
        compilers = {'clang': (target, 'c')}
    wrong = 0
    for name, (compiler, language) in compilers.items():
        for flags in LEVELS + ALWAYS + MORE.get(args.arch, []):
            program = out / f'{name}{flags.replace(" ", "")}'
            build(args, compiler, language, flags, program)
            exact, gap, cut = measure(args, program)
            need = args.need - 15 * ('no-unwind-tables' in flags)  # of a function that never returns only the root is known
            bad = exact < need / 100 * (exact + gap + cut) or exact == 0 or cut > 0.01 * (exact + gap + cut)
            wrong += bad
            print(f'{args.arch:8} {name:6} {flags:34} exact {exact:6} gap {gap:4} cut {cut:4}{"  <- too few" if bad else ""}', flush=True)
    return 1 if wrong else 0


sys.exit(main())
