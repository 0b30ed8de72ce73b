#!/usr/bin/python3
"""`edgeprof run` with programs that the profiler can hardly be preloaded into, or not at all: sanitizers, static programs, other
architectures and C libraries, set-user-id programs, scripts. What can be profiled is; of what cannot, one line says why before it starts.

usage: targets.py EDGEPROF WORK"""
import os
import re
import shutil
import subprocess
import sys

from kit import fail

edgeprof, work = (os.path.abspath(argument) for argument in sys.argv[1:3])
folder = os.path.dirname(os.path.abspath(__file__))
os.makedirs(work, exist_ok=True)
SUM = "print(sum(i * i for i in range(4000000)))"


def build(name, compiler, *flags, source="sanitized.c"):
    path = os.path.join(work, name)
    done = subprocess.run([compiler, "-g", "-O1", *flags, os.path.join(folder, source), "-o", path, "-lpthread"], capture_output=True, text=True)
    if done.returncode:
        fail(f"{name} does not compile: {done.stderr}")
    return path


def run(command, *options, env=None, user=None, program=edgeprof):
    """Exit code, standard output, edgeprof's own lines, the other lines of standard error."""
    done = subprocess.run([program, "run", *options, "--", *command], capture_output=True, text=True, timeout=120, env={**os.environ, **(env or {})},
                          user=user, group=user, extra_groups=user and [], cwd="/")
    lines = done.stderr.splitlines()
    ours = [line for line in lines if line.startswith("edgeprof: ")]
    return done.returncode, done.stdout, ours, [line for line in lines if line not in ours]


def alone(command, env=None):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **(env or {})})


def verdicts(text):
    return re.findall(r"^SUMMARY: (\w+: [\w-]+)", text, re.M)


def sanitizer(name, compiler, *flags, modes=("",), env=None):
    path = build(name, compiler, *flags)
    for mode in modes:
        command = [path, mode] if mode else [path]
        truth = alone(command, env)
        code, out, ours, rest = run(command, "--level", "high", "--service", name, env=env)
        if (code, verdicts("\n".join(rest))) != (truth.returncode, verdicts(truth.stderr)):
            fail(f"{name} {mode}: {code} instead of {truth.returncode}\n{out}{rest}")
        if not mode and (ours or rest or not re.search(r"^ .* deep$", out, re.M)):  # a sanitizer that complains ends by _exit()
            fail(f"{name} {mode}: no profile, or more lines than without\n{out}{ours}{rest}")
        print(f"  {' '.join((name, mode)).strip()}: exit code {code}, as without edgeprof")
    return path


def sanitizers():
    library = os.path.dirname(subprocess.run(["clang", "-print-file-name=libclang_rt.asan-x86_64.so"], capture_output=True, text=True).stdout)
    every = ("", "overflow", "leak")
    path = sanitizer("asan-gcc", "gcc", "-fsanitize=address", modes=every)
    sanitizer("asan-gcc-return", "gcc", "-fsanitize=address", env={"ASAN_OPTIONS": "detect_stack_use_after_return=1"})
    sanitizer("asan-gcc-static", "gcc", "-fsanitize=address", "-static-libasan", modes=every)
    sanitizer("asan-clang", "clang", "-fsanitize=address", modes=every)
    sanitizer("asan-clang-shared", "clang", "-fsanitize=address", "-shared-libasan", modes=every, env={"LD_LIBRARY_PATH": library})
    suppressed = os.path.join(work, "tsan.supp")  # docs/troubleshooting.md
    with open(suppressed, "w", encoding="utf-8") as file:
        file.write("race:libedgeprof-preload.so\n")
    for compiler in ("gcc", "clang"):
        sanitizer(f"tsan-{compiler}", compiler, "-fsanitize=thread", env={"TSAN_OPTIONS": f"suppressions='{suppressed}'"})
    sanitizer("ubsan-gcc", "gcc", "-fsanitize=undefined")
    sanitizer("leak-gcc", "gcc", "-fsanitize=leak", modes=("", "leak"))
    code, out, _, rest = run(["sh", "-c", f"{path}; exit $?"])
    if code or rest or "deep" not in out:
        fail(f"a program with ASan that a shell starts: {code} {out} {rest}")
    if "exitcode=9:verify_asan_link_order=0" not in run(["env"], env={"ASAN_OPTIONS": "exitcode=9"})[1]:
        fail("ASAN_OPTIONS of the user's is lost")


def refused(name, command, words, code=3, output=None, **options):
    """One line, in which the words are, and the program runs as it does without."""
    found, out, ours, rest = run(command, **options)
    if len(ours) != 1 or not all(word in ours[0] for word in words) or found != code or rest and options.get("user") is None:
        fail(f"{name}: exit code {found}, {ours} {rest} {out}")
    if output is not None and output not in out:
        fail(f"{name}: did not run: {out}")
    print(f"  {name}: {ours[0]}")


def others():
    static = build("static", "gcc", "-static")
    refused("static", [static], ("linked statically",), output="done")
    refused("static-pie", [build("static-pie", "gcc", "-static-pie", "-fPIE")], ("linked statically",), output="done")
    refused("musl", [build("musl", "musl-gcc")], ("does not use glibc", "ld-musl"), output="done")
    small = build("small", "gcc", "-m32")
    runs = alone(["sh", "-c", small]).returncode == 0  # not every 64-bit kernel runs 32-bit programs
    refused("32 bits", [small], ("i386 (32 bits)", "x86-64 (64 bits)"), code=3 if runs else 126, output="done" if runs else None)
    foreign = build("foreign", "aarch64-linux-gnu-gcc", "-static")
    emulated = alone(["sh", "-c", foreign]).returncode == 0
    refused("another architecture", [foreign], ("aarch64 (64 bits)", "x86-64 (64 bits)"), code=3 if emulated else 126)
    script = os.path.join(work, "script")
    with open(script, "w") as file:
        file.write(f"#! /usr/bin/env python3\n{SUM}\n")
    os.chmod(script, 0o755)
    fine("a script", [script])
    fine("by PATH", ["python3", "-c", SUM])
    with open(script, "w") as file:
        file.write(f"#!{static}\n")
    refused("a script of a static interpreter", [script], ("linked statically", static), output="done")
    fine("the dynamic linker", ["/lib64/ld-linux-x86-64.so.2", "/usr/bin/python3", "-c", SUM])
    code, _, ours, _ = run(["true"], "--only", "nothing-such")
    if code != 3 or len(ours) != 1 or "--only" not in ours[0]:
        fail(f"nothing is chosen: {code} {ours}")


def fine(name, command):
    code, out, ours, rest = run(command)
    if code or any(line.startswith("edgeprof: run:") for line in ours) or rest or "cpu:" not in out:
        fail(f"{name}: {code} {out} {ours} {rest}")
    print(f"  {name}: profiled")


def names():
    """The service, modules and functions have the names of the files that run, however the program was started."""
    loader = "/lib64/ld-linux-x86-64.so.2"
    program = build("named", "gcc", source="named.c")
    build("libnamed.so", "gcc", "-shared", "-fPIC", "-DLIBRARY", source="named.c")
    opener = build("opener", "gcc", "-DRELATIVE", source="named.c")
    for service, command in (("named", [program]), ("named", ["./named"]), ("named", [loader, program]), ("named", [loader, "./named"]),
                             ("named", [loader, "--library-path", "/usr/lib", "--argv0", "other", "./named"]), ("opener", ["./opener"]), ("opener", [opener]),
                             ("opener", [loader, "./opener"])):
        done = subprocess.run([edgeprof, "run", "--level", "high", "--", *command], capture_output=True, text=True, timeout=120, cwd=work)
        hot = re.search(r"([\d.]+)% +\S+ +[\d.]+% +\S+ +hidden_hot", done.stdout)
        if not done.stdout.startswith(f"{service} cpu:") or not hot or float(hot[1]) < 40:
            fail(f"{command}: no hidden_hot of {service}:\n{done.stdout}{done.stderr}")
    print("  by the dynamic linker, by relative paths: names of service and functions")


def rights():
    """Only root can make another user's program."""
    if os.getuid() != 0:
        return
    shipped = ("edgeprof", "libedgeprof-preload.so")
    private = os.path.join("/tmp", f"edgeprof-targets-{os.getpid()}")
    os.mkdir(private)
    try:
        os.chmod(private, 0o755)
        for name in shipped:
            shutil.copy(os.path.join(os.path.dirname(edgeprof), name), private)
        program = os.path.join(private, "edgeprof")
        for name, mode, words in (("set-user-id", 0o4755, "user root"), ("set-group-id", 0o2755, "group root")):
            path = os.path.join(private, name)
            shutil.copy("/bin/cat", path)
            os.chmod(path, mode)
            refused(name, [path, "/etc/passwd"], (name, words), output="root", user=65534, program=program)
            os.chmod(path, 0o755)
            # Mostly 3: so short a program has no sample.
            code, _, ours, _ = run([path, "/etc/passwd"], user=65534, program=program)
            if code not in (0, 3) or any("so the system" in line for line in ours):
                fail(f"the same without the bit: {code} {ours}")
    finally:
        shutil.rmtree(private)


sanitizers()
others()
names()
rights()
print("targets.py: programs with sanitizers are profiled, of all others one line says why not")
