"""`edgeprof export` and `flame`: one query, every format, and each is the same profile.
Usage: cli_export_test.py EDGEPROF_WITH_SANITIZERS SAMPLE"""
import gzip
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import speedscope
from cli import Cli, message_of
from generate import message, module, nodes, origin, profile
from harness import Checks, Server

PROGRAM, SAMPLE = (os.path.abspath(path) for path in sys.argv[1:3])
check = Checks()
cli = Cli(PROGRAM, check)
HOSTILE = 'a"b\\c</script>;d'


def folded_lines(text):
    return {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in text.splitlines()}


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def every_format(folder, source):
    names = ["a.pb.gz", "b.folded", "c.speedscope.json", "d.svg", "e.html", "f.json", "g.collapsed", "h.pprof"]
    done = cli.run("export", *source, *[word for name in names for word in ("-o", os.path.join(folder, name))])
    check.equal((done.returncode, done.out), (0, ""), f"all at once: {done.err}")
    wanted = {"[app]+0x4;[app]+0x68": 50000000, "[app]+0x4;[app]+0xcc": 300000000, "[app]+0x4;[app]+0x130;[app]+0x1f8": 110000000}
    check.equal(folded_lines(read(folder, "b.folded").decode()), wanted, "folded")
    check.equal(read(folder, "g.collapsed"), read(folder, "b.folded"), "another ending for it")
    document = json.loads(read(folder, "c.speedscope.json"))
    check.equal(speedscope.problems(document), [], "speedscope's rules")
    check.equal(speedscope.folded(document), wanted, "the same stacks in speedscope")
    check.equal((document["name"], document["profiles"][0]["unit"]), ("one cpu", "nanoseconds"), "name and unit")
    check.equal(json.loads(read(folder, "f.json"))["total"], 460000000, "json")
    check("[app]+0xcc" in "".join(xml.etree.ElementTree.fromstring(read(folder, "d.svg")).itertext()), "svg")
    check(b"[app]+0xcc" in read(folder, "e.html"), "html")
    for name in ("a.pb.gz", "h.pprof"):
        check(gzip.decompress(read(folder, name))[:1] == b"\x0a", f"{name} is a gzipped pprof")
        again = cli.run("cat", "--folded", os.path.join(folder, name))
        check.equal(folded_lines(again.out), wanted, f"{name} has the same stacks")


def one_to_standard_output(source):
    for name, start in (("folded", b"[app]"), ("speedscope", b'{"$schema"'), ("json", b"{"), ("svg", b"<"), ("html", b"<!doctype"),
                        ("pprof", b"\x1f\x8b")):
        done = cli.run("export", *source, "--format", name)
        check(done.returncode == 0 and done.stdout.startswith(start), f"--format {name} alone: {done.stdout[:40]!r} {done.err}")
        check.equal(cli.run("export", *source, "--format", name, "-o", "-").stdout[:9], done.stdout[:9], f"--format {name} -o -")


def grouped(db):
    """What groups is a frame in every format."""
    document = json.loads(cli.run("export", "--db", db, "--service", "one", "--format", "speedscope", "--group-by", "none").out)
    check.equal({name.split(";")[0] for name in speedscope.folded(document)}, {"[no none]"}, "grouping shows in every format")


def units(folder):
    """Bytes are bytes, what has no unit of speedscope's is `none`; names cannot break out."""
    body = message(5, 0, origin("units"), [module(4096, 65536, 0, b"\7" * 20, HOSTILE)], nodes([0, 1], [4100, 4200]),
                   [profile([(2, 0, 3, 300)], quantum=1, kind=4), profile([(2, 0, 0, 7)], quantum=1, kind=6)])
    path = os.path.join(folder, "units.db")
    server = Server(PROGRAM, path)
    check.equal(server.push(body), 200, "taken")
    for kind, unit, total in (("alloc", "bytes", 300), ("exception", "none", 7)):
        document = json.loads(cli.run("export", "--url", server.url, "--kind", kind, "--format", "speedscope").out)
        check.equal(speedscope.problems(document), [], f"{kind} by speedscope's rules")
        check.equal((document["profiles"][0]["unit"], document["profiles"][0]["endValue"]), (unit, total), kind)
        check(any(HOSTILE.replace("/", "").split("<")[0] in frame["name"] or "script" in frame["name"] for frame in document["shared"]["frames"]),
              "a hostile name is text")
    check.equal(server.stop(), 0, "server")


def inlined(folder):
    """Real symbols: inlined calls are frames, with file and line."""
    out = subprocess.run(["nm", SAMPLE], capture_output=True, text=True, check=True).stdout
    start = next(int(line.split()[0], 16) for line in out.splitlines() if line.endswith(" T main") or line.endswith(" t hot"))
    build_id = subprocess.run(["readelf", "-n", SAMPLE], capture_output=True, text=True, check=True).stdout
    build_id = next(line.split()[-1] for line in build_id.splitlines() if "Build ID" in line)
    body = message(6, 0, origin("sample"), [module(4096, 1 << 20, start & ~0xfff, bytes.fromhex(build_id), SAMPLE)],
                   nodes([0], [4096 + (start & 0xfff)]), [profile({1: 1})])
    path = os.path.join(folder, "sample.edgeprof")
    with open(path, "wb") as file:
        file.write(body)
    db = os.path.join(folder, "sample.db")
    server = Server(PROGRAM, db, "--symbols", os.path.dirname(SAMPLE))
    check.equal(server.push(body), 200, "taken")
    document = json.loads(cli.run("export", "--db", db, "--symbols", os.path.dirname(SAMPLE), "--format", "speedscope").out)
    check.equal(speedscope.problems(document), [], "speedscope's rules with files and lines")
    check(any(frame.get("file", "").endswith("sample.c") and frame.get("line", 0) > 0 for frame in document["shared"]["frames"]),
          f"file and line: {document['shared']}")
    check.equal(server.stop(), 0, "server")


def wrong_usage(folder, source):
    for word, *arguments in (
            ("-o FILE", "export"), ("--format xml", "export", "--format", "xml"), ("x.png", "export", "-o", "x.png"),
            ("leave it out", "export", "--format", "svg", "-o", "a.svg", "-o", "b.svg"),
            ("standard output", "export", "--folded", "--format", "json"), ("-o -:", "export", "-o", "-"),
            ("more than", "export", *["-o", "x.svg"] * 31), ("a.json", "flame", "-o", "a.json"),
            ("b.txt", "flame", "-o", "a.svg", "-o", "b.txt")):
        cli.fails(2, word, *arguments, *source)
    cli.fails(1, "/nowhere/x.svg", "export", *source, "-o", "/nowhere/x.svg")
    two = [os.path.join(folder, name) for name in ("two.svg", "two.html")]
    check.equal(cli.run("flame", *source, "-o", two[0], "-o", two[1]).returncode, 0, "two flame graphs of one query")
    check(all(os.path.getsize(path) > 500 for path in two), "both are there")


def the_checker_sees():
    """What is wrong is found: a check that cannot fail is none."""
    good = {"$schema": speedscope.SCHEMA, "shared": {"frames": [{"name": "a"}]},
            "profiles": [{"type": "sampled", "name": "x", "unit": "none", "startValue": 0, "endValue": 3, "samples": [[0]], "weights": [3]}]}
    check.equal(speedscope.problems(good), [], "a sound file")
    for path, value in ((("$schema",), "x"), (("shared", "frames", 0, "name"), 3), (("profiles", 0, "unit"), "parsecs"),
                        (("profiles", 0, "samples", 0, 0), 1), (("profiles", 0, "weights"), []), (("profiles", 0, "endValue"), 4)):
        bad = json.loads(json.dumps(good))
        at = bad
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value
        check(speedscope.problems(bad), f"{path} = {value!r} is wrong")


with tempfile.TemporaryDirectory(prefix="edgeprof-test-") as folder_:
    the_checker_sees()
    db_ = os.path.join(folder_, "one.db")
    server_ = Server(PROGRAM, db_)
    server_.push(message_of(1, "one", {2: 5, 3: 30, 6: 11}))
    for source_ in (["--db", db_], ["--url", server_.url]):
        every_format(folder_, source_)
        one_to_standard_output(source_)
    grouped(db_)
    wrong_usage(folder_, ["--db", db_])
    check.equal(server_.stop(), 0, "server")
    units(folder_)
    inlined(folder_)
check.done("test-tools-export")
