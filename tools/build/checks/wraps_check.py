#!/usr/bin/env python3
"""Checks that all lists of wrapped functions equal the one in port/linux/link.opt, which the linker reads: the sources
that define the wrappers, the list of allowed undefined symbols, and the NuGet package.

    wraps_check.py [ROOT]
"""
import pathlib
import re
import sys

from report import report

USE_THE_FILE = {'README.md': '@port/linux/link.opt', 'docs/getting-started-c.md': '/port/linux/link.opt',
                'boards/rpi4/README.md': '@port/linux/link.opt',
                'boards/beaglebone-black/README.md': '@port/linux/link.opt', 'tools/package/edgeprof.pc.in': '@WRAPS@',
                'tools/package/edgeprofConfig.cmake.in': '@WRAPS@'}
NOT_LIBC = re.compile(r'SystemNative_|Rh[A-Zp]|_ZN|OnFirstChance')


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else '.')
    def read(path):
        return (root / path).read_text()
    wraps = set(re.findall(r'--wrap=(\w+)', read('port/linux/link.opt')))
    sources = ''.join(read(f'port/linux/{name}.c') for name in ('signal_wrap', 'thread_wrap', 'thread_wrap_c11', 'exit_wrap', 'filter_wrap', 'alone_wrap'))
    targets = read('port/nativeaot/EdgeProf/build/EdgeProf.targets')
    package = {name for names in re.findall(r'<EdgeProfWrap Include="([^"]+)"', targets)
               for name in names.split(';') if not NOT_LIBC.match(name)}
    lists = {
        'the sources': set(re.findall(r'^WRAP\([^,]+, (\w+)|^WRAP_MASKED\((\w+)|^(?:int|void|long) __wrap_(\w+)\(', sources, re.M)),
        'EdgeProf.targets': package,
    }
    lists['the sources'] = {name for names in lists['the sources'] for name in names if name and name != 'result'}
    hooks = set(re.findall(r'^(?:HOOK\([^,]+, |(?:BLOCK|MAP)_HOOK\()(\w+)', read('port/linux/memory_hooks.h'), re.M)) - {'name'}
    memory = {'port/linux/memory.opt': set(re.findall(r'--wrap=(\w+)', read('port/linux/memory.opt'))),
              'port/linux/preload_next.opt': set(re.findall(r'--defsym=(\w+)=ep_memory_\1\b', read('port/linux/preload_next.opt'))),
              'EdgeProf.targets': {name for names in re.findall(r'<EdgeProfMemoryHook Include="([^"]+)"', targets) for name in names.split(';')}}
    bodies = read('port/linux/write_hooks.h')
    written = set(re.findall(r'^(?:(?:HOOK|(?:STDIO|CLOSE)_HOOK)\([^,]+, |(?:WRITE|TEXT|SYNC)_HOOK\()(\w+)', bodies, re.M))
    writes = {'port/linux/write.opt': set(re.findall(r'--wrap=(\w+)', read('port/linux/write.opt'))),
              'port/linux/write_next.opt': set(re.findall(r'--defsym=(\w+)=ep_write_\1\b', read('port/linux/write_next.opt'))),
              'EdgeProf.targets': {name for names in re.findall(r'<EdgeProfWriteHook Include="([^"]+)"', targets) for name in names.split(';')}}
    errors = [f'{where} and port/linux/link.opt differ: {" ".join(sorted(names ^ wraps))}' for where, names in lists.items() if names != wraps]
    errors += [f'{where} and port/linux/memory_hooks.h differ: {" ".join(sorted(names ^ hooks))}' for where, names in memory.items() if names != hooks]
    errors += [f'{where} and port/linux/write_hooks.h differ: {" ".join(sorted(names ^ written))}' for where, names in writes.items() if names != written]
    errors += [f'{path} does not use {word}' for path, word in USE_THE_FILE.items() if word not in read(path)]
    errors += [f'{path} repeats the list' for path in USE_THE_FILE if '--wrap=' in read(path)]
    return report(errors, f'{len(wraps)} functions and {len(hooks)} of memory, {len(written)} of writes, the same everywhere')


if __name__ == '__main__':
    sys.exit(main())
