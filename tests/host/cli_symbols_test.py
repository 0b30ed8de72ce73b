"""Symbol files in a folder or at a server give the right function names."""
import gzip
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import time
import urllib.request
import zlib

import pytest

from cli import command_lines
from generate import data, message, module, nested, nodes, number, origin, profile, varint
from harness import Server
from sample import contents, output


def place(store, build_id):
    """Where debuggers look for it."""
    return os.path.join(store, build_id[:2], build_id[2:] + ".debug")


def tree(folder):
    return sorted(os.path.join(path, name) for path, _, names in os.walk(folder) for name in names)


# ---- a folder ----

@pytest.fixture
def store(folder):
    """A folder of symbol files that is not there yet."""
    return os.path.join(folder, "store")


@pytest.fixture
def add(cli, store):
    """add(path ...): what is said when they are put into the folder"""
    return lambda *paths: cli.run("symbols", "add", "--symbols-store", store, *paths)


@pytest.fixture
def with_debug(add, store, known):
    """The folder with the sample's debug file."""
    assert add(known.debug).out.endswith("(DWARF)\n")
    return store


def test_folder_is_not_there(cli, store):
    assert cli.run("symbols", "list", "--symbols-store", store).out.splitlines() == ["build id  bytes  symbols"]


def test_best_file_stays(add, store, known):
    assert add(known.stripped).out == f"added {known.build_id} {known.stripped} (dynamic symbols)\n", "a program without more"
    assert add(known.debug).out.endswith("(DWARF)\n"), "a debug file is better and takes its place"
    assert contents(place(store, known.build_id)) == contents(known.debug)
    assert add(known.stripped).out.startswith(f"kept  {known.build_id}"), "what is worse does not"
    assert contents(place(store, known.build_id)) == contents(known.debug), "and changes nothing"
    assert tree(store) == [place(store, known.build_id)], "nothing else is left in the folder"


def test_what_an_ended_process_has_left(add, store, known):
    """An upload that a power cut ended has left up to 512 MiB. One of another process may still go on."""
    for name, hours in (("00/.new-abcdef", 1), ("11/.new-abcdef", 0), ("00/notes", 1)):
        path = os.path.join(store, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w"):
            os.utime(path, (time.time() - hours * 3600,) * 2)
    add(known.debug)
    assert sorted(tree(store)) == sorted([place(store, known.build_id), os.path.join(store, "11/.new-abcdef"), os.path.join(store, "00/notes")])


@pytest.fixture
def text(folder):
    path = os.path.join(folder, "text.txt")
    with open(path, "w") as file:
        file.write("no ELF file")
    return path


def test_refused(cli, folder, store, known, text):
    named = os.path.join(folder, "no-build-id")
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", known.path, named], check=True)
    for word, path in (("not an ELF", text), ("no build id", named), ("No such file", os.path.join(folder, "missing")), (folder, folder)):
        cli.fails(1, word, "symbols", "add", "--symbols-store", store, path)


def test_one_refused_one_taken(add, known, text):
    mixed = add(text, known.debug)
    assert (mixed.returncode, mixed.out.count("\n"), mixed.err.count("\n")) == (1, 1, 1)


def test_list(cli, with_debug, known):
    size = os.path.getsize(known.debug)
    listed = cli.run("symbols", "list", "--symbols-store", with_debug)
    assert listed.out.splitlines()[1].split() == [known.build_id, str(size), "DWARF"]
    listed = cli.run("symbols", "list", "--json", "--symbols-store", with_debug)
    assert json.loads(listed.out) == {"symbols": [{"build_id": known.build_id, "bytes": size, "symbols": "DWARF"}]}


def test_damage(cli, with_debug, known):
    where = ("--symbols-store", with_debug)
    assert cli.run("symbols", "check", *where).out == "1 files, 0 damaged\n"
    other = place(with_debug, "ab" * 20)
    os.makedirs(os.path.dirname(other), exist_ok=True)
    shutil.copy(known.debug, other)
    cli.fails(1, "wrong build id", "symbols", "check", *where)
    with open(other, "wb") as file:
        file.write(contents(known.debug)[:100])
    done = cli.run("symbols", "check", "--json", *where)
    assert (done.returncode, json.loads(done.out)) == (1, {"files": 2, "damaged": 1, "modules": []})


@command_lines(("add, list or check", "symbols"), ("add, list or check", "symbols", "remove"), ("use either", "symbols", "list"),
               ("use either", "symbols", "add", "x", "--symbols-store", "a", "--url", "http://x"),
               ("no files given", "symbols", "add", "--symbols-store", "a"), ("unexpected", "symbols", "list", "x"),
               ("a server is not supported", "symbols", "check", "--url", "http://127.0.0.1:1"),
               ("cannot be combined", "symbolize", "--module", "a", "--build-id", "ab", "0x1"), ("hexadecimal", "symbolize", "--build-id", "../x", "1"),
               ("no module given", "symbolize", "0x12"), ("0x12ab", "symbolize", "--module", "SAMPLE", "12xz"), ("0x12ab", "symbolize", "+0x12"),
               ("one input FILE", "symbolize", "-o", "x.pb.gz"), ("one input FILE", "symbolize", "-o", "x", "a", "b"))
def test_wrong_usage(cli, folder, sample, word, arguments):
    cli.fails(2, word, *[sample if argument == "SAMPLE" else argument for argument in arguments], cwd=folder)
    assert os.listdir(folder) == []


@command_lines(("missing", "symbolize", "missing+0x12"), ("not an ELF file", "symbolize", "--module", __file__, "0x12"),
               ("missing.pb", "symbolize", "-o", "out", "missing.pb"))
def test_no_such_file(cli, folder, word, arguments):
    cli.fails(1, word, *arguments, cwd=folder)
    assert os.listdir(folder) == []


# ---- at a server ----

@pytest.fixture(scope="module")
def keeper(edgeprof, cli, known, shared_folder):
    """A server with a folder, its `store`, to which the sample's files were sent."""
    store = os.path.join(shared_folder, "server-store")
    with Server(edgeprof, os.path.join(shared_folder, "server.db"), "--symbols-store", store) as server:
        server.store = store
        assert cli.run("symbols", "add", "--url", server.url, known.stripped, known.debug).out.count("added") == 2
        assert contents(place(store, known.build_id)) == contents(known.debug), "kept as it is"
        yield server


def test_sent_once_more(cli, keeper, known):
    assert cli.run("symbols", "add", "--url", keeper.url, known.debug).out.startswith("kept ")


def test_list_of_a_server(cli, keeper, known):
    assert json.loads(cli.run("symbols", "list", "--json", "--url", keeper.url).out)["symbols"][0]["build_id"] == known.build_id
    assert cli.run("symbols", "list", "--url", keeper.url).out == cli.run("symbols", "list", "--symbols-store", keeper.store).out


def test_modules_of_a_database(cli, keeper, known):
    """check says which modules of real profiles have no symbols; the server has names from the others."""
    strange = module(4096 + (1 << 20), 4096, 0, b"\xee" * 20, "/device/strange.so")
    body = message(8, 0, origin("svc"), [known.module("/device/app"), strange], nodes([0, 1], [known.frame, 4096 + (1 << 20) + 16]),
                   [profile({1: 3, 2: 1})])
    assert keeper.push(body) == 200
    done = cli.run("symbols", "check", "--db", keeper.db, "--symbols-store", keeper.store)
    rows = [line.split() for line in done.out.splitlines()]
    assert done.returncode == 3
    assert rows[1][:3] == ["75.00%", "DWARF", "/device/app"]
    assert rows[2][:5] == ["25.00%", "no", "symbols", "/device/strange.so", "ee" * 20]
    document = json.loads(cli.run("symbols", "check", "--db", keeper.db, "--json", "--symbols", os.path.dirname(known.debug)).out)
    assert [row["symbols"] for row in document["modules"]] == ["DWARF", "no symbols"]
    assert document["modules"][0]["file"] == known.debug, "and where it found them"
    assert "hot" in cli.run("top", "--url", keeper.url).out


def test_given_out_as_debuginfod_does(keeper, known):
    assert keeper.request("GET", f"/buildid/{known.build_id}/debuginfo") == (200, contents(known.debug))


def test_large_file_is_not_held_in_memory(start_server, shipped, folder, known):
    """300 MiB, most of them zeros."""
    store, size = os.path.join(folder, "store"), 300 << 20
    os.makedirs(os.path.dirname(place(store, known.build_id)))
    shutil.copy(known.debug, place(store, known.build_id))
    os.truncate(place(store, known.build_id), size)
    server = start_server("--symbols-store", store, program=shipped)
    with urllib.request.urlopen(f"{server.url}/buildid/{known.build_id}/debuginfo", timeout=60) as answer:
        head, got = answer.read(os.path.getsize(known.debug)), 0
        while part := answer.read(1 << 20):
            got += len(part)
    assert head == contents(known.debug) and len(head) + got == size
    peak = int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{server.process.pid}/status").read_text())[1])
    assert peak < 100 << 10, f"{peak} kB"


def test_server_that_keeps_none(cli, server, known):
    cli.fails(1, "--symbols-store", "symbols", "add", "--url", server.url, known.debug)
    for method, path in (("GET", "/api/symbols"), ("GET", f"/buildid/{known.build_id}/debuginfo"), ("POST", f"/api/symbols/{known.build_id}")):
        assert server.request(method, path, b"x" if method == "POST" else None)[0] == 404, path


# ---- hostile senders and askers: refused, said why, and no file anywhere but in its place ----

@pytest.fixture
def unchanged(keeper, shared_folder, known):
    before, outside = tree(keeper.store), tree(shared_folder)
    yield
    assert (tree(keeper.store), tree(shared_folder)) == (before, outside), "no file has come or gone"
    assert contents(place(keeper.store, known.build_id)) == contents(known.debug), "and the good one is as it was"
    assert keeper.request("GET", "/healthz")[0] == 200


@pytest.mark.parametrize("name", ["..", "../x", "../../../../tmp/x", "%2e%2e%2f%2e%2e%2fx", "ab/../../x", "ab%2f..%2fcd", "", "a", "abc", "xy" * 20,
                                  "ab" * 33, "ab%00", "ab ", "ab.debug", "-ab", "0xab", "%ff%fe", "ab\\..\\x", "." * 40])
def test_strange_build_id(keeper, unchanged, known, name):
    quoted = name.replace(" ", "%20")
    status, text = keeper.request("POST", "/api/symbols/" + quoted, contents(known.debug))
    assert status in (400, 404), text
    assert keeper.request("GET", "/buildid/" + quoted + "/debuginfo")[0] == 404


def other_build(good, known):
    return good.replace(bytes.fromhex(known.build_id), b"\xab" * 20)


@pytest.mark.parametrize("body", [
    pytest.param(other_build, id="another build id"), pytest.param(lambda good, known: b"no ELF", id="no ELF"),
    pytest.param(lambda good, known: b"", id="nothing"), pytest.param(lambda good, known: good[:len(good) // 2], id="half a file"),
    pytest.param(lambda good, known: b"#!/bin/sh\nrm -rf /\n", id="a script"), pytest.param(lambda good, known: good[:64], id="its head"),
    pytest.param(lambda good, known: good[:64] + os.urandom(4000), id="garbage behind the head")])
def test_strange_file(keeper, unchanged, known, body):
    status, text = keeper.request("POST", "/api/symbols/" + known.build_id, body(contents(known.debug), known))
    assert status == 400, text


def bomb():
    """More than 512 MiB, packed."""
    packer, zeros = zlib.compressobj(1, zlib.DEFLATED, 31), bytes(1 << 20)
    return b"".join([*(packer.compress(zeros) for _ in range(512)), packer.compress(b"\0"), packer.flush()])


def test_strange_senders(keeper, unchanged, known):
    path, good = "/api/symbols/" + known.build_id, contents(known.debug)
    assert keeper.request("POST", "/api/symbols/" + "AB" * 20, good)[0] == 400, "upper case is a build id, but not this one's"
    assert keeper.request("POST", path, good, {"Origin": "http://evil"})[0] == 403, "a web page may not"
    assert keeper.request("POST", path, bomb())[0] == 413


@pytest.mark.parametrize("path", ["/buildid//debuginfo", "/buildid/ID", "/buildid/ID/executable", "/buildid/ID/source/etc/passwd",
                                  "/buildid/ID/debuginfo/../../x", "/buildid/" + "ab" * 20 + "/debuginfo"])
def test_strange_asker(keeper, unchanged, known, path):
    assert keeper.request("GET", path.replace("ID", known.build_id))[0] == 404


# ---- names ----

def addr2line(path, address):
    """[(function, file:line)], innermost first."""
    lines = output("addr2line", "-f", "-i", "-e", path, hex(address)).splitlines()
    return [(lines[i], os.path.basename(lines[i + 1].split(" ")[0])) for i in range(0, len(lines), 2)]


def ours(text):
    """The same of `symbolize`: {address as asked: [(function, file:line)]}"""
    found = {}
    for line in text.splitlines():
        asked, function, where = line.split("\t")
        key = asked or key
        found.setdefault(key, []).append((function, os.path.basename(where)))
    return found


@pytest.fixture(scope="module")
def wanted(known):
    """What addr2line says."""
    outer = known.functions["outer"]
    end = min(address for address in known.functions.values() if address > outer)
    wanted = {hex(address): addr2line(known.path, address) for address in (known.hot, known.hot + 8, *range(outer, end, 3))}
    assert any(len(lines) > 1 for lines in wanted.values()), "some are inlined"
    return wanted


def test_same_as_addr2line(cli, sample, wanted):
    assert ours(cli.run("symbolize", "--module", sample, *wanted).out) == wanted
    text = "".join(f"  {address} \n\n" for address in wanted).encode()
    assert ours(cli.run("symbolize", "--module", sample, data=text).out) == wanted, "from standard input"


def test_names_by_build_id(cli, with_debug, known, wanted):
    assert ours(cli.run("symbolize", "--symbols-store", with_debug, "--build-id", known.build_id.upper(), *wanted).out) == wanted


def test_names_each_with_its_place(cli, known):
    named = cli.run("symbolize", "--symbols", os.path.dirname(known.debug), f"{known.build_id}+{known.hot:#x}", f"{known.path}+{known.hot:x}")
    assert [lines[0][0] for lines in ours(named.out).values()] == ["hot", "hot"]


def test_names_as_json(cli, sample, wanted):
    document = json.loads(cli.run("symbolize", "--json", "--module", sample, *wanted).out)
    assert [(row["asked"], [(frame["function"], os.path.basename(frame["file"]) + f":{frame['line']}") for frame in row["frames"]])
            for row in document] == list(wanted.items())
    assert json.loads(cli.run("symbolize", "--json", "--module", sample, data=b"").out or "[]") == [], "nothing is asked"


NAMED = {"$s3app3hotyS2uF": "$s3app3hotyS2uF", "*Array(Int32)@Enumerable(Int32)#sum:Int32": "*Array(Int32)@Enumerable(Int32)#sum:Int32",
         "~proc(Int32)@./foo.cr:2": "~proc(Int32)@./foo.cr:2", "helper.llvm.1606061386598873185": "helper", "_ZL4growi.part.0": "grow",
         "_D3app3hotFiZi": "app.hot(int)"}


def test_names_of_other_languages(cli, folder):
    """Swift's begin with $, Crystal's have @ inside; compilers mark parts and copies of a function."""
    source, built = os.path.join(folder, "a.c"), os.path.join(folder, "a")
    with open(source, "w", encoding="utf-8") as file:
        file.write("volatile int s;\n" + "".join(f"__attribute__((noinline)) void f{i}(void) {{ s += {i}; }}\n" for i in range(len(NAMED))) +
                   "int main(void) { " + "".join(f"f{i}(); " for i in range(len(NAMED))) + "return 0; }\n")
    subprocess.run(["gcc", "-O1", "-c", source, "-o", built + ".o"], check=True)
    subprocess.run(["objcopy", *(f"--redefine-sym=f{i}={name}" for i, name in enumerate(NAMED)), built + ".o"], check=True)
    subprocess.run(["gcc", built + ".o", "-o", built], check=True)
    table = {name: address for address, _, name in (line.split(" ", 2) for line in subprocess.run(
        ["nm", "--defined-only", built], capture_output=True, text=True, check=True).stdout.splitlines())}
    for name, shown in NAMED.items():
        assert cli.run("symbolize", "--module", built, "0x" + table[name]).out.split("\t")[1].strip() == shown, name


def test_nobody_knows_that_build(cli):
    assert cli.fails(3, "no symbol file", "symbolize", "--build-id", "ee" * 20, "0x1234").out == "0x1234\t?+0x1234\t\n"


# ---- names for files ----

@pytest.fixture(scope="module")
def nameless(known):
    """A pprof with two sample types, labels, a comment, a named location beside nameless ones, as somebody else's profiler
    writes it."""
    strings = ["", "samples", "count", "cpu", "nanoseconds", known.path, known.build_id, "named", "key", "value", "a comment"]
    types = nested(1, number(1, 1) + number(2, 2)) + nested(1, number(1, 3) + number(2, 4))
    samples = (nested(2, data(1, varint(1) + varint(2)) + data(2, varint(3) + varint(300)) + nested(3, number(1, 8) + number(2, 9))) +
               nested(2, data(1, varint(2) + varint(3)) + data(2, varint(1) + varint(100))))
    mapping = nested(3, number(1, 1) + number(2, 0x7f0000000000) + number(3, 0x7f0000100000) + number(5, 5) + number(6, 6))
    locations = (nested(4, number(1, 1) + number(2, 1) + number(3, 0x7f0000000000 + known.hot)) +
                 nested(4, number(1, 2) + number(2, 1) + number(3, 0x7f0000000000 + known.functions["outer"] + 1)) +
                 nested(4, number(1, 3) + nested(4, number(1, 9))))
    functions = nested(5, number(1, 9) + number(2, 7))
    return types + samples + mapping + locations + functions + b"".join(nested(6, text.encode()) for text in strings) + data(13, varint(10))


@pytest.fixture
def after(folder):
    """Where files with names go."""
    return os.path.join(folder, "after.pb.gz")


def written(folder, body):
    path = os.path.join(folder, "before")
    with open(path, "wb") as file:
        file.write(body)
    return path


def raw(path):
    return output("go", "tool", "pprof", "-raw", path)


def test_pprof_gets_names(cli, folder, nameless, after):
    before, again = written(folder, nameless), os.path.join(folder, "again.pb.gz")
    done = cli.run("symbolize", "-o", after, before)
    assert (done.returncode, done.out, done.err) == (0, "", "")
    text, old = raw(after), raw(before)
    assert "hot" in text and "inner" in text and "middle" in text and "named" in text, "inlined ones too"
    assert "hot" not in old
    for part in ("samples/count cpu/nanoseconds", "key:[value]", "a comment"):
        assert part in old and part in text, "it stays"
    values = [line for line in text.splitlines() if re.match(r"\s+\d+\s+\d+:", line)]
    assert [line.split(":")[0].split() for line in values] == [["3", "300"], ["1", "100"]], "both figures of each sample"
    assert cli.run("symbolize", "-o", again, after).returncode == 0
    assert raw(again) == text, "what has names keeps them"


def test_pprof_through_pipes(cli, nameless):
    assert cli.run("symbolize", "-o", "-", "-", data=gzip.compress(nameless)).stdout[:2] == b"\x1f\x8b"


def test_compact_messages_get_names(cli, folder, known, after):
    compact = written(folder, message(8, 0, origin("svc"), [known.module()], nodes([0], [known.frame]), [profile({1: 3})]))
    assert cli.run("symbolize", "-o", after, compact).returncode == 0
    assert "hot" in raw(after)


def test_no_names(cli, folder, known, nameless, after):
    strange = nameless.replace(known.build_id.encode(), b"ee" * 20).replace(known.path.encode(), b"/nowhere/app".ljust(len(known.path), b"x"))
    cli.fails(3, "no symbol file", "symbolize", "-o", after, "-", data=strange)
    cli.fails(1, "message 1", "symbolize", "-o", after, "-", data=b"\xff" * 50)
    cli.fails(1, "-:", "symbolize", "-o", after, "-", data=nameless[:-4])
    cli.fails(1, "/nowhere/x", "symbolize", "-o", "/nowhere/x", written(folder, nameless))


def test_names_of_state_machines_cost_no_search_through_all_symbols(cli, folder):
    """2,000 of 60,000 async methods cost at most five times what one costs, which is to read the file."""
    assembly = "".join(f"App_Shop__Load_d__{i}__MoveNext: .skip 16\n.type App_Shop__Load_d__{i}__MoveNext, %function\n" for i in range(60_000))
    library = os.path.join(folder, "service.so")
    subprocess.run(["gcc", "-shared", "-nostdlib", "-x", "assembler", "-", "-o", library],
                   input=f'.section __managedcode,"ax"\n{assembly}', text=True, check=True)
    addresses = [line.split()[0] for line in output("nm", library).splitlines() if line.endswith("MoveNext")][:2000]

    def cpu(*asked):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = cli.run("symbolize", "--module", library, *asked)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.out.count("App.Shop.Load(async)") == len(asked)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    one = min(cpu(addresses[0]) for _ in range(3))
    assert cpu(*addresses) < 5 * one
