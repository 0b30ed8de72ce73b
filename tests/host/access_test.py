"""Who is let in: tokens, TLS, client certificates, names of hosts, rates, connections. Usage: access_test.py EDGEPROF"""
import base64
import http.client
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import warnings

from generate import message, module, nodes, origin, profile
from harness import Checks, Server

PROGRAM = sys.argv[1]
check = Checks()
BOTH, READ, WRITE = "token-for-both-0123456789", "token-to-read-0123456789", "token-to-write-0123456789"


def push(segment):
    return message(segment, 0, origin("svc"), [module(4096, 4096)], nodes([0], [4100]), [profile({1: 1})])


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def ends(*arguments):
    """(exit code, standard error) of a server that does not start."""
    run = subprocess.run([PROGRAM, "serve", "--listen", "127.0.0.1:0", "--db", ":memory:", *arguments], capture_output=True, text=True,
                         timeout=60, check=False)
    check("Sanitizer" not in run.stderr and "runtime error" not in run.stderr, run.stderr)
    return run.returncode, run.stderr


def refuses_to_start(folder):
    """Each mistake is one line that says what to do."""
    token = write(folder, "token", BOTH)
    cases = {
        "no file": (("--token-file", folder + "/none"), "No such file"),
        "an empty token file": (("--token-file", write(folder, "empty", "# nothing\n\n")), "openssl rand"),
        "a short token": (("--token-file", write(folder, "short", "ok-0123456789abcdef\nshort\n")), "short:2: a token has 16"),
        "a word too many": (("--token-file", write(folder, "words", f"admin {BOTH}\n")), "want TOKEN, read TOKEN or write TOKEN"),
        "a blank in a token": (("--token-file", write(folder, "blank", f"read {BOTH} x\n")), "want TOKEN"),
        "a certificate alone": (("--tls-cert", token), "belong together"),
        "an authority alone": (("--tls-client-ca", token), "needs both"),
        "a certificate that is none": (("--tls-cert", token, "--tls-key", token), "no certificate in PEM"),
        "a key that is none": (("--tls-cert", folder + "/server.pem", "--tls-key", token), "no private key"),
        "another's key": (("--tls-cert", folder + "/server.pem", "--tls-key", folder + "/client.key"), "not the key of the certificate"),
        "an authority that is none": (("--tls-cert", folder + "/server.pem", "--tls-key", folder + "/server.key", "--tls-client-ca", token), "authority"),
        "no config": (("--config", folder + "/none"), "No such file"),
        "a wrong config": (("--config", write(folder, "wrong", "[serve]\nlissten = x\n")), "wrong:2: [serve] knows no 'lissten'"),
        "a wrong limit": (("--config", write(folder, "limit", "[limits]\nconnections = 0\n")), "limit:2: connections = 0"),
        "a section twice": (("--config", write(folder, "twice", "[serve]\n[limits]\n[serve]\n")), "twice:3: [serve] is there twice"),
        "all the world": (("--listen", "0.0.0.0:0"), "--token-file FILE"),
        "all the world, with TLS": (("--listen", "0.0.0.0:0", "--tls-cert", folder + "/server.pem", "--tls-key", folder + "/server.key"), "--insecure"),
    }
    for what, (arguments, word) in cases.items():
        code, said = ends(*arguments)
        check.equal(code, 1, what)
        check(word in said and said.count("\n") == 1, f"{what}: one line that says {word!r}: {said!r}")


def asked(server, path="/api/services", token=None, body=None, basic=None, **headers):
    if token:
        headers["Authorization"] = "Bearer " + token
    if basic:
        headers["Authorization"] = "Basic " + base64.b64encode(basic.encode()).decode()
    return server.request("POST" if body is not None else "GET", path, body, headers)[0]


def tokens(folder):
    path = write(folder, "tokens", f"# all\n{BOTH}\nread {READ}\r\nwrite   {WRITE}\n")
    server = Server(PROGRAM, os.path.join(folder, "tokens.db"), "--token-file", path)
    push_path = "/edgeprof/v1/push"
    for what, arguments, reads, writes in (("nothing", {}, 401, 401), ("both", {"token": BOTH}, 200, 200), ("read", {"token": READ}, 200, 403),
                                           ("write", {"token": WRITE}, 403, 200), ("wrong", {"token": BOTH + "x"}, 401, 401),
                                           ("the beginning", {"token": BOTH[:-1]}, 401, 401), ("basic", {"basic": "anybody:" + BOTH}, 200, 200),
                                           ("basic without a user", {"basic": ":" + READ}, 200, 403), ("basic, wrong", {"basic": "u:x"}, 401, 401),
                                           ("basic without a colon", {"basic": BOTH}, 401, 401), ("basic that is none", {"Authorization": "Basic !!"}, 401, 401),
                                           ("another scheme", {"Authorization": "Digest " + BOTH}, 401, 401), ("bearer alone", {"Authorization": "Bearer "}, 401, 401),
                                           ("a long one", {"token": BOTH * 1000}, 401, 401), ("small letters", {"Authorization": "bearer " + BOTH}, 200, 200)):
        check.equal(asked(server, **arguments), reads, f"reading with {what}")
        check.equal(asked(server, push_path, body=push(hash(what) & 0xffff), **arguments), writes, f"writing with {what}")
        check.equal(asked(server, "/", **arguments), reads, f"the page with {what}")
        check.equal(asked(server, "/nowhere", **arguments), 404 if reads == 200 else reads, f"what is not there with {what}")
    server.request("GET", "/")
    check("Basic" in server.headers["WWW-Authenticate"], "browsers ask for it")
    check.equal(asked(server, "/healthz"), 200, "health is nobody's secret")
    check.equal(asked(server, token=BOTH, Host="anything.example"), 200, "with a token any name of the host is fine")
    check.equal(asked(server, push_path, body=push(9), token=BOTH, Origin="http://elsewhere"), 403, "a web page's post")
    write(folder, "tokens", "short\n")
    server.process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    check.equal(asked(server, token=READ), 200, "a wrong file changes nothing")
    write(folder, "tokens", f"{READ}{READ}\n")
    server.process.send_signal(signal.SIGHUP)
    for _ in range(100):
        if asked(server, token=READ) == 401:
            break
        time.sleep(0.1)
    check.equal((asked(server, token=READ), asked(server, token=READ + READ)), (401, 200), "SIGHUP reads it again")
    said = server.stderr()
    check(said.count("refused:") <= 2 and "a token has 16" in said, f"a line a reason: {said}")
    check(BOTH not in said and READ not in said, "no token on standard error")
    check.equal(server.stop(), 0, "ends")


def hosts(folder):
    config = write(folder, "hosts.conf", "[serve]\nhosts = gateway, Gateway.example\n")
    for arguments, more in (((), ()), (("--config", config), ("gateway", "gateway.example:4040"))):
        server = Server(PROGRAM, os.path.join(folder, "hosts.db"), *arguments)
        for host in ("127.0.0.1", "localhost", "LOCALHOST:99", "[::1]:4040", "10.0.0.7:80", *more):
            check.equal(asked(server, Host=host), 200, f"{arguments}: host {host}")
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:4040", "", "[gateway", "gateway.evil", "a" * 300, *(() if more else ("gateway",))):
            check.equal(asked(server, Host=host), 403, f"{arguments}: host {host}")
        check.equal(server.stop(), 0, "ends")
    server = Server(PROGRAM, os.path.join(folder, "hosts.db"), "--insecure")
    check.equal(asked(server, Host="evil.example"), 200, "--insecure asks nobody")
    check.equal(server.stop(), 0, "ends")


# ---- TLS ----

def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def make_certificates(folder):
    """Two authorities; a server's and a client's of the first, a client's of the second."""
    for ca in ("ca", "other-ca"):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", f"/CN={ca}",
                "-keyout", f"{folder}/{ca}.key", "-out", f"{folder}/{ca}.pem", "-addext", "keyUsage=critical,keyCertSign")
    for name, ca, purpose in (("server", "ca", "serverAuth"), ("second", "ca", "serverAuth"), ("client", "ca", "clientAuth"), ("stranger", "other-ca", "clientAuth")):
        extensions = write(folder, name + ".ext", f"subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage={purpose}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{folder}/{name}.key",
                "-out", f"{folder}/{name}.csr")
        openssl("x509", "-req", "-in", f"{folder}/{name}.csr", "-CA", f"{folder}/{ca}.pem", "-CAkey", f"{folder}/{ca}.key", "-days", "20",
                "-set_serial", str(1 + len(name) + name.count("e")), "-extfile", extensions, "-out", f"{folder}/{name}.pem")


class Secure(Server):
    """The same over https."""

    def __init__(self, folder, *arguments):
        self.folder = folder
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen([PROGRAM, "serve", "--listen", "127.0.0.1:0", "--db", folder + "/tls.db", "--tls-cert", folder + "/now.pem",
                                         "--tls-key", folder + "/now.key", *arguments], stdout=subprocess.PIPE, stderr=self.errors, text=True)
        found = re.fullmatch(r"edgeprof: https://127\.0\.0\.1:(\d+)\n", self.process.stdout.readline())
        self.port = int(found[1])

    def context(self, certificate=None):
        context = ssl.create_default_context(cafile=self.folder + "/ca.pem")
        if certificate:
            context.load_cert_chain(f"{self.folder}/{certificate}.pem", f"{self.folder}/{certificate}.key")
        return context

    def ask(self, path="/api/services", body=None, context=None, headers=None):
        """A status, or the name of the exception."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=context or self.context())
        try:
            connection.request("POST" if body is not None else "GET", path, body, headers or {})
            return connection.getresponse().status
        except (ssl.SSLError, OSError) as error:
            return "refused" if isinstance(error, (ssl.SSLError, ConnectionError)) else repr(error)
        finally:
            connection.close()

    def serial(self):
        with socket.create_connection(("127.0.0.1", self.port), 60) as raw, self.context().wrap_socket(raw, server_hostname="localhost") as secure:
            return int(secure.getpeercert()["serialNumber"], 16)


def present(folder, name):
    for ending in (".pem", ".key"):
        with open(folder + "/" + name + ending, encoding="ascii") as file:
            write(folder, "now" + ending, file.read())


def tls(folder):
    present(folder, "server")
    server = Secure(folder)
    check.equal(server.ask(), 200, "https")
    check.equal(server.ask("/edgeprof/v1/push", push(1)), 200, "a push over https")
    for version, wanted in ((ssl.TLSVersion.TLSv1_2, 200), (ssl.TLSVersion.TLSv1_3, 200)):
        context = server.context()
        context.minimum_version = context.maximum_version = version
        check.equal(server.ask(context=context), wanted, version.name)
    old = server.context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is old is the point
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    check.equal(server.ask(context=old), "refused", "TLS 1.1")
    with socket.create_connection(("127.0.0.1", server.port), 30) as raw:  # plain HTTP at a TLS port
        raw.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            answer = raw.recv(100)
        except OSError:
            answer = b""
        check(not answer.startswith(b"HTTP"), f"plain HTTP: {answer}")
    first = server.serial()
    write(folder, "now.pem", "nonsense")
    server.process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    check.equal(server.serial(), first, "a wrong certificate changes nothing")
    present(folder, "second")
    kept = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=60, context=server.context())
    kept.request("GET", "/healthz")
    kept.getresponse().read()
    server.process.send_signal(signal.SIGHUP)
    for _ in range(100):
        if server.serial() != first:
            break
        time.sleep(0.1)
    check(server.serial() != first, "SIGHUP changes the certificate")
    kept.request("GET", "/healthz")
    check.equal(kept.getresponse().status, 200, "connections that were there go on")
    kept.close()
    check("no certificate in PEM" in server.stderr(), "and the wrong one was said")
    check.equal(server.stop(), 0, "ends")


def mutual_tls(folder):
    present(folder, "server")
    server = Secure(folder, "--tls-client-ca", folder + "/ca.pem", "--token-file", write(folder, "mtls-token", BOTH))
    token = {"Authorization": "Bearer " + BOTH}
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        contexts = {name: server.context(name) for name in ("client", "stranger", "server", None)}
        for context in contexts.values():
            context.minimum_version = context.maximum_version = version
        check.equal(server.ask(context=contexts["client"], headers=token), 200, f"{version.name}: a client's certificate")
        check.equal(server.ask(context=contexts["client"]), 401, f"{version.name}: and the token is wanted as well")
        check.equal(server.ask(context=contexts[None], headers=token), 403, f"{version.name}: none")
        check.equal(server.ask("/healthz", context=contexts[None]), 403, f"{version.name}: none, for anything")
        check.equal(server.ask(context=contexts["stranger"], headers=token), "refused", f"{version.name}: a stranger's")
        check.equal(server.ask(context=contexts["server"], headers=token), "refused", f"{version.name}: a server's is not for clients")
    check("refused: " in server.stderr() and "certificate" in server.stderr(), "it is said")
    check.equal(server.stop(), 0, "ends")


# ---- how much ----

def rates(folder):
    config = write(folder, "rate.conf", "[limits]\nprofiles-per-second = 2\nloopback = yes\n")
    server = Server(PROGRAM, os.path.join(folder, "rate.db"), "--config", config)
    answers = [server.push(push(100 + i)) for i in range(60)]
    check(answers[:20] == [200] * 20, f"ten seconds' worth at once: {answers[:20]}")
    check(answers.count(429) > 10 and set(answers) == {200, 429}, f"then they are refused: {answers}")
    check.equal(server.push(push(99)), 429, "one more")
    server.request("POST", "/edgeprof/v1/push", push(99))
    check(server.headers["Retry-After"], "and told when to come again")
    check.equal(asked(server), 200, "reading goes on")
    for _ in range(100):
        if server.push(push(99)) == 200:
            break
        time.sleep(0.1)
    else:
        check(False, "it may send again")
    check.equal(server.stderr().count("refused: "), 1, f"said once: {server.stderr()}")
    check.equal(server.stop(), 0, "ends")
    server = Server(PROGRAM, os.path.join(folder, "free.db"))
    check.equal({server.push(push(1 + i)) for i in range(200)}, {200}, "without the setting nobody on this machine is held")
    check.equal(server.stop(), 0, "ends")


def connections(folder):
    for key, said in (("connections", "see connections"), ("sender-connections", "see sender-connections")):
        server = Server(PROGRAM, os.path.join(folder, "many.db"), "--config", write(folder, "many.conf", f"[limits]\n{key} = 3\n"))
        idle = [socket.create_connection(("127.0.0.1", server.port), 30) for _ in range(3)]
        for one in idle:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            check(one.recv(100).startswith(b"HTTP/1.1 200"), f"{key}: within the limit")
        try:
            status = server.request("GET", "/healthz")[0]
        except (OSError, http.client.HTTPException) as error:
            status = type(error).__name__
        check(status != 200, f"{key}: a fourth is closed: {status}")
        idle.pop().close()
        for _ in range(100):
            try:
                status = server.request("GET", "/healthz")[0]
                break
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
        check.equal(status, 200, f"{key}: when one goes another may come")
        for one in idle:
            one.close()
        check(said in server.stderr() and server.stderr().count("refused:") == 1, f"{key}: it is said: {server.stderr()}")
        check.equal(server.stop(), 0, "ends")


def main():
    with tempfile.TemporaryDirectory() as folder:
        make_certificates(folder)
        for part in (refuses_to_start, tokens, hosts, tls, mutual_tls, rates, connections):
            part(folder)
    check.done("test-tools-access")


main()
