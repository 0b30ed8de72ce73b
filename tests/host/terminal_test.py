"""No command writes a control character, a direction or a line of a device or of a hostile server to the terminal."""
import http.server
import json
import os
import re

import pytest

from generate import crash, data, message, module, nodes, origin, profile, stats, timeline, unsampled
from harness import FakeServer, Server, clean_environment

EVIL = "\x1b]0;pwned\x07\x1b[31m\r\n\x9b2J\x85\u2028\u2029\u202e\u2066\u200f\u061c\ufeff\U000e0041\x7f%s%n"
FORBIDDEN = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]")
NODES = nodes([0, 1, 2, 3, 4, 2], [4100, 4200, 4300, 4400, 4500, 4600])


def messages():
    """With hostile names wherever a device has one."""
    app = [module(4096, 65536, 0, b"\7" * 20, f"/x{EVIL}/app")]
    who = origin(f"svc{EVIL}", tags=[("version", f"1{EVIL}"), (f"key{EVIL}", "v")], host=f"host{EVIL}", boot_id=f"boot{EVIL}", executable=f"exe{EVIL}",
                 arch=f"arch{EVIL}", agent=f"edgeprof/{EVIL}")
    ended = crash([(7, f"main{EVIL}", 3)], boot_id=f"boot{EVIL}", executable=f"exe{EVIL}", runtime=json.dumps({"reason": EVIL, "message": EVIL}).encode())
    slow = timeline(0xabc, [(2 << 20, 1, 0, 3, 10**7)], name=f"trigger{EVIL}", threads=[(100, f"worker{EVIL}")])
    return [message(1, 0, who, app, NODES, [profile({3: 10, 6: 5})], stats=stats(5, 5, losses=[(1, 2, 3)]) + unsampled(8, 1, [f"lost{EVIL}"])),
            message(2, 0, who, app, NODES, crash=ended, last=True), message(3, 0, who, app, NODES, timeline=slow, last=True)]


def spoiled(value):
    """The answer of a hostile server: like a good one, with hostile text in each string and name."""
    if isinstance(value, str):
        return value + EVIL
    if isinstance(value, list):
        return [spoiled(v) for v in value]
    return {k: spoiled(v) for k, v in value.items()} if isinstance(value, dict) else value


class Hostile(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status, body = self.server.behind.request("GET", self.path)
        if self.server.mode == "error":
            status, body = 503, EVIL.encode()
        elif self.server.mode == "text":
            body = EVIL.encode() * 50
        elif body[:1] in (b"{", b"["):
            body = json.dumps(spoiled(json.loads(body)), ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def behind(edgeprof, shared_folder):
    with Server(edgeprof, os.path.join(shared_folder, "terminal.db")) as server:
        for body in messages():
            assert server.push(body) == 200
        yield server


COMMANDS = [["crashes"], ["crashes", "--per-thread"], ["incidents"], ["incident", "0000000000000abc"], ["query", "services"], ["query", "labels"],
            ["query", "series"], ["query", "timeline"], ["query", "timeline", "--by", "version"], ["query", "devices"], ["query", "profile"], ["devices"],
            ["verdict"], ["leaks"], ["top"], ["top", "--tree"], ["report"], ["symbols", "list"]]


def check(done, where):
    for name, text in ("output", done.out), ("errors", done.err):
        bad = FORBIDDEN.search(text)
        assert not bad, f"{where}: {name}: {text[max(0, bad.start() - 60):bad.end() + 20]!r}"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_servers(cli, behind, words):
    shown = 0
    for mode in "spoiled", "error", "text":
        with FakeServer(Hostile) as front:
            front.behind, front.mode = behind, mode
            for more in [], ["--json"]:
                done = cli.run(*words, "--url", front.url, *more, env=clean_environment(EDGEPROF_TOKEN="sesame-open-0123456789"))
                check(done, f"{words} {more}, {mode}")
                shown += len(done.out + done.err)
                if more and done.returncode == 0 and done.out and mode == "spoiled":
                    assert json.loads(done.out) is not None, "still JSON"
    assert shown, "it says something"


@pytest.mark.parametrize("words", [w for w in COMMANDS if w[0] not in ("symbols", "verdict")], ids=" ".join)
def test_databases(cli, behind, words):
    for more in [], ["--json"]:
        check(cli.run(*words, "--db", behind.db, *more), f"{words} {more}")


def test_files(cli, folder):
    path = os.path.join(folder, "file.edgeprof")
    with open(path, "wb") as file:
        for body in messages():
            file.write(len(body).to_bytes(4, "little") + body)
    done = cli.run("cat", path)
    check(done, "cat")
    assert "worker?]0;pwned" in done.out and "trigger?]0;pwned" in done.out and "main?]0;pwned" in done.out, done.out
    for words in ["cat", path, "--folded"], ["list", "app", path], ["top", "--tree", path], ["incident", "last", path], ["incident", "0000000000000abc", path]:
        check(cli.run(*words), words)
    check(cli.run("cat", os.path.join(folder, f"missing{EVIL[:12]}")), "a name of a file")
