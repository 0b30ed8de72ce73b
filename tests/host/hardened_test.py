"""The tool and both shared objects are hardened as docs/security.md says, and a packager's flags count.

The hardening of the files that `make` and `make deb` give to users, read from the files themselves.

tools/build/harden.mk has the options and why a part has no stack protector."""
import functools
import os
import re
import struct
import subprocess

import pytest

from harness import REPOSITORY, clean_environment

pytestmark = pytest.mark.apart

# What -D_FORTIFY_SOURCE replaces in every call; snprintf stays where the compiler sees that the size is right.
REPLACED = {"printf", "fprintf", "vfprintf", "sprintf", "vsprintf", "vprintf"}
# Of the shared objects: who reads what comes from outside.
OUTER = re.compile(r"(^|/)(transport|core/(deliver|encode|environment|features/(spool|pprof|names|notice|token|endpoint|control|pull)|features/\w+(?=/environment\.c))|mbedtls/library|nanopb|gen)/")
ENDBR64 = b"\xf3\x0f\x1e\xfa"
# The start-up code of the C library, which this machine's Debian builds without.
OF_LIBC = {"_start", "_init", "_fini", "_dl_relocate_static_pie"}


@functools.lru_cache(None)
def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True, check=True, env=clean_environment(LC_ALL="C")).stdout


def make(*arguments):
    done = subprocess.run(["make", "-s", "--no-print-directory", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False,
                          env=clean_environment(LC_ALL="C"))
    assert done.returncode == 0, done.stderr
    return done.stdout


def imports(path):
    return {line.split()[7].split("@")[0] for line in readelf("--dyn-syms", path).splitlines() if " UND " in line and " FUNC " in line}


def units(path):
    """{source: options of its compilation}"""
    found = {}
    for unit in readelf("--debug-dump=info", "--dwarf-depth=1", path).split("Compilation Unit @")[1:]:
        producer, name = re.search(r"DW_AT_producer .*: (.*)", unit), re.search(r"DW_AT_name .*: (.*)", unit)
        if producer and name and "GNU C" in producer[1]:  # not of the assembler
            found[name[1].strip()] = producer[1]
    return found


def functions(path, table):
    """{global function: its first four bytes}; code is in the file where it is in memory, but for the segment's shift"""
    data = open(path, "rb").read()
    segments = [(int(a, 16), int(o, 16), int(s, 16)) for o, a, s in
                re.findall(r"LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", readelf("-l", path))]
    found = {}
    for line in readelf(table, path).splitlines():
        words = line.split()
        if len(words) > 7 and words[3] == "FUNC" and words[4] in ("GLOBAL", "WEAK") and words[6].isdigit():
            at = int(words[1], 16)
            base, offset, _ = next(s for s in segments if s[0] <= at < s[0] + s[2])
            found[words[7].split("@")[0]] = data[at - base + offset:][:4]
    return found


@pytest.fixture(scope="module")
def files(build):
    return {"tool": str(build / "edgeprof"), "preload": str(build / "libedgeprof-preload.so"),
            "memory": str(build / "libedgeprof-memory.so"),
            "shared": str(next((build / "install").glob("libedgeprof.so.*")))}


@pytest.fixture(params=["tool", "preload", "memory", "shared"])
def file(request, files):
    return files[request.param]


@pytest.fixture(params=["preload", "memory", "shared"])
def shared(request, files):
    return files[request.param]


def test_memory(file):
    """Position independent; what the loader has filled in is read-only; nothing is writable and executable."""
    header, segments, dynamic = readelf("-h", file), readelf("-l", file), readelf("-d", file)
    assert re.search(r"Type: +DYN", header)
    assert "GNU_RELRO" in segments and re.search(r"FLAGS_1.*NOW", dynamic)
    assert re.search(r"GNU_STACK .* RW +0x", segments)
    assert not re.search(r"LOAD .* RWE ", segments)
    assert not re.search(r"TEXTREL|RPATH|RUNPATH", dynamic)


def test_executable(files):
    assert re.search(r"FLAGS_1.*PIE", readelf("-d", files["tool"]))


def test_tool(files):
    """Each of its files, the generated ones too."""
    bare = [f"{name}: {option}" for name, options in units(files["tool"]).items()
            for option in ("-fstack-protector-strong", "-fstack-clash-protection") if option not in options]
    assert bare == []
    assert "__stack_chk_fail" in imports(files["tool"])


def test_fortified(build, files):
    """Every object of ours; libiberty.a is Debian's."""
    objects = list((build / "tools").rglob("*.o"))
    assert len(objects) > 100
    for object_ in objects:
        wanted = {line.split()[7] for line in readelf("-s", str(object_)).splitlines() if " UND " in line and len(line.split()) > 7}
        assert wanted & REPLACED == set(), object_
    assert {"__vsnprintf_chk", "__fprintf_chk"} <= imports(files["tool"])


def test_level(tmp_path):
    """With gcc 12 a size that is only known when the program runs counts, which is level 3."""
    options = make("print-hardening").split()
    (tmp_path / "probe.c").write_text("#include <stdlib.h>\n#include <string.h>\nchar *copy(size_t n, const char *from, size_t m);\n"
                                      "char *copy(size_t n, const char *from, size_t m) { char *p = malloc(n); return p ? memcpy(p, from, m) : p; }\n")
    subprocess.run(["gcc", "-O2", *options, "-c", "probe.c"], cwd=tmp_path, check=True)
    version = int(subprocess.run(["gcc", "-dumpversion"], capture_output=True, text=True, check=True).stdout.split(".")[0])
    assert ("__memcpy_chk" in readelf("-s", str(tmp_path / "probe.o"))) == (version >= 12)


def test_shared(shared):
    """Whoever reads what comes from outside has a stack protector; nobody else has: the rest runs in signal handlers."""
    compiled = units(shared)
    assert len(compiled) > 60
    wrong = [name for name, options in compiled.items() if ("-fstack-protector-strong" in options) != bool(OUTER.search(name))]
    assert wrong == []
    assert [name for name, options in compiled.items() if "-fstack-clash-protection" not in options] == []
    assert "__stack_chk_fail" in imports(shared)


def test_static(build):
    """The archive has no failure path of a stack protector, nor a checked function."""
    symbols = readelf("-s", str(build / "libedgeprof.a"))
    assert "ep_start" in symbols and not re.search(r" __(?!real_|wrap_)(stack_chk\w*|mem\w+_chk|str\w+_chk|\w*printf_chk)$", symbols, re.M)


def machine():
    return struct.unpack("<H", open("/bin/true", "rb").read(20)[18:])[0]


@pytest.mark.skipif(machine() != 62, reason="x86-64 only")
def test_jumps(files):
    """A function that can be called through a pointer begins with endbr64. The mark in the file needs the C library's objects too."""
    for name, table in (("tool", "-s"), ("preload", "--dyn-syms"), ("shared", "--dyn-syms")):
        begins = functions(files[name], table)
        assert len(begins) > 30, name
        assert [function for function, code in begins.items() if code != ENDBR64 and function not in OF_LIBC] == [], name


def test_jumps_on_arm(build, tmp_path):
    """An object for aarch64 is marked for BTI."""
    subprocess.run(["sh", "-c", "command -v aarch64-linux-gnu-gcc"], check=True, capture_output=True)
    options = [word for word in make("BOARD=qemu-aarch64", "print-hardening-shared").split()]
    (tmp_path / "probe.c").write_text("int probe(void);\nint probe(void) { return 1; }\n")
    subprocess.run(["aarch64-linux-gnu-gcc", *options, "-c", "probe.c"], cwd=tmp_path, check=True)
    assert re.search(r"AArch64 feature: BTI\b", readelf("-n", str(tmp_path / "probe.o")))


def test_packager(tmp_path):
    """A packager's flags come last, so they count; a lower level of _FORTIFY_SOURCE does not."""
    flags = ["CPPFLAGS=-Wdate-time -D_FORTIFY_SOURCE=2", "CFLAGS=-O1 -fno-stack-protector", "LDFLAGS=-Wl,--as-needed"]
    tool, shared = make(*flags, "print-hardening").split(), make(*flags, "print-hardening-shared").split()
    assert tool[-3:] == ["-Wdate-time", "-O1", "-fno-stack-protector"] and "-D_FORTIFY_SOURCE=2" not in tool
    assert "-Wdate-time" in shared and "-O1" not in shared
    assert "-Wl,--as-needed" in make(*flags, "print-hardening-link")


def recipe(*variables, **environment):
    """The commands that compile one source of the archive, of its signal path, and archive it."""
    done = subprocess.run(["make", "-n", "V=1", "BUILD=/nowhere", *variables, "lib"], cwd=REPOSITORY, capture_output=True, text=True,
                          check=False, env=clean_environment(LC_ALL="C", **environment))
    compiled = [line.split() for line in done.stdout.splitlines() if "-c core/sample/ring.c" in line]
    return compiled[0] if compiled else [], done.stdout, done.stderr


def test_recipe():
    """Compiler and flags of a recipe's environment count for the archive, too; what does not is named."""
    command, text, _ = recipe(CC="gcc -DMINE", AR="my-ar", CFLAGS="-O3 -mtune=generic -Wp,-D_FORTIFY_SOURCE=2 -flto", CPPFLAGS="-DYOURS")
    assert command[:2] == ["gcc", "-DMINE"] and "my-ar qcsD" in text
    assert {"-mtune=generic", "-DYOURS"} <= set(command) and not {"-O3", "-flto", "-Werror", "-Wp,-D_FORTIFY_SOURCE=2"} & set(command)
    assert "compiled without -O3 -Wp,-D_FORTIFY_SOURCE=2 -flto" in text
    command, text, _ = recipe()
    assert command[0] == "gcc" and "-Werror" in command and "compiled without" not in text
    assert recipe("BOARD=qemu-armhf", CC="gcc")[2].count("does not compile for arm") == 1
    assert "-D_FORTIFY_SOURCE=2" not in make("CFLAGS=-D_FORTIFY_SOURCE=2", "print-hardening-shared").split()
    assert "/opt/own/lib" in make("-n", "prefix=/opt/own", "install")


def test_package(build):
    """`make deb` passes what dpkg-buildflags says, and packs what that builds."""
    plan = make("-n", "deb-flags")
    # The path of the folder is mapped by edgeprof's own option, which can be quoted.
    environment = {**os.environ, "DEB_BUILD_MAINT_OPTIONS": "reproducible=-fixfilepath"}
    for name in ("CPPFLAGS", "CFLAGS", "LDFLAGS"):
        said = subprocess.run(["dpkg-buildflags", "--get", name], cwd=REPOSITORY, capture_output=True, text=True, check=True, env=environment).stdout.split()
        assert said and all(word in plan for word in said), name
