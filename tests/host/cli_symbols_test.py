"""`edgeprof symbols` and `symbolize`: a folder of symbol files here and at a server, and names from it.
Usage: cli_symbols_test.py EDGEPROF_WITH_SANITIZERS SAMPLE"""
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from cli import Cli
from generate import data, message, module, nested, nodes, number, origin, profile, varint
from harness import Checks, Server

PROGRAM, SAMPLE = (os.path.abspath(path) for path in sys.argv[1:3])
DEBUG, STRIPPED = os.path.join(os.path.dirname(SAMPLE), "debug", "sample.dbg"), SAMPLE + "-stripped"
check = Checks()
cli = Cli(PROGRAM, check)


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


BUILD_ID = re.search(r"Build ID: (\w+)", output("readelf", "-n", SAMPLE))[1]
FUNCTIONS = {line.split()[2]: int(line.split()[0], 16) for line in output("nm", SAMPLE).splitlines() if line.split()[-2] in "tT"}
HOT, OUTER = FUNCTIONS["hot"], FUNCTIONS["outer"]


def place(store, build_id=BUILD_ID):
    return os.path.join(store, build_id[:2], build_id[2:] + ".debug")


def tree(folder):
    return sorted(os.path.join(path, name) for path, _, names in os.walk(folder) for name in names)


def contents(path):
    with open(path, "rb") as file:
        return file.read()


# ---- a folder ----

def folder_of_symbols(folder):
    store, text, named = (os.path.join(folder, name) for name in ("store", "text.txt", "no-build-id"))
    with open(text, "w") as file:
        file.write("no ELF file")
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", SAMPLE, named], check=True)
    where = ("--symbols-store", store)
    check.equal(cli.run("symbols", "list", *where).out.splitlines(), ["build id  bytes  symbols"], "a folder that is not there is empty")
    added = cli.run("symbols", "add", *where, STRIPPED)
    check.equal(added.out, f"added {BUILD_ID} {STRIPPED} (dynamic symbols)\n", f"a program without more: {added.err}")
    check(cli.run("symbols", "add", DEBUG, *where).out.endswith("(DWARF)\n"), "a debug file is better and takes its place")
    check.equal(contents(place(store)), contents(DEBUG), "it lies where debuggers look for it")
    check(cli.run("symbols", "add", *where, STRIPPED).out.startswith(f"kept  {BUILD_ID}"), "what is worse does not")
    check.equal(contents(place(store)), contents(DEBUG), "and changes nothing")
    check.equal(tree(store), [place(store)], "nothing else is left in the folder")
    for word, path in (("no ELF", text), ("no build id", named), ("No such file", os.path.join(folder, "missing")), (folder, folder)):
        cli.fails(1, word, "symbols", "add", *where, path)
    mixed = cli.run("symbols", "add", *where, text, DEBUG)
    check.equal((mixed.returncode, mixed.out.count("\n"), mixed.err.count("\n")), (1, 1, 1), "one refused, one taken")
    listed = cli.run("symbols", "list", *where)
    check.equal(listed.out.splitlines()[1].split(), [BUILD_ID, str(os.path.getsize(DEBUG)), "DWARF"], "list")
    check.equal(json.loads(cli.run("symbols", "list", "--json", *where).out),
                {"symbols": [{"build_id": BUILD_ID, "bytes": os.path.getsize(DEBUG), "symbols": "DWARF"}]}, "list as JSON")
    damage(store, where)
    return store


def damage(store, where):
    check.equal(cli.run("symbols", "check", *where).out, "1 files, 0 damaged\n", "check of what is sound")
    other = place(store, "ab" * 20)
    os.makedirs(os.path.dirname(other))
    shutil.copy(DEBUG, other)
    cli.fails(1, "another build id", "symbols", "check", *where)
    with open(other, "wb") as file:
        file.write(contents(DEBUG)[:100])
    done = cli.run("symbols", "check", "--json", *where)
    check.equal((done.returncode, json.loads(done.out)), (1, {"files": 2, "damaged": 1, "modules": []}), "check as JSON")
    shutil.rmtree(os.path.dirname(other))


def wrong_usage(folder):
    for word, *arguments in (("add, list or check", "symbols"), ("add, list or check", "symbols", "remove"), ("which symbols", "symbols", "list"),
                             ("which symbols", "symbols", "add", "x", "--symbols-store", "a", "--url", "http://x"),
                             ("which files", "symbols", "add", "--symbols-store", "a"), ("unexpected", "symbols", "list", "x"),
                             ("not into a server", "symbols", "check", "--url", "http://127.0.0.1:1"),
                             ("exclude", "symbolize", "--module", "a", "--build-id", "ab", "0x1"), ("hexadecimal", "symbolize", "--build-id", "../x", "1"),
                             ("of what", "symbolize", "0x12"), ("0x12ab", "symbolize", "--module", SAMPLE, "12xz"), ("0x12ab", "symbolize", "+0x12"),
                             ("one FILE", "symbolize", "-o", "x.pb.gz"), ("one FILE", "symbolize", "-o", "x", "a", "b")):
        cli.fails(2, word, *arguments, cwd=folder)
    cli.fails(1, "missing", "symbolize", "missing+0x12", cwd=folder)
    cli.fails(1, "no ELF file", "symbolize", "--module", __file__, "0x12")
    cli.fails(1, "missing.pb", "symbolize", "-o", "out", "missing.pb", cwd=folder)
    check.equal(os.listdir(folder), [], "nothing was written")


# ---- at a server ----

def modules_of_a_database(folder, server, db):
    """check says which modules of real profiles have no symbols."""
    app = module(4096, 1 << 20, HOT & ~0xfff, bytes.fromhex(BUILD_ID), "/device/app")
    strange = module(4096 + (1 << 20), 4096, 0, b"\xee" * 20, "/device/strange.so")
    body = message(8, 0, origin("svc"), [app, strange], nodes([0, 1], [4096 + (HOT & 0xfff), 4096 + (1 << 20) + 16]),
                   [profile({1: 3, 2: 1})])
    check.equal(server.push(body), 200, "taken")
    done = cli.run("symbols", "check", "--db", db, "--symbols-store", os.path.join(folder, "server-store"))
    rows = [line.split() for line in done.out.splitlines()]
    check.equal((done.returncode, rows[1][:3], rows[2][:5]), (3, ["75.00%", "DWARF", "/device/app"], ["25.00%", "no", "symbols", "/device/strange.so", "ee" * 20]),
                f"check of a database: {done.out} {done.err}")
    document = json.loads(cli.run("symbols", "check", "--db", db, "--json", "--symbols", os.path.dirname(DEBUG)).out)
    check.equal([row["symbols"] for row in document["modules"]], ["DWARF", "no symbols"], "as JSON")
    check.equal(document["modules"][0]["file"], DEBUG, "and where it found them")


def uploads(folder):
    store, db = os.path.join(folder, "server-store"), os.path.join(folder, "server.db")
    server = Server(PROGRAM, db, "--symbols-store", store)
    at = ("--url", server.url)
    check.equal(cli.run("symbols", "add", *at, STRIPPED, DEBUG).out.count("added"), 2, "sent")
    check.equal(contents(place(store)), contents(DEBUG), "and kept as it is")
    check(cli.run("symbols", "add", *at, DEBUG).out.startswith("kept "), "the same once more")
    check.equal(json.loads(cli.run("symbols", "list", "--json", *at).out)["symbols"][0]["build_id"], BUILD_ID, "list of a server")
    check.equal(cli.run("symbols", "list", *at).out, cli.run("symbols", "list", "--symbols-store", store).out, "the same table from both sides")
    modules_of_a_database(folder, server, db)
    check("hot" in cli.run("top", *at).out, "the server has names from it")
    check.equal(server.request("GET", f"/buildid/{BUILD_ID}/debuginfo"), (200, contents(DEBUG)), "given out as debuginfod does")
    hostile(folder, server, store)
    check.equal(server.stop(), 0, "server")
    bare = Server(PROGRAM, db)
    cli.fails(1, "--symbols-store", "symbols", "add", "--url", bare.url, DEBUG)
    for method, path in (("GET", "/api/symbols"), ("GET", f"/buildid/{BUILD_ID}/debuginfo"), ("POST", f"/api/symbols/{BUILD_ID}")):
        check.equal(bare.request(method, path, b"x" if method == "POST" else None)[0], 404, f"{path} of a server that keeps none")
    check.equal(bare.stop(), 0, "server")


def hostile(folder, server, store):
    """Refused, said why, and no file anywhere but in its place."""
    before, outside = tree(store), tree(folder)
    good = contents(DEBUG)
    for name in ("..", "../x", "../../../../tmp/x", "%2e%2e%2f%2e%2e%2fx", "ab/../../x", "ab%2f..%2fcd", "", "a", "abc", "xy" * 20, "ab" * 33, "ab%00",
                 "ab ", "ab.debug", "-ab", "0xab", "%ff%fe", "ab\\..\\x", "." * 40):
        status, text = server.request("POST", "/api/symbols/" + name.replace(" ", "%20"), good)
        check(status in (400, 404), f"build id {name!r}: {status} {text}")
        status, _ = server.request("GET", "/buildid/" + name.replace(" ", "%20") + "/debuginfo")
        check.equal(status, 404, f"build id {name!r} is not given out")
    for what, body in (("another build id", good.replace(bytes.fromhex(BUILD_ID), b"\xab" * 20)), ("no ELF", b"no ELF"), ("nothing", b""),
                       ("half a file", good[:len(good) // 2]), ("a script", b"#!/bin/sh\nrm -rf /\n"), ("its head", good[:64]),
                       ("garbage behind the head", good[:64] + os.urandom(4000))):
        status, text = server.request("POST", "/api/symbols/" + BUILD_ID, body)
        check.equal(status, 400, f"{what}: {text}")
    check.equal(server.request("POST", "/api/symbols/" + "AB" * 20, good)[0], 400, "upper case is a build id, but not this one's")
    check.equal(server.request("POST", "/api/symbols/" + BUILD_ID, good, {"Origin": "http://evil"})[0], 403, "a web page may not")
    check.equal(server.request("POST", "/api/symbols/" + BUILD_ID, gzip.compress(bytes((512 << 20) + 1), 1))[0], 413, "a bomb")
    for path in ("/buildid//debuginfo", f"/buildid/{BUILD_ID}", f"/buildid/{BUILD_ID}/executable", f"/buildid/{BUILD_ID}/source/etc/passwd",
                 f"/buildid/{BUILD_ID}/debuginfo/../../x", "/buildid/" + "ab" * 20 + "/debuginfo"):
        check.equal(server.request("GET", path)[0], 404, path)
    check.equal((tree(store), tree(folder)), (before, outside), "no file has come or gone")
    check.equal(contents(place(store)), good, "and the good one is as it was")
    check.equal(server.request("GET", "/healthz")[0], 200, "the server is well")


# ---- names ----

def addr2line(address):
    """[(function, file:line)], innermost first."""
    lines = output("addr2line", "-f", "-i", "-e", SAMPLE, hex(address)).splitlines()
    return [(lines[i], os.path.basename(lines[i + 1].split(" ")[0])) for i in range(0, len(lines), 2)]


def ours(text):
    """The same of `symbolize`: {address as asked: [(function, file:line)]}"""
    found = {}
    for line in text.splitlines():
        asked, function, where = line.split("\t")
        key = asked or key
        found.setdefault(key, []).append((function, os.path.basename(where)))
    return found


def addresses(store):
    end = min(address for address in FUNCTIONS.values() if address > OUTER)
    every = [HOT, HOT + 8, *range(OUTER, end, 3)]
    wanted = {hex(address): addr2line(address) for address in every}
    check(any(len(lines) > 1 for lines in wanted.values()), "some are inlined")
    check.equal(ours(cli.run("symbolize", "--module", SAMPLE, *wanted).out), wanted, "the same as addr2line")
    text = "".join(f"  {address} \n\n" for address in wanted).encode()
    check.equal(ours(cli.run("symbolize", "--module", SAMPLE, data=text).out), wanted, "from standard input")
    by_id = cli.run("symbolize", "--symbols-store", store, "--build-id", BUILD_ID.upper(), *wanted)
    check.equal(ours(by_id.out), wanted, f"by build id: {by_id.err}")
    named = cli.run("symbolize", "--symbols", os.path.dirname(DEBUG), f"{BUILD_ID}+{HOT:#x}", f"{SAMPLE}+{HOT:x}")
    check.equal([lines[0][0] for lines in ours(named.out).values()], ["hot", "hot"], "each with its place")
    document = json.loads(cli.run("symbolize", "--json", "--module", SAMPLE, *wanted).out)
    check.equal([(row["asked"], [(frame["function"], os.path.basename(frame["file"]) + f":{frame['line']}") for frame in row["frames"]])
                 for row in document], list(wanted.items()), "as JSON")
    check.equal(json.loads(cli.run("symbolize", "--json", "--module", SAMPLE, data=b"").out or "[]"), [], "nothing is asked")
    fails = cli.fails(3, "no symbol file", "symbolize", "--build-id", "ee" * 20, "0x1234")
    check.equal(fails.out, "0x1234\t?+0x1234\t\n", "nobody knows that build")


def pprof_without_names():
    """Two sample types, labels, a comment, a named location beside nameless ones, as somebody else's profiler writes it."""
    strings = ["", "samples", "count", "cpu", "nanoseconds", SAMPLE, BUILD_ID, "named", "key", "value", "a comment"]
    types = nested(1, number(1, 1) + number(2, 2)) + nested(1, number(1, 3) + number(2, 4))
    samples = (nested(2, data(1, varint(1) + varint(2)) + data(2, varint(3) + varint(300)) + nested(3, number(1, 8) + number(2, 9))) +
               nested(2, data(1, varint(2) + varint(3)) + data(2, varint(1) + varint(100))))
    mapping = nested(3, number(1, 1) + number(2, 0x7f0000000000) + number(3, 0x7f0000100000) + number(5, 5) + number(6, 6))
    locations = (nested(4, number(1, 1) + number(2, 1) + number(3, 0x7f0000000000 + HOT)) +
                 nested(4, number(1, 2) + number(2, 1) + number(3, 0x7f0000000000 + OUTER + 1)) +
                 nested(4, number(1, 3) + nested(4, number(1, 9))))
    functions = nested(5, number(1, 9) + number(2, 7))
    return types + samples + mapping + locations + functions + b"".join(nested(6, text.encode()) for text in strings) + data(13, varint(10))


def raw(path):
    return output("go", "tool", "pprof", "-raw", path)


def files(folder):
    before, after = os.path.join(folder, "before.pb"), os.path.join(folder, "after.pb.gz")
    with open(before, "wb") as file:
        file.write(pprof_without_names())
    done = cli.run("symbolize", "-o", after, before)
    check.equal((done.returncode, done.out, done.err), (0, "", ""), "a pprof file")
    text, old = raw(after), raw(before)
    check("hot" in text and "inner" in text and "middle" in text and "named" in text, f"names, inlined ones too: {text}")
    check("hot" not in old, "there were none before")
    for part in ("samples/count cpu/nanoseconds", "key:[value]", "a comment"):
        check((part in text) == (part in old) and part in text, f"{part!r} has stayed")
    values = [line for line in text.splitlines() if re.match(r"\s+\d+\s+\d+:", line)]
    check.equal([line.split(":")[0].split() for line in values], [["3", "300"], ["1", "100"]], "both figures of each sample")
    check.equal(raw(cli_again(folder, after)), text, "what has names keeps them")
    check.equal(cli.run("symbolize", "-o", "-", "-", data=gzip.compress(pprof_without_names())).stdout[:2], b"\x1f\x8b", "gzipped, through pipes")
    compact = os.path.join(folder, "one.edgeprof")
    app = module(4096, 1 << 20, HOT & ~0xfff, bytes.fromhex(BUILD_ID), SAMPLE)
    with open(compact, "wb") as file:
        file.write(message(8, 0, origin("svc"), [app], nodes([0], [4096 + (HOT & 0xfff)]), [profile({1: 3})]))
    check.equal(cli.run("symbolize", "-o", after, compact).returncode, 0, "compact messages")
    check("hot" in raw(after), "have names in pprof")
    strange = pprof_without_names().replace(BUILD_ID.encode(), b"ee" * 20).replace(SAMPLE.encode(), b"/nowhere/app".ljust(len(SAMPLE), b"x"))
    cli.fails(3, "no symbol file", "symbolize", "-o", after, "-", data=strange)
    cli.fails(1, "message 1", "symbolize", "-o", after, "-", data=b"\xff" * 50)
    cli.fails(1, "-:", "symbolize", "-o", after, "-", data=pprof_without_names()[:-4])
    cli.fails(1, "/nowhere/x", "symbolize", "-o", "/nowhere/x", before)


def cli_again(folder, path):
    again = os.path.join(folder, "again.pb.gz")
    check.equal(cli.run("symbolize", "-o", again, path).returncode, 0, "once more")
    return again


with tempfile.TemporaryDirectory(prefix="edgeprof-test-") as folder_:
    os.mkdir(os.path.join(folder_, "empty"))
    wrong_usage(os.path.join(folder_, "empty"))
    addresses(folder_of_symbols(folder_))
    files(folder_)
    uploads(folder_)
check.done("test-tools-symbols")
