#!/usr/bin/env python3
"""Compares what a service on a board used with what its profile says.

    check_profile.py --edgeprof TOOL --symbols DIR --truth FILE --profile FILE --name TEXT [--coverage PCT] [--exact PCT] [--hz HZ]

--truth is the line of JSON that service.c prints. The profile is read by the host tool (edgeprof cat --folded), whose
decoder shares no code with the device's encoder. Checked: each part's share of the CPU time, the sum against getrusage,
that nothing was lost and everything delivered, that stacks are rooted, a clean stop; with --hz also that samples come as
often as the kernel ticks.
"""
import argparse
import json
import pathlib
import subprocess
import sys

SHARE_POINTS = 1.5    # of 100; in qemu-user (--coverage 2), whose ticks are the host's, twice as much
SHARE_PERIODS = 4     # each thread's timer is exact to one period: with few samples that is more
ROOTED_PCT = 95       # what C libraries without tables leave


def parts_of(folded, names):
    """Nanoseconds under each function of names, and in total."""
    found, total = dict.fromkeys(names, 0), 0
    for line in folded.splitlines():
        stack, value = line.rsplit(' ', 1)
        total += int(value)
        for name in set(stack.split(';')) & found.keys():
            found[name] += int(value)
    return found, total


def check(truth, folded, args):
    errors = []
    names = truth['parts']
    points = max(SHARE_POINTS * args.coverage, 100 * SHARE_PERIODS / max(1, truth['samples']))
    found, total = parts_of(folded, names)
    seconds = sum(names.values())
    for name, used in names.items():
        want, got = 100 * used / seconds, 100 * found[name] / max(1, sum(found.values()))
        if abs(want - got) > points:
            errors.append(f'{name} used {want:.1f} % and is shown with {got:.1f} %')
    accounted = 100 * (truth['weight'] + truth['ends']) / truth['used']
    if abs(accounted - 100) > args.coverage:
        errors.append(f'{accounted:.2f} % of the CPU time is accounted for')
    if abs(total / 1e9 - truth['weight'] - truth['ends']) > 0.02 * truth['used']:
        errors.append(f'the profile adds up to {total / 1e9:.3f} s, the device said {truth["weight"] + truth["ends"]:.3f} s')
    if truth['lost'] or truth['stop'] or truth['delivered'] != truth['messages'] or not truth['messages']:
        errors.append(f'lost {truth["lost"]}, stop returned {truth["stop"]}, {truth["delivered"]} of {truth["messages"]} delivered')
    rooted = 100 * (truth['exact'] + truth['gap']) / max(1, truth['samples'])
    if rooted < ROOTED_PCT:
        errors.append(f'only {rooted:.1f} % of {truth["samples"]} stacks are rooted')
    rate = truth['samples'] / truth['used']
    if args.hz and not 0.93 * args.hz <= rate <= 1.02 * args.hz:
        errors.append(f'{rate:.0f} samples a second of CPU time, the kernel ticks {args.hz} times')
    exact = 100 * truth['exact'] / max(1, truth['samples'])
    if exact < args.exact:
        errors.append(f'only {exact:.1f} % of {truth["samples"]} stacks are exact')
    shown = ', '.join(f'{name} {100 * value / max(1, sum(found.values())):.1f}' for name, value in found.items())
    quality = f'exact {exact:.1f} %, gap {truth["gap"]}, cut {truth["cut"]}, rooted {rooted:.1f} %'
    return errors, f'{shown}; accounted {accounted:.2f} %, {truth["samples"]} samples, {rate:.0f}/s, {quality}', accounted


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--edgeprof', required=True)
    parser.add_argument('--symbols', required=True)
    parser.add_argument('--truth', type=pathlib.Path, required=True)
    parser.add_argument('--profile', required=True)
    parser.add_argument('--name', required=True)
    parser.add_argument('--coverage', type=float, default=1.0)
    parser.add_argument('--exact', type=float, default=0)
    parser.add_argument('--hz', type=int, default=0)
    parser.add_argument('--figure')
    args = parser.parse_args()

    truth = json.loads(next(line for line in args.truth.read_text().splitlines() if line.startswith('{"parts"')))
    folded = subprocess.run([args.edgeprof, 'cat', '--folded', '--symbols', args.symbols, args.profile],
                            check=True, capture_output=True, text=True).stdout
    errors, summary, accounted = check(truth, folded, args)
    print(f'{args.name}: {summary}', file=sys.stderr if args.figure else sys.stdout)
    for error in errors:
        print(f'check_profile: {args.name}: {error}', file=sys.stderr)
    if args.figure and not errors:
        print(f'figure {args.figure} {accounted:.2f} pct')
    return 1 if errors else 0


if __name__ == '__main__':
    sys.exit(main())
