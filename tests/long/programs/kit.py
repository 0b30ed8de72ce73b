"""One run of one row: starts programs, under edgeprof and its witness or without, looks how they end, and leaves no process behind."""
import ctypes
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time

PR_SET_CHILD_SUBREAPER = 36
NOT_WHOLE = ("[truncated]", "[stack cut]", "[deeper frames]", "[thread exit]", "[no stack]")
TREE = pathlib.Path(__file__).resolve().parents[3]


class Timeout(Exception):
    pass


class Differs(Exception):
    """The row cannot go on: what it says is its result."""


def adopt():
    """Processes whose parent ends become ours, so that end_all() finds them."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children_of(parent):
    found = []
    for task in pathlib.Path(f"/proc/{parent}/task").glob("*/children"):
        try:
            found += [int(pid) for pid in task.read_text().split()]
        except OSError:
            pass
    return found


def family_of(pid):
    family = []
    for child in children_of(pid):
        family += [child, *family_of(child)]
    return family


def end_all(pid=None):
    """Ends everything below the process, by id. How many had to be ended."""
    ended = set()
    for _ in range(100):
        left = family_of(pid or os.getpid())
        if not left:
            break
        for each in left:
            try:
                os.kill(each, signal.SIGKILL)
                ended.add(each)
            except ProcessLookupError:
                pass
        try:
            while pid is None and os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        time.sleep(0.05)
    return len(ended)


class Run:
    """What a row's function is given. profiled: its program() is under edgeprof, with a profile in the database."""

    def __init__(self, name, profiled, tools, work, words=""):
        """words: for the witness (tests/linux/witness/witness.py)."""
        self.name, self.profiled, self.tools, self.work = name, profiled, pathlib.Path(tools), pathlib.Path(work)
        self.clock = self.work / "clock"
        self.db = self.work / "edgeprof.db"
        self.remarks, self.wrong, self.words = [], [], words

    def command(self, command, *options):
        timed = [str(self.tools / "stopwatch"), str(self.clock), *map(str, command)]
        if not self.profiled:
            return timed
        return [str(self.tools / "edgeprof"), "run", "--level", "high", "--db", str(self.db), "--service", "row", *options,
                "--", *timed]

    def start(self, command, options=(), env=None, output="output", folder=None, before=()):
        """The program that the row is about. Its output goes to a file, edgeprof's report is not part of it. before: what starts edgeprof
        itself, as another user."""
        with open(self.work / output, "wb") as out, open(self.work / (output + ".err"), "wb") as err:
            return subprocess.Popen([*before, *self.command(command, *options)], stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder or self.work,
                                    env={**os.environ, "WITNESS": self.words, **(env or {})})

    def program(self, command, **options):
        """Runs it to its end: exit status as edgeprof passes it on, output, messages."""
        process = self.start(command, **options)
        return self.end(process, options.get("output", "output"))

    def end(self, process, output="output"):
        status = process.wait()
        out = (self.work / output).read_text(errors="replace")
        err = (self.work / (output + ".err")).read_text(errors="replace")
        if self.profiled:
            out = re.sub(r"^row cpu: .*", "", out, flags=re.M | re.S)
            self.remarks = sorted({line for line in err.splitlines() if line.startswith("edgeprof: ") and "symbols:" not in line})
            self.wrong += [line for line in err.splitlines() if line.startswith("witness.py: ")]
            err = "".join(line + "\n" for line in err.splitlines() if not line.startswith(("edgeprof: ", "witness.py: ")))
            if status == 3 and any(re.search("sent no (cpu )?profile", line) for line in self.remarks):
                status = 0
        elif status < 0:
            status = 128 - status
        return status, out, err

    def pid(self):
        """Process id of the program."""
        for _ in range(200):
            try:
                return int(self.clock.read_text().split()[0])
            except (OSError, IndexError):
                time.sleep(0.05)
        raise Differs("did not start")

    def outside(self, command, check=True, **options):
        """A program that has nothing to do with edgeprof."""
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, **options)
        if check and done.returncode:
            raise Differs(f"{command[0]}: {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}")
        return done

    # ---- figures ----

    def cpu_ns(self):
        try:
            return int(self.clock.read_text().split()[1])
        except (OSError, IndexError, ValueError):
            return 0

    def figures(self):
        """CPU time that processes have told of, how much of it has whole stacks; both in ns."""
        done = self.outside([self.tools / "edgeprof", "export", "--db", self.db, "--service", "row", "--kind", "cpu", "--folded"], check=False)
        total = whole = 0
        for line in done.stdout.splitlines():
            path, _, value = line.rpartition(" ")
            if path == "[short processes]":
                continue
            total += int(value)
            frames = path.split(";")
            if not any(frame in NOT_WHOLE or frame.startswith("[lost") for frame in frames):
                whole += int(value)
        return total, whole


def free_port():
    """A port below those that the kernel gives to connections; the caller tries again when it is taken meanwhile."""
    while True:
        port = random.randrange(20000, 30000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def wait_until(what, process, ready, seconds=20):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if ready():
            return
        if process.poll() is not None:
            raise Differs(f"{what} ended with {process.returncode} before it was ready")
        time.sleep(0.05)
    raise Differs(f"{what} was not ready after {seconds} s")


def connects(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def user(name):
    """What to put before a command so that it is that user's, for root alone."""
    return ["setpriv", f"--reuid={name}", f"--regid={name}", "--clear-groups"] if os.getuid() == 0 else []
