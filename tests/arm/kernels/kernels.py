#!/usr/bin/env python3
"""Runs field.c on kernels as they are found in the field, in QEMU, and prints a table: case, kernel, rate asked and held, CPU time accounted
for, what was reported.

    kernels.py --edgeprof TOOL --work DIR --qemu COMMAND --init FILE --program FILE [--periods FILE...] [--memory]
               --kernel FILE=NAME:HZ[:CASE,CASE...]...

NAME is for the table. CASEs default to all; without hotplug the machine has one CPU. Judged: the program's exit code,
CPU time within 1 % (4 % right after boot), the rate (the kernel's HZ at most), nothing lost, all delivered, profiles'
times in order and none longer than the run, that no line comes from the kernel as a complaint. A kernel with a row that
is wrong runs once more; what is wrong both times fails.
"""
import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
QEMU = HERE.parent / 'qemu'
RATES = (97, 250, 1000)
CHANGES = ('hotplug', 'clock', 'idle', 'suspend')
NS = 1_000_000_000
FIGURES = 6  # of periods.c
wrong = []  # (row, what is wrong with it)


def jobs_of(cases, periods):
    lines = ['boot 120 /bin/field plain 97 file:///tmp/boot'] + [f'rate{rate} 120 /bin/field plain {rate} file:///tmp/rate{rate}' for rate in RATES]
    lines.append('calls 120 /bin/field calls 1000 file:///tmp/calls')
    for case in cases:
        lines += [f'{case} 120 /bin/field {case} 97 file:///tmp/{case}', f'show {case} /tmp/{case}']
    for program in (pathlib.Path(program).name for program in periods):
        lines += [f'{program} 120 /bin/{program}', f'{program}-new-calls 120 /bin/{program} no-32-bit-times']
    return '\n'.join(lines) + '\n'


def boot(args, name, kernel, cases, processors, memory, jobs=None):
    """Returns what the programs printed, the other lines of the console, and the folder of what was shown."""
    folder = args.work / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'jobs').write_text(jobs or jobs_of(cases, args.periods))
    files = [f'init={args.init}', f'jobs={folder / "jobs"}', f'bin/field={args.program}', *(f'bin/{pathlib.Path(p).name}={p}' for p in args.periods)]
    subprocess.run([sys.executable, QEMU / 'initramfs.py', folder / 'initrd.gz', *files], check=True)
    machine = [*shlex.split(args.qemu), '-smp', str(processors), '-m', str(memory), '-rtc', 'clock=vm', '-icount', 'shift=2,sleep=off']
    done = subprocess.run([sys.executable, QEMU / 'system.py', '--log', folder / 'console', '--out', folder, '--timeout', '500', '--kernel', kernel,
                           '--initrd', folder / 'initrd.gz', '--', *machine], capture_output=True, text=True)
    text = (folder / 'console').read_text(errors='replace').replace('\r', '')
    if done.returncode != 0:
        wrong.append((f'{name}', done.stderr.strip().splitlines()[0] if done.stderr.strip() else done.stdout))
    facts = [json.loads(match[1]) for match in re.finditer(r'(\{.*"case".*\})', text)]
    return facts, [line for line in text.splitlines() if 'edgeprof' in line or line.startswith(('field:', 'periods:'))], folder


def times_of(args, path, limit_s):
    """Errors in the times of a file of profiles: (start, duration) must follow each other and be no longer than the run."""
    text = subprocess.run([args.edgeprof, 'cat', path], check=True, capture_output=True, text=True).stdout
    errors, before, wall = [], 0, []
    for line in text.splitlines():
        if match := re.search(r'unix_minus_uptime=(\d+)', line):
            wall.append(int(match[1]))
        if not (match := re.search(r'profile kind=1\(cpu\) start=(\d+) duration=(\d+)', line)):
            continue
        start, duration = int(match[1]), int(match[2])
        if start < before or duration > limit_s * NS or duration == 0:
            errors.append(f'a profile starts at {start} and lasts {duration} ns; the last one ended at {before}')
        before = start + duration
    return errors if before else ['no profile'], [round((value - wall[0]) / NS) for value in wall]


def judge(args, kernel, hz, fact, folder, booting=False):
    """booting: the kernel is still busy with itself, and ticks come late: 4 %, at any rate."""
    name, errors, said = fact['case'], [], '-'
    accounted = 100 * (fact['weight'] + fact['ends']) / fact['used']
    held = fact['samples'] / fact['weight'] if fact['weight'] else 0
    if abs(accounted - 100) > (4 if booting else 1):
        errors.append(f'{accounted:.2f} % of the CPU time is accounted for')
    if fact['lost'] or not fact['messages'] or fact['delivered'] != fact['messages'] or fact['failures']:
        errors.append(f'lost {fact["lost"]}, {fact["delivered"]} of {fact["messages"]} delivered, {fact["failures"]} failures')
    if name == 'plain':
        most = min(hz, fact['asked'])
        if not booting and not 0.85 * most <= held <= 1.05 * most:
            errors.append(f'{held:.0f} samples a second, not {most}')
        said = f'{fact["samples"]} samples of {1000 / held:.1f} ms'
    if name == 'calls':
        if fact['eintr'] > fact['samples']:
            errors.append('more calls ended than there were signals')
        said = f'{fact["eintr"]} of {fact["calls"]} calls ended with EINTR, eintr_per_million_signals={fact["eintr_per_million_signals"]}'
    if (folder / name).exists():
        late, wall = times_of(args, folder / name, fact['wall'])
        errors += late
        days = [round(value / 86400, 1) for value in wall]
        said = f'wall clock moved by {days} days' if name == 'clock' else f'{fact["messages"]} messages, run of {fact["wall"]:.1f} s'
    row = f'{"boot" if booting else name if name != "plain" else "rate":8} | {kernel:24} | {fact["asked"]:5} | {held:6.0f} | {accounted:7.2f} | {said}'
    print(row + (' | WRONG: ' + '; '.join(errors) if errors else ''), flush=True)
    # The program that begins while the kernel boots is "plain" too: its rate tells it from the others.
    wrong.extend((f'{kernel}, {"boot" if booting else name} {fact["asked"]}', error) for error in errors)


def memory_rows(args, kernel, name, hz):
    for memory in (512, 128):
        job = 'rate 120 /bin/field plain 97 file:///tmp/rate\n'
        facts, _, folder = boot(args, f'{name}-{memory}', kernel, [], 1, memory, job)
        for fact in facts:
            judge(args, f'{name}, {memory} MB', hz, fact, folder)
            print(f'{"":8} | {"":24} | resident {fact["rss_kib"]} KiB, of which edgeprof\'s block is at most {fact["block_kib"]} KiB')
            if fact['rss_kib'] > 1024:
                wrong.append((f'{name}, {memory} MB', f'the program is resident with {fact["rss_kib"]} KiB'))


def run_kernel(args, argument, memory):
    path, _, what = argument.partition('=')
    name, hz, *cases = what.split(':')
    cases = cases[0].split(',') if cases else list(CHANGES)
    facts, lines, folder = boot(args, name, path, cases, 2 if 'hotplug' in cases else 1, 512)
    want = 1 + len(RATES) + 1 + len(cases)
    if len(facts) != want:
        wrong.append((name, f'{len(facts)} of {want} programs reported'))
    for place, fact in enumerate(facts):
        judge(args, name, int(hz), fact, folder, place == 0)
    if said := [line for line in lines if line.startswith('edgeprof:')]:
        wrong.append((f'{name}, messages', said))
    for line in lines:
        if not line.startswith('periods:') or 'WRONG' in line:
            print(f'{"":8} | {name:24} | {line}')
    if right := [line for line in lines if line.startswith('periods:') and 'WRONG' not in line]:
        print(f'{"periods":8} | {name:24} | {len(right)} figures of waits and ticks as expected: time_t of 32 and 64 bits, calls with 32-bit times '
              'allowed and refused')
    if args.periods and len(right) != 2 * FIGURES * len(args.periods):
        wrong.append((f'{name}, periods', f'{len(right)} right figures of periods.c'))
    if memory:
        memory_rows(args, path, name, int(hz))


def main():
    parser = argparse.ArgumentParser()
    for option in ('--edgeprof', '--qemu', '--init', '--program'):
        parser.add_argument(option, required=True)
    parser.add_argument('--work', type=pathlib.Path, required=True)
    parser.add_argument('--periods', nargs='*', default=[])
    parser.add_argument('--memory', action='store_true', help='the first kernel also with little memory')
    parser.add_argument('--kernel', action='append', default=[], required=True)
    args = parser.parse_args()

    print('case     | kernel                   | asked | held/s | CPU % | reported')
    failed = []
    for index, argument in enumerate(args.kernel):
        run_kernel(args, argument, args.memory and index == 0)
        if first := dict(wrong):
            wrong.clear()
            print(f'once more: {"; ".join(first)}')
            run_kernel(args, argument, args.memory and index == 0)
            failed += [f'{row}: {error}' for row, error in wrong if row in first]
            wrong.clear()
    for text in failed:
        print(f'kernels: {text}', file=sys.stderr)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
