#!/usr/bin/env python3
"""Lists by symbol and instruction where an unwinder was wrong.

    report.py PLACES PROGRAM [--symbols PROGRAM.dbg] [--top N] [--honest FIGURES] [--need NAME=LEAST ...]
              [--tools PREFIX] [--sysroot FOLDER]

PLACES is what shadow_report() wrote. Uses nm and objdump of binutils. For each place: how many steps, whether the
interrupted frame's own caller was wrong ("top") or that of a frame further down, and the instruction there: the
interrupted one, or the one behind the call whose caller was missed.

--honest: FIGURES is what the program printed. Lists each place of a stack that is wrong and calls itself exact, and
fails on any. --need: fails when that figure of FIGURES is below LEAST. --tools and --sysroot: binutils and libraries
of another architecture.
"""
import argparse
import bisect
import collections
import os
import re
import subprocess
import sys

PLACES = ["managed", "program", "libc", "other", "assembly"]
WRONG = re.compile(r"wrong (\d+) sure (\d+) place (\d) pc (\S+) frame (\d+) of (\d+),(\d+) callee (\S+) "
                   r"expected (\S+) got (\S+)")


class Module:
    """Code of one file: symbols and single instructions by address in memory."""

    tools, sysroot, syntax = "", "", ["-M", "intel"]

    def __init__(self, start, end, bias, path, symbols):
        if os.path.exists(self.sysroot + path):
            path = self.sysroot + path
        self.start, self.end, self.bias, self.path = start, end, bias, path
        self.symbols_path = symbols or path
        self.symbols = None

    def load(self):
        self.symbols = []
        for options in (["-n"], ["-n", "-D"]):
            found = subprocess.run([self.tools + "nm", "--defined-only", *options, self.symbols_path], capture_output=True, text=True)
            for line in found.stdout.splitlines():
                parts = line.split(maxsplit=2)
                if len(parts) == 3 and parts[1] in "tTwWiuV" and not parts[2].startswith("_fram"):
                    self.symbols.append((int(parts[0], 16), parts[2].split("@")[0]))
        self.symbols.sort()

    def symbol(self, address):
        if self.symbols is None:
            self.load()
        at = address - self.bias
        i = bisect.bisect_right(self.symbols, (at, "\uffff")) - 1
        return (self.symbols[i][1], at - self.symbols[i][0]) if i >= 0 else ("?", at)

    def instructions(self, address, count):
        at = address - self.bias
        text = subprocess.run([self.tools + "objdump", "-d", "--no-show-raw-insn", *self.syntax, f"--start-address={at:#x}",
                               f"--stop-address={at + 40:#x}", self.path], capture_output=True, text=True).stdout
        found = re.findall(r"^ +[0-9a-f]+:\t(.*)$", text, re.M)
        return [" ".join(line.split()) for line in found[:count]]


def read(path, program, symbols):
    """The walker's name, the modules, the wrong places, and how many steps found no room in the list."""
    modules, wrong, walker, lost = [], [], "?", 0
    for line in open(path, encoding="utf-8"):
        if line.startswith("walker "):
            walker = line.split()[1]
        elif line.startswith("lost "):
            lost = int(line.split()[1])
        elif line.startswith("module "):
            _, start, end, bias, name = line.split(maxsplit=4)
            name = name.strip()
            own = name == "/proc/self/exe"
            modules.append(Module(int(start, 16), int(end, 16), int(bias, 16), program if own else name,
                                  symbols if own else None))
        elif match := WRONG.match(line):
            wrong.append([int(field, 0) for field in match.groups()])
    return walker, modules, wrong, lost


def find(modules, address):
    return next((m for m in modules if m.start <= address < m.end), None)


def name(modules, address):
    module = find(modules, address)
    if module is None:
        return f"{address:#x}"
    symbol, offset = module.symbol(address)
    return f"{symbol}+{offset:#x}"


def cause(modules, at, top):
    module = find(modules, at)
    if module is None:
        return "code outside every module", []
    code = module.instructions(at, 3)
    if not top:
        return "caller of a frame further down", code
    if module.symbol(at)[1] == 0:
        return "first instruction of a function", code
    if any(line.startswith("ret") for line in code[:1]):
        return "at a return", code
    if any(line.startswith("ret") for line in code[:3]) or code[:1] and code[0].startswith(("pop", "leave", "ldp x29")):
        return "in an epilogue", code
    if code[:1] and re.match(r"push|sub rsp|mov rbp,rsp|lea rbp|stp|sub sp|mov x29|add x29, sp", code[0]):
        return "in a prologue", code
    return "in a body", code


def judge(path, needs, modules, wrong, lost):
    """What is not as wanted: stacks that are wrong and call themselves exact, and figures that are too low."""
    figures = {}
    for line in open(path, encoding="utf-8"):
        if line.startswith("figure "):
            figures[line.split()[1]] = float(line.split()[2])
    sure = {figure: value for figure, value in figures.items() if figure.startswith("shadow_wrong_exact_")}
    bad = [] if sure else [f"{path} has no figure shadow_wrong_exact_..."]
    bad += [f"{value:.0f} stacks are wrong and call themselves exact ({figure})" for figure, value in sure.items() if value]
    for w in wrong:
        if w[1]:
            code = cause(modules, w[3], True)[1]
            bad.append(f"wrong and exact {w[1]} times in {PLACES[w[2]]} code: {name(modules, w[3])}: {' | '.join(code)}; "
                       f"frame {w[4]}: expected {name(modules, w[8])}, got {name(modules, w[9])}")
    if lost:
        bad.append(f"{lost} wrong steps found no room in the list of places")
    for need in needs:
        figure, least = need.split("=")
        if figures.get(figure, -1.0) < float(least):
            bad.append(f"{figure} is {figures.get(figure)}, at least {least} is wanted")
    return bad


def list_places(walker, modules, wrong, top_count):
    total = sum(w[0] for w in wrong)
    print(f"walker {walker}: {len(wrong)} places, {total} wrong steps")
    groups = collections.defaultdict(lambda: [0, 0, 0, None])
    for w in wrong:
        steps, sure, place, pc, frame, _, _, callee = w[:8]
        at = pc if frame <= 1 else callee
        group = groups[(place, frame <= 1, at)]
        group[0] += steps
        group[1] += sure
        group[2] += 1
        group[3] = group[3] or w
    causes = collections.Counter()
    for i, ((place, top, at), (steps, sure, count, w)) in enumerate(sorted(groups.items(), key=lambda g: -g[1][0])):
        if i >= top_count:
            causes[(place, "not looked at")] += steps
            continue
        why, code = cause(modules, at, top)
        causes[(place, why)] += steps
        print(f"{steps:8} {PLACES[place]:8} {why}: {name(modules, at)}" + (f" ({sure} times sure of it)" if sure else ""))
        print(f"         code     {' | '.join(code)}")
        print(f"         frame {w[4]} of {w[5]} (got {w[6]}): expected {name(modules, w[8])}, got {name(modules, w[9])}"
              + ("" if top else f"; {count} places, first {name(modules, w[3])}"))
    print()
    for (place, why), steps in causes.most_common():
        print(f"{steps:8} {PLACES[place]:8} {why}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("places")
    parser.add_argument("program")
    parser.add_argument("--symbols")
    parser.add_argument("--top", type=int, default=40)
    parser.add_argument("--honest", metavar="FIGURES")
    parser.add_argument("--need", action="append", default=[], metavar="NAME=LEAST")
    parser.add_argument("--tools", default="")
    parser.add_argument("--sysroot", default="")
    arguments = parser.parse_args()
    Module.tools, Module.sysroot = arguments.tools, arguments.sysroot
    if arguments.tools:
        Module.syntax = []
    walker, modules, wrong, lost = read(arguments.places, arguments.program, arguments.symbols)
    if arguments.honest:
        bad = judge(arguments.honest, arguments.need, modules, wrong, lost)
        for line in bad:
            print(f"report.py: {arguments.program}: {line}", file=sys.stderr)
        return 1 if bad else 0
    list_places(walker, modules, wrong, arguments.top)
    return 0


if __name__ == "__main__":
    sys.exit(main())
