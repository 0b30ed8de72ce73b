"""Symbol files as distributions and compilers make them: names, inlined calls and lines, or a line that says what is missing."""
import json
import lzma
import os
import re
import shutil
import struct
import subprocess
import time

import pytest

from generate import message, module, nodes, origin, profile
from harness import wait_until
from sample import contents, output, run


def program(known, path, letter, of):
    """A copy of one of the sample's files, with a build id of its own, which is returned."""
    own = letter.encode() * 20
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(contents(of).replace(bytes.fromhex(known.build_id), own))
    return own


def send(server, known, service, own, path):
    body = message(ord(service[0]), 0, origin(service), [module(4096, 1 << 20, known.hot & ~0xfff, own, str(path))], nodes([0], [known.frame]),
                   [profile({1: 3})], unix_minus_uptime=(int(time.time()) - 60) * 10**9)
    assert server.push(body) == 200


def names(server, service):
    return [function["name"] for function in server.get("/api/profile", service=service, **{"from": "0"})[1]["top"]]


# ---- a better file comes later ----

@pytest.mark.all
def test_better_file_comes_later(start_server, shipped, known, tmp_path):
    """In a folder, beside the program, in its place, and by an upload; the first file has no name for the address."""
    table, ways = tmp_path / "table", ("folder", "beside", "replaced", "uploaded")
    subprocess.run(["objcopy", "--strip-debug", known.path, table], check=True)
    (tmp_path / "given").mkdir()
    server = start_server("--symbols", str(tmp_path / "given"), "--symbols-store", str(tmp_path / "store"), program=shipped)
    places = {way: tmp_path / "programs" / way for way in ways}
    ids = {way: program(known, places[way], way[0], known.stripped) for way in ways}
    for way in ways:
        send(server, known, way, ids[way], places[way])
        assert names(server, way) != ["hot"], way
    program(known, tmp_path / "given/any", "f", known.debug)
    program(known, tmp_path / "programs/beside.dbg", "b", table)
    program(known, tmp_path / "new", "r", table)
    os.rename(tmp_path / "new", places["replaced"])
    program(known, tmp_path / "sent", "u", known.debug)
    assert server.request("POST", "/api/symbols/" + ids["uploaded"].hex(), contents(tmp_path / "sent"))[0] == 201
    for way in ways:
        assert wait_until(lambda way=way: names(server, way) == ["hot"], seconds=16, pause=0.5), way


# ---- build ids ----

def without_note_segments(path, to):
    """As Go 1.24 and later link: the build id's note is there, and no segment of notes covers it."""
    image = bytearray(contents(path))
    start, (size, count) = struct.unpack_from("<Q", image, 32)[0], struct.unpack_from("<HH", image, 54)
    for at in range(start, start + size * count, size):
        if struct.unpack_from("<I", image, at)[0] in (4, 0x6474e553):  # PT_NOTE, PT_GNU_PROPERTY
            struct.pack_into("<I", image, at, 0)
    to.write_bytes(image)
    to.chmod(0o755)


@pytest.mark.all
def test_note_outside_segments(cli, shipped, known, tmp_path):
    """The build id is known, so that symbols in a folder are found, too."""
    without_note_segments(known.stripped, tmp_path / "app")
    run(shipped, str(tmp_path / "app"), str(tmp_path / "db"))
    top = cli.run("top", "--db", tmp_path / "db", "--symbols", os.path.dirname(known.debug)).out
    assert "hot" in top and "app+0x" not in top, top


# ---- compressed sections ----

def packed(path, to, form):
    """The debug file, compressed."""
    subprocess.run(["objcopy", f"--compress-debug-sections={form}", path, to], check=True)
    return to


def section(path, name):
    """Where a section is in a file of 64 bits."""
    image = contents(path)
    headers, (size, count, strings) = struct.unpack_from("<Q", image, 40)[0], struct.unpack_from("<HHH", image, 58)
    rows = [struct.unpack_from("<IIQQQQ", image, headers + i * size) for i in range(count)]
    for row in rows:
        at = rows[strings][4] + row[0]
        if image[at:image.index(b"\0", at)] == name.encode():
            return row[4]
    raise KeyError(name)


def change(path, to, *changes):
    """A copy with other bytes: (offset, bytes) ..."""
    image = bytearray(contents(path))
    for at, new in changes:
        image[at:at + len(new)] = new
    to.write_bytes(image)
    return to


def lines(cli, known, *folders):
    """(what `symbolize` says of an address of `hot`, what it says is wrong)"""
    done = cli.run("symbolize", "--build-id", known.build_id, *(word for folder in folders for word in ("--symbols", folder)), hex(known.hot))
    return done.out.rstrip("\n").split("\t")[1:], done.err


def alone(path, folder):
    folder.mkdir()
    shutil.copy(path, folder / "file")
    return folder


@pytest.mark.parametrize("form", ["zlib", "zlib-gnu", "zstd"])
def test_compressed(cli, known, tmp_path, form):
    names, wrong = lines(cli, known, alone(packed(known.debug, tmp_path / "file", form), tmp_path / "folder"))
    assert names[0] == "hot" and "sample.c:" in names[1] and wrong == ""
    assert cli.run("symbols", "add", "--symbols-store", tmp_path / "store", tmp_path / "file").out.endswith("(DWARF)\n")


@pytest.mark.parametrize("form, what, words", [("zstd", "corrupt", "zstd"), ("zlib", "corrupt", "zlib"), ("zstd", "strange", "a way that is not known"),
                                               ("zstd", "bomb", "too large"), ("zlib", "bomb", "too large"), ("zlib-gnu", "bomb", "too large")])
def test_compressed_and_unreadable(cli, known, tmp_path, form, what, words):
    """Its symbol table is used, or a better file of the same build; nobody calls it DWARF."""
    good = packed(known.debug, tmp_path / "good", form)
    at = section(good, ".zdebug_info" if form == "zlib-gnu" else ".debug_info")
    claimed = (at + 4, struct.pack(">Q", 1 << 40)) if form == "zlib-gnu" else (at + 8, struct.pack("<Q", 1 << 40))
    bad = change(good, tmp_path / "bad", {"corrupt": (at + 24, bytes(16)), "strange": (at, b"\x77"), "bomb": claimed}[what])
    names, wrong = lines(cli, known, alone(bad, tmp_path / "bad-alone"))
    assert names == ["hot", ""] and words in wrong and wrong.count("\n") == 1, (names, wrong)
    names, wrong = lines(cli, known, tmp_path / "bad-alone", alone(known.debug, tmp_path / "whole"))
    assert names[0] == "hot" and "sample.c:" in names[1]
    added = cli.run("symbols", "add", "--symbols-store", tmp_path / "store", bad)
    assert added.out.endswith("(symbol table)\n") and words in added.err
    assert cli.run("symbols", "add", "--symbols-store", tmp_path / "store", known.debug).out.startswith("added"), "it is better"


@pytest.mark.all
def test_bomb_at_a_server(start_server, shipped, known, tmp_path):
    """A gigabyte of zeros in some kilobytes: refused by what it says, and nobody takes memory for it."""
    zeros = tmp_path / "zeros"
    zeros.touch()
    os.truncate(zeros, 1 << 30)
    subprocess.run(["objcopy", f"--update-section=.debug_info={zeros}", known.debug, tmp_path / "large"], check=True)
    bomb = packed(tmp_path / "large", tmp_path / "bomb", "zstd")
    own = program(known, tmp_path / "programs/app", "z", bomb)
    server = start_server(program=shipped)
    send(server, known, "svc", own, tmp_path / "programs/app")
    assert names(server, "svc") == ["hot"]
    assert "would be too large when unpacked" in server.stderr()


# ---- a symbol table within the file ----

def with_mini(known, to, more=b""):
    """As Fedora strips: no symbol table, but one in .gnu_debugdata, packed by xz."""
    subprocess.run(["objcopy", "--strip-debug", "--keep-symbol=hot", "--strip-unneeded", "--remove-section=.comment", known.path, f"{to}.mini"], check=True)
    with open(f"{to}.xz", "wb") as file:
        file.write(lzma.compress(contents(f"{to}.mini")) + more)
    subprocess.run(["objcopy", f"--add-section=.gnu_debugdata={to}.xz", known.stripped, to], check=True)
    return to


def test_mini_debug_info(cli, known, tmp_path):
    names, wrong = lines(cli, known, alone(with_mini(known, tmp_path / "app"), tmp_path / "folder"))
    assert (names, wrong) == (["hot", ""], "")
    outer = cli.run("symbolize", "--build-id", known.build_id, "--symbols", tmp_path / "folder", hex(known.functions["outer"])).out
    assert "\touter\t" in outer, "dynamic symbols stay"


@pytest.mark.parametrize("bytes_", [pytest.param(lzma.compress(bytes(1 << 28)), id="bomb"), pytest.param(b"\xfd7zXZ\0" + bytes(100), id="corrupt"),
                                    pytest.param(b"", id="empty"), pytest.param(lzma.compress(b"\x7fELF" + bytes(100)), id="no file")])
def test_bad_mini_debug_info(cli, known, tmp_path, bytes_):
    (tmp_path / "xz").write_bytes(bytes_)
    subprocess.run(["objcopy", f"--add-section=.gnu_debugdata={tmp_path / 'xz'}", known.stripped, tmp_path / "app"], check=True)
    names, _ = lines(cli, known, alone(tmp_path / "app", tmp_path / "folder"))
    assert names == [f"?+{known.hot:#x}", ""]
    outer = cli.run("symbolize", "--build-id", known.build_id, "--symbols", tmp_path / "folder", hex(known.functions["outer"])).out
    assert "\touter\t" in outer


# ---- DWARF of other toolchains ----

FAST = """__attribute__((section(".text.hot"), noinline)) int fast_fn(int a)
{
    return a * 3; /* line 3 */
}
static inline __attribute__((always_inline)) int inlined(int a)
{
    return fast_fn(a) + 7; /* line 7 */
}
__attribute__((section(".text.cold"), noinline)) int slow_fn(int a)
{
    return inlined(a) * 5;
}
int main(int argc, char **argv)
{
    (void)argv;
    return slow_fn(argc);
}
"""


def built(folder, *command, source=FAST, name="app"):
    """{function: address} of a program that the command links from app.c, in its folder."""
    folder.mkdir(exist_ok=True)
    (folder / "app.c").write_text(source)
    subprocess.run(command, check=True, cwd=folder, env=dict(os.environ, CCACHE_DISABLE="1"))  # the folder is in the file
    return {line.split()[2]: int(line.split()[0], 16) for line in output("nm", folder / name).splitlines() if line.split()[-2] in "tT"}


def symbolized(cli, path, *addresses, options=()):
    """[[function, place] ...] of the addresses, innermost first."""
    done = cli.run("symbolize", "--module", path, *options, *map(hex, addresses))
    return [[function, os.path.basename(place)] for _, function, place in (line.split("\t") for line in done.out.splitlines())], done.err


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("form", ["-gdwarf-2 -gstrict-dwarf", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5"])
def test_units_of_each_form(cli, tmp_path, compiler, form):
    """Also where a unit has no range of its own: strict DWARF 2 of code in two sections."""
    functions = built(tmp_path, compiler, "-O2", *form.split(), "app.c", "-o", "app")
    for start in range(functions["fast_fn"], functions["fast_fn"] + 3):
        [[name, place]], wrong = symbolized(cli, tmp_path / "app", start)
        assert (name, place.split(":")[0], wrong) == ("fast_fn", "app.c", "") and 1 <= int(place.split(":")[1]) <= 3
    found = [symbolized(cli, tmp_path / "app", functions["slow_fn"] + at)[0] for at in range(24)]
    assert any(lines[0] == ["inlined", "app.c:7"] and lines[1][0] == "slow_fn" for lines in found), found


# ---- parts of the debugging information in other files ----

DWZ = """static inline __attribute__((always_inline)) unsigned long hot_inline(unsigned long n)
{
    volatile unsigned long sum = 0;
    for (unsigned long i = 0; i < n; i++) { sum += i * i; }
    return sum;
}
struct common { int a, b, c; char name[32]; struct common *next; };
__attribute__((noinline)) unsigned long OUTER(struct common *c) { return hot_inline((unsigned long)c->a) + (unsigned long)c->b; }
int main(int argc, char **argv) { struct common c = {argc, 1, 2, {0}, 0}; (void)argv; return (int)OUTER(&c); }
"""


def dwz(folder, *options):
    """Two programs whose debug files share common.dwz. The address of a line of the inlined function in the first."""
    for name in ("a", "b"):
        functions = built(folder, "gcc", "-O2", "-g", f"-DOUTER=outer_{name}", "app.c", "-o", name, source=DWZ, name=name)
        subprocess.run(["objcopy", "--only-keep-debug", name, f"{name}.debug"], check=True, cwd=folder)
        subprocess.run(["objcopy", "--strip-all", name], check=True, cwd=folder)
        where = functions["outer_a"] if name == "a" else where
    subprocess.run(["dwz", *options, "-m", "common.dwz", "a.debug", "b.debug"], check=True, cwd=folder)
    os.rename(folder / "a.debug", folder / "a.dbg")
    return where + 20


@pytest.mark.parametrize("options", [(), ("-5",)])
def test_dwz(cli, tmp_path, options):
    where = dwz(tmp_path, *options)
    lines_, wrong = symbolized(cli, tmp_path / "a", where)
    assert [line[0] for line in lines_] == ["hot_inline", "outer_a"] and wrong == "", (lines_, wrong)
    assert re.fullmatch("app.c:[345]", lines_[0][1]) and lines_[1][1] == "app.c:8"


def test_dwz_from_debuginfod(cli, start_server, shipped, tmp_path, monkeypatch):
    """The common file is sent to a server, which others ask for it by its build id; nobody has it: one line."""
    where = dwz(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    os.rename(tmp_path / "common.dwz", tmp_path / "elsewhere")
    has = start_server("--symbols-store", str(tmp_path / "store"))
    options = ("--debuginfod", has.url)
    lines_, wrong = symbolized(cli, tmp_path / "a", where, options=options)
    assert lines_ == [["outer_a", "app.c:8"]] and wrong.count("\n") == 1 and "common.dwz" in wrong, (lines_, wrong)
    shutil.rmtree(tmp_path / "cache")
    assert cli.run("symbols", "add", "--url", has.url, tmp_path / "elsewhere").returncode == 0
    lines_, wrong = symbolized(cli, tmp_path / "a", where, options=options)
    assert [line[0] for line in lines_] == ["hot_inline", "outer_a"] and wrong == "", (lines_, wrong)
    shutil.rmtree(tmp_path / "cache")
    asks = start_server(*options, program=shipped)
    build_id = re.search(r"Build ID: (\w+)", output("readelf", "-n", tmp_path / "a"))[1]
    own = module(4096, 1 << 20, where & ~0xfff, bytes.fromhex(build_id), str(tmp_path / "a"))
    assert asks.push(message(8, 0, origin("svc"), [own], nodes([0], [4096 + (where & 0xfff)]), [profile({1: 3})],
                             unix_minus_uptime=(int(time.time()) - 60) * 10**9)) == 200
    assert wait_until(lambda: set(names(asks, "svc")) == {"hot_inline", "outer_a"}, seconds=16, pause=0.2)


@pytest.mark.parametrize("places", ["folder", "store"])
def test_dwz_elsewhere(cli, tmp_path, places):
    """The common file is found by its build id."""
    where = dwz(tmp_path)
    build_id = re.search(r"Build ID: (\w+)", output("readelf", "-n", tmp_path / "common.dwz"))[1]
    options = ("--symbols", tmp_path / "given") if places == "folder" else ("--symbols-store", tmp_path / "given")
    path = tmp_path / "given" / build_id[:2] / (build_id[2:] + ".debug")
    path.parent.mkdir(parents=True)
    os.rename(tmp_path / "common.dwz", path)
    assert [line[0] for line in symbolized(cli, tmp_path / "a", where, options=options)[0]] == ["hot_inline", "outer_a"]


@pytest.mark.parametrize("what", ["missing", "another", "itself", "a cycle", "garbage", "a folder"])
def test_dwz_without_the_common_file(cli, tmp_path, what):
    """No frame without a name: the function's name from the symbol table, and one line that says what is missing."""
    where = dwz(tmp_path)
    common = tmp_path / "common.dwz"
    link = contents(common)
    common.unlink()
    if what == "another":
        common.write_bytes(contents(tmp_path / "b"))
    elif what == "itself":
        shutil.copy(tmp_path / "a.dbg", common)
    elif what == "a cycle":  # with the right build id, and a link of its own back
        (tmp_path / "link").write_bytes(b"a.dbg\0" + bytes.fromhex(re.search(r"Build ID: (\w+)", output("readelf", "-n", tmp_path / "a.dbg"))[1]))
        common.write_bytes(link)
        subprocess.run(["objcopy", f"--add-section=.gnu_debugaltlink={tmp_path / 'link'}", common], check=True)
    elif what == "garbage":
        common.write_bytes(b"\x7fELF" + os.urandom(4000))
    elif what == "a folder":
        common.mkdir()
    lines_, wrong = symbolized(cli, tmp_path / "a", where)
    if what == "a cycle":
        assert [line[0] for line in lines_] == ["hot_inline", "outer_a"]
    else:
        assert lines_ == [["outer_a", "app.c:8"]] and wrong.count("\n") == 1 and "common.dwz" in wrong, (lines_, wrong)


SPLIT = FAST.replace("slow_fn(argc)", "slow_fn(argc) + twice(argc, argv)").replace("int main", """extern int other(int);
static inline __attribute__((always_inline)) int step(int a, char **argv)
{
    if (a > 10 && argv[a]) { a = other(a) + fast_fn(a); }
    return a;
}
int twice(int a, char **argv)
{
    return step(step(a, argv) + 1, argv);
}
int other(int a) { return a + 1; }
int main""")


def split(folder, compiler, form):
    return built(folder, compiler, "-O2", f"-gdwarf-{form}", "-gsplit-dwarf", "-c", "app.c", source=SPLIT, name="app.o") and \
        built(folder, compiler, "-Wl,--build-id", "app.o", "-o", "app", source=SPLIT)


def reference(path, addresses):
    """What LLVM says: [[function, place] ...], innermost first, one after the other."""
    text = subprocess.run(["llvm-symbolizer", f"--obj={path}", "--inlines"], input="".join(f"{at:#x}\n" for at in addresses),
                          capture_output=True, text=True, check=True).stdout
    rows = [line for line in text.splitlines() if line]
    return [[rows[i], os.path.basename(rows[i + 1].rsplit(":", 1)[0]).removesuffix(":0")] for i in range(0, len(rows), 2)]


def places_of(path):
    """Addresses of all functions of app.c."""
    rows = [line.split() for line in output("nm", "-S", path).splitlines()]
    return [at for row in rows if row[-1] in ("fast_fn", "slow_fn", "twice", "main")
            for at in range(int(row[0], 16), int(row[0], 16) + int(row[1], 16), 2)]


def zero_lines(rows):
    return [[name, place.removesuffix(":0")] for name, place in rows]


@pytest.mark.all
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("form", [4, 5])
@pytest.mark.parametrize("kind", ["dwo", "dwp", "zstd", "zlib", "moved"])
def test_split_dwarf(cli, tmp_path, compiler, form, kind):
    if (compiler, form, kind) == ("gcc", 5, "dwp"):
        pytest.skip("no tool here makes it: LLVM 14's never ends, binutils' knows DWARF 4")
    split(tmp_path, compiler, form)
    places, options = places_of(tmp_path / "app"), ()
    wanted = reference(tmp_path / "app", places)
    dwo = tmp_path / "app.dwo"
    if kind == "dwp":
        subprocess.run(["llvm-dwp", "app.dwo", "-o", "app.dwp"], check=True, cwd=tmp_path)
        dwo.unlink()
    elif kind in ("zlib", "zstd"):
        packed(dwo, dwo, kind)
    elif kind == "moved":
        (tmp_path / "given").mkdir()
        os.rename(dwo, tmp_path / "given" / "app.dwo")
        options = ("--symbols", tmp_path / "given")
    got, wrong = symbolized(cli, tmp_path / "app", *places, options=options)
    assert zero_lines(got) == wanted and wrong == ""
    assert any(name == "step" for name, _ in got), "some are inlined"


@pytest.mark.parametrize("what", ["missing", "another", "garbage", "package of garbage", "index of garbage"])
def test_split_dwarf_without_the_other_half(cli, tmp_path, what):
    """Lines are in the program itself; one line says where inlined functions would be."""
    functions, dwo = split(tmp_path, "clang", 5), tmp_path / "app.dwo"
    good = contents(dwo)
    dwo.unlink()
    if what == "another":
        dwo.write_bytes(good)
        old = re.search(r"dwo_id\s*=\s*0x(\w+)|DWO_id = 0x(\w+)", output("llvm-dwarfdump", "--debug-info", dwo))
        own = bytes.fromhex(old[1] or old[2])[::-1]
        dwo.write_bytes(good.replace(own, bytes(8)))
    elif what == "garbage":
        dwo.write_bytes(good[:300] + os.urandom(len(good) - 300))
    elif what == "package of garbage":
        (tmp_path / "app.dwp").write_bytes(b"\x7fELF" + os.urandom(4000))
    elif what == "index of garbage":
        dwo.write_bytes(good)
        subprocess.run(["llvm-dwp", "app.dwo", "-o", "app.dwp"], check=True, cwd=tmp_path)
        dwo.unlink()
        index = section(tmp_path / "app.dwp", ".debug_cu_index")
        change(tmp_path / "app.dwp", tmp_path / "app.dwp", (index + 4, b"\xff" * 12))
    [[name, place]], wrong = symbolized(cli, tmp_path / "app", functions["fast_fn"])
    assert name == "fast_fn" and place.startswith("app.c:"), (name, place)
    assert wrong.count("\n") == 1 and "app.dwo" in wrong and "split DWARF" in wrong, wrong


def test_companions_at_a_server(start_server, shipped, tmp_path):
    """The process that parses the file opens none of them: it gets their bytes."""
    where = {"dwz": dwz(tmp_path / "dwz")}
    split(tmp_path / "split", "clang", 5)
    where["split"] = next(at for at in places_of(tmp_path / "split/app") if reference(tmp_path / "split/app", [at])[0][0] == "step")
    server = start_server(program=shipped)
    for service, path in (("dwz", tmp_path / "dwz/a"), ("split", tmp_path / "split/app")):
        build_id = re.search(r"Build ID: (\w+)", output("readelf", "-n", path))[1]
        own = module(4096, 1 << 20, where[service] & ~0xfff, bytes.fromhex(build_id), str(path))
        body = message(ord(service[0]), 0, origin(service), [own], nodes([0], [4096 + (where[service] & 0xfff)]), [profile({1: 3})],
                       unix_minus_uptime=(int(time.time()) - 60) * 10**9)
        assert server.push(body) == 200
    assert set(names(server, "dwz")) == {"hot_inline", "outer_a"}
    assert {"step", "twice"} <= set(names(server, "split"))


# ---- no build id: a file is the one that ran, or has no names ----

def test_replaced_without_build_id(start_server, shipped, tmp_path):
    """Version 2 names nothing of version 1, whether it came before somebody asked or after, and names its own profile."""
    server = start_server(program=shipped)
    for service in ("before", "after"):
        for version in ("first", "second"):
            built(tmp_path / service, "gcc", "-O2", "-g", "-Wl,--build-id=none", "app.c", "-o", version,
                  source=FAST.replace("fast_fn", f"{version}_version"), name=version)
        os.rename(tmp_path / service / "first", tmp_path / service / "app")

    def push(service, version, name):
        at = built(tmp_path / "again", "gcc", "-O2", "-g", "-Wl,--build-id=none", "app.c", "-o", "x",
                   source=FAST.replace("fast_fn", f"{version}_version"), name="x")[f"{version}_version"]
        body = message(len(name), 0, origin(name), [module(4096, 1 << 20, at & ~0xfff, b"", str(tmp_path / service / "app"))],
                       nodes([0], [4096 + (at & 0xfff)]), [profile({1: 3})], unix_minus_uptime=time.time_ns() - 10**9)  # begins now
        assert server.push(body) == 200

    push("before", "first", "before")
    push("after", "first", "after")
    assert names(server, "after") == ["first_version"]
    for service in ("before", "after"):
        os.rename(tmp_path / service / "second", tmp_path / service / "app")
        assert "second_version" not in names(server, service)
    assert names(server, "before")[0].startswith("app+0x")
    assert "it may be another version" in server.stderr()
    push("after", "second", "second-one")
    assert names(server, "second-one") == ["second_version"]


@pytest.mark.parametrize("first_is_known", [True, False])
def test_replaced_under_a_long_process(start_server, shipped, tmp_path, first_is_known):
    """A process goes on after its file without build id was replaced: version 2 names nothing of its later profiles, also when
    its first profile is not there any more and only its start by the machine's clock tells how old it is."""
    server, at = start_server(program=shipped), {}
    for version in ("first", "second"):
        at = built(tmp_path, "gcc", "-O2", "-g", "-Wl,--build-id=none", "app.c", "-o", version,
                   source=FAST.replace("fast_fn", f"{version}_version"), name=version)[f"{version}_version"]
    os.rename(tmp_path / "first", tmp_path / "app")
    boot = open("/proc/sys/kernel/random/boot_id").read().strip()
    offset = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    began = time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def push(sequence):
        of = origin("long", boot_id=boot, start=began) if sequence == 0 or not first_is_known else None
        body = message(7 + (0 if first_is_known else sequence), sequence if first_is_known else 0, of,
                       [module(4096, 1 << 20, at & ~0xfff, b"", str(tmp_path / "app"))] if of else [],
                       nodes([0], [4096 + (at & 0xfff)]) if of else None,
                       [profile({1: 3}, start=time.clock_gettime_ns(time.CLOCK_BOOTTIME))], unix_minus_uptime=offset)
        assert server.push(body) == 200

    if first_is_known:
        push(0)
        assert names(server, "long") == ["first_version"]
    time.sleep(0.05)  # a file's time is that of the last tick
    os.rename(tmp_path / "second", tmp_path / "app")
    time.sleep(0.05)
    begins = time.time() - 0.02
    push(1)
    later = server.get("/api/profile", service="long", **{"from": f"{begins:.3f}"})[1]
    assert later["total"] > 0 and "second_version" not in json.dumps(later), later
    assert "it may be another version" in server.stderr()


@pytest.mark.all
def test_companion_comes_later(start_server, shipped, tmp_path):
    """The common file of dwz, after somebody has asked."""
    where = dwz(tmp_path)
    os.rename(tmp_path / "common.dwz", tmp_path / "later")
    build_id = re.search(r"Build ID: (\w+)", output("readelf", "-n", tmp_path / "a"))[1]
    server = start_server(program=shipped)
    own = module(4096, 1 << 20, where & ~0xfff, bytes.fromhex(build_id), str(tmp_path / "a"))
    assert server.push(message(8, 0, origin("svc"), [own], nodes([0], [4096 + (where & 0xfff)]), [profile({1: 3})],
                               unix_minus_uptime=(int(time.time()) - 60) * 10**9)) == 200
    assert names(server, "svc") == ["outer_a"]
    time.sleep(1.1)
    os.rename(tmp_path / "later", tmp_path / "common.dwz")
    assert wait_until(lambda: set(names(server, "svc")) == {"hot_inline", "outer_a"}, seconds=16, pause=0.5)
