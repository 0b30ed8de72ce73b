#!/usr/bin/env python3
"""Starts a board in QEMU with an initramfs of init.c, and waits until it has switched itself off.

    system.py --log FILE --out DIR --timeout SECONDS --kernel FILE --initrd FILE -- QEMU...

The console goes to --log, which stays. Lines "@end NAME CODE SECONDS" are reported; files that init shows are written to
--out. Fails without a verdict, with a bad one, and when the guest's kernel complained (a panic, an oops).
"""
import argparse
import pathlib
import re
import subprocess
import sys

END = re.compile(r'@end (\S+) (\d+) ([\d.]+)')
SHOWN = re.compile(r'@([\w-]+) ((?:[0-9a-f]{2})+)$')
COMPLAINT = re.compile(r'Kernel panic|Internal error|Unable to handle|BUG:|rcu_sched.*stall|Call trace', re.I)


def start(args):
    command = args.qemu + ['-nographic', '-nic', 'none', '-no-reboot', '-kernel', args.kernel, '-initrd', args.initrd,
                           '-append', 'console=ttyAMA0 quiet panic=-1 ' + args.append]
    with args.log.open('wb') as log:
        try:
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, timeout=args.timeout)
        except subprocess.TimeoutExpired:
            return f'did not switch itself off within {args.timeout} s'
    return None


def read_log(path, out):
    """The jobs' ends, the verdict, complaints; writes what was shown."""
    ends, verdict, complaints, shown = [], None, [], {}
    for line in path.read_text(errors='replace').replace('\r', '').splitlines():
        if match := END.search(line):
            ends.append(match.groups())
        elif match := SHOWN.search(line):
            shown.setdefault(match[1], bytearray()).extend(bytes.fromhex(match[2]))
        elif '@verdict ' in line:
            verdict = line.split('@verdict ', 1)[1]
        elif COMPLAINT.search(line):
            complaints.append(line.strip())
    for name, data in shown.items():
        (out / name).write_bytes(data)
    return ends, verdict, complaints


def what_failed(path):
    """The last lines of each job that failed; without such a job, of the console."""
    part, failed = [], []
    for line in path.read_text(errors='replace').replace('\r', '').splitlines():
        if SHOWN.search(line):
            continue
        part.append(line)
        if match := END.search(line):
            if match[2] != '0':
                failed += part[-40:]
            part = []
    return failed or part[-80:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--log', type=pathlib.Path, required=True)
    parser.add_argument('--out', type=pathlib.Path, required=True)
    parser.add_argument('--timeout', type=int, default=600)
    parser.add_argument('--kernel', required=True)
    parser.add_argument('--initrd', required=True)
    parser.add_argument('--append', default='')
    parser.add_argument('qemu', nargs='+')
    args = parser.parse_args()

    args.out.mkdir(parents=True, exist_ok=True)
    problem = start(args)
    ends, verdict, complaints = read_log(args.log, args.out)
    for name, code, seconds in ends:
        print(f'    {name}: exit code {code}, {seconds} s')
    problem = problem or (f'the kernel said: {complaints[0]}' if complaints else None)
    if not problem and not (verdict and verdict.startswith('ok')):
        problem = f'verdict: {verdict}'
    if problem:
        print(f'system: {problem}; the console is in {args.log}', file=sys.stderr)
        for line in what_failed(args.log):
            print('    ' + line, file=sys.stderr)
        return 1
    print(f'    verdict {verdict}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
