"""Commands that ask a server handle tokens, https and every failure on the way in one clear line."""
import http.server
import os
import pty
import ssl
import subprocess
import time

import pytest

from harness import FakeServer, clean_environment

TOKEN = "sesame-open-0123456789"


class Front(http.server.BaseHTTPRequestHandler):
    """In front of a real server: wants a token, may be slow, may answer nonsense. Its server has what it does."""

    def do_GET(self):
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        time.sleep(self.server.slow)
        if self.headers.get("Authorization") != "Bearer " + TOKEN:
            return self.answer(401, b"no\n")
        return self.answer(*(self.server.nonsense or self.server.behind.request("GET", self.path)))

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def before(behind, context=None):
    front = FakeServer(Front, context)
    front.behind, front.seen, front.slow, front.nonsense = behind, [], 0, None
    return front


@pytest.fixture
def front(filled):
    with before(filled) as found:
        yield found


@pytest.fixture(scope="module")
def certificate(shared_folder):
    """(the server's context, the authority's file)"""
    key, pem = os.path.join(shared_folder, "key.pem"), os.path.join(shared_folder, "ca.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", pem], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    return context, pem


@pytest.fixture
def encrypted(filled, certificate):
    with before(filled, certificate[0]) as found:
        yield found


@pytest.fixture
def env():
    """With the right token."""
    return clean_environment(EDGEPROF_TOKEN=TOKEN)


@pytest.fixture
def token_file(folder):
    """token_file(text): its path"""
    def write(text):
        path = os.path.join(folder, "token")
        with open(path, "w") as file:
            file.write(text)
        return path
    return write


# ---- tokens ----

def test_token_from_a_file(cli, front, token_file):
    path = token_file(TOKEN + "\n")
    assert "one cpu" in cli.run("top", "--url", front.url, "--token-file", path).out
    assert "one cpu" in cli.run("top", "--url", front.url, "--token-file", path, env=clean_environment(EDGEPROF_TOKEN="wrong")).out, \
        "the file goes before the environment"


def test_token_from_the_environment(cli, front, env):
    assert "one cpu" in cli.run("top", "--url", front.url, env=env).out


@pytest.mark.parametrize("text", ["two words\n", ""])
def test_no_token_in_the_file(cli, front, token_file, text):
    cli.fails(1, "one line without blanks", "top", "--url", front.url, "--token-file", token_file(text))


def test_token_too_long(cli, front, token_file):
    path = token_file("x" * 5000)
    cli.fails(1, path, "top", "--url", front.url, "--token-file", path)


def test_no_token(cli, front):
    cli.fails(1, "--token-file or EDGEPROF_TOKEN", "top", "--url", front.url)
    cli.fails(1, "/nowhere/token", "top", "--url", front.url, "--token-file", "/nowhere/token")
    cli.fails(1, "EDGEPROF_TOKEN", "top", "--url", front.url, env=clean_environment(EDGEPROF_TOKEN="a\nX-Evil: b\x07"))


# ---- answers ----

@pytest.mark.parametrize("status, body, word", [(200, b"no profile", "unexpected answer"),
                                                (500, b"\x1b[31mred\nmore", "HTTP status 500: ?[31mred"), (302, b"elsewhere", "HTTP status 302"),
                                                (400, b'{"error":"choose one: a, b"}\n', ": choose one: a, b"), (404, b"{", "HTTP status 404")])
def test_wrong_answer(cli, front, env, status, body, word):
    """Nothing that a server says is believed, and it is not followed elsewhere with the token."""
    front.nonsense = (status, body)
    cli.fails(1, word, "top", "--url", front.url, env=env)
    assert len(front.seen) == 1


def test_authority_of_ones_own(cli, encrypted, certificate, env):
    assert "one cpu" in cli.run("top", "--url", encrypted.url, "--ca", certificate[1], env=env).out


def test_no_authority(cli, encrypted, env):
    cli.fails(1, "certificate", "top", "--url", encrypted.url, env=env)
    assert encrypted.seen == [], "nothing is sent"
    cli.fails(1, "/nowhere/ca.pem", "top", "--url", encrypted.url, "--ca", "/nowhere/ca.pem", env=env)
    cli.fails(1, f"127.0.0.1:{encrypted.server_port}", "top", "--url", encrypted.url.replace("https", "http"), env=env)


# ---- what takes long ----

def in_a_terminal(*command, env):
    """(exit code, standard output, what is written to standard error, which is a terminal)"""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=env)
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


def test_progress(edgeprof, front, env):
    front.slow = 2
    code, out, text = in_a_terminal(edgeprof, "top", "--url", front.url, env=env)
    assert code == 0 and "one cpu" in out
    assert f"edgeprof: reading {front.url}, 1 s" in text, "it says what takes long"
    assert text.endswith("\r\x1b[K"), "and removes it"


def test_progress_and_a_failure(edgeprof, front):
    front.slow = 2
    code, _, text = in_a_terminal(edgeprof, "top", "--url", front.url, env=clean_environment())
    assert code == 1 and "\r\x1b[Kedgeprof: " + front.url + ": HTTP status 401" in text, "what went wrong has a line of its own"


def test_no_progress_in_a_pipe(cli, front, env):
    front.slow = 2
    assert cli.run("top", "--url", front.url, env=env).err == ""


def test_no_progress_when_it_is_quick(edgeprof, front, env):
    assert in_a_terminal(edgeprof, "top", "--url", front.url, env=env)[2] == ""
