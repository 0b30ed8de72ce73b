#!/usr/bin/env python3
"""Compares a profile with the measured CPU time of the burning functions.

    burn_shares.py TOP TRUTH     TOP: `edgeprof top --json`, of all functions; TRUTH: what the program has printed at its end

Shares are percentages of the burning functions, including their callees. Prints the measured shares, the line
`burn shares: A B C of N samples`, and how much of the functions' time the profile has: if little, profiles were lost. Exit
code 1: a share differs by more than 1.5 points; or, of fewer than 1,500 samples, by more than 3.5 standard deviations of as many
independent ones; or more than 0.1 % of the profile is in [truncated]. Samples come at equal distances of CPU time and bursts
take several of them, so on a quiet machine shares vary by a third of what those of independent samples do, on a busy one by
two thirds.
"""
import json
import math
import re
import sys

TRUNCATED_MOST = 0.1  # percent
POINTS_MOST, ENOUGH = 1.5, 1500


def weight(top, function):
    """Time of the function, in any namespace."""
    pattern = re.compile(r"(^|\.)" + re.escape(function) + "$")
    found = [row["total"] for row in top["top"] if pattern.search(row["name"])]
    if len(found) != 1:
        sys.exit(f"burn_shares: {len(found)} functions in the profile are called {function}, expected one")
    return found[0]


def compare(top_path, truth_path):
    with open(top_path, encoding="utf-8") as file:
        top = json.load(file)
    with open(truth_path, encoding="utf-8") as file:
        truth = json.load(file)["shares"]
    weights = [weight(top, share["function"]) for share in truth]
    shares = [100 * w / sum(weights) for w in weights]
    samples = round(top["samples"] * sum(weights) / top["total"])
    if samples == 0:
        sys.exit("burn_shares: the profile has no samples of the burning functions")
    for share, measured in zip(truth, shares):
        print(f"{share['function']}: {share['percent']:.2f} % by its own CPU clock, {measured:.2f} % by the profile")
    print(f"burn shares: {' '.join(f'{share:.1f}' for share in shares)} of {samples} samples")
    told = f"the profile has {100 * sum(weights) / sum(share['cpuNs'] for share in truth):.1f} % of these functions' CPU time"
    print(told)
    truncated = 100 * sum(row["total"] for row in top["top"] if row["name"] == "[truncated]") / top["total"]
    print(f"truncated: {truncated:.3f} % of the CPU time is in stacks that were cut for lack of room")
    if truncated > TRUNCATED_MOST:
        sys.exit(f"burn_shares: {truncated:.2f} % are in [truncated], allowed are {TRUNCATED_MOST}")
    for share, measured in zip(truth, shares):
        p = share["percent"] / 100
        limit = POINTS_MOST if samples >= ENOUGH else max(POINTS_MOST, 350 * math.sqrt(p * (1 - p) / samples))
        if abs(measured - 100 * p) > limit:
            sys.exit(f"burn_shares: {share['function']} is off by {abs(measured - 100 * p):.2f} points, allowed are {limit:.2f}; {told}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    compare(sys.argv[1], sys.argv[2])
