"""Tokens, TLS, client certificates, host names, rates and connection limits let in exactly whom they should."""
import base64
import concurrent.futures
import gzip
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
import warnings

import pytest

from generate import data, message, module, nested, nodes, origin, pprof_profile, profile, push_request, tag_set, varint
from generate import number as number_field
from harness import Server, wait_until

NOW = int(time.time()) - 100
BOTH, READ, WRITE = "token-for-both-0123456789", "token-to-read-0123456789", "token-to-write-0123456789"


def push(segment):
    return message(segment, 0, origin("svc"), [module(4096, 4096)], nodes([0], [4100]), [profile({1: 1})])


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def test_refuses_to_start(cli, folder, certificates):
    """Each mistake is one line that says what to do."""
    token, pem, key = write(folder, "token", BOTH), certificates + "/server.pem", certificates + "/server.key"
    cases = {
        "no file": (("--token-file", folder + "/none"), folder + "/none: No such file"),
        "an empty token file": (("--token-file", write(folder, "empty", "# nothing\n\n")), "openssl rand"),
        "a short token": (("--token-file", write(folder, "short", "ok-0123456789abcdef\nshort\n")), "short:2: a token must have 16"),
        "a word too many": (("--token-file", write(folder, "words", f"admin {BOTH}\n")), "expected TOKEN, read TOKEN or write TOKEN"),
        "a bound token that reads": (("--token-file", write(folder, "bound", f"{BOTH} service=x\n")), "begin the line with write"),
        "a bound token twice": (("--token-file", write(folder, "again", f"write {BOTH} service=x\nwrite {BOTH}\n")), "again:2: this token has another line"),
        "a label without a value": (("--token-file", write(folder, "label", f"write {BOTH} label=x\n")), "expected TOKEN"),
        "a blank in a token": (("--token-file", write(folder, "blank", f"read {BOTH} x\n")), "expected TOKEN"),
        "a certificate alone": (("--tls-cert", token), "require each other"),
        "an authority alone": (("--tls-client-ca", token), "requires both"),
        "a certificate that is none": (("--tls-cert", token, "--tls-key", token), "not a PEM certificate"),
        "a key that is none": (("--tls-cert", pem, "--tls-key", token), "PEM private key"),
        "another's key": (("--tls-cert", pem, "--tls-key", certificates + "/client.key"), "does not match the certificate"),
        "an authority that is none": (("--tls-cert", pem, "--tls-key", key, "--tls-client-ca", token), "PEM CA certificate"),
        "no config": (("--config", folder + "/none"), "No such file"),
        "a wrong config": (("--config", write(folder, "wrong", "[serve]\nlissten = x\n")), "wrong:2: unknown key 'lissten' in [serve]"),
        "a wrong limit": (("--config", write(folder, "limit", "[limits]\nconnections = 0\n")), "limit:2: connections = 0"),
        "a section twice": (("--config", write(folder, "twice", "[serve]\n[limits]\n[serve]\n")), "twice:3: duplicate section [serve]"),
        "all the world": (("--listen", "0.0.0.0:0"), "--token-file FILE"),
        "all the world, with TLS": (("--listen", "0.0.0.0:0", "--tls-cert", pem, "--tls-key", key), "--insecure"),
    }
    for what, (arguments, word) in cases.items():
        cli.fails(1, word, "serve", "--listen", "127.0.0.1:0", "--db", ":memory:", *arguments)


def asked(server, path="/api/services", token=None, body=None, basic=None, **headers):
    if token:
        headers["Authorization"] = "Bearer " + token
    if basic:
        headers["Authorization"] = "Basic " + base64.b64encode(basic.encode()).decode()
    return server.request("POST" if body is not None else "GET", path, body, headers)[0]


def test_tokens(folder, start_server):
    path = write(folder, "tokens", f"# all\n{BOTH}\nread {READ}\r\nwrite   {WRITE}\n")
    server = start_server("--token-file", path)
    push_path = "/edgeprof/v1/push"
    for what, arguments, reads, writes in (("nothing", {}, 401, 401), ("both", {"token": BOTH}, 200, 200), ("read", {"token": READ}, 200, 403),
                                           ("write", {"token": WRITE}, 403, 200), ("wrong", {"token": BOTH + "x"}, 401, 401),
                                           ("the beginning", {"token": BOTH[:-1]}, 401, 401), ("basic", {"basic": "anybody:" + BOTH}, 200, 200),
                                           ("basic without a user", {"basic": ":" + READ}, 200, 403), ("basic, wrong", {"basic": "u:x"}, 401, 401),
                                           ("basic without a colon", {"basic": BOTH}, 401, 401), ("basic that is none", {"Authorization": "Basic !!"}, 401, 401),
                                           ("another scheme", {"Authorization": "Digest " + BOTH}, 401, 401), ("bearer alone", {"Authorization": "Bearer "}, 401, 401),
                                           ("a long one", {"token": BOTH * 1000}, 401, 401), ("small letters", {"Authorization": "bearer " + BOTH}, 200, 200)):
        assert asked(server, **arguments) == reads, f"reading with {what}"
        assert asked(server, push_path, body=push(hash(what) & 0xffff), **arguments) == writes, f"writing with {what}"
        assert asked(server, "/", **arguments) == reads, f"the page with {what}"
        assert asked(server, "/nowhere", **arguments) == (404 if reads == 200 else reads), f"what is not there with {what}"
    server.request("GET", "/")
    assert "Basic" in server.headers["WWW-Authenticate"], "browsers ask for it"
    assert asked(server, "/healthz") == 200, "health is nobody's secret"
    assert asked(server, token=BOTH, Host="anything.example") == 200, "with a token any name of the host is fine"
    assert asked(server, push_path, body=push(9), token=BOTH, Origin="http://elsewhere") == 403, "a web page's post"
    write(folder, "tokens", "short\n")
    server.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: "a token must have 16" in server.stderr()), "it is said"
    assert asked(server, token=READ) == 200, "a wrong file changes nothing"
    write(folder, "tokens", f"{READ}{READ}\n")
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: asked(server, token=READ) == 401)
    assert (asked(server, token=READ), asked(server, token=READ + READ)) == (401, 200), "SIGHUP reads it again"
    said = server.stderr()
    assert said.count("refused:") <= 2, f"a line a reason: {said}"
    assert BOTH not in said and READ not in said, "no token on standard error"


def pprof():
    return pprof_profile([b"", b"cpu", b"nanoseconds"], [data(2, varint(7))])


def test_bound_tokens(folder, start_server):
    """What a device's token may send; a read token reads as before."""
    bound = "token-of-a-device-0123456789"
    path = write(folder, "tokens", f"read {READ}\nwrite {bound} service=sensor  service=camera\tlabel=zone=a\r\nwrite {WRITE}\n")
    server = start_server("--token-file", path)
    compact, ingest, connect, otlp = "/edgeprof/v1/push", "/ingest?name=", "/push.v1.PusherService/Push", "/v1development/profiles"

    def of(segment, service, *tags, sequence=0):
        more = () if sequence else (origin(service, tags), [module(4096, 4096)], nodes([0], [4100]))
        return message(segment, sequence, *more, profiles=[profile({1: 1})])

    def labels(service, zone):
        return push_request([[("__name__", "process_cpu"), ("service_name", service), ("zone", zone)]], pprof())
    proto = {"Content-Type": "application/proto"}
    for number, (service, zone, right) in enumerate((("sensor", "a", True), ("camera", "a", True), ("sensor", "b", False), ("bank", "a", False), ("sensor2", "a", False))):
        want = 200 if right else 403
        assert asked(server, compact, bound, of(number + 1, service, ("zone", zone))) == want, (service, zone)
        assert asked(server, ingest + f"{service}{{zone={zone}}}", bound, pprof()) == want, (service, zone)
        assert asked(server, connect, bound, labels(service, zone), **proto) == want, (service, zone)
        assert asked(server, compact, WRITE, of(number + 11, service, ("zone", zone))) == 200, "a token that is not bound"
    assert asked(server, compact, bound, of(50, "sensor")) == 403, "without the label"
    assert asked(server, connect, bound, push_request([[("__name__", "process_cpu"), ("service_name", s), ("zone", "a")] for s in ("sensor", "bank")], pprof()), **proto) == 403
    assert asked(server, compact, bound, of(1, "", sequence=1)) == 200, "the next message of its own segment"
    assert asked(server, compact, bound, of(14, "", sequence=1)) == 403, "of the bank's segment"
    for number, (zone, want) in enumerate((("b", 403), ("a", 200))):  # a stack's label comes before its process's
        hides = message(60 + number, 0, origin("sensor", [("zone", "a")]), [module(4096, 4096)], nodes([0], [4100]), [profile({1: 1})], tag_sets=[tag_set(1, zone=zone)])
        stack = pprof_profile([b"", b"cpu", b"nanoseconds", b"zone", zone.encode()], [data(2, varint(7)) + nested(3, number_field(1, 3) + number_field(2, 4))])
        assert asked(server, compact, bound, hides) == want, zone
        assert asked(server, ingest + "sensor{zone=a}", bound, stack) == want, zone
        assert asked(server, connect, bound, push_request([[("__name__", "process_cpu"), ("service_name", "sensor"), ("zone", "a")]], stack), **proto) == want, zone
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "bank"}}, {"key": "zone", "value": {"stringValue": "a"}}]}
    dictionary = {"mappingTable": [{}], "locationTable": [{}, {"lines": [{"functionIndex": 1}]}], "functionTable": [{}, {"nameStrindex": 3}], "linkTable": [{}],
                  "stringTable": ["", "cpu", "nanoseconds", "main"], "attributeTable": [{}], "stackTable": [{}, {"locationIndices": [1]}]}
    kind = {"typeStrindex": 1, "unitStrindex": 2}
    for service, want in (("bank", 403), ("sensor", 200)):
        resource["attributes"][0]["value"]["stringValue"] = service
        body = json.dumps({"resourceProfiles": [{"resource": resource, "scopeProfiles": [{"scope": {"name": "t"}, "profiles": [
            {"sampleType": kind, "periodType": kind, "samples": [{"stackIndex": 1, "values": ["5"]}], "timeUnixNano": str(NOW * 10**9), "durationNano": "1000000000"}]}]}],
            "dictionary": dictionary})
        assert asked(server, otlp, bound, body.encode(), **{"Content-Type": "application/json"}) == want, service
    services = json.loads(server.request("GET", "/api/services", headers={"Authorization": "Bearer " + READ})[1])["services"]
    assert {row["profiles"] for row in services if row["service"] == "bank"} == {1}, "only what the other token sent"
    assert "token in line 2: this token may" in server.stderr() and server.stderr().count("refused:") == 1, server.stderr()


def test_a_token_for_each_device_of_a_fleet(folder, start_server):
    tokens = [f"token-of-device-{i:06}-0123456789abcdef0123456789abcdef" for i in range(3000)]
    path = write(folder, "tokens", f"read {READ}\n" + "".join(f"write {token} service=sensor label=device=d{i:06}\n" for i, token in enumerate(tokens)))
    server = start_server("--token-file", path)
    for i in (0, len(tokens) - 1):
        body = message(i + 1, 0, origin("sensor", [("device", f"d{i:06}")]), [module(4096, 4096)], nodes([0], [4100]), [profile({1: 1})])
        assert asked(server, "/edgeprof/v1/push", tokens[i], body) == 200
        assert asked(server, "/edgeprof/v1/push", tokens[1], body) == 403


def test_symbols_need_their_own_right(folder, start_server, sample):
    symbols, write_symbols = "token-for-symbols-0123456789", "token-for-both-kinds-0123456789"
    path = write(folder, "tokens", f"{BOTH}\nwrite {WRITE}\nsymbols {symbols}\nwrite,symbols {write_symbols} service=x\n")
    server = start_server("--token-file", path, "--symbols-store", folder)
    elf = open(sample, "rb").read()
    notes = subprocess.run(["readelf", "-n", sample], capture_output=True, text=True, check=True).stdout
    ident = re.search("Build ID: ([0-9a-f]+)", notes)[1]
    for token, sends, pushes in ((WRITE, 403, 200), (symbols, 201, 403), (write_symbols, 200, 403), (BOTH, 200, 200), (None, 401, 401)):
        assert asked(server, "/api/symbols/" + ident, token, elf) == sends, token
        assert asked(server, "/edgeprof/v1/push", token, push(1)) == pushes, token
    audit = [line for line in server.stderr().splitlines() if line.startswith("edgeprof: audit: ")]
    assert len(audit) == 3 and f"127.0.0.1, token in line 3: symbols of {ident}, {len(elf)} bytes: added" in audit[0], audit
    for _ in range(100):
        asked(server, "/api/symbols/" + ident, symbols, b"no ELF")
    server.process.send_signal(signal.SIGHUP)
    audit = [line for line in server.stderr().splitlines() if line.startswith("edgeprof: audit: ")]
    assert len(audit) == 60, "at most so many a minute"


def test_reload_is_audited(folder, start_server):
    path = write(folder, "tokens", BOTH)
    server = start_server("--token-file", path)
    server.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: f"audit: token file {path}: read again" in server.stderr())
    write(folder, "tokens", "short")
    server.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: f"audit: token file {path}: wrong, the old tokens stay" in server.stderr())


def test_tenants(folder, start_server):
    """A server has one tenant: no other's profiles are stored or shown."""
    config = write(folder, "tenant.conf", "[serve]\ntenant = site-a\n")
    for arguments, own in (((), "anonymous"), (("--tenant", "site-a"), "site-a"), (("--config", config), "site-a")):
        server, segment = start_server(*arguments), 0
        for tenant, status in ((None, 200), ("", 200), (own, 200), ("site-b", 403), (own + "|site-b", 403), ("x" * 300, 403)):
            headers = {} if tenant is None else {"X-Scope-OrgID": tenant}
            segment += 1
            for path, body in (("/api/services", None), ("/edgeprof/v1/push", push(segment))):
                assert asked(server, path, body=body, **headers) == status, f"{arguments}: {tenant} {path}"
            assert asked(server, "/healthz", **headers) == 200, "says nothing of a tenant"
        text = server.request("GET", "/api/services", None, {"X-Scope-OrgID": "site-b"})[1].decode()
        assert "--tenant" in text and "\n" not in text.strip()
        assert sum("X-Scope-OrgID" in line for line in server.stderr().splitlines()) == 1, "one line a minute"
        assert server.stop() == 0


def test_hosts(folder, start_server):
    config = write(folder, "hosts.conf", "[serve]\nhosts = gateway, Gateway.example\n")
    for arguments, more in (((), ()), (("--config", config), ("gateway", "gateway.example:4040"))):
        server = start_server(*arguments)
        for host in ("127.0.0.1", "localhost", "LOCALHOST:99", "[::1]:4040", "10.0.0.7:80", *more):
            assert asked(server, Host=host) == 200, f"{arguments}: host {host}"
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:4040", "", "[gateway", "gateway.evil", "a" * 300, *(() if more else ("gateway",))):
            assert asked(server, Host=host) == 403, f"{arguments}: host {host}"
        assert server.stop() == 0, "ends"
    server = start_server("--insecure")
    assert asked(server) == 200, "--insecure needs no token"
    assert asked(server, Host="evil.example") == 403, "--insecure checks names, too"
    assert asked(server, "/edgeprof/v1/push", body=push(1), Host="evil.example") == 403, "and of who sends"
    assert server.stop() == 0, "ends"
    config = write(folder, "any.conf", '[serve]\nhosts = "*"\n')
    for arguments in (("--hosts", "*"), ("--hosts", "a, *"), ("--config", config), ("--insecure", "--config", config)):
        server = start_server(*arguments)
        assert asked(server, Host="evil.example") == 200, f"{arguments}: any name"
        assert server.stop() == 0, "ends"
    server = start_server("--insecure", "--hosts", "gateway, b.example", "--config", config)
    assert asked(server, Host="b.example:4040") == 200, "the option wins over the file"
    assert asked(server, Host="evil.example") == 403, "the option wins over the file"


def fetched(server, path, site, mode, body=None):
    return asked(server, path, body=body, **{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode})


def test_pages_of_other_sites(folder, start_server):
    """As browsers mark their requests: an image, a script or a form elsewhere may not make the server work."""
    server = start_server()
    query, page, sent = "/api/profile?service=svc", "/", "/edgeprof/v1/push"
    for site in ("cross-site", "same-site", "anything"):
        for mode in ("no-cors", "cors", "navigate", "websocket"):
            assert fetched(server, query, site, mode) == 403, f"a query, {site}, {mode}"
            assert fetched(server, sent, site, mode, push(1)) == 403, f"a push, {site}, {mode}"
            assert fetched(server, page, site, mode) == (200 if mode == "navigate" else 403), f"the page, {site}, {mode}"
        assert fetched(server, page + "?service=svc", site, "navigate") == 200, f"a link to the page, {site}"
        assert fetched(server, "/healthz", site, "no-cors") == 200, f"public, {site}"
    for site, mode in (("same-origin", "cors"), ("same-origin", "no-cors"), ("none", "navigate")):
        assert fetched(server, query, site, mode) == 200, f"a query, {site}, {mode}"
        assert fetched(server, page, site, mode) == 200, f"the page, {site}, {mode}"
    assert asked(server, query) == 200, "who is no browser"
    assert server.push(push(2)) == 200, "nor a device"
    assert "pages of other sites" in server.stderr(), "it is said"


# ---- TLS ----

def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(shared_folder):
    """A folder. Two authorities; a server's and a client's of the first, a client's of the second."""
    for ca in ("ca", "other-ca"):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", f"/CN={ca}",
                "-keyout", f"{shared_folder}/{ca}.key", "-out", f"{shared_folder}/{ca}.pem", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    for name, ca, purpose in (("server", "ca", "serverAuth"), ("second", "ca", "serverAuth"), ("client", "ca", "clientAuth"), ("stranger", "other-ca", "clientAuth")):
        extensions = write(shared_folder, name + ".ext", f"subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage={purpose}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{shared_folder}/{name}.key",
                "-out", f"{shared_folder}/{name}.csr")
        openssl("x509", "-req", "-in", f"{shared_folder}/{name}.csr", "-CA", f"{shared_folder}/{ca}.pem", "-CAkey", f"{shared_folder}/{ca}.key", "-days", "20",
                "-set_serial", str(1 + len(name) + name.count("e")), "-extfile", extensions, "-out", f"{shared_folder}/{name}.pem")
    return shared_folder


class Secure(Server):
    """The same over https."""

    def __init__(self, program, folder, certificates, *arguments):
        self.folder, self.certificates = folder, certificates
        self.present("server")
        super().__init__(program, folder + "/tls.db", "--tls-cert", folder + "/now.pem", "--tls-key", folder + "/now.key", *arguments)

    def present(self, name):
        """The certificate that it reads at the start and at SIGHUP."""
        for ending in (".pem", ".key"):
            shutil.copyfile(f"{self.certificates}/{name}{ending}", f"{self.folder}/now{ending}")

    def context(self, certificate=None):
        context = ssl.create_default_context(cafile=self.certificates + "/ca.pem")
        if certificate:
            context.load_cert_chain(f"{self.certificates}/{certificate}.pem", f"{self.certificates}/{certificate}.key")
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


@pytest.fixture
def secure(edgeprof, folder, certificates):
    with Secure(edgeprof, folder, certificates) as server:
        yield server


def test_revoked(edgeprof, folder, certificates, cli):
    """A list of revoked certificates, made by openssl; SIGHUP reads a new one."""
    def revoke(*names, ca="ca"):
        home = os.path.join(folder, "authority")
        shutil.rmtree(home, ignore_errors=True)
        os.mkdir(home)
        for name, text in (("index", ""), ("number", "01\n"),
                           ("conf", f"[ca]\ndefault_ca=d\n[d]\ndatabase={home}/index\ncrlnumber={home}/number\ndefault_md=sha256\ndefault_crl_days=5\n")):
            write(home, name, text)
        authority = ("ca", "-config", home + "/conf", "-cert", f"{certificates}/{ca}.pem", "-keyfile", f"{certificates}/{ca}.key")
        for name in names:
            openssl(*authority, "-revoke", f"{certificates}/{name}.pem")
        openssl(*authority, "-gencrl", "-out", folder + "/list.crl")
    revoke()
    config = write(folder, "crl.conf", f"[serve]\nclient-crl = {folder}/list.crl\n")
    with Secure(edgeprof, folder, certificates, "--tls-client-ca", certificates + "/ca.pem", "--config", config) as server:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            client = server.context("client")
            client.minimum_version = client.maximum_version = version
            revoke()
            server.process.send_signal(signal.SIGHUP)
            assert wait_until(lambda: server.ask(context=client) == 200), "not revoked"
            revoke("client")
            server.process.send_signal(signal.SIGHUP)
            assert wait_until(lambda: server.ask(context=client) == "refused"), "revoked"
        assert "revoked" in server.stderr(), server.stderr()
        write(folder, "list.crl", "nothing")
        server.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: "revocation list" in server.stderr()), "it is said"
        assert server.ask(context=client) == "refused", "and the old list stays"
    revoke(ca="other-ca")
    tls = ("--tls-cert", certificates + "/server.pem", "--tls-key", certificates + "/server.key")
    listen = ("serve", "--listen", "127.0.0.1:0", "--db", folder + "/x.db", "--config", config)
    cli.fails(1, "revocation list of one of the client CAs", *listen, *tls, "--tls-client-ca", certificates + "/ca.pem")
    cli.fails(1, "client-crl requires tls-client-ca", *listen, *tls)


def test_tls(folder, secure):
    assert secure.ask() == 200, "https"
    assert secure.ask("/edgeprof/v1/push", push(1)) == 200, "a push over https"
    for version, wanted in ((ssl.TLSVersion.TLSv1_2, 200), (ssl.TLSVersion.TLSv1_3, 200)):
        context = secure.context()
        context.minimum_version = context.maximum_version = version
        assert secure.ask(context=context) == wanted, version.name
    old = secure.context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is old is the point
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    assert secure.ask(context=old) == "refused", "TLS 1.1"
    with socket.create_connection(("127.0.0.1", secure.port), 30) as raw:  # plain HTTP at a TLS port
        raw.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            answer = raw.recv(100)
        except OSError:
            answer = b""
        assert not answer.startswith(b"HTTP"), f"plain HTTP: {answer}"
    first = secure.serial()
    write(folder, "now.pem", "nonsense")
    secure.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: "not a PEM certificate" in secure.stderr()), "it is said"
    assert secure.serial() == first, "a wrong certificate changes nothing"
    secure.present("second")
    kept = http.client.HTTPSConnection("127.0.0.1", secure.port, timeout=60, context=secure.context())
    kept.request("GET", "/healthz")
    kept.getresponse().read()
    secure.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: secure.serial() != first), "SIGHUP changes the certificate"
    kept.request("GET", "/healthz")
    assert kept.getresponse().status == 200, "connections that were there go on"
    kept.close()


@pytest.fixture
def mutual(edgeprof, folder, certificates):
    with Secure(edgeprof, folder, certificates, "--tls-client-ca", certificates + "/ca.pem", "--token-file", write(folder, "token", BOTH)) as server:
        yield server


def test_mutual_tls(mutual):
    token = {"Authorization": "Bearer " + BOTH}
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        contexts = {name: mutual.context(name) for name in ("client", "stranger", "server", None)}
        for context in contexts.values():
            context.minimum_version = context.maximum_version = version
        assert mutual.ask(context=contexts["client"], headers=token) == 200, f"{version.name}: a client's certificate"
        assert mutual.ask(context=contexts["client"]) == 401, f"{version.name}: and the token is wanted as well"
        assert mutual.ask(context=contexts[None], headers=token) == 403, f"{version.name}: none"
        assert mutual.ask("/healthz", context=contexts[None]) == 403, f"{version.name}: none, for anything"
        assert mutual.ask(context=contexts["stranger"], headers=token) == "refused", f"{version.name}: a stranger's"
        assert mutual.ask(context=contexts["server"], headers=token) == "refused", f"{version.name}: a server's is not for clients"
    assert "refused: " in mutual.stderr() and "certificate" in mutual.stderr(), "it is said"


# ---- how much ----

def test_rates(folder, start_server):
    config = write(folder, "rate.conf", "[limits]\nprofiles-per-second = 2\nloopback = yes\n")
    server = start_server("--config", config)
    answers = [server.push(push(100 + i)) for i in range(60)]
    assert answers[:20] == [200] * 20, f"ten seconds' worth at once: {answers[:20]}"
    assert answers.count(429) > 10 and set(answers) == {200, 429}, f"then they are refused: {answers}"
    assert server.push(push(99)) == 429, "one more"
    server.request("POST", "/edgeprof/v1/push", push(99))
    assert server.headers["Retry-After"], "and told when to come again"
    assert asked(server) == 200, "reading goes on"
    assert wait_until(lambda: server.push(push(99)) == 200), "it may send again"
    assert server.stderr().count("refused: ") == 1, f"said once: {server.stderr()}"
    assert server.stop() == 0, "ends"
    server = start_server(db=os.path.join(folder, "free.db"))
    assert {server.push(push(1 + i)) for i in range(200)} == {200}, "without the setting nobody on this machine is held"


def status_or_not(server):
    try:
        return server.request("GET", "/healthz")[0]
    except (OSError, http.client.HTTPException):
        return None


@pytest.mark.parametrize("key", ["connections", "sender-connections"])
def test_connections(folder, start_server, key):
    server = start_server("--config", write(folder, "many.conf", f"[limits]\n{key} = 3\n"))
    idle = [socket.create_connection(("127.0.0.1", server.port), 30) for _ in range(3)]
    for one in idle:
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert one.recv(100).startswith(b"HTTP/1.1 200"), "within the limit"
    assert status_or_not(server) is None, "a fourth is closed"
    idle.pop().close()
    assert wait_until(lambda: status_or_not(server)) == 200, "when one goes another may come"
    for one in idle:
        one.close()
    assert f"see {key}" in server.stderr() and server.stderr().count("refused:") == 1, "it is said"


def test_the_symbol_store_has_a_limit(folder, start_server, sample):
    """Small uploads that grow to large files, one after another and at once: the folder stays within its limit."""
    elf = open(sample, "rb").read()
    ident = bytes.fromhex(re.search("Build ID: ([0-9a-f]+)", subprocess.run(["readelf", "-n", sample], capture_output=True, text=True, check=True).stdout)[1])
    files = {f"{i:02x}" * 20: gzip.compress(elf.replace(ident, bytes([i]) * 20) + bytes(4 << 20), 1) for i in range(1, 25)}
    size, limit = len(elf) + (4 << 20), 20 << 20
    server = start_server("--symbols-store", os.path.join(folder, "store"), config=f"[limits]\nsymbols-store = {limit}\n")

    def upload(ident):
        return server.request("POST", f"/api/symbols/{ident}", files[ident], {"Content-Encoding": "gzip"})

    def stored():
        return [file for where, _, names in os.walk(os.path.join(folder, "store")) for file in (os.path.join(where, n) for n in names)]

    idents = list(files)
    answers = [upload(ident)[0] for ident in idents[:8]]
    assert answers == [201] * (limit // size) + [507] * (8 - limit // size), answers
    assert b"symbols-store in [limits]" in upload(idents[7])[1]
    assert sum(map(os.path.getsize, stored())) <= limit and len(stored()) == limit // size, "nothing is left of the others"
    for file in stored():
        os.unlink(file)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [status for status, _ in pool.map(upload, idents[8:])]
    assert sum(map(os.path.getsize, stored())) <= limit and set(answers) <= {201, 507, 503} and answers.count(201) == len(stored()) >= 1, answers
