#!/usr/bin/env python3
"""Runs the tests of tests/tests.txt and prints one verdict a target. `make test`, `make test-all` and `make test-long` call it.

    run.py [--list FILE] [--make MAKE] [--tier quick|all|long] [--logs DIR] [--jobs N] [--strict] [--record FILE]
           [--boards NAMES] [--seconds FILE] [--tell SECONDS] [NAME=VALUE...] [TARGET...]

It first builds the files that the targets need, in one make, so that no two targets build the same file. .NET programs
are built one at a time, so other targets run meanwhile, and each that needs some of them as soon as these are there. It runs the shared targets beside each other, the longest first,
as many as give the processors work: a target that mostly waits counts for the part of a processor that the last record
(--seconds) says. The others run one by one. A target over its timeout is killed with
all its processes. A target that failed runs once more at the end, with nothing beside it: on a busy machine a measured
ratio can be off by chance. What fails again is a defect; what then passes is named in the summary. After more than
AGAIN_MOST failures nothing runs again. A target is skipped when something that it needs is missing, or when its log has
a line `SKIPPED: reason`. The exit status is 1 when a target failed or, with --strict, when a target was skipped
although everything that it needs is there. It says every 15 s what it does. --record writes the seconds to FILE.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

Test = collections.namedtuple("Test", "name tier timeout mode needs claim")
Result = collections.namedtuple("Result", "name verdict seconds cpu reason")
SKIPPED = re.compile(rb"^SKIPPED: (.*)$", re.MULTILINE)
# What says in a log what failed: cmocka, compilers, pytest, the machines in QEMU, make.
TELLING = re.compile(r"\[ +(?:FAILED|LINE|ERROR) +\]|\berror: |^E  |exit code [1-9]|\*\*\* \[|\bFAIL\b")
# What a target may need: is it there, and what is said when not.
NEEDS = {
    "dotnet": (lambda: shutil.which("dotnet"), "there is no .NET SDK on PATH"),
    "x86_64": (lambda: platform.machine() == "x86_64", "only on x86_64"),
    "preload": (lambda: not set(" :") & set(os.getcwd()), "LD_PRELOAD cannot name a file in a folder with a space or a colon"),
    "root": (lambda: os.geteuid() == 0, "needs root"),
}
TIERS = {"quick": ("quick",), "all": ("quick", "all"), "long": ("long",)}
# What make --trace says for each file that it makes.
MADE = re.compile(r"^[^ :]+:\d+: (?:update )?target '([^']*)'", re.MULTILINE)
AGAIN_MOST = 12
LOAD_LEAST = 0.25  # of a processor, for a test that only waits
LOAD_MOST = 1.25  # of each processor: a test waits now and then
WAITING_MOST = 2  # tests for each processor
DOTNET = re.compile(r"build/(?:[^/]+/nativeaot|arm|nuget)/")  # where its builds put files
GRACE = 5  # seconds between SIGTERM and SIGKILL
# What a board builds for the targets that test it.
BOARD_GOALS = {"all": ("lib", "na-lib", "na-hooks", "stacks", "tls-client", "qemu-unit", "qemu-user", "qemu-system", "check-board"),
               "long": ("lib", "signal-table", "deb-library", "install")}


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--make", default="make")
    parser.add_argument("--list", type=pathlib.Path, default=pathlib.Path("tests/tests.txt"))
    parser.add_argument("--tier", choices=tuple(TIERS), default="all")
    parser.add_argument("--logs", type=pathlib.Path, default=pathlib.Path("build/host/logs"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--record", type=pathlib.Path)
    parser.add_argument("--seconds", type=pathlib.Path)
    parser.add_argument("--tell", type=float, default=15, help="seconds without a line after which it says what it does")
    parser.add_argument("--boards", default="")
    parser.add_argument("words", nargs="*")
    return parser.parse_args()


def environment():
    """Without the variables by which a make tells its children about its jobs."""
    return {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")}


class Runner:
    def __init__(self, options):
        self.options = options
        self.variables = [word for word in options.words if "=" in word]
        self.make = [options.make, "--no-print-directory", *self.variables]
        self.lock = threading.RLock()
        self.results = []
        self.unsteady = []  # failed, then passed
        self.running = set()  # process groups
        self.count = 0
        self.doing = {}  # name: a function that says how far it is
        self.said = time.monotonic()
        self.excused = set()  # skipped because something that they need is missing
        self.unmade = {}  # of each build that runs: the files that it has not made yet

    def chosen(self):
        """The targets to run. What is missing for the others is reported at once."""
        tests = read_list(self.options.list)
        names = [word for word in self.options.words if "=" not in word]
        unknown = set(names) - {test.name for test in tests}
        if unknown:
            sys.exit(f"run.py: no such test target: {' '.join(sorted(unknown))}; {self.options.list} has all")
        tests = [test for test in tests if (test.name in names if names else test.tier in TIERS[self.options.tier])]
        self.count = len(tests)
        reasons = {test.name: missing(test) for test in tests}
        for test in tests:
            if reasons[test.name]:
                self.report(Result(test.name, "SKIPPED", 0, 0, reasons[test.name]), False)
        self.excused = {name for name, reason in reasons.items() if reason}
        return [test for test in tests if not reasons[test.name]]

    # ---- what several targets need ----

    def needs(self, *variables):
        """{goal: what it depends on}"""
        database = subprocess.run([*self.make, "-npq", *variables, "help"], env=environment(), capture_output=True, text=True).stdout
        needs = {}
        for line in database.splitlines():
            found = re.match(r"([A-Za-z0-9_][^\s:=#]*)::?(?!=) ?(.*)$", line)
            if found:
                needs.setdefault(found[1], []).extend(found[2].replace("|", " ").split())
        return needs

    def build(self, name, files, *variables, jobs=0):
        if not files:
            return
        start, log = time.monotonic(), self.options.logs / f"{name}.log"
        make = [*self.make, "-k", "--trace", *variables]
        planned = subprocess.run([*make, "-n", *files], env=environment(), capture_output=True, text=True).stdout
        unmade = set(MADE.findall(planned))
        total, made, making = len(unmade), 0, None
        with open(log, "w") as out:
            process = subprocess.Popen([*make, f"-j{jobs or self.options.jobs}", "--output-sync=target", *files], env=environment(), text=True,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
                                       start_new_session=True)
            self.running.add(process.pid)
            self.doing[name] = lambda: f"{name}: {made} of {max(made, total)} files"
            self.unmade[name] = unmade
            for line in process.stdout:
                out.write(line)
                if found := MADE.match(line):
                    made += 1
                    unmade.discard(making)  # one job says what it makes before it makes it
                    making = found[1]
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.running.discard(process.pid)
            del self.doing[name]
        self.say(f"{'ok' if status == 0 else 'FAILED':8} {name:28} {time.monotonic() - start:6.1f} s  "
                 f"CPU {used.ru_utime + used.ru_stime:6.1f} s  {made} files")
        if status:  # the targets that need such a file fail, and say why
            self.say(tail(log, 20))

    def say(self, text):
        with self.lock:
            self.said = time.monotonic()
            print(text, flush=True)

    def tell(self):
        """What is being done, when nothing else was said for a while."""
        while True:
            time.sleep(1)
            doing = [what() for what in list(self.doing.values())]
            if doing and time.monotonic() - self.said >= self.options.tell:
                self.say(f"{'...':8} {', '.join(doing)}; {len(self.results)} of {self.count} tests done")

    # ---- one target ----

    def run(self, test, jobs=1, again=False):
        log, start = self.options.logs / f"{test.name}.log", time.monotonic()
        if again:
            log.rename(log.with_suffix(".first.log"))
        with open(log, "wb") as out:
            process = subprocess.Popen([*self.make, f"-j{jobs}", test.name], env=environment(), stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            self.running.add(process.pid)
            self.doing[test.name] = lambda: f"{test.name} for {time.monotonic() - start:.0f} s"
            expired = threading.Event()
            late = threading.Timer(float(test.timeout), lambda: (expired.set(), kill(process.pid, GRACE)))
            late.start()
            _, status, used = os.wait4(process.pid, 0)
            late.cancel()
            self.running.discard(process.pid)
            del self.doing[test.name]
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            kill(process.pid, 0)  # what it left behind; a good target may leave a build server, which others use
        skipped = SKIPPED.search(log.read_bytes())
        verdict, reason = "ok", ""
        if expired.is_set():
            verdict, reason = "TIMEOUT", f"not finished after {test.timeout} s"
        elif process.returncode:
            verdict, reason = "FAILED", f"exit status {process.returncode}"
        elif skipped:
            verdict, reason = "SKIPPED", skipped[1].decode(errors="replace").strip()
        self.report(Result(test.name, verdict, time.monotonic() - start, used.ru_utime + used.ru_stime, reason), again)

    def report(self, result, again):
        with self.lock:
            if again:
                self.results = [r for r in self.results if r.name != result.name]
                if result.verdict == "ok":
                    self.unsteady.append(result.name)
            self.results.append(result)
            self.say(f"{result.verdict:8} {result.name:28} {result.seconds:6.1f} s  CPU {result.cpu:6.1f} s  {len(self.results)}/{self.count}"
                     f"{'  ' + result.reason if result.reason else ''}")
            if result.verdict in ("FAILED", "TIMEOUT"):
                self.say(tail(self.options.logs / f"{result.name}.log", 40))

    def everything(self, tests):
        threading.Thread(target=self.tell, daemon=True).start()
        for board in self.options.boards.split():  # first: what the host builds asks the boards' makes, too
            self.build(f"build-{board}", files_of(self.needs(f"BOARD={board}"), BOARD_GOALS[self.options.tier]), f"BOARD={board}")
        needs = self.needs()
        files = {test.name: files_of(needs, [test.name]) for test in tests}
        late = {test.name: files.pop(test.name) for test in tests if "dotnet" in test.needs or any(map(DOTNET.match, files[test.name]))}
        self.build("build", merged(files.values()))
        measured = read_seconds(self.options.seconds)
        shared = sorted((test for test in tests if test.mode == "shared"), key=lambda test: -measured.get(test.name, (1e6, 0))[0])
        self.share(shared, measured, dict(sorted(late.items(), key=lambda item: -measured.get(item[0], (1e6, 0))[0])))
        for test in tests:
            if test.mode == "alone":
                self.run(test, self.options.jobs)
        failed = {r.name for r in self.failed()}
        for test in tests if len(failed) <= AGAIN_MOST else []:
            if test.name in failed:
                self.say(f"once more {test.name}, alone")
                self.run(test, 1 if test.mode == "shared" else self.options.jobs, again=True)

    def share(self, tests, measured, late):
        """Runs the tests beside each other: as many as have work for the processors. One that mostly waits takes part of one.
        The late ones, {name: files}, begin when their files are built."""
        loads = {test.name: load_of(*measured.get(test.name, (0, 0))) for test in tests}
        left, running = list(tests), {}  # running: {future: load}
        with concurrent.futures.ThreadPoolExecutor(WAITING_MOST * self.options.jobs) as pool:
            building = pool.submit(self.build, "build-dotnet", merged(late.values()), jobs=1)
            running[building] = 1

            def is_built(test):
                unmade = self.unmade.get("build-dotnet")
                return building.done() or test.name not in late or (unmade is not None and not unmade & set(late[test.name]))

            while left or running:
                free = LOAD_MOST * self.options.jobs - sum(running.values())
                fitting = [test for test in left if (loads[test.name] <= free + 1e-6 or not running) and is_built(test)]
                if fitting and len(running) < WAITING_MOST * self.options.jobs:
                    left.remove(fitting[0])
                    running[pool.submit(self.run, fitting[0])] = loads[fitting[0].name]
                    continue
                for done in concurrent.futures.wait(running, 1, concurrent.futures.FIRST_COMPLETED).done:
                    done.result()
                    del running[done]

    def failed(self):
        return [r for r in self.results if r.verdict in ("FAILED", "TIMEOUT")]

    def stop(self, number, _):
        """The runner is to end: so do the targets that run."""
        for group in list(self.running):
            kill(group, 0)
        os._exit(128 + number)

    def verdict(self):
        failed = self.failed()
        skipped = [r for r in self.results if r.verdict == "SKIPPED"]
        print("\nby seconds:")
        for r in sorted(self.results, key=lambda r: -r.seconds):
            print(f"{r.verdict:8} {r.name:28} {r.seconds:6.1f} s  CPU {r.cpu:6.1f} s{'  ' + r.reason if r.reason else ''}")
        print()
        for r in failed:
            print(f"{r.name} {r.verdict}: {r.reason}; its log ends with\n{tail(self.options.logs / f'{r.name}.log', 12)}\n")
        unexpected = [r for r in skipped if r.name not in self.excused] if self.options.strict else []
        for r in unexpected:
            print(f"{r.name} was skipped although everything that it needs is there: {r.reason}")
        for name in self.unsteady:
            print(f"{name} failed at first and passed alone; {self.options.logs}/{name}.first.log has the first run")
        print(f"{len(self.results) - len(failed) - len(skipped)} passed, {len(failed)} failed, {len(skipped)} skipped", flush=True)
        return 1 if failed or unexpected else 0


def kill(group, grace):
    """The whole process group: first politely, after `grace` seconds for certain."""
    try:
        if grace:
            os.killpg(group, signal.SIGTERM)
            threading.Timer(grace, kill, [group, 0]).start()
        else:
            os.killpg(group, signal.SIGKILL)
    except OSError:
        pass


def tail(log, count):
    """The log's last lines, and before them the last of those further up that say what failed."""
    lines = log.read_bytes().decode(errors="replace").splitlines()
    telling = [line for line in lines[:-count] if TELLING.search(line)][-count // 2:]
    return "\n".join("    " + line for line in [*telling, *(["..."] if telling else []), *lines[-count:]])


def files_of(needs, goals):
    """The files that the goals depend on. Goals without a folder are names: what they need counts, not they."""
    files, seen, left = [], set(), list(goals)
    while left:
        goal = left.pop(0)
        if goal in seen:
            continue
        seen.add(goal)
        if goal.startswith("build/"):
            files.append(goal)
        elif "/" not in goal:
            left.extend(needs.get(goal, []))
    return files


def merged(lists):
    """Each file once, in the first order."""
    return list(dict.fromkeys(file for files in lists for file in files))


def read_list(path):
    """The tests of the list, in its order."""
    rows = (line.split("|", 5) for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return [Test(*(word.strip() for word in row)) for row in rows]


def missing(test):
    """Why the test cannot run here, or nothing."""
    return "; ".join(NEEDS[need][1] for need in test.needs.split(",") if need != "-" and not NEEDS[need][0]())


def read_seconds(path):
    """{target: (seconds, CPU seconds)}"""
    if path is None or not path.exists():
        return {}
    rows = (line.split() for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return {name: (float(seconds), float(cpu)) for name, seconds, cpu in rows}


def load_of(seconds, cpu):
    """The part of a processor that a test needs: all of it when nothing was measured."""
    return min(1, max(cpu / seconds, LOAD_LEAST)) if seconds >= 3 else 1


def record(path, results):
    known = read_seconds(path)
    known.update({r.name: (r.seconds, r.cpu) for r in results if r.verdict == "ok"})
    lines = [f"{name} {seconds:.0f} {cpu:.0f}\n" for name, (seconds, cpu) in sorted(known.items())]
    path.write_text("# Last measured: target, seconds, CPU seconds. `make test-all RECORD=1` writes this file.\n" + "".join(lines))


def main():
    runner = Runner(parsed())
    runner.options.logs.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, runner.stop)
    start = time.monotonic()
    runner.everything(runner.chosen())
    if runner.options.record:
        record(runner.options.record, runner.results)
    print(f"\n{time.monotonic() - start:.0f} s")
    sys.exit(runner.verdict())


if __name__ == "__main__":
    main()
