"""report answers on one page what to look at, with the figures that the other commands print."""
import json
import os
import re
import shlex
import time

import pytest

from generate import crash, message, module, nodes, origin, profile, stats, timeline
from harness import Server
from leaks_test import MB, Days
from verdict_test import AFTER, BEFORE, Fleet

HOUR = 3600
NODES = nodes([0, 1, 2, 3, 4, 2], [4100, 4200, 4300, 4400, 4500, 4600])
PAGE = 4096


def app():
    return [module(4096, 65536, 0, b"\7" * 20, "/opt/app")]


def push(server, *bodies):
    for body in bodies:
        assert server.push(body) == 200


def now_options():
    return {"unix_minus_uptime": int(time.time() - HOUR) * 10**9}


@pytest.fixture(scope="module")
def busy(edgeprof, shared_folder):
    with Server(edgeprof, os.path.join(shared_folder, "busy.db")) as server:
        fill(server)
        yield server


def fill(server):
    """One service with everything: two versions of which the newer uses more, a crash, an incident, a leak, locks, losses."""
    fleet = Fleet(server, now=int(time.time()) - 20 * HOUR)
    fleet.release("1.2", 8, BEFORE, start=0)
    fleet.release("1.3", 8, AFTER, start=10 * HOUR)
    who = origin("svc", tags=[("device", "d3"), ("version", "1.3")], host="h", boot_id="b", executable="/opt/app", pid=77)
    push(server,
         message(900, 0, who, app(), NODES, [profile({3: 30}, kind=3)], stats=stats(50, 40, losses=[(1, 7, 9)]), **now_options()),
         message(901, 0, who, app(), NODES, crash=crash([(7, "main", 3)], boot_id="b", executable="/opt/app", runtime=b""), last=True, **now_options()),
         message(902, 0, who, app(), NODES, timeline=timeline(0xabc, [(2 << 20, 1, 0, 3, 10**7)], name="order", threads=[(100, "worker")]), last=True,
                 **now_options()))
    Days(server, 23).run("p1", 0, 23, leak=MB)


def report(cli, server, *arguments):
    done = cli.run("report", "--url", server.url, *arguments)
    assert done.returncode == 0 and done.err == "", done.err
    return done.out


def page_lines(text):
    return [line for line in text.splitlines() if line.startswith("- ")]


def test_page(cli, busy):
    """First what is wrong; every sentence has a figure and a command."""
    text = report(cli, busy)
    print(text)
    assert len(text.encode()) <= PAGE and text.startswith("# svc\n")
    first = text.split("## Look at this\n")[1].split("\n## ")[0]
    for word in ("regression", "1 crash of svc", "1 incident", "System.Byte[] at Shop.Cache.Add"):
        assert word in first, word
    for section in ("CPU", "Memory", "Locks and waits", "Devices", "Not measured"):
        assert f"\n## {section}\n" in text, section
    for line in page_lines(text):
        assert re.search(r"\d", line) and re.search(r"\(`edgeprof [a-z]+.*`\)$", line), line


def test_commands_on_the_page_work(cli, busy):
    """Each prints something, and its own exit code says no more than that there are findings."""
    for command in set(re.findall(r"\(`edgeprof (.*)`\)$", report(cli, busy), re.M)):
        words = shlex.split(command)
        done = cli.run(*words, "--url", busy.url)
        assert done.returncode in (0, 3, 4) and (done.out or done.returncode == 3), command


def test_figures_are_those_of_the_commands(cli, busy):
    text = report(cli, busy)
    top = cli.run("top", "--url", busy.url, "--service", "svc", "--last", "1d").out
    assert re.search(r"cpu: \S+ in \d+ samples", top)[0] in text
    name, share = re.findall(r"^ *([\d.]+)% +\S+ +\S+ +\S+  (.*)$", top, re.M)[0][::-1]
    assert f"`{name}` {float(share):.1f} %" in text
    assert "lock: 300.00ms: `app+0xcc` 100.0 %; most of the first through `app+0x4` (" in text
    verdict = cli.run("verdict", "--url", busy.url, "--service", "svc", "--last", "1d")
    assert verdict.returncode == 4 and verdict.err.split("verdict: ")[1].strip() in text
    leak = re.search(r"^ *(\S+) +(\S+)\.\.(\S+) +.* leak +", cli.run("leaks", "--url", busy.url, "--service", "svc", "--last", "1d").out, re.M)
    assert f"by {leak[1]} an hour and process (95 %: {leak[2]} to {leak[3]})" in text


def test_database_and_server_agree(cli, busy):
    texts = [cli.run("report", *source).out for source in (("--url", busy.url), ("--db", busy.db))]
    assert [page_lines(text) for text in texts][0] == page_lines(texts[1])


def test_json(cli, busy):
    document = json.loads(report(cli, busy, "--json"))
    assert document["service"] == "svc" and 0 <= document["to"] - document["from"] - 24 * HOUR <= 1  # the clock moves on
    for note in document["notes"]:
        assert set(note) == {"section", "look", "value", "unit", "text", "command"} and note["command"].startswith("edgeprof ") and note["unit"]
    crashes = [note for note in document["notes"] if note["section"] == "Crashes"]
    assert [(note["look"], note["value"], note["unit"]) for note in crashes] == [(True, 1, "crashes")]


def test_long_names_leave_sentences_out(cli, start_server):
    """The page stays below 4 KB, and says how many sentences it has not."""
    server = start_server()
    for i in range(40):
        push(server, message(10 + i, 0, origin("n" * 100 + str(i), host="h", pid=i + 1), app(), NODES, [profile({3: 30})], **now_options()))
    text = report(cli, server)
    shown, left = len(page_lines(text)), int(re.search(r"(\d+) more sentences are left out", text)[1])
    assert len(text.encode()) <= PAGE and shown + left == len(json.loads(report(cli, server, "--json"))["notes"]) and shown >= 10


def test_several_services(cli, start_server):
    server = start_server()
    for segment, service, value in ((1, "small", 5), (2, "large", 50), (3, "two words", 20)):
        push(server, message(segment, 0, origin(service, host="h", pid=segment), app(), NODES, [profile({3: value})], **now_options()))
    text = report(cli, server)
    assert re.findall(r"^- `(.*?)` cpu: (\S+) in", text, re.M) == [("large", "500.00ms"), ("two words", "200.00ms"), ("small", "50.00ms")]
    assert "`edgeprof report --service 'two words' --last 1d`" in text
    assert "0 crashes" in text and "0 incidents" in text


def test_week_before(cli, start_server):
    """Without versions; twice the CPU time in the same time is significant."""
    server, now = start_server(), int(time.time())
    for segment, ago, value in ((1, 7 * 24 * HOUR + HOUR, 3000), (2, HOUR, 6000)):
        push(server, message(segment, 0, origin("svc", host="h", pid=segment, start=segment), app(), NODES,
                             [profile({3: value}, start=1, duration=600 * 10**9)], unix_minus_uptime=(now - ago) * 10**9))
    text = report(cli, server)
    assert re.search(r"## Look at this\n- CPU time per second that processes ran, against a week before: \+100\.0 % .* significantly more", text), text


def test_no_data(cli, start_server):
    server = start_server()
    cli.fails(3, "no data", "report", "--url", server.url)
    push(server, message(1, 0, origin("svc", host="h"), app(), NODES, [profile({3: 5})], **now_options()))
    cli.fails(3, "no profile of service other", "report", "--url", server.url, "--service", "other")
    cli.fails(2, "unexpected argument", "report", "file")
    assert "CPU" in report(cli, server, "--last", "2h")
    cli.fails(3, "no data", "report", "--url", server.url, "--last", "1m")


def test_hostile_names(cli, start_server):
    """A name ends no code span and no line."""
    server = start_server()
    body = message(1, 0, origin("svc`x\n# y", host="h`\n"), [module(4096, 65536, 0, b"\7" * 20, "/x`\n[a](b)")], NODES, [profile({3: 5})], **now_options())
    push(server, body)
    text = report(cli, server)
    for line in page_lines(text):
        assert len(re.findall(r"(?<!`)(`+)(?!`)(.*?[^`])?\1(?!`)", line)) >= 1 and re.search(r"(`+)edgeprof .*[^`]\1\)$", line), line
    assert "\n# y" not in text
