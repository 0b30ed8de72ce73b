#!/usr/bin/env python3
"""The runner's verdicts, on a small Makefile: passed, failed, skipped, timed out, shared and alone.  run_test.py FOLDER"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

MAKEFILE = """
good: build/common
    @echo good; cat $<; touch build/a; for i in $$(seq 300); do [ ! -e build/b ] || exit 0; sleep 0.1; done; exit 1
other: build/common
    @touch build/b; for i in $$(seq 300); do [ ! -e build/a ] || exit 0; sleep 0.1; done; exit 1
build/common:
    @echo built >>build/count; touch $@
bad:
    @echo '[  FAILED  ] first'; seq 100; echo why it failed; exit 3
dry:
    @echo SKIPPED: nothing to drink
stuck:
    @sh -c 'echo $$$$ >build/stuck.pid; exec sleep 600' & wait
single:
    @[ ! -e build/running ] && echo alone
long:
    @touch build/long
shaky:
    @echo run; [ -e build/shaky ] || { touch build/shaky; exit 1; }
first second third:
    @touch build/$@; for i in $$(seq 300); do [ -e build/first -a -e build/second -a -e build/third ] && exit 0; sleep 0.1; done; exit 1
early:
    @touch build/early
late: build/host/nativeaot/program
    @cat $<; touch build/late
build/host/nativeaot/program:
    @echo building; mkdir -p build/host/nativeaot; for i in $$(seq 300); do [ ! -e build/early ] || { touch $@; exit 0; }; sleep 0.1; done; exit 1
later: build/host/nativeaot/second
    @cat $<
build/host/nativeaot/second:
    @echo building; for i in $$(seq 300); do [ ! -e build/late ] || { touch $@; exit 0; }; sleep 0.1; done; exit 1
.PHONY: early late later good other bad dry stuck single long shaky first second third
"""
LIST = """# target | tier | timeout | mode | needs | claim
good   | quick | 60 | shared | -        | Claim.
other  | quick | 60 | shared | -        | Claim | with a bar.
bad    | all   | 60 | shared | -        | Claim.
dry    | all   | 60 | shared | -        | Claim.
net    | all   | 60 | shared | dotnet   | Claim.
stuck  | all   | 3  | shared | -        | Claim.
single | all   | 60 | alone  | -        | Claim.
long   | long  | 60 | alone  | -        | Claim.
shaky  | own   | 60 | shared | -        | Claim.
first  | own   | 60 | shared | -        | Claim.
second | own   | 60 | shared | -        | Claim.
third  | own   | 60 | shared | -        | Claim.
early  | own   | 60 | shared | -        | Claim.
late   | own   | 60 | shared | -        | Claim.
later  | own   | 60 | shared | -        | Claim.
"""
RUN = pathlib.Path(__file__).resolve().parent / "run.py"


def expect(good, what, output=""):
    if not good:
        sys.exit(f"run_test: {what}\n{output}")


def runner(folder, *options):
    done = subprocess.run([sys.executable, RUN, "--list", "tests.txt", "--logs", "build/logs", "--jobs", "2", "--tell", "0.5", *options], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "PATH": "bin"})
    return done.returncode, done.stdout


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def main():
    folder = pathlib.Path(sys.argv[1])
    subprocess.run(["rm", "-rf", folder], check=True)
    (folder / "build").mkdir(parents=True)
    (folder / "Makefile").write_text(MAKEFILE.replace("\n    @", "\n\t@"))
    (folder / "tests.txt").write_text(LIST)
    (folder / "bin").mkdir()
    for name in ("make", "sh", "cat", "touch", "seq", "sleep", "echo", "mkdir"):
        (folder / "bin" / name).symlink_to(shutil.which(name))

    status, output = runner(folder, "--tier", "quick")
    expect(status == 0 and output.endswith("\n2 passed, 0 failed, 0 skipped\n"), "quick tier: two targets that wait for each other", output)
    expect((folder / "build/count").read_text() == "built\n", "what two targets need is built once")
    expect(re.search(r"^ok +build .* 1 files$", output, re.M), "the files that are built are counted", output)

    status, output = runner(folder, "--tier", "all", "--record", "seconds")
    expect(status == 1 and output.endswith("\n3 passed, 2 failed, 2 skipped\n"), "all: each verdict", output)
    expect(re.search(r"^\.\.\. +stuck for \d s.*; \d of 7 tests done$", output, re.M), "what runs is told", output)
    expect(re.search(r"^SKIPPED +net .* there is no .NET SDK on PATH$", output, re.M), "a target whose needs are missing is skipped", output)
    expect(re.search(r"^TIMEOUT +stuck .* not finished after 3 s$", output, re.M), "a target over its timeout is a TIMEOUT", output)
    expect(re.search(r"^SKIPPED +dry .* nothing to drink$", output, re.M), "a skip has its reason", output)
    expect("    why it failed" in output and "    100\n" in output and "    40\n" not in output, "the log's end of a failed target is shown", output)
    expect("    [  FAILED  ] first" in output, "what further up says what failed is shown, too", output)
    expect((folder / "build/logs/bad.log").exists(), "each target has a log")
    expect(re.fullmatch(r"#.*\ngood \d+ \d+\nother \d+ \d+\nsingle \d+ \d+\n", (folder / "seconds").read_text()), "seconds of what passed are recorded")
    pid = int((folder / "build/stuck.pid").read_text())
    for _ in range(100):
        if not is_alive(pid):
            break
        time.sleep(0.1)
    expect(not is_alive(pid), "processes of a target over its timeout are gone")

    expect(runner(folder, "--strict", "net")[0] == 0, "a skip for a missing need is no failure")
    status, output = runner(folder, "--strict", "dry")
    expect(status == 1 and output.endswith("\n0 passed, 0 failed, 1 skipped\n"), "another skip is a failure", output)
    expect(not (folder / "build/long").exists(), "a long run starts only by name")

    status, output = runner(folder, "shaky", "bad")
    expect(status == 1 and output.endswith("\n1 passed, 1 failed, 0 skipped\n"), "what fails twice has failed", output)
    expect(re.search(r"^shaky failed at first and passed alone; build/logs/shaky.first.log ", output, re.M), "what passes alone is named", output)
    expect((folder / "build/logs/shaky.first.log").exists(), "the first log is kept")
    (folder / "seconds").write_text("first 30 3\nsecond 30 3\nthird 30 3\n")
    status, output = runner(folder, "--seconds", "seconds", "first", "second", "third")
    expect(status == 0, "three targets that mostly wait run beside each other on two processors", output)
    (folder / "seconds").write_text("late 30 3\nlater 3 3\n")
    status, output = runner(folder, "--seconds", "seconds", "early", "late", "later")
    expect(status == 0 and "FAILED" not in output, "targets run while .NET programs are built, those too whose program is there", output)
    expect("building" not in (folder / "build/logs/late.log").read_text(), "a target waits for its .NET program and does not build it", output)
    expect(runner(folder, "absent")[0] == 1, "an unknown target is refused")
    print("run_test: the runner's verdicts are right")


if __name__ == "__main__":
    main()
