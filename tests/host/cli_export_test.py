"""Every export format and flame graph of one query holds the same profile."""
import gzip
import json
import os
import re
import xml.etree.ElementTree

import pytest

import speedscope
from cli import command_lines, folded
from generate import message, module, nodes, origin, profile
from pprof import frames, read
from sample import SOURCE, contents, marked

HOSTILE = 'a"b\\c</script>;d'
STACKS = {"[app]+0x4;[app]+0x68": 50000000, "[app]+0x4;[app]+0xcc": 300000000, "[app]+0x4;[app]+0x130;[app]+0x1f8": 110000000}


def test_every_format(cli, folder, source):
    names = ["a.pb.gz", "b.folded", "c.speedscope.json", "d.svg", "e.html", "f.json", "g.collapsed", "h.pprof"]
    paths = {name[0]: os.path.join(folder, name) for name in names}
    done = cli.run("export", *source, *[word for path in paths.values() for word in ("-o", path)])
    assert (done.returncode, done.out) == (0, ""), "all at once"
    assert folded(contents(paths["b"]).decode()) == STACKS
    assert contents(paths["g"]) == contents(paths["b"]), "another ending for it"
    document = json.loads(contents(paths["c"]))
    assert speedscope.problems(document) == []
    assert speedscope.folded(document) == STACKS
    assert (document["name"], document["profiles"][0]["unit"]) == ("one cpu", "nanoseconds")
    assert json.loads(contents(paths["f"]))["total"] == 460000000
    assert "[app]+0xcc" in "".join(xml.etree.ElementTree.fromstring(contents(paths["d"])).itertext())
    assert b"[app]+0xcc" in contents(paths["e"])
    for pprof in (paths["a"], paths["h"]):
        assert gzip.decompress(contents(pprof))[:1] == b"\x0a"
        assert folded(cli.run("cat", "--folded", pprof).out) == STACKS


@pytest.mark.parametrize("name, start", [("folded", b"[app]"), ("speedscope", b'{"$schema"'), ("json", b"{"), ("svg", b"<"),
                                         ("html", b"<!doctype"), ("pprof", b"\x1f\x8b")])
def test_to_standard_output(cli, source, name, start):
    done = cli.run("export", *source, "--format", name)
    assert done.returncode == 0 and done.stdout.startswith(start)
    assert cli.run("export", *source, "--format", name, "-o", "-").stdout[:9] == done.stdout[:9]


def test_what_groups_is_a_frame(cli, filled):
    document = json.loads(cli.run("export", "--db", filled.db, "--service", "one", "--format", "speedscope", "--group-by", "none").out)
    assert {name.split(";")[0] for name in speedscope.folded(document)} == {"[no none]"}


def test_units_and_hostile_names(cli, server):
    """Bytes are bytes, what has no unit of speedscope's is `none`; names cannot break out."""
    body = message(5, 0, origin("units"), [module(4096, 65536, 0, b"\7" * 20, HOSTILE)], nodes([0, 1], [4100, 4200]),
                   [profile([(2, 0, 3, 300)], quantum=1, kind=4), profile([(2, 0, 0, 7)], quantum=1, kind=6)])
    assert server.push(body) == 200
    for kind, unit, total in (("alloc", "bytes", 300), ("exception", "none", 7)):
        document = json.loads(cli.run("export", "--url", server.url, "--kind", kind, "--format", "speedscope").out)
        assert speedscope.problems(document) == []
        assert (document["profiles"][0]["unit"], document["profiles"][0]["endValue"]) == (unit, total)
        assert any(HOSTILE.replace("/", "").split("<")[0] in frame["name"] or "script" in frame["name"] for frame in document["shared"]["frames"])


def test_inlined_calls_are_frames(cli, known, start_server):
    """Real symbols: with file and line."""
    symbols = ("--symbols", os.path.dirname(known.path))
    server = start_server(*symbols)
    assert server.push(message(6, 0, origin("sample"), [known.module()], nodes([0], [known.frame]), [profile({1: 1})])) == 200
    document = json.loads(cli.run("export", "--db", server.db, *symbols, "--format", "speedscope").out)
    assert speedscope.problems(document) == []
    assert any(frame.get("file", "").endswith("sample.c") and frame.get("line", 0) > 0 for frame in document["shared"]["frames"])


@pytest.fixture
def lines_of_hot(start_server, known):
    server = start_server()
    assert server.push(known.lines_of_hot(61, "lines", 2, 30)) == 200
    return server.db


def located(path):
    """{(function, line, has an address): value} of leaves"""
    found = read(contents(path))
    names, samples = frames(found), found.sample
    places = {place.id: (names[place.id][0], place.line[0].line, place.address > 0) for place in found.location}
    sums = {places[sample.location_id[0]]: sample.value[-1] for sample in samples}
    assert len(sums) == len(samples), "equal stacks are one sample"
    return sums


@pytest.mark.parametrize("granularity, leaves, stacks", [
    ((), {("hot", 0, True): 300000000, ("hot", -1, True): 20000000}, {"hot": 320000000}),
    (("--granularity", "line"), {("hot", 0, False): 300000000, ("hot", -1, False): 20000000}, {"hot :0": 300000000, "hot :-1": 20000000}),
    (("--granularity", "functions"), {("hot", None, False): 320000000}, {"hot": 320000000})])
def test_granularity(cli, folder, lines_of_hot, granularity, leaves, stacks):
    """pprof has fields for lines, other formats have names; both at once. Numbers of lines are relative to the marked one."""
    line, pprof, text = marked("hot"), os.path.join(folder, "a.pb.gz"), os.path.join(folder, "b.folded")
    speed = os.path.join(folder, "c.speedscope.json")
    assert cli.run("export", "--db", lines_of_hot, "-o", text, "-o", pprof, "-o", speed, *granularity).returncode == 0
    assert located(pprof) == {(name, 0 if at is None else line + at, address): value for (name, at, address), value in leaves.items()}
    wanted = {re.sub(r":(-?\d)$", lambda found: f"{SOURCE}:{line + int(found[1])}", stack): value for stack, value in stacks.items()}
    assert folded(contents(text).decode()) == wanted
    shared = json.loads(contents(speed))["shared"]["frames"]
    assert sorted((frame["name"], frame["line"]) for frame in shared) == sorted((name, int((re.search(r":(\d+)$", name) or [0, line])[1])) for name in wanted)
    drawn = os.path.join(folder, "d.svg")
    assert cli.run("flame", "--db", lines_of_hot, "-o", drawn, *granularity).returncode == 0
    assert all(name in contents(drawn).decode() for name in wanted)


@command_lines(("-o FILE", "export"), ("--format xml", "export", "--format", "xml"), ("x.png", "export", "-o", "x.png"),
               ("omit it", "export", "--format", "svg", "-o", "a.svg", "-o", "b.svg"),
               ("standard output", "export", "--folded", "--format", "json"), ("-o -:", "export", "-o", "-"),
               ("more than", "export", *["-o", "x.svg"] * 31), ("a.json", "flame", "-o", "a.json"),
               ("b.txt", "flame", "-o", "a.svg", "-o", "b.txt"))
def test_wrong_usage(cli, filled, word, arguments):
    cli.fails(2, word, *arguments, "--db", filled.db)


def test_nowhere_to_write(cli, filled):
    cli.fails(1, "/nowhere/x.svg", "export", "--db", filled.db, "-o", "/nowhere/x.svg")


def test_two_flame_graphs(cli, filled, folder):
    two = [os.path.join(folder, name) for name in ("two.svg", "two.html")]
    assert cli.run("flame", "--db", filled.db, "-o", two[0], "-o", two[1]).returncode == 0
    assert all(os.path.getsize(path) > 500 for path in two)


GOOD = {"$schema": speedscope.SCHEMA, "shared": {"frames": [{"name": "a"}]},
        "profiles": [{"type": "sampled", "name": "x", "unit": "none", "startValue": 0, "endValue": 3, "samples": [[0]], "weights": [3]}]}


@pytest.mark.parametrize("path, value", [(("$schema",), "x"), (("shared", "frames", 0, "name"), 3), (("profiles", 0, "unit"), "parsecs"),
                                         (("profiles", 0, "samples", 0, 0), 1), (("profiles", 0, "weights"), []), (("profiles", 0, "endValue"), 4)])
def test_checker_sees(path, value):
    """What is wrong is found: a check that cannot fail is none."""
    assert speedscope.problems(GOOD) == []
    bad = json.loads(json.dumps(GOOD))
    at = bad
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    assert speedscope.problems(bad)
