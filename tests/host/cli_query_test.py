"""`edgeprof query` and `devices`: what people and scripts ask, the same of a database and of a server.
Usage: cli_query_test.py EDGEPROF_WITH_SANITIZERS"""
import json
import os
import re
import sys
import tempfile

from cli import Cli
from generate import message, module, nodes, origin, profile, stats
from harness import Checks, Server

PROGRAM = os.path.abspath(sys.argv[1])
check = Checks()
cli = Cli(PROGRAM, check)
EVIL = "a\"b<script>\x1b[31m"


def fill(server):
    for segment, (device, version, samples, lost) in enumerate((("pi-1", "1.2", 3, 0), ("pi-2", "1.3", 5, 4), ("pi-3", EVIL, 7, 0)), 1):
        body = message(segment, 0, origin("svc", tags=[("device", device), ("version", version)], host=device, pid=segment),
                       [module(4096, 65536, 0, b"\7" * 20, "[app]")], nodes([0, 1], [4100, 4200]), [profile({2: samples}, start=segment * 10**9)],
                       stats=stats(samples=samples, losses=[(0, lost, 10)] if lost else ()))
        check.equal(server.push(body), 200, "taken")


def questions(source):
    services = cli.run("query", "services", *source)
    check.equal([line.split()[:3] for line in services.out.splitlines()], [["service", "kind", "profiles"], ["svc", "cpu", "3"]], f"services: {services.err}")
    labels = cli.run("query", "labels", *source).out.splitlines()
    check({"device=pi-1", "device=pi-2", "version=1.2", "version=1.3"} <= set(labels) and len(labels) == 6, f"labels, each once: {labels}")
    series = cli.run("query", "series", *source).out.splitlines()
    check.equal((len(series), 'svc{device="pi-2",version="1.3"}' in series), (3, True), f"series: {series}")
    table = cli.run("query", "timeline", "--group-by", "device", *source).out
    check({"pi-1", "pi-2", "pi-3"} <= set(table.splitlines()[0].split()), f"timeline by device: {table}")
    document = json.loads(cli.run("query", "timeline", "--json", *source).out)
    check.equal(sum(sum(line["values"]) for line in document["series"]), 150000000, "timeline as JSON has all")
    check.equal(cli.run("query", *source).out, cli.run("top", *source).out, "a profile is what top prints")
    check.equal(json.loads(cli.run("query", "profile", "--service", 'svc{device=~"pi-[12]"}', "--json", *source).out)["total"], 80000000, "selected")
    devices = cli.run("devices", *source)
    rows = {line.split()[0]: line for line in devices.out.splitlines()}
    check({"pi-1", "pi-2", "pi-3"} <= set(rows) and "ring full 4" in rows["pi-2"] and "ring full" not in rows["pi-1"] and "1.3" in rows["pi-2"] and
          re.search(r"2023-11-14 22:13:2\d", rows["pi-1"]), f"devices: {devices.out} {devices.err}")
    check.equal(len(json.loads(cli.run("devices", "--json", *source).out)["devices"]), 3, "devices as JSON")
    for text in (services.out, devices.out, "\n".join(labels + series), table):
        check("\x1b" not in text, "no control characters reach a terminal")


with tempfile.TemporaryDirectory(prefix="edgeprof-test-") as folder_:
    db_ = os.path.join(folder_, "one.db")
    server_ = Server(PROGRAM, db_)
    for what in ("services", "devices"):
        cli.fails(3, "nothing", *(["query", what] if what == "services" else [what]), "--db", db_)
    fill(server_)
    questions(["--db", db_])
    questions(["--url", server_.url])
    for question in ("services", "labels", "series", "timeline"):
        check.equal(cli.run("query", question, "--db", db_).out, cli.run("query", question, "--url", server_.url).out, f"{question}: the same from both")
    cli.fails(2, "it is services", "query", "nonsense", "--db", db_)
    cli.fails(2, "unexpected", "query", "services", "more", "--db", db_)
    cli.fails(2, "unexpected", "devices", "more", "--db", db_)
    cli.fails(1, "edgeprof serve", "devices", "--db", os.path.join(folder_, "none.db"))
    cli.fails(1, "127.0.0.1:1", "query", "services", "--url", "http://127.0.0.1:1")
    check.equal(server_.stop(), 0, "server")
check.done("test-tools-query")
