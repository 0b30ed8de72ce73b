"""watch restores the terminal on every way out and writes plain lines into a pipe."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from cli import command_lines, message_of
from generate import message, module, nodes, origin, profile
from harness import clean_environment

ENTER, LEAVE = b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l"
ALL = ("--from", "2020-01-01")
PATIENCE = 30
DRAWN = rb".*\x1b\[J"  # the last that a screen has


class Screen:
    """The program on a terminal of its own."""

    def __init__(self, program, *arguments, rows=24, columns=80, kind="xterm", shell=(), cwd=None):
        self.ours, self.theirs = pty.openpty()
        self.resize(rows, columns, tell=False)
        self.before = termios.tcgetattr(self.theirs)
        self.text = b""
        self.process = subprocess.Popen([*shell, program, "watch", *arguments], stdin=self.theirs, stdout=self.theirs, stderr=self.theirs,
                                        env=clean_environment(TERM=kind, ASAN_OPTIONS="allow_user_segv_handler=1"), start_new_session=True, cwd=cwd,
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
        """The screen as it was last drawn in full; another drawing of it may have begun."""
        whole = self.text[:self.text.rfind(b"\x1b[J") + 3]
        drawn = whole.split(b"\x1b[H")[-1].decode(errors="replace")
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


@pytest.fixture
def watch(edgeprof):
    """watch(argument ..., rows=, columns=, kind=, shell=, cwd=): its Screen"""
    screens = []

    def start(*arguments, **options):
        screens.append(Screen(edgeprof, *arguments, **options))
        return screens[-1]

    yield start
    for screen in screens:
        screen.close()


def assert_given_back(screen):
    assert screen.same_as_before(), "the terminal's settings"
    assert screen.text.count(ENTER) == screen.text.count(LEAVE) > 0, "the screen"


# ---- ways out ----

def key(byte):
    return lambda screen: os.write(screen.ours, byte)


def sent(number):
    return lambda screen: screen.process.send_signal(number)


@pytest.mark.parametrize("leave, code", [
    pytest.param(key(b"q"), 0, id="q"), pytest.param(key(b"\x03"), -signal.SIGINT, id="Ctrl-C"),
    pytest.param(key(b"\x1c"), -signal.SIGQUIT, id="Ctrl-backslash"), pytest.param(sent(signal.SIGTERM), -signal.SIGTERM, id="kill"),
    pytest.param(sent(signal.SIGHUP), -signal.SIGHUP, id="hang-up"), pytest.param(sent(signal.SIGSEGV), -signal.SIGSEGV, id="crash"),
    pytest.param(sent(signal.SIGABRT), -signal.SIGABRT, id="abort")])
def test_way_out(watch, filled, leave, code):
    screen = watch("--db", filled.db, *ALL)
    assert screen.until(rb"\[app\]\+0xcc"), screen.text[-300:]
    assert not screen.same_as_before(), "keys come one by one until then"
    leave(screen)
    assert screen.ends() == code
    assert_given_back(screen)


def test_count(watch, filled):
    screen = watch("--db", filled.db, *ALL, "--count", "2", "--every", "1s")
    assert screen.ends() == 0
    assert_given_back(screen)


def test_no_database(watch):
    screen = watch("--db", "/nowhere/x.db", "--count", "1")
    assert screen.ends() == 1
    assert_given_back(screen)


def test_stopped(watch, filled):
    """Ctrl-Z gives the terminal back until fg. Only a shell with jobs can stop a program."""
    script = '"$@"; echo stopped; read -r line; fg >/dev/null; echo "code=$?"'
    screen = watch("--url", filled.url, *ALL, "--every", "1m", shell=("bash", "-mc", script, "bash"))
    assert screen.until(rb"\[app\]\+0xcc")
    os.write(screen.ours, b"\x1a")
    assert screen.until(re.escape(LEAVE) + b".*stopped"), screen.text[-200:]
    assert_given_back(screen)
    start = len(screen.text)
    os.write(screen.ours, b"\n")
    assert screen.until(re.escape(ENTER) + rb".*\[app\]\+0xcc", start), "the screen is back, and drawn at once"
    os.write(screen.ours, b"q")
    assert screen.until(b"code=0") and screen.ends() == 0
    assert_given_back(screen)


# ---- on the screen ----

def functions(screen):
    """The rows below the heading."""
    return [line.split()[-1] for line in screen.lines()[3:]]


def assert_fits(screen, rows, columns):
    assert len(screen.lines()) == rows and max(map(len, screen.lines())) <= columns, screen.lines()


def test_keys(watch, filled):
    folder, name = os.path.split(filled.db)  # the title has the path and is cut
    screen = watch("--db", name, *ALL, "--every", "1m", rows=5, columns=60, cwd=folder)
    assert screen.until(rb"\[app\]\+0xcc" + DRAWN)
    assert_fits(screen, 5, 60)
    assert functions(screen) == ["[app]+0xcc", "[app]+0x1f8"], "by what a function uses itself"
    assert screen.press(b"\x1b[B", rb"0x68") and functions(screen)[0] == "[app]+0x1f8", "down"
    assert screen.press(b"\x1b[A", rb"0xcc") and functions(screen)[0] == "[app]+0xcc", "up"
    assert screen.press(b"\x1b[B" * 8 + b"\x1b[6~", rb"0x130(?!.*0x1f8)"), "to the end; keys that come at once all count"
    assert functions(screen) == ["[app]+0x4", "[app]+0x130"], "and not beyond it"
    assert screen.press(b"s", rb"by cum.*0x4") and functions(screen)[0] == "[app]+0x4", "s sorts by all that it calls, from the top"
    assert screen.press(b"s", rb"by flat.*0xcc"), "and back"
    start = len(screen.text)
    screen.resize(4, 30)
    assert screen.until(rb"\x1b\[J", start), "a new size is drawn at once"
    assert_fits(screen, 4, 30)
    assert screen.press(b"x\x1b[99~\x1b", rb"flat") and screen.process.poll() is None, "other keys do nothing"
    os.write(screen.ours, b"q")
    assert screen.ends() == 0


def test_server_is_gone(watch, start_server):
    """The title says so, and what there was stays."""
    server = start_server()
    assert server.push(message_of(1, "svc", {2: 5})) == 200
    screen = watch("--url", server.url, *ALL, "--every", "1s", columns=200)
    assert screen.until(rb"svc cpu: 50.00ms")
    assert server.stop() == 0
    assert screen.until(rb"onnect.*svc cpu: 50.00ms" + DRAWN), screen.lines()
    os.write(screen.ours, b"q")
    assert screen.ends() == 0, f"q, with nobody at port {server.port}"
    assert_given_back(screen)


def test_what_is_new_is_shown(watch, start_server):
    first = start_server()
    assert first.push(message_of(1, "svc", {2: 5})) == 200
    assert first.stop() == 0
    again = start_server()
    assert again.push(message_of(1, "svc", {2: 7}, 1)) == 200
    assert again.stop() == 0
    screen = watch("--db", first.db, *ALL, "--every", "1s")
    assert screen.until(rb"svc cpu: 120.00ms")
    server = start_server()
    assert server.push(message_of(2, "svc", {2: 8})) == 200
    assert screen.until(rb"svc cpu: 200.00ms"), "live"


# ---- into a pipe ----

def test_last_minute(cli, server):
    for segment, ago, samples in ((1, 3600, 100), (2, 10, 3)):
        assert server.push(message(segment, 0, origin("svc", pid=segment), [module(4096, 65536, 0, b"\7" * 20, "[app]")], nodes([0], [4100]),
                                   [profile({1: samples})], unix_minus_uptime=time.time_ns() - (ago + 2) * 10**9)) == 200
    assert cli.run("watch", "--db", server.db, "--count", "1").out.startswith("svc cpu: 30.00ms")
    assert cli.run("watch", "--db", server.db, "--count", "1", "--last", "2h").out.startswith("svc cpu: 1.03s")


def test_tables_of_top(cli, filled):
    top = cli.run("top", "--db", filled.db).out
    done = cli.run("watch", "--db", filled.db, *ALL, "--count", "3", "--every", "1s")
    assert (done.returncode, done.out, done.err) == (0, "\n".join([top] * 3), "")
    assert len(cli.run("watch", "--db", filled.db, *ALL, "--count", "1", "-n", "2").out.splitlines()) == 4


def test_dumb_terminal(watch, filled):
    screen = watch("--db", filled.db, *ALL, "--count", "1", kind="dumb")
    assert screen.ends() == 0
    assert b"\x1b" not in screen.text and b"[app]+0xcc" in screen.text


def test_nobody_reads_any_more(edgeprof, filled):
    endless = subprocess.run(["sh", "-c", f"'{edgeprof}' watch --db '{filled.db}' {' '.join(ALL)} --every 1s | head -n 3"], capture_output=True, text=True,
                             timeout=PATIENCE, check=False, env=clean_environment())
    assert (len(endless.stdout.splitlines()), endless.stderr) == (3, "")


def test_no_data(cli, filled):
    cli.fails(3, "no data", "watch", "--db", filled.db, "--count", "1")
    cli.fails(1, "edgeprof serve", "watch", "--db", "none.db", "--count", "3", cwd="/")


@command_lines(("--every 5", "--every", "5"), ("--count 0", "--count", "0"), ("unexpected", "x"), ("--every", "--every", "0s"))
def test_wrong_usage(cli, word, arguments):
    cli.fails(2, word, "watch", *arguments)
