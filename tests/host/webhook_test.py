"""The webhook is told of each incident once, within a rate and with bounded retries, and no sender waits for it."""
import http.server
import json
import re
import threading
import time

import pytest

from generate import message, module, nodes, origin, timeline
from harness import REPOSITORY, FakeServer, deaf_port, wait_until

pytestmark = pytest.mark.all

SECOND = 10**9
SECRET = "/services/T0/secret-path"


class Ear:
    """Receives notifications; `answer` gives status and headers of each. Its body says what it was asked for."""

    def __init__(self, answer=lambda number: (200, {})):
        ear = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                ear.heard.append((self.path, self.headers.get("Authorization"), self.headers["Content-Type"], body))
                status, headers = answer(len(ear.heard))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                words = f"Cannot POST {self.path}".encode()
                self.send_header("Content-Length", str(len(words)))
                self.end_headers()
                self.wfile.write(words)

            def log_message(self, *arguments):
                pass

        self.heard, self.handler = [], Handler


@pytest.fixture
def serve(start_server, folder):
    """serve(ear, *lines): a server that tells this one."""
    fakes = []

    def start(ear, *lines):
        fakes.append(FakeServer(ear.handler))
        fakes[-1].__enter__()
        config = f"{folder}/webhook.conf"
        with open(config, "w") as file:
            file.write((REPOSITORY / "tests/host/patient.conf").read_text() + "\n[webhook]\n" + f"url = {fakes[-1].url}{SECRET}\n" + "\n".join(lines) + "\n")
        return start_server("--config", config)

    yield start
    for fake in fakes:
        fake.__exit__(None, None, None)


def push(server, incident, part=0, more=False, service="shop", device="pi-7", name="checkout"):
    body = message(1000 * part + incident, 0, origin(service, [("device", device)], host="host"), [module(4096, 4096, 0, b"", "/opt/app")], nodes([0], [4100]), last=True,
                   timeline=timeline(incident, [(9 * SECOND, 1, 0, 1, 10**7)], part=part, more=more, cause=3, name=name, tid=100, time=10 * SECOND,
                                     value=300 * 10**6, limit=250 * 10**6))
    assert server.push(body) == 200, "an incident"


def counts(server):
    text = server.request("GET", "/metrics")[1].decode()
    return {result: int(re.search(rf'edgeprof_webhook_total{{result="{result}"}} (\d+)', text)[1]) for result in ("sent", "failed", "suppressed", "suppressed_device")}


def test_each_is_told_once(serve, folder, start_server):
    ear = Ear()
    with open(f"{folder}/token", "w") as file:
        file.write("a-token\n")
    server = serve(ear, f"token-file = {folder}/token", "link = https://profiles.example.org")
    push(server, 5, more=True)
    push(server, 5, part=1)
    push(server, 6, device="pi-8")
    assert wait_until(lambda: len(ear.heard) >= 2), "told"
    path, token, kind, body = ear.heard[0]
    assert [path, token, kind] == [SECRET, "Bearer a-token", "application/json"], "where and how"
    assert [body["id"], body["service"], body["device"], body["cause"], body["name"], body["value"], body["limit"]] == \
        ["0000000000000005", "shop", "pi-7", "span", "checkout", 300 * 10**6, 250 * 10**6], f"what: {body}"
    assert body["time"] == server.get("/api/incident", id=body["id"])[1]["time"], "when"
    assert body["link"] == "https://profiles.example.org/#view=incidents&range=all&incident=0000000000000005" and body["link"] in body["text"], "a link to the page"
    assert [one["device"] for *_, one in ear.heard] == ["pi-7", "pi-8"], "in their order"
    assert wait_until(lambda: counts(server)["sent"] == 2), "counted"
    time.sleep(1.5)  # it looks every second
    assert len(ear.heard) == 2, "a second part is no second incident"
    assert server.stop() == 0
    assert SECRET not in server.stderr(), "the URL may be a secret"


def test_names_are_no_markup(serve):
    """What Slack, Mattermost, Discord and Google Chat obey: mentions, links, markup; and what would end the span of code."""
    evil = ["<!channel>", "<@U123>", "@everyone", "<users/all>", "<http://evil.example|click>", "[x](http://evil.example)", "`*bold*", "a&amp;b", "@here\n\u2028x"]
    ear = Ear()
    server = serve(ear, "link = https://profiles.example.org")
    for number, name in enumerate(evil):
        push(server, number + 1, service=f"s{name}", device=f"d{name}", name=f"n{name}")
    assert wait_until(lambda: len(ear.heard) == len(evil)), "told"
    for (*_, body), name in zip(ear.heard, evil):
        text = body["text"].removesuffix(body["link"])
        assert re.fullmatch(r"span `n[^`\n]*` in `s[^`\n]*` on `d[^`\n]*`: ", text), text
        assert not re.search(r"[<>&@\u2028]|://", text), text
        assert name[-1] in "x" or body["name"] == f"n{name}", "fields have the name itself"


def test_retries_are_bounded(serve):
    ear = Ear(lambda number: (503, {"Retry-After": "1"}) if number <= 4 else (200, {}))
    server = serve(ear)
    push(server, 1)
    assert wait_until(lambda: counts(server)["failed"] == 1), "given up"
    assert len(ear.heard) == 3 and all(one["id"] == "0000000000000001" for *_, one in ear.heard), "three tries"
    push(server, 2)
    assert wait_until(lambda: counts(server)["sent"] == 1), "the next one is told again"
    lines = [line for line in server.stderr().splitlines() if "webhook" in line]
    assert len(lines) == 2 and "does not receive incidents: " in lines[0] and "503" in lines[0] and lines[1].endswith("receives incidents again"), lines
    assert SECRET not in server.stderr(), "the URL may be a secret"


def test_refused(serve):
    ear = Ear(lambda number: (404, {}))
    server = serve(ear)
    for incident in (1, 2):
        push(server, incident)
        assert wait_until(lambda: counts(server)["failed"] == incident), "failed"
    assert len(ear.heard) == 2, "no retry: the next answer would be the same"
    lines = [line for line in server.stderr().splitlines() if "webhook" in line]
    assert len(lines) == 1 and lines[0].endswith("does not receive incidents: status 404"), f"one line for both: {lines}"
    assert SECRET not in server.stderr(), "the answer may repeat the URL"


def test_password(start_server, folder):
    with deaf_port() as port, open(f"{folder}/webhook.conf", "w") as file:
        file.write((REPOSITORY / "tests/host/patient.conf").read_text() + f"\n[webhook]\nurl = http://somebody:pass@word@127.0.0.1:{port}/\n")
        file.flush()
        server = start_server("--config", file.name)
        push(server, 1)
        assert wait_until(lambda: "webhook" in server.stderr()), "said"
    line = next(line for line in server.stderr().splitlines() if "webhook" in line)
    assert f"webhook: 127.0.0.1:{port} does not receive incidents: " in line and "status" not in line, line


def test_rate(serve):
    ear = Ear()
    server = serve(ear, "per-hour = 3")
    for incident in range(1, 11):
        push(server, incident, device=f"pi-{incident}")
    assert wait_until(lambda: sum(counts(server).values()) == 10), "all looked at"
    assert counts(server) == {"sent": 3, "failed": 0, "suppressed": 7, "suppressed_device": 0}, "three an hour"


def test_rate_of_a_device(serve):
    ear = Ear()
    server = serve(ear, "per-hour = 10", "device-per-hour = 4")
    for incident in range(1, 11):
        push(server, incident)
    assert wait_until(lambda: sum(counts(server).values()) == 10), "all looked at"
    assert counts(server) == {"sent": 4, "failed": 0, "suppressed": 0, "suppressed_device": 6}, "four an hour"


def test_nobody_waits(serve):
    """While the ear does not answer, incidents are stored and listed, and the server ends."""
    silent = threading.Event()
    ear = Ear(lambda number: (silent.wait(60), (200, {}))[1])
    server = serve(ear)
    push(server, 1)
    assert wait_until(lambda: ear.heard), "the request is open"
    for incident in range(2, 30):
        push(server, incident)
    assert len(server.get("/api/incidents")[1]["incidents"]) == 29, "all are there"
    assert server.stop() == 0, "it ends"
    silent.set()


def test_settings(cli, folder):
    for lines, says in (("url = ftp://host/", "url: expected http://HOST:PORT/PATH"), ("link = x", "url: expected http"), ("url = http://h/\nfrequency = 3", "frequency"),
                        ("url = http://h/\nper-hour = 9999", "per-hour"), ("url = http://h/\ndevice-per-hour = 9999", "device-per-hour")):
        with open(f"{folder}/wrong.conf", "w") as file:
            file.write(f"[webhook]\n{lines}\n")
        done = cli.run("serve", "--config", f"{folder}/wrong.conf", "--db", f"{folder}/x.db")
        assert done.returncode != 0 and says in done.err, done.err


def test_a_noisy_device_silences_nobody(serve):
    """One device with incidents all the time, and then nine with one each."""
    ear = Ear()
    server = serve(ear, "per-hour = 20")
    for incident in range(1, 61):
        push(server, incident, device="noisy")
    for incident in range(61, 70):
        push(server, incident, device=f"quiet-{incident}")
    assert wait_until(lambda: sum(counts(server).values()) == 69), "all looked at"
    devices = [body["device"] for *_, body in ear.heard]
    assert devices.count("noisy") <= 10 and sum(device != "noisy" for device in devices) == 9, devices
    assert counts(server) == {"sent": 14, "failed": 0, "suppressed": 0, "suppressed_device": 55}, "a quarter of the rate, at most"
    first = next(body for *_, body in ear.heard if body["device"] != "noisy")
    assert first["not_told"] == 55 and "(55 before it were too many)" in first["text"], f"what was not told is said: {first}"
    assert ear.heard[-1][-1]["not_told"] == 0 and "before it" not in ear.heard[-1][-1]["text"], "once"
