"""Commands that ask a server: token, https with an authority of one's own, what goes wrong on the way.
Usage: cli_remote_test.py EDGEPROF_WITH_SANITIZERS"""
import http.server
import os
import pty
import ssl
import subprocess
import sys
import tempfile
import threading
import time

from cli import Cli, message_of
from harness import Checks, Server, clean_environment

PROGRAM = os.path.abspath(sys.argv[1])
check = Checks()
cli = Cli(PROGRAM, check)
TOKEN = "sesame-open-0123456789"


class Front(http.server.BaseHTTPRequestHandler):
    """In front of a real server: wants a token, may be slow, may answer nonsense."""
    behind, seen, slow, nonsense = None, [], 0, None

    def do_GET(self):
        Front.seen.append((self.path, self.headers.get("Authorization")))
        time.sleep(Front.slow)
        if self.headers.get("Authorization") != "Bearer " + TOKEN:
            return self.answer(401, b"no\n")
        if Front.nonsense is not None:
            return self.answer(*Front.nonsense)
        return self.answer(*Front.behind.request("GET", self.path))

    def answer(self, status, body, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def serve(context=None):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Front)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def certificate(folder):
    key, pem = os.path.join(folder, "key.pem"), os.path.join(folder, "ca.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", pem], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    return context, pem


def tokens(folder, url):
    good, bad = os.path.join(folder, "token"), os.path.join(folder, "bad")
    for path, text in ((good, TOKEN + "\n"), (bad, "two words\n"), (bad + "2", ""), (bad + "3", "x" * 5000)):
        with open(path, "w") as file:
            file.write(text)
    check("one cpu" in cli.run("top", "--url", url, "--token-file", good).out, "the token from a file")
    check("one cpu" in cli.run("top", "--url", url, env=clean_environment(EDGEPROF_TOKEN=TOKEN)).out, "the token from the environment")
    check("one cpu" in cli.run("top", "--url", url, "--token-file", good, env=clean_environment(EDGEPROF_TOKEN="wrong")).out,
          "the file goes before the environment")
    cli.fails(1, "--token-file or EDGEPROF_TOKEN", "top", "--url", url)
    cli.fails(1, "one line without blanks", "top", "--url", url, "--token-file", bad)
    cli.fails(1, "one line without blanks", "top", "--url", url, "--token-file", bad + "2")
    cli.fails(1, bad + "3", "top", "--url", url, "--token-file", bad + "3")
    cli.fails(1, "/nowhere/token", "top", "--url", url, "--token-file", "/nowhere/token")
    cli.fails(1, "EDGEPROF_TOKEN", "top", "--url", url, env=clean_environment(EDGEPROF_TOKEN="a\nX-Evil: b\x07"))


def wrong_answers(folder, url):
    """Nothing that a server says is believed, and it is not followed elsewhere with the token."""
    env = clean_environment(EDGEPROF_TOKEN=TOKEN)
    before = len(Front.seen)
    for status, body, word in ((200, b"no profile", "not an answer of edgeprof"), (500, b"\x1b[31mred\nmore", "HTTP status 500: ?[31mred"),
                               (302, b"elsewhere", "HTTP status 302")):
        Front.nonsense = (status, body)
        cli.fails(1, word, "top", "--url", url, env=env)
    check.equal(len(Front.seen) - before, 3, "one request each")
    Front.nonsense = None


def encrypted(folder, behind_url):
    context, pem = certificate(folder)
    server = serve(context)
    url, env = f"https://127.0.0.1:{server.server_port}", clean_environment(EDGEPROF_TOKEN=TOKEN)
    check("one cpu" in cli.run("top", "--url", url, "--ca", pem, env=env).out, "https with an authority of one's own")
    before = len(Front.seen)
    cli.fails(1, "certificate", "top", "--url", url, env=env)
    check.equal(len(Front.seen), before, "and nothing is sent without")
    cli.fails(1, "/nowhere/ca.pem", "top", "--url", url, "--ca", "/nowhere/ca.pem", env=env)
    cli.fails(1, f"127.0.0.1:{server.server_port}", "top", "--url", url.replace("https", "http"), env=env)
    server.shutdown()


def in_a_terminal(*arguments, env):
    """What is written to standard error when that is a terminal; standard output is a pipe."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=theirs, env=env)
    os.close(theirs)
    out = process.stdout.read().decode()
    text = b""
    try:
        while chunk := os.read(ours, 4096):
            text += chunk
    except OSError:
        pass  # a terminal that is closed
    os.close(ours)
    return process.wait(60), out, text.decode()


def progress(folder, url):
    env = clean_environment(EDGEPROF_TOKEN=TOKEN)
    Front.slow = 2
    code, out, text = in_a_terminal("top", "--url", url, env=env)
    check(code == 0 and "one cpu" in out, "the table")
    check(f"edgeprof: reading {url}, 1 s" in text, f"it says what takes long: {text!r}")
    check(text.endswith("\r\x1b[K"), f"and removes it: {text!r}")
    check.equal(cli.run("top", "--url", url, env=env).err, "", "never into a pipe")
    code, _, text = in_a_terminal("top", "--url", url, env=clean_environment())
    check(code == 1 and "\r\x1b[Kedgeprof: " + url + ": HTTP status 401" in text, f"a line of its own for what went wrong: {text!r}")
    Front.slow = 0
    check.equal(in_a_terminal("top", "--url", url, env=env)[2], "", "nothing when it is quick")


with tempfile.TemporaryDirectory(prefix="edgeprof-test-") as folder_:
    Front.behind = Server(PROGRAM, os.path.join(folder_, "one.db"))
    Front.behind.push(message_of(1, "one", {2: 5, 3: 30, 6: 11}))
    front = serve()
    url_ = f"http://127.0.0.1:{front.server_port}"
    tokens(folder_, url_)
    wrong_answers(folder_, url_)
    encrypted(folder_, url_)
    progress(folder_, url_)
    front.shutdown()
    check.equal(Front.behind.stop(), 0, "server")
check.done("test-tools-remote")
