#!/usr/bin/env python3
"""Measures what the library adds to a program, feature by feature, and writes the tables of docs/memory.md, or compares
them with the page.

    memory_table.py --write|--check PAGE [--work DIR] ARCH:COMPILER:ARCHIVE:TLS:OPTIONS...

Each program starts and stops the profiler; a feature's row is what its call adds. A program is linked with
--gc-sections and without. --check allows a difference of 5 % and 1 KiB, and judges only the compiler version of the page.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys

from report import report

BEGIN, END = '<!-- make memory-tables: begin -->', '<!-- make memory-tables: end -->'
BASE = """
static unsigned char memory[EP_MEMORY_DEFAULT];
int main(void)
{
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory};
    %s
    return ep_start(&config) ? 1 : ep_stop(2000);
}
"""
# Name, header, statements before ep_start(), and what else is linked.
FEATURES = [
    ('start and stop: CPU, HTTP, files', 'edgeprof', '', ''),
    ('settings from the environment', 'edgeprof', '(void)ep_config_from_env(&config);', ''),
    ('token from a file', 'edgeprof', '(void)ep_token_file("/t");', ''),
    ('lines about delivery', 'edgeprof', 'extern void say(const char *); void (*volatile to)(const char *) = 0; ep_notice_to(to);', ''),
    ('marked waits', 'edgeprof', 'ep_wait_begin(EP_WAIT_LOCK); ep_wait_end();', ''),
    ('watched waits', 'hooks', '(void)ep_waits_watch_start();', ''),
    ('stacks of all threads', 'edgeprof', '(void)ep_threads_dump();', ''),
    ('pprof', 'pprof', '(void)ep_pprof_start();', ''),
    ('names', 'pprof', 'config.names = &ep_names_process;', ''),
    ('pprof and names to Pyroscope', 'pprof', '(void)ep_pprof_start(); config.names = &ep_names_process; config.push = &ep_push_pyroscope;', ''),
    ('spool', 'spool', 'struct ep_spool_config spool = {0}; (void)ep_spool_start(&spool);', ''),
    ('control endpoint', 'endpoint', '(void)ep_control_start("9001", 0);', ''),
    ('pull endpoint', 'endpoint', 'struct ep_pull_config pull = {0}; (void)ep_pull_start(&pull);', ''),
    ('crash records', 'crash', 'struct ep_crash_config crash = {0}; (void)ep_crash_start(&crash);', ''),
    ('incidents', 'incident', 'struct ep_incident_config incident = {0}; (void)ep_incident_start(&incident);', ''),
    ('OpenTelemetry contexts', 'otel', '(void)ep_otel_publish(&config, ""); (void)ep_otel_threads(); (void)ep_otel_read();', ''),
    ('watchdog', 'watchdog', 'void (*volatile done)(const struct ep_watchdog_interval *) = 0; (void)ep_watchdog_start(done);', ''),
    ('native memory (`memory.opt`)', 'edgeprof', '', 'memory'),
    ('writes to files (`write.opt`)', 'edgeprof', '', 'write'),
    ('TLS', 'tls', 'struct ep_tls_config tls = {0}; (void)ep_tls_setup(&tls);', 'tls'),
]
COLUMNS = ('code', 'constants', '.bss')


class Build:
    def __init__(self, text):
        self.arch, self.cc, self.archive, self.tls, options = text.split(':', 4)
        self.options = shlex.split(options)

    def compiler(self):
        return subprocess.run([*shlex.split(self.cc), '-dumpfullversion'], check=True, capture_output=True, text=True).stdout.strip()

    def link(self, source, out, more, gc):
        libraries = [self.tls] * (more == 'tls') + [self.archive, '@port/linux/link.opt'] + [f'@port/linux/{more}.opt'] * (more in ('memory', 'write'))
        command = [*shlex.split(self.cc), *self.options, '-Icore', '-Os', '-x', 'c', source, '-x', 'none',
                   *(['-Wl,--gc-sections'] if gc else []), *libraries, '-lpthread', '-ldl', '-lresolv', '-o', out]
        subprocess.run(command, check=True)
        return sizes(out)

    def plain(self, work):
        source, out = work / f'{self.arch}-plain.c', work / f'{self.arch}-plain'
        source.write_text('int main(void) { return 0; }\n')
        subprocess.run([*shlex.split(self.cc), *self.options, '-Os', source, '-o', out], check=True)
        return sizes(out)


def sizes(program):
    """Bytes of code, of constants (with unwind tables and relocations) and of zeroed memory that a program maps."""
    found = dict.fromkeys(COLUMNS, 0)
    lines = subprocess.run(['readelf', '-SW', program], check=True, capture_output=True, text=True).stdout
    for name, kind, size, flags in re.findall(r'\] (\S+) +(\w+) +[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+) \d+ +([A-Z]*) ', lines):
        if 'A' in flags and 'T' not in flags:
            column = '.bss' if kind == 'NOBITS' else 'code' if 'X' in flags else 'constants'
            found[column] += int(size, 16)
    return found


def measure(build, work):
    """A list of (row's name, six figures in bytes): with --gc-sections and without."""
    plain, rows = build.plain(work), []

    def program(number):
        name, header, text, more = FEATURES[number]
        source = work / f'{build.arch}-{number}.c'
        source.write_text(f'#include <edgeprof/edgeprof.h>\n#include <edgeprof/{header}.h>\n' + BASE % text)
        return [build.link(source, work / f'{build.arch}-{number}-{gc}', more, gc) for gc in (1, 0)]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        all_ = list(pool.map(program, range(len(FEATURES))))
    for (name, *_), pair in zip(FEATURES, all_):
        before = [plain, plain] if not rows else all_[0]
        rows.append((name, [now[column] - was[column] for now, was in zip(pair, before) for column in COLUMNS]))
    # The block of the program itself is not the library's.
    block = block_size(build)
    rows[0][1][2] -= block
    rows[0][1][5] -= block
    return rows


def block_size(build):
    """EP_MEMORY_DEFAULT with the build's options."""
    text = '#include <edgeprof/edgeprof.h>\nEP_MEMORY_DEFAULT\n'
    done = subprocess.run([*shlex.split(build.cc), *build.options, '-Icore', '-E', '-P', '-x', 'c', '-'], input=text, check=True,
                          capture_output=True, text=True)
    return eval(re.sub(r'[uU]\b', '', done.stdout.strip().splitlines()[-1]))


def kib(size):
    return f'{max(0, size) / 1024:.1f}' if size >= 52 else ''


def table(build, rows):
    head = [f'**{build.arch}**, gcc {build.compiler()}, KiB:', '',
            '| | code | constants | .bss | all sections: code | constants | .bss |', '|---|---:|---:|---:|---:|---:|---:|']
    return head + [f'| {name} | ' + ' | '.join(kib(size) for size in figures) + ' |' for name, figures in rows] + ['']


def compare(build, rows, page):
    found = re.search(rf'\*\*{build.arch}\*\*, gcc (\S+), KiB:\n\n.*\n.*\n((?:\|.*\n)+)', page)
    if not found:
        return [f'the page has no table of {build.arch}']
    if found[1] != build.compiler():
        print(f'memory_table: {build.arch}: the page is of gcc {found[1]}, this is {build.compiler()}: not compared')
        return []
    listed = {line.split('|')[1].strip(): [float(word or 0) * 1024 for word in map(str.strip, line.split('|')[2:8])]
              for line in found[2].splitlines()}
    if list(listed) != [name for name, _ in rows]:
        return [f'{build.arch}: the page has other rows']
    return [f'{build.arch}: {name}: {column} {now} bytes, the page has {was / 1024:.1f} KiB: make memory-tables'
            for name, figures in rows for column, now, was in zip(COLUMNS * 2, figures, listed[name])
            if abs(now - was) > max(1024, was / 20)]


def main():
    parser = argparse.ArgumentParser()
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument('--write', type=pathlib.Path)
    way.add_argument('--check', type=pathlib.Path)
    parser.add_argument('--work', type=pathlib.Path, required=True)
    parser.add_argument('builds', nargs='+', type=Build)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    measured = [(build, measure(build, args.work)) for build in args.builds]
    page = (args.write or args.check).read_text()
    if args.check:
        return report([error for build, rows in measured for error in compare(build, rows, page)],
                      f'{len(measured)} tables of {len(FEATURES)} rows')
    before, rest = page.split(BEGIN)
    text = '\n'.join(line for build, rows in measured for line in table(build, rows))
    args.write.write_text(before + BEGIN + '\n\n' + text + '\n' + END + rest.split(END)[1])
    return 0


if __name__ == '__main__':
    sys.exit(main())
