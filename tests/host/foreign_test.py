"""Profiles of other agents are read as their senders mean them, whatever the way in: units, names, frames to drop, differences."""
import ctypes
import ctypes.util
import gzip
import os
import subprocess
import time
import urllib.parse
import zlib

import pytest

import otlp_test
import wire
from cli import folded
from generate import push_request
from harness import clean_environment
from otlp_test import binary, one, strings, text, tree
from pprof import decode, encode, sums

NOW = int(time.time()) - 100
PROTO = {"Content-Type": "application/proto"}
OTLP = {"Content-Type": "application/x-protobuf"}


@pytest.fixture
def server(shared_server):
    yield shared_server
    assert shared_server.process.poll() is None, shared_server.stderr()


def pprof(types, stacks, period=("cpu", "nanoseconds")):
    return encode(types, [(names, values, {}) for names, values in stacks], period, NOW * 10**9, 10**9)


def push(server, service, body, family="process_cpu"):
    labels = {"__name__": family, "service_name": service}
    return server.request("POST", "/push.v1.PusherService/Push", push_request([labels.items()], gzip.compress(body)), PROTO)


def ingest(server, service, body):
    return server.request("POST", "/ingest?" + urllib.parse.urlencode({"name": service, "format": "pprof"}), body)


def read_file(cli, folder, body, *options):
    """What `cat` shows: (stacks, the command)."""
    path = os.path.join(folder, "sent.pb")
    with open(path, "wb") as file:
        file.write(body)
    done = cli.run("cat", "--folded", *options, path)
    return folded(done.out), done


# ---- units ----

TIMES = {"ns": 1, "nanosecond": 1, "NANOSECONDS": 1, "us": 1000, "μs": 1000, "µs": 1000, "microseconds": 1000, "ms": 10**6, "Milliseconds": 10**6,
         "s": 10**9, "sec": 10**9, "seconds": 10**9, "minutes": 60 * 10**9, "hr": 3600 * 10**9, "hrs": 3600 * 10**9, "hours": 3600 * 10**9}
MEMORY = {"b": 1, "byte": 1, "B": 1, "kB": 1 << 10, "kbytes": 1 << 10, "kilobytes": 1 << 10, "MB": 1 << 20, "megabyte": 1 << 20, "gb": 1 << 30,
          "gigabytes": 1 << 30, "TB": 1 << 40, "tbytes": 1 << 40, "pb": 1 << 50, "petabytes": 1 << 50}


@pytest.mark.parametrize("kind, sample_type, family, units", [("cpu", "cpu", "process_cpu", TIMES), ("wall", "wall", "wall", TIMES),
                                                              ("alloc", "alloc_space", "memory", MEMORY), ("live", "inuse_space", "memory", MEMORY)])
def test_units(server, cli, folder, kind, sample_type, family, units):
    """Each unit that go tool pprof scales, on each way in; also the id of the sender is one to ask for."""
    for i, (unit, factor) in enumerate(units.items()):
        body = pprof([(sample_type, unit)], [(("main", "work"), [7])])
        sent = {"push": push(server, f"push-{kind}-{i}", body, family)[0], "ingest": ingest(server, f"ingest-{kind}-{i}", body)[0],
                "otlp": server.request("POST", "/v1development/profiles", binary(otlp_test.request(
                    one(7, sample=(14, 15), period=(16, 2)), resource=[text("service.name", f"otlp-{kind}-{i}")],
                    string_table=strings(sample_type.encode(), unit.encode(), b"cpu"))), OTLP)[0]}
        for way, status in sent.items():
            assert (status, server.total(f"{way}-{kind}-{i}", kind=kind)) == (200, 7 * factor), f"{way} in {unit}"
        assert read_file(cli, folder, body, "--kind", kind)[0] == {"main;work": 7 * factor}, f"file in {unit}"


def test_units_of_periods(server):
    """Samples that are only counted are worth their period, in any unit; a kind that is not ours has our units, too."""
    for i, (unit, period) in enumerate((("nanoseconds", 10**7), ("microseconds", 10**4), ("ms", 10))):
        made = pprof([("samples", "count")], [(("main",), [3])], ("cpu", unit))
        body = made + b"\x60" + bytes([period & 127 | 128, period >> 7 & 127 | 128, period >> 14 & 127 | 128, period >> 21])
        assert push(server, f"period-{i}", body)[0] == 200
        answer = server.get("/api/profile", service=f"period-{i}")[1]
        assert (answer["total"], answer["period"]) == (30_000_000, 10_000_000), unit
    assert ingest(server, "odd", pprof([("stolen", "milliseconds")], [(("main",), [3])], None))[0] == 200
    answer = server.get("/api/profile", service="odd", kind="stolen")[1]
    assert (answer["total"], answer["unit"]) == (3_000_000, "nanoseconds")
    assert push(server, "large", pprof([("cpu", "hours")], [(("main",), [1 << 50])]))[0] == 400, "more than 63 bits"


# ---- names ----

NAMES = {"_ZN3app5Queue4pushEi": "app::Queue::push", "_ZNSt6vectorIiSaIiEE9push_backERKi": "std::vector<int, std::allocator<int> >::push_back",
         "_RNvCs4fqI2P2rA04_7mycrate4work": "mycrate::work", "_ZN4core3fmt5write17h0123456789abcdefE": "core::fmt::write",
         "_D3std5stdio4File5closeMFNeZv": "std.stdio.File.close()", "$s3app3hotyS2uF": "$s3app3hotyS2uF", "helper.llvm.160606138659": "helper",
         "_ZL6helperi.constprop.0.isra.1": "helper", "table_add.lto_priv.4.cold": "table_add", "*Array(Int32)@Enumerable(Int32)#sum:Int32":
         "*Array(Int32)@Enumerable(Int32)#sum:Int32", "main.main.func1.2": "main.main.func1.2", "spin.part.0 [clone .cold]": "spin"}


def test_names(server, cli, folder):
    """C++, Rust and D names are readable; parts and copies of a function count as the function."""
    right = sorted({"main", *NAMES.values()})
    body = pprof([("cpu", "nanoseconds")], [(("main", name), [10]) for name in NAMES])
    table = {"string_table": strings(*(name.encode() for name in NAMES)),
             "function_table": [{}, {"name_strindex": 3}, *({"name_strindex": 14 + i} for i in range(len(NAMES)))],
             "location_table": [{}, *({"lines": [{"function_index": 1 + i}]} for i in range(1 + len(NAMES)))],
             "stack_table": [{}, *({"location_indices": [2 + i, 1]} for i in range(len(NAMES)))]}
    message = otlp_test.request(*(one(10, samples=[{"stack_index": 1 + i, "values": [10]}]) for i in range(len(NAMES))), resource=[text("service.name", "named-otlp")],
                      **table)
    lines = "".join(f"main;{name} 1\n" for name in NAMES).encode()
    assert push(server, "named-push", body)[0] == 200
    assert ingest(server, "named-ingest", body)[0] == 200
    assert server.request("POST", "/v1development/profiles", binary(message), OTLP)[0] == 200
    assert server.request("POST", "/ingest?name=named-folded", lines)[0] == 200
    for way in ("push", "ingest", "otlp", "folded"):
        assert sorted(row["name"] for row in server.get("/api/profile", service=f"named-{way}")[1]["top"]) == right, way
    assert sorted({name for stack in read_file(cli, folder, body)[0] for name in stack.split(";")}) == right


# ---- drop_frames, keep_frames ----

def with_frames(body, drop=None, keep=None):
    made = wire.Profile.FromString(body)
    for field, expression in (("drop_frames", drop), ("keep_frames", keep)):
        if expression is not None:
            setattr(made, field, len(made.string_table))
            made.string_table.append(expression)
    return made.SerializeToString()


STACKS = [(("main", "grow", "tc_malloc", "sys_alloc"), [60]), (("main", "fill", "tc_malloc"), [30]), (("main", "work"), [10]),
          (("tc_malloc", "sys_alloc", "main", "late"), [3]), (("tc_malloc", "sys_alloc"), [4]), (("main", "keep_me", "tc_keep", "tc_malloc"), [5]),
          (("main", ("outer", "operator new(unsigned long)", "inner"), "below"), [6]), (("main", ("tc_new", "other"), "deep"), [7]),
          (("main", ("grow", "inlined"), "tc_malloc"), [8]), ((".ppc(int)", "x"), [9]), (("main", "(anonymous namespace)::f(int)", "y"), [11])]


@pytest.mark.parametrize("drop, keep", [
    ("tc_malloc|operator new.*", None), ("tc_.*", "tc_keep"), (r"(tc|sys)_\w+|operator (new|delete)(\[\])?", ""), ("main", None), (".*", None),
    ("tc_mallo", None), (r"ppc|\(anonymous namespace\)::f", None), ("", "tc_malloc"), ("grow", "gr[a-z]+?"), ("(", None), ("tc_malloc", "[")])
def test_dropped_frames(server, cli, folder, drop, keep):
    """As go tool pprof drops them."""
    body = with_frames(pprof([("cpu", "nanoseconds")], STACKS), drop, keep)
    if drop == "(" or keep == "[":
        right = sums(decode(with_frames(body, "", "")), "cpu")  # go refuses the profile for an expression that is none
    else:
        path, out = os.path.join(folder, "dropped.pb"), os.path.join(folder, "out.pb.gz")
        with open(path, "wb") as file:
            file.write(body)
        subprocess.run(["go", "tool", "pprof", "-proto", "-symbolize=demangle=none", f"-output={out}", path], check=True, capture_output=True,
                       env=clean_environment(HOME=folder, PPROF_TMPDIR=folder))
        with open(out, "rb") as file:
            right = sums(decode(file.read()), "cpu")
    wanted = {";".join(stack): value for stack, value in right.items()}
    assert read_file(cli, folder, body)[0] == wanted
    service = f"dropped {drop} {keep}"
    assert push(server, service, body)[0] == 200
    answer = server.get("/api/profile", service=service)[1]
    assert {";".join(stack): value for stack, value in tree(answer).items()} == wanted


def test_expressions_that_never_end(cli, folder):
    """The stacks are whole, and nobody waits."""
    body = pprof([("cpu", "nanoseconds")], [(("main", f"{'a' * 200}{i}"), [1]) for i in range(2000)])
    for expression in ("(a+)+x", "(a*)*(a*)*(a*)*b", "(a|aa)+x", "((a{1,200}){1,200}){1,200}", "(?R)|a", "a" * 20000):
        began = time.monotonic()
        assert len(read_file(cli, folder, with_frames(body, expression))[0]) == 2000, expression[:30]
        assert time.monotonic() - began < 30, expression[:30]


# ---- differences, and what is broken ----

GO_HEAP = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")]


def test_differences(server, cli, folder):
    """Go's heap?seconds=30 and pprof -diff_base: kinds without values below zero are kept, and a line says what is not."""
    body = pprof(GO_HEAP, [(("main", "steady"), [150, 157286400, 1, 1048576]), (("main", "ballast"), [0, 0, -40, -41943040])], ("space", "bytes"))
    for way, (status, answer) in {"push": push(server, "below-push", body, "memory"), "ingest": ingest(server, "below-ingest", body)}.items():
        assert status in (400, 422) and b"below zero, a difference" in answer, way
        assert (server.total(f"below-{way}", kind="alloc"), server.total(f"below-{way}", kind="live")) == (157286400, 0), way
    good = {"__name__": "process_cpu", "service_name": "below-beside"}, [gzip.compress(pprof([("cpu", "nanoseconds")], [(("main",), [7])]))]
    bad = {"__name__": "memory", "service_name": "below-beside"}, [gzip.compress(body)]
    status, answer = server.request("POST", "/push.v1.PusherService/Push", b"".join(push_request([labels.items()], *made) for labels, made in (bad, good, bad)),
                                    PROTO)
    assert status == 400 and b"series 1 of below-beside" in answer and server.total("below-beside") == 7, "another series of the request"
    stacks, done = read_file(cli, folder, body, "--kind", "alloc")
    assert stacks == {"main;steady": 157286400} and "below zero" in done.err and done.returncode == 0
    shown = cli.run("cat", os.path.join(folder, "sent.pb"))
    assert shown.returncode == 0 and "kind=alloc unit=bytes total=157286400" in shown.out and "kind=live unit=bytes left out" in shown.out
    only = pprof([("cpu", "nanoseconds")], [(("main",), [7]), (("main", "less"), [-3])])
    assert read_file(cli, folder, only)[1].returncode == 1 and "below zero" in cli.run("cat", os.path.join(folder, "sent.pb")).err
    for way, (status, answer) in {"push": push(server, "only-push", only), "ingest": ingest(server, "only-ingest", only)}.items():
        assert status in (400, 422) and b"below zero" in answer and server.total(f"only-{way}") in (0, None), way


def broken(change):
    made = wire.Profile.FromString(pprof([("cpu", "nanoseconds")], [(("main", f"f{i}"), [10]) for i in range(3)]))
    change(made.sample[1])
    return made.SerializeToString()


@pytest.mark.parametrize("change", [lambda sample: sample.location_id.append(99), lambda sample: sample.value.append(1), lambda sample: sample.ClearField("value"),
                                    lambda sample: sample.label.add(key=99), lambda sample: sample.label.add(key=1, str=-1)],
                         ids=("location", "values", "no value", "key", "text"))
def test_broken_samples(server, cli, folder, change, request):
    """A sample that is broken costs itself."""
    body, service = broken(change), f"broken {request.node.name}"
    status, answer = push(server, service, body)
    assert status == 400 and b"samples with an invalid reference" in answer
    assert ingest(server, service, body)[0] == 422
    assert server.total(service) == 40, "two of three, twice"
    stacks, done = read_file(cli, folder, body)
    assert stacks == {"main;f0": 10, "main;f2": 10} and "are left out" in done.err
    assert "total=20" in cli.run("cat", os.path.join(folder, "sent.pb")).out


# ---- codings ----

ZSTD = ctypes.CDLL(ctypes.util.find_library("zstd"))
ZSTD.ZSTD_compressBound.restype = ZSTD.ZSTD_compress2.restype = ctypes.c_size_t
ZSTD.ZSTD_compressBound.argtypes = [ctypes.c_size_t]
ZSTD.ZSTD_createCCtx.restype = ctypes.c_void_p
ZSTD.ZSTD_CCtx_setParameter.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
ZSTD.ZSTD_compress2.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]


def zstd(data, window=0, size_known=True):
    made, context = ctypes.create_string_buffer(ZSTD.ZSTD_compressBound(len(data))), ZSTD.ZSTD_createCCtx()
    for parameter, value in ((101, window), (200, int(size_known))):  # ZSTD_c_windowLog, ZSTD_c_contentSizeFlag
        ZSTD.ZSTD_CCtx_setParameter(context, parameter, value)
    size = ZSTD.ZSTD_compress2(context, made, len(made), data, len(data))
    return made.raw[:size]


def raw_deflate(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


CODINGS = {"gzip": ("gzip", gzip.compress), "zstd": ("zstd", zstd), "zstd-frames": ("ZSTD", lambda data: zstd(data[:9]) + zstd(data[9:])),
           "zstd-stream": ("zstd", lambda data: zstd(data, 21, False)), "deflate": ("deflate", zlib.compress), "deflate-raw": ("Deflate", raw_deflate)}


@pytest.mark.parametrize("coding", CODINGS)
def test_codings(server, coding):
    """Each way in takes them, with the limits of gzip; a body that is cut is refused."""
    name, pack = CODINGS[coding]
    body, service = pprof([("cpu", "nanoseconds")], [(("main", "work"), [7])]), f"coded-{coding}"
    ways = {"/push.v1.PusherService/Push": (push_request([{"__name__": "process_cpu", "service_name": service}.items()], body), PROTO),
            f"/ingest?name={service}&format=pprof": (body, {}), f"/ingest?name={service}": (b"main;work 1\n", {}),
            "/v1development/profiles": (binary(otlp_test.named(service, one(7))), OTLP)}
    for path, (sent, headers) in ways.items():
        assert server.request("POST", path, pack(sent), {**headers, "Content-Encoding": name})[0] == 200, path
        status, answer = server.request("POST", path, pack(sent)[:-3], {**headers, "Content-Encoding": name})
        assert status == 400 and name.lower().encode() in answer, f"{path}: cut: {answer}"
    assert server.request("POST", "/v1development/profiles", pack(bytes(40 << 20)), {**OTLP, "Content-Encoding": name})[0] == 413, "a bomb"
    assert server.total(service) == 3 * 7 + 10_000_000


def test_zstd_inside_of_a_push(server):
    labels = {"__name__": "process_cpu", "service_name": "zstd-inside"}
    assert server.request("POST", "/push.v1.PusherService/Push", push_request([labels.items()], zstd(pprof([("cpu", "nanoseconds")], [(("main",), [7])]))),
                          PROTO)[0] == 200
    assert server.total("zstd-inside") == 7
    for log, wanted in ((25, 200), (26, 400)):
        frame = b"\x28\xb5\x2f\xfd\0" + bytes([log - 10 << 3]) + b"\x19\0\0a 1"
        assert server.request("POST", "/ingest?name=zstd-inside", frame, {"Content-Encoding": "zstd"})[0] == wanted, f"a frame that wants 2^{log} bytes"


# ---- folded text, and profiles without times ----

def test_folded_text(server):
    """Decimals count; a bad line costs itself."""
    status, answer = server.request("POST", "/ingest?name=decimals&sampleRate=100", b"main;work 1.5\nmain;other 0.25\nbroken\nmain 2\n")
    assert status == 422 and answer == b"folded text, line 3: expected a;b;c 42; 1 of 4 lines are left out\n"
    assert server.total("decimals") == 37_500_000


def test_no_duration(server, folder):
    """What a sender gave no times for is exported without a duration, and go tool pprof makes no percentages of 1 ns."""
    for service, body in (("timeless-folded", b"main;work 7\n"), ("timeless-pprof", encode([("cpu", "nanoseconds")], [(("main",), [70_000_000], {})]))):
        assert server.request("POST", "/ingest?" + urllib.parse.urlencode({"name": service}), body)[0] == 200
        exported = server.request("GET", "/api/pprof?service=" + service)[1]
        assert wire.Profile.FromString(gzip.decompress(exported)).duration_nanos == 0, service


def test_no_profile_of_the_kind(cli, folder):
    """The line says which kinds the file has."""
    stacks, done = read_file(cli, folder, pprof([("stolen", "milliseconds"), ("alloc_space", "kB")], [(("main",), [7, 8])]), "--kind", "cpu")
    assert (stacks, done.returncode) == ({}, 3) and "contains no profile of this kind; choose with --kind: alloc, stolen" in done.err


def test_sums_beyond_63_bits(server, cli, folder):
    """Profiles that take a sum to 2^63 are left out, so an export has what readers can hold, and nothing below zero."""
    body = pprof([("cpu", "nanoseconds")], [(("main", "work"), [1 << 62]), (("main",), [5])])
    for _ in range(3):
        assert push(server, "huge", body)[0] == 200
    assert server.total("huge") == (1 << 62) + 5
    stacks, done = read_file(cli, folder, gzip.decompress(server.request("GET", "/api/pprof?service=huge")[1]))
    assert done.returncode == 0 and min(stacks.values()) > 0 and sum(stacks.values()) == (1 << 62) + 5
