#!/usr/bin/env python3
"""The signal table: what signal_table.c says of each row, and how much of the row's CPU time has stacks.

    table.py --name NAME --edgeprof EDGEPROF --dir DIR [--log FILE] [-- COMMAND...]

COMMAND runs `signal_table --all DIR`; without one its lines are in --log and the profiles in DIR already.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

LEAST = 98.0  # % of CPU time with a stack; some ticks of each thread are settled at its end
# One thread of these works 2 ms and sleeps 1 ms: a tick of 4 ms meets it by chance, up to 13 ticks too seldom were seen.
LEAST_OF = dict.fromkeys(('ppoll', 'pselect', 'epoll_pwait'), 95.0)
TRIES = 3  # the machine is shared
ROW = re.compile(r'^row (\S+) (\S+) (\d+) (\d+) (.*)$', re.M)


def share_of(edgeprof, profile):
    """Percent of the weight in stacks that have a frame of code, and whether there is any."""
    if not profile.exists():
        return None
    done = subprocess.run([edgeprof, 'cat', '--folded', profile], capture_output=True, text=True)
    lines = [line.rsplit(' ', 1) for line in done.stdout.splitlines()]
    total = sum(int(value) for _, value in lines)
    seen = sum(int(value) for stack, value in lines if any(not frame.startswith('[') for frame in stack.split(';')))
    return 100 * seen / total if total else None


def judge(row, share):
    name, target, status, wanted, text = row
    if status != wanted:
        return f'exit status {status}, not {wanted}'
    if wanted == '0' and name != 'exec_pending' and (share is None or share < LEAST_OF.get(name, LEAST)):
        return 'no profile' if share is None else f'only {share:.1f} % has stacks'
    return ''


def run(command, only=None):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ | ({'SIGNAL_ROW': only} if only else {})).stdout


def look(args, row):
    """The row's share and what is wrong with it."""
    base = f'{row[0]}-{row[1]}.profile'
    second = args.dir / (base + '.second')
    share = share_of(args.edgeprof, second if second.exists() else args.dir / base)
    return share, judge(row, share)


def again(args, row):
    """The row once more: only shares depend on what else the machine does."""
    for old in args.dir.glob(f'{row[0]}-{row[1]}.*'):
        old.unlink()
    return ROW.findall(run(args.command, f'{row[0]}-{row[1]}'))[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--name', required=True)
    parser.add_argument('--edgeprof', required=True)
    parser.add_argument('--dir', type=pathlib.Path, required=True)
    parser.add_argument('--log', type=pathlib.Path)
    parser.add_argument('command', nargs='*')
    args = parser.parse_args()

    if args.command:
        args.dir.mkdir(parents=True, exist_ok=True)
        for old in args.dir.iterdir():
            old.unlink()
    text = run(args.command) if args.command else args.log.read_text(errors='replace').replace('\r', '')
    failed = 0
    rows = ROW.findall(text)
    for row in rows:
        share, problem = look(args, row)
        for _ in range(TRIES - 1):
            if not args.command or row[2] != row[3] or not problem:
                break
            share, problem = look(args, row := again(args, row))
        failed += bool(problem)
        percent = '     -' if share is None else f'{share:6.1f}'
        print(f'    {row[0]:21} {row[1]:4} {"FAILED" if problem else "ok":6} status {row[2]:>3}, {percent} % with stacks, {row[4]}'
              + (f'  <- {problem}' if problem else ''))
    print(f'{args.name}: {len(rows) - failed} of {len(rows)} rows hold')
    print(f'figure signal_rows_failed_{args.name} {failed} rows')
    return 1 if failed or not rows else 0


if __name__ == '__main__':
    sys.exit(main())
