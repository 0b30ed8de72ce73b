"""Commands give the right exit status and one clear line, and agree with go tool pprof."""
import gzip
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import urllib.error
import urllib.request
import xml.etree.ElementTree

import pytest

from cli import command_lines, folded, message_of
from generate import context, message, module, nodes, origin, profile, tag_set
from harness import REPOSITORY, Server, clean_environment
from sample import SOURCE, contents, marked
from senders import wait_for

COMMANDS = ("serve", "run", "top", "flame", "export", "cat", "watch", "query", "devices", "diff", "symbols", "symbolize", "status", "level", "kinds", "threads", "tasks")


# ---- help and wrong usage ----

def test_version(cli):
    version = re.search(r'EP_VERSION "(.*)"', (REPOSITORY / "core/edgeprof/edgeprof.h").read_text())[1]
    assert cli.run("--version").out == f"edgeprof {version}\n"


def test_help(cli):
    text = cli.run("--help")
    assert text.returncode == 0 and "exit codes" in text.out
    assert [name for name in COMMANDS if f"  {name}" not in text.out] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(cli, name):
    text = cli.run(name, "--help")
    assert text.returncode == 0 and text.out.startswith(f"usage: edgeprof {name}")
    assert "exit codes" in text.out and text.err == ""


def test_no_command(cli):
    assert cli.run().returncode == 2
    cli.fails(2, "'nonsense'", "nonsense")


@command_lines(
    ("--bogus", "top", "--bogus"), ("-n", "top", "-n"), ("abc", "top", "-n", "abc"), ("0", "top", "-n", "0"),
    ("someday", "top", "--from", "someday"), ("25:10", "top", "--from", "25:10"), ("30m1h", "top", "--last", "30m1h"), ("5", "top", "--last", "5"), ("extra", "top", "file", "extra"), ("cannot be combined", "top", "--db", "a", "file"),
    ("cannot be combined", "top", "--db", "a", "--url", "b"), ("a{", "top", "--service", "a{"), ("novalue", "top", "--tag", "novalue"),
    ("-o", "flame"), ("x.png", "flame", "-o", "x.png"), ("x.png", "run", "--flame", "x.png", "true"), ("-o FILE", "export"),
    ("unknown option -cum", "top", "--service", "svc", "-cum"), ("unknown option -cum", "top", "-cum", "--service", "svc"), ("did you mean --service?", "top", "--servcie", "svc"),
    ("did you mean `edgeprof top`?", "tpo"), ("16 hexadecimal digits", "top", "--label", "span_id=xyz"), ("32 hexadecimal", "top", "--service", 'svc{trace_id="1"}'),
    ("an operator is missing", "top", "--service", 'svc{version>"1"}'), ("no such kind", "run", "--kind", "cup", "true"),
    ("FILE", "cat"), ("FILE", "cat", "a", "b"), ("command", "run"), ("extreme", "run", "--level", "extreme", "true"),
    ("12", "run", "--interval", "12", "true"), ("--rows", "export", "--rows", "3"),
    ("--granularity", "export", "--granularity", "file"), ("--lines", "export", "--lines"),
    ("--value", "top", "--db", "x.db", "--value", "weight"), ("--label", "top", "--db", "x.db", "--label", "step"),
    ("--group-by", "top", "--db", "x.db", "--group-by", ""))
def test_wrong_usage(cli, folder, word, arguments):
    cli.fails(2, word, *arguments, cwd=folder)


@command_lines(("edgeprof serve", "top", "--db", "none.db"), ("/nowhere", "flame", "--db", "/nowhere/x.db", "-o", "x.svg"),
               ("127.0.0.1:1", "top", "--url", "http://127.0.0.1:1"), ("--symbols /nowhere", "top", "--symbols", "/nowhere"),
               ("ftp", "top", "--url", "ftp://127.0.0.1/"), ("missing", "crashes", "missing"), ("missing", "cat", "missing"))
def test_not_there(cli, folder, word, arguments):
    cli.fails(1, word, *arguments, cwd=folder)


def test_folder_instead_of_a_file(cli, folder):
    cli.fails(1, folder, "cat", folder)


# ---- files ----

def framed(*messages):
    return b"".join(struct.pack("<I", len(body)) + body for body in messages)


def go_pprof(path, *options):
    folder = os.path.dirname(path)
    done = subprocess.run(["go", "tool", "pprof", *options, path], capture_output=True, text=True, check=False, cwd=folder,
                          env=clean_environment(HOME=folder, PPROF_TMPDIR=folder))
    assert done.returncode == 0, done.stderr
    return done.stdout


def pprof_order(path, *options):
    rows = re.findall(r"^ *\S+ +([\d.]+)% +\S+% +\S+ +([\d.]+)% +(.*)$", go_pprof(path, "-top", "-nodefraction=0", *options), re.M)
    return [(name.removesuffix(" (inline)"), round(float(flat), 2), round(float(cum), 2)) for flat, cum, name in rows]


def our_order(text):
    return [(name, float(flat), float(cum)) for flat, cum, name in re.findall(r"^ *([\d.]+)% +\S+ +([\d.]+)% +\S+  (.*)$", text, re.M)]


def assert_same_order(ours, theirs):
    """By flat; among equals the two may differ."""
    assert len(ours) > 2, "something to compare"
    assert [row for row in ours if row[1]] == [row for row in theirs if row[1]]
    assert sorted(ours) == sorted(theirs)


FIRST, SECOND = message_of(7, "svc", {2: 5, 3: 30, 6: 11}), message_of(7, "svc", {3: 2}, 1)
STACKS = {"[app]+0x4;[app]+0x130;[app]+0x1f8": 110000000, "[app]+0x4;[app]+0x68": 50000000, "[app]+0x4;[app]+0xcc": 320000000}


def written(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data)
    return path


@pytest.fixture(scope="module")
def two_messages(shared_folder):
    return written(shared_folder, "two.edgeprof", framed(FIRST, SECOND))


@pytest.fixture(scope="module")
def as_pprof(cli, shared_folder, two_messages):
    """The same as a file of pprof, gzipped."""
    path = os.path.join(shared_folder, "cat.pb.gz")
    assert cli.run("cat", "--pprof", path, two_messages).returncode == 0
    return path


def test_cat(cli, two_messages):
    text = cli.run("cat", two_messages)
    assert text.returncode == 0
    assert text.out.count("message segment=0000000000000007") == 2 and "service=svc" in text.out
    assert cli.run("cat", "-", data=FIRST).out.count("message ") == 1, "a bare message on standard input"


def test_cat_of_an_empty_file(cli, folder):
    path = os.path.join(folder, "empty")
    open(path, "wb").close()
    cli.fails(3, "no messages", "cat", path)


def test_cat_folded(cli, two_messages):
    assert folded(cli.run("cat", "--folded", two_messages).out) == STACKS


def test_cat_of_folded(cli, two_messages, folder):
    """What it writes itself."""
    path = os.path.join(folder, "own.folded")
    with open(path, "w") as file:
        file.write(cli.run("cat", "--folded", two_messages).out)
    assert folded(cli.run("cat", "--folded", path).out) == folded(cli.run("cat", "--folded", two_messages).out)
    assert "folded" in cli.run("cat", path).out and cli.run("diff", path, path).returncode == 0


def test_top_of_files(cli, two_messages, as_pprof, folder):
    """The same functions from each form."""
    path = os.path.join(folder, "own.folded")
    with open(path, "w") as file:
        file.write(cli.run("cat", "--folded", two_messages).out)
    rows = [our_order(cli.run("top", name).out) for name in (two_messages, as_pprof, path)]
    assert rows[0] and all(row == rows[0] for row in rows), rows
    assert json.loads(cli.run("top", "--json", two_messages).out)
    cli.fails(1, "/nowhere", "top", "/nowhere", env=clean_environment(EDGEPROF_URL="http://127.0.0.1:9"))


def test_cat_to_pprof(as_pprof):
    assert [row[0] for row in pprof_order(as_pprof)][:3] == ["[app]+0xcc", "[app]+0x1f8", "[app]+0x68"]


@pytest.mark.parametrize("packing, times", [
    pytest.param(lambda packed, plain: packed, 1, id="gzipped"), pytest.param(lambda packed, plain: plain, 1, id="plain"),
    pytest.param(lambda packed, plain: framed(plain, packed), 2, id="framed")])
def test_cat_of_pprof(cli, as_pprof, packing, times):
    """Framed: as a file endpoint writes it."""
    packed = contents(as_pprof)
    data = packing(packed, gzip.decompress(packed))
    text = cli.run("cat", "-", data=data).out
    assert (text.count("pprof bytes="), text.count("kind=cpu unit=nanoseconds total=480000000")) == (times, times)
    assert folded(cli.run("cat", "--folded", "-", data=data).out) == {stack: times * value for stack, value in STACKS.items()}


def test_cat_of_torn_pprof(cli, as_pprof):
    packed = contents(as_pprof)
    plain = gzip.decompress(packed)
    cli.fails(1, "gzip", "cat", "-", data=packed[:40])
    cli.fails(1, "gzip", "cat", "--folded", "-", data=packed[:40])
    cli.fails(1, "message 1", "cat", "--folded", "-", data=plain[:-3])
    cli.fails(3, "no profile", "cat", "--folded", "--kind", "gc", "-", data=plain)


@pytest.mark.parametrize("cut", [-1, -len(SECOND) - 2])
def test_cat_of_torn_messages(cli, folder, cut):
    torn = cli.fails(1, "truncated within message 2", "cat", written(folder, "torn", framed(FIRST, SECOND)[:cut]))
    assert torn.out.count("message ") == 1, "what is before the tear is printed"


def test_cat_of_nothing(cli, two_messages):
    cli.fails(1, "message 1", "cat", "-", data=b"\xff" * 100)
    assert cli.run("cat", "-", data=b"").returncode == 3
    cli.fails(3, "no profile", "cat", "--folded", "-", data=message(9, 0, origin("x")))
    cli.fails(1, "/nowhere/out.pb.gz", "cat", "--pprof", "/nowhere/out.pb.gz", two_messages)


# ---- --value, --label and --group-by, of a file and of a database ----

LABELS = message(31, 0, origin("labels", tags=[("version", "1")]), [module(4096, 65536, 0, b"\7" * 20, "[app]")],
                 nodes([0, 1, 2], [4100, 4200, 4300]),
                 [profile([(2, 1, 3, 300), (2, 2, 5, 500), (3, 0, 7, 700)], quantum=1, kind=4), profile([(3, 2, 2, 20)], quantum=1, kind=3)],
                 tag_sets=[tag_set(1, step="a"), tag_set(2, step="b")], contexts=[context(1), context(2, span=7)])
TWO, THREE = "[app]+0x4;[app]+0x68", "[app]+0x4;[app]+0xcc"


@pytest.fixture(scope="module")
def labels(edgeprof, shared_folder):
    """[command, where it reads]"""
    path = written(shared_folder, "labels.edgeprof", framed(LABELS))
    with Server(edgeprof, os.path.join(shared_folder, "labels.db")) as server:
        assert server.push(LABELS) == 200
        yield [["cat", path], ["export", "--db", server.db], ["export", "--url", server.url]]


@pytest.mark.parametrize("kind, options, expected", [
    ("alloc", [], [f"{TWO} 800", f"{THREE} 700"]), ("alloc", ["--value", "count"], [f"{TWO} 8", f"{THREE} 7"]),
    ("alloc", ["--value", "value"], [f"{TWO} 800", f"{THREE} 700"]), ("lock", ["--value", "count"], [f"{THREE} 2"]),
    ("alloc", ["--label", "step=a"], [f"{TWO} 300"]), ("alloc", ["--label", "step=b", "--value", "count"], [f"{TWO} 5"]),
    ("alloc", ["--label", "step=b", "--label", "span_id=0000000000000007"], [f"{TWO} 500"]),
    ("alloc", ["--label", "version=1"], [f"{TWO} 800", f"{THREE} 700"]),
    ("alloc", ["--group-by", "step"], [f"step=a;{TWO} 300", f"step=b;{TWO} 500", f"[no step];{THREE} 700"]),
    ("alloc", ["--group-by", "step", "--label", "step=a", "--value", "count"], [f"step=a;{TWO} 3"])])
def test_labels(cli, labels, kind, options, expected):
    for command, *source in labels:
        done = cli.run(command, "--folded", "--kind", kind, *options, *source)
        assert sorted(done.out.splitlines()) == sorted(expected), source


def test_no_such_label(cli, labels):
    for command, *source in labels:
        cli.fails(3, "no", command, "--folded", "--kind", "alloc", "--label", "step=none", *source)


# ---- a database ----

@pytest.fixture(scope="module")
def filled(edgeprof, shared_folder):
    with Server(edgeprof, os.path.join(shared_folder, "filled.db")) as server:
        assert server.push(message_of(1, "one", {2: 5, 3: 30, 4: 7, 6: 11})) == 200
        yield server


@pytest.fixture
def two_services(start_server):
    server = start_server()
    assert server.push(message_of(1, "one", {2: 5, 3: 30, 4: 7, 6: 11})) == 200
    assert server.push(message_of(2, "two", {2: 1})) == 200
    return server


def test_top(cli, source):
    top = cli.run("top", *source)
    assert top.returncode == 0 and top.out.startswith("one cpu: 530.00ms in 53 samples")
    assert our_order(cli.run("top", *source, "-n", "2").out) == our_order(top.out)[:2]
    assert '"total":530000000' in cli.run("top", *source, "--json").out


def test_top_same_from_both(cli, filled):
    assert our_order(cli.run("top", "--url", filled.url).out) == our_order(cli.run("top", "--db", filled.db).out)


def test_top_in_the_order_of_pprof(cli, filled, folder):
    out = os.path.join(folder, "db.pb.gz")
    assert cli.run("export", "--db", filled.db, "--pprof", out).returncode == 0
    assert_same_order(our_order(cli.run("top", "--db", filled.db).out), pprof_order(out))
    assert gzip.decompress(contents(out))[:1] == b"\x0a"


def function_row(done, name="hot"):
    return next(row for row in json.loads(done.out)["top"] if row["name"] == name)


@pytest.fixture(scope="module")
def lines_of_hot(edgeprof, known, shared_folder):
    """[where a command reads samples of `hot`, of which the first seen is not in its hottest line]"""
    with Server(edgeprof, os.path.join(shared_folder, "lines.db")) as server:
        assert server.push(known.lines_of_hot(41, "lines", 2, 30)) == 200
        yield [["--db", server.db], ["--url", server.url]]


def test_function_has_its_hottest_line(cli, lines_of_hot):
    """And not that of the first address."""
    line = marked("hot")
    for source in lines_of_hot:
        row = function_row(cli.run("top", *source, "--json"))
        assert (row["file"], row["line"]) == (SOURCE, line), source
        assert row["line_count"] == 2
        assert row["lines"] == [{"line": line, "self": 300000000, "total": 300000000},
                                {"line": line - 1, "self": 20000000, "total": 20000000}]


def test_top_by_line(cli, lines_of_hot):
    line = marked("hot")
    for source in lines_of_hot:
        top = cli.run("top", *source, "--lines")
        assert our_order(top.out) == [(f"hot {SOURCE}:{line}", 93.75, 93.75), (f"hot {SOURCE}:{line - 1}", 6.25, 6.25)], source
        assert ", 2 lines\n" in top.out and "  function file:line\n" in top.out
        assert our_order(cli.run("top", *source).out) == [("hot", 100, 100)], "functions unless asked"


def test_line_of_a_real_loop(cli, sampled, folder):
    """The program is optimized (-O2): its hot line is the loop's, here and for pprof."""
    hot, out = f"hot {SOURCE}:{marked('hot')}", os.path.join(folder, "lines.pb.gz")
    rows = our_order(cli.run("top", "--db", sampled, "--lines", "-n", "1000").out)
    assert rows[0][0] == hot and rows[0][1] > 35, rows
    assert {f"{mark} {SOURCE}:{marked(mark)}" for mark in ("middle", "outer")} <= {row[0] for row in rows}, "callers' lines are those of the calls"
    assert function_row(cli.run("top", "--db", sampled, "--json"))["line"] == marked("hot")
    assert cli.run("export", "--db", sampled, "--pprof", out).returncode == 0
    assert sorted(rows) == sorted(pprof_order(out, "-lines", "-source_path=/nowhere")), "the same rows as pprof's"
    for granularity in ((), ("--granularity", "line")):
        assert cli.run("export", "--db", sampled, "--pprof", out, *granularity).returncode == 0
        listed = re.findall(r"^ +([\d.]+)(m?)s +\S+ +(\d+):", go_pprof(out, f"-source_path={REPOSITORY}", "-list=^hot$"), re.M)
        assert max(listed, key=lambda row: float(row[0]) / (1000 if row[1] else 1))[2] == str(marked("hot")), f"pprof -list: {listed}"


def test_no_data(cli, filled):
    cli.fails(3, "no data", "top", "--db", filled.db, "--last", "1m")


def test_times_as_people_say_them(cli, start_server):
    server, zone = start_server(), clean_environment(TZ="Asia/Kolkata")
    at = int(time.time()) - 7200
    assert server.request("POST", f"/ingest?name=timed&format=groups&from={at - 10}&until={at}", b"main 7\n")[0] == 200

    def found(*arguments):
        return cli.run("top", "--db", server.db, *arguments, env=zone).returncode == 0
    local = lambda moment: time.strftime("%H:%M", time.gmtime(moment + 19800))
    assert found("--last", "2h10m") and not found("--last", "1h50m")
    assert found("--from", local(at - 300)) and not found("--from", local(at + 300)), "the last such time"
    assert found("--from", "yesterday") and not found("--to", "yesterday")
    midnight = (at + 19800) // 86400 * 86400 - 19800
    assert found("--from", "today") == (at + 7200 - midnight < 86400)


def test_no_such_kind(cli, filled):
    cli.fails(3, "no kind cup", "top", "--db", filled.db, "--kind", "cup")


def test_which_service(cli, two_services):
    cli.fails(2, "one, two", "top", "--db", two_services.db)
    assert "one" in cli.fails(1, "several", "top", "--url", two_services.url).err, "the server says the same"
    cli.fails(3, "zzz", "top", "--db", two_services.db, "--service", "zzz")
    assert cli.run("top", "--db", two_services.db, "--service", "two").out.splitlines()[0].split(":")[0] == "two cpu"


def test_reader_that_leaves_early(edgeprof, filled, two_messages):
    piped = subprocess.run(["sh", "-c", f"'{edgeprof}' top --db '{filled.db}' --service one | true; '{edgeprof}' cat '{two_messages}' | true"],
                           capture_output=True, text=True, check=False)
    assert piped.stderr == ""


def test_flame_graphs(cli, filled, folder):
    svg, html = os.path.join(folder, "f.svg"), os.path.join(folder, "f.html")
    source = ("--db", filled.db, "--service", "one")
    assert cli.run("flame", *source, "-o", svg).returncode == 0
    text = "".join(xml.etree.ElementTree.parse(svg).getroot().itertext())
    assert "[app]+0xcc" in text and "56.60%" in text, "the picture has the names and shares"
    assert cli.run("flame", *source, "-o", html).returncode == 0
    text = contents(html).decode()
    assert "[app]+0xcc" in text and "http://" not in text.replace("http://www.w3.org", ""), "the page needs nothing from elsewhere"
    cli.fails(1, "/nowhere/x.svg", "flame", *source, "-o", "/nowhere/x.svg")


# ---- run, with the program and the library as they are shipped ----

@pytest.fixture
def go(cli, shipped, tmp_path):
    """go(argument ...) is `edgeprof run`, whose temporary database leaves nothing behind."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def run(*arguments, env=None, **options):
        done = cli.run("run", *arguments, program=shipped, cwd=tmp_path, env={**(env or clean_environment()), "TMPDIR": str(temporary)}, **options)
        assert list(temporary.iterdir()) == []
        return done
    return run


def test_run(go, folder, sample):
    done = go("--level", "high", "--pprof", "run.pb.gz", "--flame", "run.html", "--", sample, "2500")
    assert done.returncode == 0
    rows = our_order(done.out)
    assert rows and rows[0][0] == "hot" and 55 < rows[0][1] < 90, "hot has three quarters"
    assert {"outer", "middle", "inner", "main"} <= {row[0] for row in rows}, "inlined calls have names"
    assert_same_order(rows, pprof_order(os.path.join(folder, "run.pb.gz")))
    assert b"hot" in contents(os.path.join(folder, "run.html"))


@pytest.mark.parametrize("code, arguments", [
    pytest.param(7, ["--", "SAMPLE", "300", "7"], id="the program's exit code"),
    pytest.param(128 + 15, ["--", "sh", "-c", "kill -TERM $$"], id="ended by a signal"),
    pytest.param(127, ["--", "/nowhere/program"], id="not found"), pytest.param(126, ["--", "/"], id="not executable"),
    pytest.param(3, ["--", "true"], id="nothing was measured"),
    pytest.param(125, ["--preload", "/nowhere.so", "--", "true"], id="no preload library")])
def test_run_ends(go, sample, code, arguments):
    assert go(*[sample if argument == "SAMPLE" else argument for argument in arguments]).returncode == code


@pytest.mark.parametrize("folder_name", ["a b", "a:b"])
def test_library_that_cannot_be_preloaded(cli, shipped, preload_library, tmp_path, folder_name):
    (tmp_path / folder_name).mkdir()
    copy = shutil.copy(preload_library, tmp_path / folder_name)
    cli.fails(125, "with a space or a colon; name a copy with --preload FILE", "run", "--preload", copy, "--", "true", program=shipped)


def test_environment_of_run(go):
    environment = go("--service", "named", "--level", "low", "--interval", "500", "--", "sh", "-c", "env; echo; ls -A \"$TMPDIR\"",
                     env=clean_environment(EDGEPROF_TAGS="zone=a")).out
    for line in ("EDGEPROF_SERVICE=named", "EDGEPROF_LEVEL=low", "EDGEPROF_INTERVAL=500", "EDGEPROF_TAGS=zone=a"):
        assert line in environment
    assert re.search(r"EDGEPROF_ENDPOINT=http://127\.0\.0\.1:\d+\n", environment)
    assert re.search(r"^edgeprof-\w+$", environment, re.M), "its database is in TMPDIR while it runs"


def test_second_endpoint_is_not_for_run(go, sample):
    done = go("--level", "high", "--", sample, "500", env=clean_environment(EDGEPROF_ENDPOINT_OLD="http://127.0.0.1:9"))
    assert done.returncode == 0 and "hot" in done.out


@pytest.mark.parametrize("how", ["--url", "EDGEPROF_URL", "EDGEPROF_ENDPOINT"])
def test_run_to_a_server(go, cli, start_server, sample, tmp_path, how):
    server = start_server()
    options, env = (("--url", server.url), {}) if how == "--url" else ((), {how: server.url})
    done = go("--level", "high", *options, "--flame", "run.html", "--", sample, "500", env=clean_environment(**env))
    assert done.returncode == 0 and our_order(done.out)[0][0] == "hot", "its result"
    assert b"hot" in contents(tmp_path / "run.html")
    assert {row["service"] for row in server.get("/api/services")[1]["services"]} == {"sample"}, "is on the server"
    assert "hot" in cli.run("top", env=clean_environment(EDGEPROF_URL=server.url), cwd=tmp_path).out


def test_run_without_its_server(cli, shipped, tmp_path):
    cli.fails(125, "http://127.0.0.1:9", "run", "--url", "http://127.0.0.1:9", "--", "touch", "started", program=shipped, cwd=tmp_path)
    assert not (tmp_path / "started").exists()


def test_options_win_over_the_server_of_the_environment(go, sample):
    elsewhere = clean_environment(EDGEPROF_URL="http://127.0.0.1:9", EDGEPROF_ENDPOINT="http://127.0.0.1:9")
    assert "hot" in go("--level", "high", "--db", "own.db", "--", sample, "500", env=elsewhere).out
    assert go("--url", "http://127.0.0.1:9", "--serve", "--", "true").returncode == 2


@pytest.fixture
def background():
    """background(command ...): a process with a group of its own, which ends with the test"""
    running = []

    def start(*command, **options):
        running.append(subprocess.Popen(command, text=True, start_new_session=True, **{"env": clean_environment(), **options}))
        return running[-1]

    yield start
    for process in running:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def test_signal_reaches_the_program(cli, shipped, sample, folder, background):
    """And the database is kept when it is named."""
    db = os.path.join(folder, "kept.db")
    script = f"trap 'exit 9' TERM; echo ready; while :; do '{sample}' 200; done"
    process = background(shipped, "run", "--db", db, "--service", "loop", "--", "sh", "-c", script, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    time.sleep(1)  # something to measure; how much does not matter
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 9, f"exit code of the trap: {err}"
    assert "hot" in out, err
    assert "hot" in cli.run("top", "--db", db, "--service", "loop").out


def test_run_keeps_serving(cli, shipped, sample, folder, background):
    process = background(shipped, "run", "--serve", "--", sample, "500", stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder)
    line = next((line for line in process.stdout if line.startswith("edgeprof: http://")), "")
    url, token = line.removeprefix("edgeprof: ").strip(), re.match(r"edgeprof: token ([0-9a-f]{32});", process.stdout.readline())[1]
    assert "hot" in cli.run("top", "--url", url, env=clean_environment(EDGEPROF_TOKEN=token)).out
    for wrong in None, "0" * 32:  # another user of the machine
        for path, body in ("/", None), ("/api/services", None), ("/edgeprof/v1/push", message_of(1, "forged", {2: 5})):
            request = urllib.request.Request(url + path, body, {"Authorization": f"Bearer {wrong}"} if wrong else {})
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(request, timeout=60)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0


# ---- a program that runs, told what to do from outside ----

KNOWN = {"EDGEPROF_CONTROL_TOKEN": "sesame"}


def assert_says(done, *lines):
    for line in lines:
        assert re.search(f"^{line}$", done.out, re.M), done.err


@pytest.fixture(scope="module")
def controlled(preload_library, shared_folder):
    """The socket of a program that takes commands."""
    path = os.path.join(shared_folder, "control.sock")
    env = clean_environment(EDGEPROF_ENDPOINT="file:///dev/null", EDGEPROF_CONTROL=path, LD_PRELOAD=str(preload_library), **KNOWN)
    with subprocess.Popen(["sleep", "600"], env=env) as program:
        try:
            wait_for(lambda: os.path.exists(path))
            yield path
        finally:
            program.terminate()


def test_control_needs_a_token(cli, controlled):
    cli.fails(1, "EDGEPROF_CONTROL_TOKEN", "level", "--at", controlled, "high")


def test_control(cli, controlled):
    env = clean_environment(**KNOWN)
    at = ("--at", controlled)
    assert_says(cli.run("status", *at, env=env), "level    low", "kinds    cpu", "sent     .*")
    assert_says(cli.run("level", "--at", "unix:" + controlled, "high", env=env), "level    high",
                "kinds    cpu wait lock alloc live exception gc thread heap write sync")
    assert_says(cli.run("kinds", *at, "cpu,lock", env=env), "kinds    cpu lock")
    assert_says(cli.run("kinds", "on", "gc,wait", "off", "cpu", env=dict(env, EDGEPROF_CONTROL=controlled)), "kinds    wait lock gc")
    assert cli.run("threads", *at, env=env).returncode == 0
    assert '"running":true' in cli.run("status", *at, "--json", env=env).out


@command_lines(("loud", "level", "loud"), ("wall", "kinds", "cpu,wall"), ("on", "kinds", "on"))
def test_wrong_control(cli, controlled, word, arguments):
    cli.fails(2, word, *arguments, "--at", controlled, env=clean_environment(**KNOWN))


def test_control_of_a_program_that_has_ended(cli, folder):
    """Its socket is still there."""
    path = os.path.join(folder, "control.sock")
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(path)
    cli.fails(1, path, "status", "--at", path)


def test_control_of_nothing(cli):
    cli.fails(2, "EDGEPROF_CONTROL", "status")
    cli.fails(2, "--at relative", "status", "--at", "relative")
    cli.fails(1, "127.0.0.1:1:", "status", "--at", "1")
