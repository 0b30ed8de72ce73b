#!/usr/bin/env python3
"""A NativeAOT runtime, or an archive, that differs from what the package knows: each kind that needs the difference is off with one
line, the other kinds and the program are as before. The published program is linked again with renamed symbols and with
hooks that have another layout in mind. Two cases are measured at a time.

    drift.py [--plain] [--only REGEX] --link FILE --archive FILE --work FOLDER --cc "COMMAND..."

FILE: the linker's arguments of the publish, one a line. --plain: only the program as published. --only: only the cases whose names match.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

HOOKED = ("wait", "lock", "alloc", "live", "exception", "gc", "heap")
# renamed symbol: kinds that are off
SYMBOLS = {
    "RhpGcAlloc": "alloc live",
    "RhAllocateNewArray": "alloc live",
    "RhGetAllocatedBytesForCurrentThread": "alloc live",
    "RhHandleSet": "live",
    "OnFirstChanceException": "exception",
    "RhThrowEx": "exception",
    "_ZN15GCToEEInterface11GcStartWorkEii": "gc live heap",
    "RhGetMemoryInfo": "heap",
    "S_P_CoreLib_System_Threading_Lock__TryEnterSlow_0": "lock",
}
# name, source, (old, new)..., kinds that are off, part of the reason
LAYOUTS = (
    ("frame", "frame_x86_64.c", [(".pc = frame[0], .fp = frame[1]", ".pc = frame[1], .fp = frame[0]")], "alloc live", "transition frame"),
    ("sp", "frame_x86_64.c", [(".sp = frame[9]", ".sp = frame[8]")], "alloc live", "transition frame"),
    ("argument", "alloc_hooks.c", [("frame_wrong(frame, probe->top)", "frame_wrong((const uintptr_t *)elements, probe->top)")],
     "alloc live", "fourth argument"),
    ("type", "alloc_hooks.c", [("is_bytes(type)", "is_bytes((const void *)((uintptr_t)type + 8))")], "alloc live", "MethodTable"),
    ("no type", "alloc_hooks.c", [("if (!is_bytes(type))", "if (!is_bytes((const void *)16))")], "alloc live", "MethodTable"),
    ("handle", "live_handles.c", [("== (uintptr_t)object", "== (uintptr_t)object + 8")], "live", "weak handles"),
    ("exception", "trampoline_x86_64.S", [("call    ep_dotnet_first_chance", "mov $64, %edi; call ep_dotnet_first_chance")], "exception", "something else"),
    ("heap", "heap_sizes.c", [("uint64_t before[5];", "uint64_t before[9];"), ("== 0x28", "== 0x48"), ("== 0x60", "== 0x80"), ("== 0x100", "== 0x120")],
     "heap", "RH_GH_MEMORY_INFO"),
)
LATER = ("exception", "heap")  # seen only when there is one
a = None
failures = []


def check(good, what):
    print(f"{'ok  ' if good else 'FAIL'} {what}", flush=True)
    if not good:
        failures.append(what)


def link(name, replaced):
    """Links again with other files in place of some; the program's path. No check reads the debug information."""
    program, arguments = a.work / name / "Drift", a.link.read_text().splitlines()
    arguments = [str(replaced.get(argument, argument)) for argument in arguments]
    arguments[arguments.index("-o") + 1] = str(program)
    subprocess.run(["gcc", *arguments, *(["-Wl,--strip-debug"] if replaced else [])], check=True, stdout=subprocess.DEVNULL)
    return program


def folder(name):
    path = a.work / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def renamed(name, symbol):
    """The inputs of the link that have the symbol, without the archive, with the symbol under another name."""
    inputs = [f for f in a.link.read_text().splitlines() if f.endswith((".o", ".a")) and f != str(a.archive) and os.path.isfile(f)
              and symbol.encode() in pathlib.Path(f).read_bytes()]
    replaced = {}
    for i, path in enumerate(inputs):
        replaced[path] = a.work / name / f"{i}-{os.path.basename(path)}"
        subprocess.run(["objcopy", "--redefine-sym", f"{symbol}={symbol}_renamed", path, replaced[path]], check=True)
    return replaced


def changed(name, source, pairs):
    """The archive with one file of port/nativeaot/ changed."""
    where = a.work / name
    for path in pathlib.Path("port/nativeaot").glob("*.[chS]"):
        shutil.copy(path, where)
    text = (where / source).read_text()
    for old, new in pairs:
        assert old in text, (source, old)
        text = text.replace(old, new)
    (where / source).write_text(text)
    compiled = {"glue.h": "glue.c"}.get(source, source)
    member = pathlib.Path(compiled).stem + ".o"
    archive = where / "libedgeprof.a"
    shutil.copy(a.archive, archive)
    subprocess.run([*shlex.split(a.cc), "-c", where / compiled, "-o", where / member], check=True)
    subprocess.run(["ar", "r", archive, where / member], check=True)
    return {str(a.archive): archive}


def measure(name, prepare):
    """Links and runs; on a thread of its own. prepare: makes what replaces inputs of the link."""
    where = folder(name)
    program = link(name, prepare())
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
    done = subprocess.run([program, where / "profile"], capture_output=True, text=True, env=environment, timeout=120)
    shutil.rmtree(where)
    return done


def read(name, done):
    lines = done.stdout.splitlines()
    check(done.returncode == 0 and lines[-1:] == ["done"], f"{name}: the program ends as it should {done.returncode if done.returncode else ''}")
    told = {"kind": {}, "unavailable": {}}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word in told:
            key, _, value = rest.partition(" ")
            told[word][key.rstrip(":")] = value
        else:
            told[word] = rest
    return told, done.stderr.splitlines()


def fits(name, told, said, off, reason="", later=False):
    check(told.get("started") == "True", f"{name}: the profiler runs")
    missing = told["unavailable"]
    check(sorted(missing) == sorted(off), f"{name}: unavailable: {missing or 'nothing'}")
    check(all(reason in why for why in missing.values()), f"{name}: the reason says '{reason}'")
    wanted = [] if later else [f"edgeprof: {kind} is off: {why}" for kind, why in missing.items()]
    check(sorted(said) == sorted(wanted), f"{name}: one line for each: {said}")
    counts = {kind: told["kind"].get(kind) for kind in HOOKED}
    check(all((counts[kind] is None) == (kind in off) for kind in HOOKED),
          f"{name}: data of the other kinds only: {counts}")


def plain(told, said):
    fits("plain", told, said, ())
    check(told.get("label") == "a name" and told.get("pool") == ".NET TP Worker", f"plain: threads are called {told.get('label')}, {told.get('pool')}")


def disagreement(told, said):
    name = "handshake"
    check(told.get("started") == "False" and len(said) == 1 and "another version" in said[0], f"{name}: not started, with one line: {said}")
    check(said == ["edgeprof: not started: " + told.get("supported", "").removeprefix("False ")], f"{name}: the program can ask for the reason: {told.get('supported')}")


def thread_argument(told, said):
    name = "thread"
    fits(name, told, said, ())
    check(told.get("label") == "Drift", f"{name}: an argument that is no handle gives no name: {told.get('label')}")


def cases():
    """Name, what replaces inputs of the link, and what judges the output."""
    yield "plain", dict, plain
    if a.plain:
        return
    yield "handshake", lambda: changed("handshake", "glue.h", [("    const char *service;", "    uint64_t added;\n    const char *service;")]), disagreement
    yield "thread", lambda: changed("thread", "thread_names.c", [("set_name(thread);", "set_name((void *)64);")]), thread_argument
    for name, source, pairs, off, reason in LAYOUTS:
        yield (name, lambda name=name, source=source, pairs=pairs: changed(name, source, pairs),
               lambda told, said, name=name, off=off, reason=reason: fits(name, told, said, off.split(), reason, name in LATER))
    for name, off in SYMBOLS.items():
        reason = name if name.startswith(("Rh", "On")) else "the runtime "
        yield (name, lambda name=name: renamed(name, name),
               lambda told, said, name=name, off=off, reason=reason: fits(name, told, said, off.split(), reason))


def main():
    global a
    parser = argparse.ArgumentParser()
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--cc", default="gcc")
    for option in ("link", "archive", "work"):
        parser.add_argument("--" + option, required=True, type=lambda path: pathlib.Path(path).resolve())
    a = parser.parse_args()
    with concurrent.futures.ThreadPoolExecutor(2) as two:
        wanted = [case for case in cases() if case[0] == "plain" or re.search(a.only, case[0])]
        running = [(name, two.submit(measure, name, prepare), judge) for name, prepare, judge in wanted]
        for name, result, judge in running:
            judge(*read(name, result.result()))
    print(f"drift.py: {len(failures)} failures")
    return len(failures) > 0


if __name__ == "__main__":
    sys.exit(main())
