"""query and devices answer the same from a database and from a server."""
import json
import os
import re

import pytest

from cli import command_lines
from generate import message, module, nodes, origin, profile, stats
from harness import Server

EVIL = "a\"b<script>\x1b[31m"


@pytest.fixture(scope="module")
def filled(edgeprof, shared_folder):
    with Server(edgeprof, os.path.join(shared_folder, "devices.db")) as server:
        for segment, (device, version, samples, lost) in enumerate((("pi-1", "1.2", 3, 0), ("pi-2", "1.3", 5, 4), ("pi-3", EVIL, 7, 0)), 1):
            body = message(segment, 0, origin("svc", tags=[("device", device), ("version", version)], host=device, pid=segment),
                           [module(4096, 65536, 0, b"\7" * 20, "[app]")], nodes([0, 1], [4100, 4200]),
                           [profile({2: samples}, start=segment * 10**9), profile({}, start=segment * 10**9, kind=5)],  # a live heap without hooks
                           stats=stats(samples=samples, losses=[(0, lost, 10)] if lost else ()))
            assert server.push(body) == 200
        yield server


@pytest.fixture
def ask(cli, source):
    """Output of a command; no control characters reach a terminal."""
    def run(*arguments):
        done = cli.run(*arguments, *source)
        assert done.returncode == 0 and "\x1b" not in done.out
        return done.out
    return run


def test_services(ask):
    assert [line.split()[:3] for line in ask("query", "services").splitlines()] == [["service", "kind", "profiles"], ["svc", "cpu", "3"]], "a live heap that was always empty is no kind"


def test_labels(ask):
    labels = ask("query", "labels").splitlines()
    assert {"device=pi-1", "device=pi-2", "version=1.2", "version=1.3"} <= set(labels)
    assert len(labels) == 6, "each once"


def test_series(ask):
    series = ask("query", "series").splitlines()
    assert len(series) == 3 and 'svc{device="pi-2",version="1.3"}' in series


def test_only_what_is_selected(ask, cli, source):
    assert ask("query", "series", "--service", 'svc{version="1.2"}').splitlines() == ['svc{device="pi-1",version="1.2"}']
    assert set(ask("query", "labels", "--tag", "device=pi-2").splitlines()) == {"device=pi-2", "version=1.3"}
    for subject in ("services", "labels", "series"):
        assert cli.run("query", subject, "--service", "other", *source).returncode == 3, subject


def test_timeline(ask):
    table = ask("query", "timeline", "--group-by", "device")
    assert {"pi-1", "pi-2", "pi-3"} <= set(table.splitlines()[0].split())
    document = json.loads(ask("query", "timeline", "--json"))
    assert sum(sum(line["values"]) for line in document["series"]) == 150000000


def test_profile(ask):
    assert ask("query") == ask("top")
    assert json.loads(ask("query", "profile", "--service", 'svc{device=~"pi-[12]"}', "--json"))["total"] == 80000000


def test_devices(ask):
    rows = {line.split()[0]: line for line in ask("devices").splitlines()}
    assert {"pi-1", "pi-2", "pi-3"} <= set(rows)
    assert "ring full 4" in rows["pi-2"] and "1.3" in rows["pi-2"]
    assert "ring full" not in rows["pi-1"] and re.search(r"2023-11-14 22:13:2\d", rows["pi-1"])
    assert len(json.loads(ask("devices", "--json"))["devices"]) == 3


@pytest.mark.parametrize("question", ["services", "labels", "series", "timeline"])
def test_same_from_both(cli, filled, question):
    assert cli.run("query", question, "--db", filled.db).out == cli.run("query", question, "--url", filled.url).out


def test_empty_database(cli, server):
    cli.fails(3, "no data", "query", "services", "--db", server.db)
    cli.fails(3, "no data", "devices", "--db", server.db)


@command_lines(("must be services", "query", "nonsense"), ("unexpected", "query", "services", "more"), ("unexpected", "devices", "more"))
def test_wrong_usage(cli, filled, word, arguments):
    cli.fails(2, word, *arguments, "--db", filled.db)


def test_nobody_to_ask(cli, folder):
    cli.fails(1, "edgeprof serve", "devices", "--db", os.path.join(folder, "none.db"))
    cli.fails(1, "127.0.0.1:1", "query", "services", "--url", "http://127.0.0.1:1")
