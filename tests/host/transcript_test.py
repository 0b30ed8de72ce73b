"""Every command with --help, a file, a server, no server and a wrong argument ends with the status that its help names, and errors are one line with a hint.

The transcript is transcript.txt in the build folder."""
import http.server
import os
import pty
import re
import shlex
import threading
import time

import pytest

from cli import message_of
from generate import crash, message, module, nodes, origin, profile, timeline
from harness import REPOSITORY, FakeServer, Server, clean_environment, deaf_port

PERF = str(REPOSITORY / "tests/host/recorded/perf-script.txt.gz")
NODES = nodes([0, 1, 2, 3, 4, 2], [4100, 4200, 4300, 4400, 4500, 4600])
# A hint is what to type next: a command, an option, the right word, the right form.
HINT = re.compile(r"`edgeprof |--[a-z]|did you mean|must be|expected|: No such file or directory$")
# command: what it needs besides a file, besides a server, and a wrong argument. None: it takes no such thing.
ROWS = {
    "serve": (None, None, ["--listen", "nowhere"]), "run": (None, ["true"], ["--level", "extreme", "true"]), "report": (None, [], ["--last", "soon"]),
    "top": ([], [], ["--sort", "size"]), "list": (["hot"], ["app"], []), "watch": (None, ["--count", "1", "--last", "1d"], ["--every", "often"]),
    "query": (["profile"], ["services"], ["everything"]), "devices": (None, [], ["more"]), "flame": (["-o", "x.svg"], ["-o", "x.html"], ["-o", "x.png"]),
    "diff": ([PERF], ["--baseline", "svc"], ["--threshold", "much"]), "verdict": (None, [], ["--kind", "heap"]), "leaks": (None, [], ["--last", "soon"]),
    "export": (["-o", "x.folded"], ["--folded"], ["--format", "gif"]), "cat": ([], None, []), "import": (["--db", "x.db"], None, []), "crashes": (["COMPACT"], [], ["--tag", "novalue"]),
    "incidents": (None, [], ["--from", "someday"]), "incident": (["last", "COMPACT"], ["last"], []), "backup": (None, None, ["extra"]), "check": (None, None, ["one", "two"]),
    "symbols": (None, None, ["remove"]), "symbolize": (["-o", "x.pb.gz"], None, ["--module"]), "status": (None, None, ["extra"]),
    "level": (None, None, ["loud"]), "kinds": (None, None, ["on", "noise"]), "threads": (None, None, ["extra"]), "tasks": (None, None, ["extra"])}


@pytest.fixture(scope="module")
def transcript(build):
    """Appends what a command printed."""
    lines = []

    def add(arguments, done):
        text = (done.out + done.err).splitlines()
        shown = text[:4] + ([f"... {len(text) - 4} more lines"] if len(text) > 4 else [])
        lines.append(f"$ edgeprof {shlex.join(arguments)}\n" + "".join(f"{line[:200]}\n" for line in shown) + f"[{done.returncode}]\n")

    yield add
    (build / "transcript.txt").write_text("\n".join(lines))


@pytest.fixture(scope="module")
def compact(shared_folder):
    path = os.path.join(shared_folder, "compact")
    with open(path, "wb") as file:
        for body in bodies():
            file.write(len(body).to_bytes(4, "little") + body)
    return path


def bodies():
    """A profile, a crash and an incident of one service, of the last hour."""
    now = {"unix_minus_uptime": int(time.time() - 600) * 10**9}
    app, who = [module(4096, 65536, 0, b"\7" * 20, "/opt/app")], origin("svc", tags=[("version", "1")], host="h", boot_id="b", executable="/opt/app", pid=7)
    return [message(1, 0, who, app, NODES, [profile({3: 30, 6: 5}), profile({3: 4096}, kind=5, quantum=1)], **now),
            message(2, 0, who, app, NODES, crash=crash([(7, "main", 3)], boot_id="b", executable="/opt/app"), last=True, **now),
            message(3, 0, who, app, NODES, timeline=timeline(0xabc, [(2 << 20, 1, 0, 3, 10**7)], name="order", threads=[(100, "worker")]), last=True, **now)]


@pytest.fixture(scope="module")
def one_server(edgeprof, shared_folder):
    with Server(edgeprof, os.path.join(shared_folder, "transcript.db")) as server:
        for body in bodies():
            assert server.push(body) == 200
        yield server


@pytest.fixture
def run(cli, transcript, folder):
    def run(*arguments, **environment):
        done = cli.run(*arguments, cwd=folder, env=clean_environment(**environment))
        transcript(arguments, done)
        return done
    return run


def commands():
    text = (REPOSITORY / "tools/cmd/commands.def").read_text()
    return re.findall(r'^ET_COMMAND\(\w+, \w+, "([a-z-]+)"', text, re.M)


each_command = pytest.mark.parametrize("name", commands())


def check(done, codes, hinted=True):
    """Text without raw JSON; errors in lines that begin with the program's name, and with a hint."""
    errors = done.err.splitlines()
    assert done.returncode in codes and "{\"" not in done.out + done.err, (done.returncode, done.out, done.err)
    assert all(line.startswith("edgeprof: ") and len(line) > len("edgeprof: x") for line in errors), errors
    assert done.returncode == 0 or errors or done.out, "an error says something"
    if hinted and done.returncode in (1, 2, 3):
        assert len(errors) == 1 and HINT.search(errors[0]), errors


def test_table_is_complete():
    assert sorted(ROWS) == sorted(commands())


@each_command
def test_help(run, name):
    done = run(name, "--help")
    assert done.returncode == 0 and done.err == "" and done.out.startswith(f"usage: edgeprof {name}") and "exit codes" in done.out


@each_command
def test_wrong_option(run, name):
    done = run(name, "--no-such-option")
    check(done, (2,))
    assert "unknown option --no-such-option" in done.err
    mistyped = run(name, "--hepl")
    check(mistyped, (2,))
    assert "did you mean --help?" in mistyped.err


@each_command
def test_wrong_argument(run, name):
    check(run(name, *ROWS[name][2]), (1, 2) if name in ("serve", "status", "threads", "tasks", "level", "kinds") else (2,) if name != "verdict" else (1, 2))


def test_wrong_incident(run, one_server, compact):
    check(run("incident", "zz", "--url", one_server.url), (2,))
    for source in (("--url", one_server.url), (compact,)):
        done = run("incident", "0123456789abcdef", *source)
        check(done, (1, 3))
        assert "no such incident" in done.err


@each_command
def test_file(run, name, compact):
    """A command that takes no file says so."""
    arguments = ROWS[name][0]
    if arguments is None:
        if name not in ("serve", "run"):
            check(run(name, PERF), (1, 2))
        return
    words = [compact if word == "COMPACT" else word for word in arguments]
    done = run(name, *words, *([] if "COMPACT" in arguments else [PERF]))
    check(done, (0,))
    assert [line for line in done.err.splitlines() if "no symbol file found" not in line] == []
    missing = run(name, *[word for word in arguments if word not in ("COMPACT", PERF)], "missing")
    check(missing, (1,))
    assert "missing: No such file" in missing.err


@each_command
def test_server(run, name, one_server):
    arguments = ROWS[name][1]
    if arguments is None:
        return
    if name != "run":
        check(run(name, *arguments, EDGEPROF_URL=one_server.url), (0, 4, 5))
    else:
        check(run(name, "--url", one_server.url, "--preload", "/nowhere", *arguments), (125,))


@each_command
def test_no_server(run, name):
    if ROWS[name][1] is not None and name != "run":
        with deaf_port() as port:
            done = run(name, *ROWS[name][1], "--url", f"http://127.0.0.1:{port}")
            check(done, (1,))
            assert f"http://127.0.0.1:{port}: " in done.err


@each_command
def test_no_such_service(run, name, one_server):
    if ROWS[name][1] is None or name == "run":
        return
    arguments = [word if word != "svc" else "svk" for word in ROWS[name][1]]
    done = run(name, *arguments, *(["--service", "svk"] if name != "incident" else []), "--url", one_server.url)
    check(done, (3, 5) if name != "incident" else (0,))
    assert name in ("crashes", "incidents", "incident", "leaks", "verdict", "diff", "report", "query") or "did you mean svc?" in done.err


# ---- progress ----

class Slow(http.server.BaseHTTPRequestHandler):
    """Answers when the test has seen enough."""

    def do_GET(self):
        self.server.seen.wait(300)
        self.send_error(500)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row[1] is not None and name not in ("run", "watch")])
def test_progress(cli, name):
    """On a terminal a command that waits for more than a second says what it does and for how long; the line goes away."""
    with FakeServer(Slow) as server:
        server.seen = threading.Event()
        child, terminal = pty.fork()
        if child == 0:
            os.execve(cli.program, [cli.program, name, *ROWS[name][1], "--url", server.url], clean_environment(TERM="xterm"))
        text = ""
        while True:
            try:
                part = os.read(terminal, 4096).decode(errors="replace")
            except OSError:
                break  # the end, on Linux
            text += part
            if not part:
                break
            if re.search(r"edgeprof: [^\n]+, [1-9]\d* s", text):
                server.seen.set()
        server.seen.set()
        _, status = os.waitpid(child, 0)
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 1 and re.search(r"\r\033\[Kedgeprof: [a-z].*, [1-9]\d* s", text), text
    assert re.search(r"s\r\033\[Kedgeprof: http.*HTTP status 500", text), text
