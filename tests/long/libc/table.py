#!/usr/bin/env python3
"""Compares what program.c did with its profiles, one row for each way to build it, and judges the rows.

    table.py run  --arch NAME --edgeprof TOOL --dir DIR --preload LIBRARY WAY...   runs DIR/WAY here, three at a time
    table.py read --arch NAME --edgeprof TOOL --dir DIR --log FILE WAY...          they ran in QEMU: DIR/shown/WAY
    table.py show ROWS.json...                                                     one table of all

`run` and `read` write DIR/rows.json. CPU: the sum of the profile against getrusage, and the share of each part. Cut: by
CPU time. Gap: all stacks with a guess, those of waits too, of 100 samples of CPU time. Waits: the time of each function
that waits, and the class that it is shown as.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

ACCOUNTED = 1.0       # % of the CPU time
SHARE_POINTS = 1.5    # of 100; each thread's timer is exact to one period
EXACT, CUT = 95, 0.5  # % of the CPU time, and of the time of waits
LEAST = 3             # samples that say nothing yet
CUT_ARM = 2.0         # 32-bit ARM: the C libraries have no tables there
WAIT_NS = 45e6        # a sample of waiting stands for 10 ms; two periods at each end of a function's time
CLASS_PCT = 3         # all functions of one class; or the error of one function


def run_here(way, args):
    program, profile = args.dir / way, args.dir / f'{way}.profile'
    profile.unlink(missing_ok=True)
    endpoint = f'file://{profile.resolve()}'
    command, more = [program, endpoint], {}
    if way.endswith('-preload'):
        command, more = [program], {'LD_PRELOAD': args.preload, 'EDGEPROF_LEVEL': 'high', 'EDGEPROF_ENDPOINT': endpoint}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | more, timeout=120)
    if done.returncode or done.stderr:
        sys.exit(f'table.py: {way}: exit code {done.returncode}\n{done.stdout}{done.stderr}')
    return done.stdout, profile


def run_in_qemu(way, args):
    text = args.log.read_text(errors='replace').replace('\r', '')
    before = text.split(f'@end {way} ')[0]
    return before[before.rindex('{"time_bits"'):].splitlines()[0], args.dir / 'shown' / way


def folded(args, profile, *options):
    """[([frame...], value)...]"""
    text = subprocess.run([args.edgeprof, 'cat', '--folded', '--symbols', args.dir, *options, profile], check=False, capture_output=True, text=True).stdout
    return [(path.split(';'), int(value)) for path, value in (line.rsplit(' ', 1) for line in text.splitlines())]


def stats_of(args, profile):
    text = subprocess.run([args.edgeprof, 'cat', profile], check=True, capture_output=True, text=True).stdout
    lines = re.findall(r'^  stats samples=(\d+) exact=(\d+) gap=(\d+) cut=(\d+) ', text, re.M)
    return [max(int(line[i]) for line in lines) for i in range(4)]


def wait_errors(truth, args, profile):
    errors, want, got = [], {}, {}
    stacks = folded(args, profile, '--kind', 'wait')
    for name, (leaf, seconds) in truth['waits'].items():
        mine = [(frames, value) for frames, value in stacks if f'wait_{name}' in frames]
        found = sum(value for frames, value in mine if frames[-1] == f'[{leaf}]')
        if not leaf:
            errors += [f'{name} shows as a wait'] if mine else []
            continue
        want[leaf], got[leaf] = want.get(leaf, 0) + seconds * 1e9, got.get(leaf, 0) + found
        if abs(found - seconds * 1e9) > WAIT_NS:
            errors.append(f'{name} waited {seconds * 1e3:.0f} ms, shown as [{leaf}] are {found / 1e6:.0f} ms')
    if cut_pct(stacks) > CUT:
        errors.append(f'{cut_pct(stacks):.1f} % of the waits have cut stacks')
    errors += [f'[{leaf}] waited {want[leaf] / 1e6:.0f} ms, shown are {got[leaf] / 1e6:.0f} ms' for leaf in want
               if not errors and abs(got[leaf] - want[leaf]) > max(CLASS_PCT / 100 * want[leaf], WAIT_NS)]
    if not any('wait_mutex_lock' in frames for frames, _ in folded(args, profile, '--kind', 'lock')):
        errors.append('the contended lock shows not as a lock')
    return errors


def cut_pct(stacks):
    return 100 * sum(value for frames, value in stacks if frames[0] == '[stack cut]') / max(1, sum(value for _, value in stacks))


def judge(way, output, profile, args):
    truth = json.loads(output)
    samples, _, gap, _ = stats_of(args, profile)
    cpu = folded(args, profile)
    total = sum(value for _, value in cpu)
    names = truth['parts']
    found = {name: sum(value for frames, value in cpu if name in frames) for name in names}
    row = {'arch': args.arch, 'way': way, 'samples': samples, 'accounted': total / truth['used'] / 1e7,
           'gap': 100 * gap / samples, 'cut': cut_pct(cpu), 'errors': wait_errors(truth, args, profile)}
    row['waits'] = not row['errors']
    row['exact'] = 100 - row['gap'] - row['cut']
    points = max(SHARE_POINTS, 400 / samples)
    for name, used in names.items():
        want, got = 100 * used / sum(names.values()), 100 * found[name] / max(1, sum(found.values()))
        if abs(want - got) > points:
            row['errors'].append(f'{name} used {want:.1f} % and is shown with {got:.1f} %')
    if 'preload' not in way and not any('wait_clock_nanosleep' in frames for frames, _ in folded(args, profile, '--kind', 'thread')) and \
            not any('other_side' in frames for frames, _ in folded(args, profile, '--kind', 'thread')):
        row['errors'].append('the stacks of all threads are missing')
    if abs(row['accounted'] - 100) > ACCOUNTED:
        row['errors'].append(f'{row["accounted"]:.2f} % of the CPU time is accounted for')
    if row['exact'] < EXACT or row['cut'] > max(CUT_ARM if args.arch == 'armhf' else CUT, 100 * LEAST / samples):
        row['errors'].append(f'exact {row["exact"]:.1f} %, cut {row["cut"]:.1f} % of {samples} stacks')
    return row


def show(rows):
    print(f'{"":9}{"":22}{"samples":>8}{"CPU accounted %":>17}{"exact %":>9}{"gap %":>7}{"cut %":>7}  waits right')
    for row in rows:
        print(f'{row["arch"]:9}{row["way"]:22}{row["samples"]:8}{row["accounted"]:17.2f}{row["exact"]:9.1f}{row["gap"]:7.1f}'
              f'{row["cut"]:7.1f}  {"yes" if row["waits"] else "no"}')
    for row in rows:
        for error in row['errors']:
            print(f'table.py: {row["arch"]} {row["way"]}: {error}', file=sys.stderr)
    return 1 if any(row['errors'] for row in rows) else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('command', choices=('run', 'read', 'show'))
    parser.add_argument('--arch')
    parser.add_argument('--edgeprof')
    parser.add_argument('--dir', type=pathlib.Path)
    parser.add_argument('--preload')
    parser.add_argument('--log', type=pathlib.Path)
    parser.add_argument('names', nargs='+')
    args = parser.parse_args()

    if args.command == 'show':
        return show([row for name in args.names for row in json.loads(pathlib.Path(name).read_text())])
    measure = run_here if args.command == 'run' else run_in_qemu
    with concurrent.futures.ThreadPoolExecutor(3 if args.command == 'run' else 1) as pool:
        outputs = list(pool.map(lambda way: measure(way, args), args.names))
    rows = [judge(way, *output, args) for way, output in zip(args.names, outputs)]
    if args.command == 'run':  # beside other work a row may be off by chance: what is wrong twice is wrong
        rows = [judge(row['way'], *run_here(row['way'], args), args) if row['errors'] else row for row in rows]
    (args.dir / 'rows.json').write_text(json.dumps(rows))
    status = show(rows)
    return status


if __name__ == '__main__':
    sys.exit(main())
