"""`edgeprof watch`: on a terminal, which gets back what it was on every way out, and into a pipe.
Usage: cli_watch_test.py EDGEPROF_WITH_SANITIZERS"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

from cli import Cli, message_of
from generate import message, module, nodes, origin, profile
from harness import Checks, Server, clean_environment

PROGRAM = os.path.abspath(sys.argv[1])
check = Checks()
cli = Cli(PROGRAM, check)
ENTER, LEAVE = b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l"
ALL = ("--from", "2020-01-01")
PATIENCE = 30
DRAWN = rb".*\x1b\[J"  # the last that a screen has


class Screen:
    """The program on a terminal of its own."""

    def __init__(self, *arguments, rows=24, columns=80, kind="xterm", shell=()):
        self.ours, self.theirs = pty.openpty()
        self.resize(rows, columns, tell=False)
        self.before = termios.tcgetattr(self.theirs)
        self.text = b""
        self.process = subprocess.Popen([*shell, PROGRAM, "watch", *arguments], stdin=self.theirs, stdout=self.theirs, stderr=self.theirs,
                                        env=clean_environment(TERM=kind, ASAN_OPTIONS="allow_user_segv_handler=1"), start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, columns, tell=True):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if tell:
            self.process.send_signal(signal.SIGWINCH)

    def until(self, pattern, start=0):
        """Reads until the pattern has come behind `start`; whether it has."""
        end = time.time() + PATIENCE
        while not re.search(pattern, self.text[start:], re.S):
            ready = select.select([self.ours], [], [], max(0, end - time.time()))[0]
            if not ready:
                return False
            try:
                chunk = os.read(self.ours, 65536)
            except OSError:
                chunk = b""
            if not chunk:
                return False
            self.text += chunk
        return True

    def press(self, keys, pattern):
        """Whether a whole screen with the pattern comes then."""
        start = len(self.text)
        os.write(self.ours, keys)
        return self.until(pattern + DRAWN, start)

    def lines(self):
        """The screen as it was drawn last."""
        drawn = self.text.split(b"\x1b[H")[-1].decode(errors="replace")
        return [re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", line) for line in drawn.replace("\r", "").split("\n")]

    def same_as_before(self):
        return termios.tcgetattr(self.theirs) == self.before

    def ends(self):
        code = self.process.wait(PATIENCE)
        while select.select([self.ours], [], [], 0)[0]:
            self.text += os.read(self.ours, 65536)
        return code

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)


def given_back(screen, how):
    check(screen.same_as_before(), f"{how}: the terminal's settings are what they were")
    check(screen.text.count(ENTER) == screen.text.count(LEAVE) > 0, f"{how}: the screen, too: {screen.text[-200:]!r}")


def ways_out(source):
    for how, go, code in (
            ("q", lambda s: os.write(s.ours, b"q"), 0), ("Ctrl-C", lambda s: os.write(s.ours, b"\x03"), -signal.SIGINT),
            ("Ctrl-\\", lambda s: os.write(s.ours, b"\x1c"), -signal.SIGQUIT), ("kill", lambda s: s.process.terminate(), -signal.SIGTERM),
            ("hang-up", lambda s: s.process.send_signal(signal.SIGHUP), -signal.SIGHUP), ("a crash", lambda s: s.process.send_signal(signal.SIGSEGV), -signal.SIGSEGV),
            ("abort", lambda s: s.process.send_signal(signal.SIGABRT), -signal.SIGABRT)):
        screen = Screen(*source, *ALL)
        check(screen.until(rb"\[app\]\+0xcc"), f"{how}: the table is there: {screen.text[-300:]!r}")
        check(not screen.same_as_before(), f"{how}: keys come one by one until then")
        go(screen)
        check.equal(screen.ends(), code, f"{how}: exit code")
        given_back(screen, how)
        screen.close()
    screen = Screen(*source, *ALL, "--count", "2", "--every", "1s")
    check.equal(screen.ends(), 0, "--count")
    given_back(screen, "--count")
    screen.close()
    screen = Screen("--db", "/nowhere/x.db", "--count", "1")
    check.equal(screen.ends(), 1, "no database, --count")
    given_back(screen, "no database")
    screen.close()


def stopped(source):
    """Ctrl-Z gives the terminal back until fg. Only a shell with jobs can stop a program."""
    script = '"$@"; echo stopped; read -r line; fg >/dev/null; echo "code=$?"'
    screen = Screen(*source, *ALL, "--every", "1m", shell=("bash", "-mc", script, "bash"))
    check(screen.until(rb"\[app\]\+0xcc"), "the table is there")
    os.write(screen.ours, b"\x1a")
    check(screen.until(re.escape(LEAVE) + b".*stopped"), f"it stops, and has left the screen: {screen.text[-200:]!r}")
    given_back(screen, "stopped")
    start = len(screen.text)
    os.write(screen.ours, b"\n")
    check(screen.until(re.escape(ENTER) + rb".*\[app\]\+0xcc", start), "the screen is back, and drawn at once")
    os.write(screen.ours, b"q")
    check(screen.until(b"code=0") and screen.ends() == 0, "q")
    given_back(screen, "continued")
    screen.close()


def keys(source):
    screen = Screen(*source, *ALL, "--every", "1m", rows=5, columns=60)
    check(screen.until(rb"\[app\]\+0xcc" + DRAWN), "the table is there")
    check.equal([len(screen.lines()), max(map(len, screen.lines())) <= 60], [5, True], f"it fits: {screen.lines()}")
    rows = [line.split()[-1] for line in screen.lines()[3:]]
    check.equal(rows, ["[app]+0xcc", "[app]+0x1f8"], "by what a function uses itself")
    check(screen.press(b"\x1b[B", rb"0x68") and screen.lines()[3].endswith("[app]+0x1f8"), f"down: {screen.lines()}")
    check(screen.press(b"\x1b[A", rb"0xcc") and screen.lines()[3].endswith("[app]+0xcc"), "up")
    check(screen.press(b"\x1b[B" * 8 + b"\x1b[6~", rb"0x130(?!.*0x1f8)"), "to the end; keys that come at once all count")
    check.equal([line.split()[-1] for line in screen.lines()[3:]], ["[app]+0x4", "[app]+0x130"], "and not beyond it")
    check(screen.press(b"s", rb"by cum.*0x4") and screen.lines()[3].endswith("[app]+0x4"), f"s sorts by all that it calls, from the top: {screen.lines()}")
    check(screen.press(b"s", rb"by flat.*0xcc"), "and back")
    start = len(screen.text)
    screen.resize(4, 30)
    check(screen.until(rb"\x1b\[J", start), "a new size is drawn at once")
    check.equal([len(screen.lines()), max(map(len, screen.lines())) <= 30], [4, True], f"and fits: {screen.lines()}")
    check(screen.press(b"x\x1b[99~\x1b", rb"flat") and screen.process.poll() is None, "other keys do nothing")
    os.write(screen.ours, b"q")
    check.equal(screen.ends(), 0, "q")
    screen.close()


def trouble(folder):
    """A server that is gone is said in the title, and what there was stays; when it is back, so is the table."""
    db = os.path.join(folder, "trouble.db")
    server = Server(PROGRAM, db)
    server.push(message_of(1, "svc", {2: 5}))
    port = server.port
    screen = Screen("--url", server.url, *ALL, "--every", "1s", columns=200)
    check(screen.until(rb"svc cpu: 50.00ms"), "the table is there")
    check.equal(server.stop(), 0, "server")
    check(screen.until(rb"onnect.*svc cpu: 50.00ms" + DRAWN), f"why it is old: {screen.lines()}")
    again = Server(PROGRAM, db)
    again.push(message_of(1, "svc", {2: 7}, 1))
    check.equal(again.stop(), 0, "server")
    os.write(screen.ours, b"q")
    check.equal(screen.ends(), 0, f"q, with nobody at port {port}")
    given_back(screen, "after trouble")
    screen.close()
    screen = Screen("--db", db, *ALL, "--every", "1s")
    check(screen.until(rb"svc cpu: 120.00ms"), "what is new is shown")
    server = Server(PROGRAM, db)
    server.push(message_of(2, "svc", {2: 8}))
    check(screen.until(rb"svc cpu: 200.00ms"), "live")
    check.equal(server.stop(), 0, "server")
    screen.close()


def now(folder):
    """Without times it is the last minute."""
    db = os.path.join(folder, "now.db")
    server = Server(PROGRAM, db)
    for segment, ago, samples in ((1, 3600, 100), (2, 10, 3)):
        server.push(message(segment, 0, origin("svc", pid=segment), [module(4096, 65536, 0, b"\7" * 20, "[app]")], nodes([0], [4100]),
                            [profile({1: samples})], unix_minus_uptime=time.time_ns() - (ago + 2) * 10**9))
    check(cli.run("watch", "--db", db, "--count", "1").out.startswith("svc cpu: 30.00ms"), "the last minute")
    check(cli.run("watch", "--db", db, "--count", "1", "--last", "2h").out.startswith("svc cpu: 1.03s"), "--last")
    check.equal(server.stop(), 0, "server")


def pipes(source, db):
    top = cli.run("top", *source).out
    done = cli.run("watch", *source, *ALL, "--count", "3", "--every", "1s")
    check.equal((done.returncode, done.out, done.err), (0, "\n".join([top] * 3), ""), "the tables of top, one after the other")
    check.equal(len(cli.run("watch", *source, *ALL, "--count", "1", "-n", "2").out.splitlines()), 4, "-n")
    screen = Screen(*source, *ALL, "--count", "1", kind="dumb")
    check.equal((screen.ends(), b"\x1b" in screen.text, b"[app]+0xcc" in screen.text), (0, False, True), "a terminal that can do nothing")
    screen.close()
    endless = subprocess.run(["sh", "-c", f"'{PROGRAM}' watch --db '{db}' {' '.join(ALL)} --every 1s | head -n 3"], capture_output=True, text=True,
                             timeout=PATIENCE, check=False, env=clean_environment())
    check.equal((len(endless.stdout.splitlines()), endless.stderr), (3, ""), "it ends when nobody reads any more")
    cli.fails(3, "no data", "watch", "--db", db, "--count", "1")
    cli.fails(1, "edgeprof serve", "watch", "--db", "none.db", "--count", "3", cwd="/")
    for word, *arguments in (("--every 5", "--every", "5"), ("--count 0", "--count", "0"), ("unexpected", "x"), ("--every", "--every", "0s")):
        cli.fails(2, word, "watch", *arguments)


with tempfile.TemporaryDirectory(prefix="edgeprof-test-") as folder_:
    db_ = os.path.join(folder_, "one.db")
    server_ = Server(PROGRAM, db_)
    server_.push(message_of(1, "one", {2: 5, 3: 30, 6: 11}))
    ways_out(["--db", db_])
    stopped(["--url", server_.url])
    keys(["--db", db_])
    pipes(["--db", db_], db_)
    check.equal(server_.stop(), 0, "server")
    now(folder_)
    trouble(folder_)
check.done("test-tools-watch")
