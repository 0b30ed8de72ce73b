#!/usr/bin/python3
"""Tags and spans that C# sets reach the profile that the tools show: the CPU time of each label is what the program's own
clocks say of the work under it, wherever the work went.

usage: labels.py EDGEPROF CONTEXT WORK"""
import os
import re
import subprocess
import sys

edgeprof, context, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
os.makedirs(work, exist_ok=True)
profile = os.path.join(work, "profile")
if os.path.exists(profile):
    os.remove(profile)


def output(command):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)
    if done.returncode != 0:
        sys.exit(f"labels.py: {' '.join(command[:3])}: {done.stdout}{done.stderr}")
    return done.stdout


def folded(*options):
    """(stack, value) of the profile's CPU samples."""
    lines = output([edgeprof, "cat", "--folded", "--kind", "cpu", *options, "--symbols", os.path.dirname(context), profile])
    return [(stack, int(value)) for stack, value in (line.rsplit(" ", 1) for line in lines.splitlines())]


truth = {label: int(ns) for label, ns in re.findall(r"truth (\S+) (\d+)", output([context, "labels", "file://" + profile]))}
labels = {label.split("=")[0] for label in truth}
if labels != {"step", "span_id", "trace_id", "endpoint"} or len(truth) != 8:
    sys.exit(f"labels.py: the program says {truth}")
everything = sum(value for _, value in folded())
under_burn = sum(value for stack, value in folded("--label", "step=often") if "Labelled.Burn" in stack)
if under_burn < 0.9 * sum(value for _, value in folded("--label", "step=often")):
    sys.exit("labels.py: what is labelled step=often is not Labelled.Burn")
by_step = {stack.split(";")[0]: 0 for stack, _ in folded("--group-by", "step")}
for stack, value in folded("--group-by", "step"):
    by_step[stack.split(";")[0]] += value
# Shares of the work's time, whose truth is known; a sample more or less is a fraction of a percent.
work_ns = truth["step=often"] + truth["step=rare"]
for label, ns in sorted(truth.items()):
    told = sum(value for _, value in folded("--label", label))
    print(f"labels.py: {label}: {told / 1e6:.0f} ms told, {ns / 1e6:.0f} ms by the program's clocks")
    if abs(told - ns) > 0.05 * work_ns:
        sys.exit(f"labels.py: {label} is {told} ns, the program used {ns}")
    if label in by_step and abs(by_step[label] - told) > 1e6:
        sys.exit(f"labels.py: grouped {label} is {by_step[label]} ns, selected {told}")
if not by_step.keys() >= {"step=often", "step=rare"}:
    sys.exit(f"labels.py: groups are {sorted(by_step)}")
print(f"labels.py: {100 * work_ns / everything:.0f} % of the CPU time was under labels")
