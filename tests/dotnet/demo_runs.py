#!/usr/bin/env python3
"""Runs the demo several times and compares the burning functions' shares of the profile with their own CPU clocks.

    demo_runs.py RUNS SECONDS

Prints a table of differences in points, their mean with its standard error (a mean of more than 3 standard errors is a systematic difference), and
their spread in parts of the binomial standard deviation for that number of samples. Ends with 1 if a run of the demo fails, which it does when a
share is off by more than burn_shares.py allows, or when a mean is systematic and larger than SYSTEMATIC points.
"""
import math
import os
import re
import statistics
import subprocess
import sys

SYSTEMATIC = 0.5


def run(seconds):
    done = subprocess.run([os.environ.get("MAKE", "make"), "-s", "--no-print-directory", "demo"], env=dict(os.environ, DEMO_SECONDS=str(seconds)), capture_output=True, text=True,
                          check=False)
    shares = re.findall(r"(\S+): (\S+) % by its own CPU clock, (\S+) % by the profile", done.stdout)
    samples = re.search(r"burn shares: .* of (\d+) samples", done.stdout)
    truncated = re.search(r"truncated: (\S+) %", done.stdout)
    if len(shares) != 3 or not samples:
        sys.exit(f"demo_runs.py: no shares: {done.stdout[-500:]}{done.stderr[-500:]}")
    said = re.search(r"burn_shares: (.*)", done.stderr)
    return [(name, float(own), float(told)) for name, own, told in shares], int(samples[1]), truncated and truncated[1], done.returncode, said and said[1]


def main():
    runs, seconds = int(sys.argv[1]), int(sys.argv[2])
    off, spread, failed = {}, {}, 0
    for number in range(runs):
        shares, samples, truncated, code, said = run(seconds)
        for name, own, told in shares:
            off.setdefault(name, []).append(told - own)
            spread.setdefault(name, []).append((told - own) / (100 * math.sqrt(own / 100 * (1 - own / 100) / samples)))
        print(f"{number + 1:2}: {samples:6} samples, " + ", ".join(f"{name} {own:.2f} {told:.2f} {told - own:+.2f}" for name, own, told in shares)
              + f", [truncated] {truncated} %" + (f": {said}" if code else ""), flush=True)
        failed += code != 0
    systematic = []
    for name, values in off.items():
        mean, error = statistics.mean(values), statistics.stdev(values) / math.sqrt(runs)
        print(f"{name}: mean {mean:+.3f} +- {error:.3f}, worst {max(map(abs, values)):.2f} points, spread {math.sqrt(statistics.mean(v * v for v in spread[name])):.2f}")
        if abs(mean) > max(3 * error, SYSTEMATIC):
            systematic.append(name)
    print(f"figure demo_shares_worst_points {max(abs(v) for values in off.values() for v in values):.2f} points")
    if failed or systematic:
        sys.exit(f"demo_runs.py: {failed} of {runs} runs failed; systematic: {', '.join(systematic) or 'none'}")


main()
