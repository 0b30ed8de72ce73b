#!/usr/bin/env python3
"""How much of a CPU profile is exact: shares of CPU time in one run.

    share.py --edgeprof TOOL --name NAME [--samples LEAST] [--exact LEAST] [--cut MOST] [--figure ARCH] FILE

FILE is what a file:// endpoint wrote, with CPU samples only. The library counts stacks by quality; each stands for the
period of its message. Fails when there are fewer stacks than --samples, or less than --exact percent are exact, or more
than --cut percent are cut. --figure prints both shares for `make bench` instead of a sentence.
"""
import argparse
import re
import subprocess
import sys


def messages(edgeprof, path):
    """Of each message its period and exact, gap, cut, which the library counts from its start on."""
    text = subprocess.run([edgeprof, 'cat', path], check=True, capture_output=True, text=True).stdout
    before = (0, 0, 0)
    for message in re.split(r'^message ', text, flags=re.M)[1:]:
        period = re.search(r'^ +profile kind=1\(cpu\) .*\bperiod=(\d+)', message, re.M)
        stats = re.search(r'^ +stats .*\bexact=(\d+) gap=(\d+) cut=(\d+)', message, re.M)
        if period and stats:
            now = tuple(map(int, stats.groups()))
            yield int(period[1]), [n - b for n, b in zip(now, before)]
            before = now


def share(part, whole):
    return 100 * part / max(1, sum(whole))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('file')
    parser.add_argument('--edgeprof', required=True)
    parser.add_argument('--name', required=True)
    parser.add_argument('--samples', type=int, default=1)
    parser.add_argument('--exact', type=float, default=0)
    parser.add_argument('--cut', type=float, default=100)
    parser.add_argument('--figure')
    a = parser.parse_args()
    stacks, time = [0, 0, 0], [0, 0, 0]
    for period, counts in messages(a.edgeprof, a.file):
        stacks = [s + n for s, n in zip(stacks, counts)]
        time = [t + period * n for t, n in zip(time, counts)]
    exact, cut = share(time[0], time), share(time[2], time)
    if a.figure:
        print(f'figure aot10_exact_{a.figure}_pct {exact:.2f} %')
        print(f'figure aot10_cut_{a.figure}_pct {cut:.2f} %')
        return 0
    print(f'{a.name}: {sum(stacks)} stacks, {stacks[0]} exact, {stacks[1]} with a gap, {stacks[2]} cut; of the CPU time '
          f'{exact:.2f} % exact, {cut:.2f} % cut')
    if sum(stacks) >= a.samples and exact >= a.exact and cut <= a.cut:
        return 0
    print(f'{a.name}: wanted are {a.samples} stacks, {a.exact} % exact, at most {a.cut} % cut', file=sys.stderr)
    return 1


if __name__ == '__main__':
    sys.exit(main())
