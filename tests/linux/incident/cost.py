#!/usr/bin/python3
"""What the history costs at level low, in instructions, which no other work on the machine changes.

    cost.py COST [MOST_PPM]

A program with one busy processor and stacks of 24 frames; the cost of its CPU samples is a part of a processor that executes
1e9 instructions a second. A wait costs the walk of its stack besides, which on the simulated port, whose code has no
tables, takes some times as long as elsewhere: its figure is an upper bound. Prints `figure NAME VALUE UNIT` lines; fails above MOST_PPM.
"""
import re
import subprocess
import sys

program = sys.argv[1]
most = float(sys.argv[2]) if len(sys.argv) > 2 else None
PER_SECOND = 1e9


def instructions(way, seconds, long_waits, short_waits):
    done = subprocess.run(['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null', program, way, str(seconds), str(long_waits), str(short_waits)],
                          capture_output=True, text=True, check=True)
    return int(re.search(r'Collected : (\d+)', done.stderr)[1])


def per_second(way, long_waits, short_waits=0):
    """Without start and end, and when memory has been full for long."""
    begin, end = 100, 250
    return (instructions(way, end, long_waits, short_waits) - instructions(way, begin, long_waits, short_waits)) / (end - begin)


def figure(name, value, unit):
    print(f'figure {name} {value:.1f} {unit}')
    return value


plain, busy, waits = per_second('plain', 0), per_second('history', 0), per_second('history', 10)
plain_waits = per_second('plain', 10)
short = (per_second('history', 10, 1000) - waits - (per_second('plain', 10, 1000) - plain_waits)) / 1000
figure('history_instructions_per_sample', (busy - plain) / 19, 'instructions')
figure('history_instructions_per_wait', (waits - plain_waits - (busy - plain)) / 10, 'instructions')
figure('history_instructions_per_short_wait', short, 'instructions')
ppm = figure('history_cost_low_ppm', (busy - plain) / PER_SECOND * 1e6, 'ppm')
if most is not None and ppm > most:
    sys.exit(f'cost.py: {ppm:.1f} ppm, at most {most:.1f}')
