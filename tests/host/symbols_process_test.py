"""A symbol file that crashes, hangs or fills what parses it costs its module the names and nothing else.

Symbol files that break what reads them: a library's fault, for which a preloaded one stands, or the file itself. They cost
their module its names, one line and a count in /metrics; the server and the other modules go on."""
import contextlib
import gzip
import http.client
import os
import pathlib
import re
import socket
import subprocess
import time

import pytest

from generate import gzip_of, message, module, nodes, origin, profile
from harness import REPOSITORY, wait_until
from hostile_costs_test import DEEP, assembled
from sample import contents

pytestmark = pytest.mark.all


@pytest.fixture(scope="module")
def trouble(tmp_path_factory):
    path = tmp_path_factory.mktemp("trouble") / "trouble.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-O1", "-o", path, REPOSITORY / "tests/host/trouble.c", "-ldl"], check=True)
    return str(path)


@pytest.fixture
def start(start_server, shipped, trouble):
    """The program that is shipped, with faults."""
    return lambda *arguments: start_server(*arguments, program=shipped, prefix=("env", f"LD_PRELOAD={trouble}"))


def spoilt(path, known, letter, of=None):
    """A copy of the sample that causes trouble, with a build id of its own."""
    own = b"\xab" * 20
    bytes_ = bytearray(contents(of or known.path).replace(bytes.fromhex(known.build_id), own))
    bytes_[15] = ord(letter)
    path.write_bytes(bytes_)
    return own


def send(server, known, own, path):
    """Samples in the sample, and in another file of the same code."""
    end = module(4096, 1 << 20, known.hot & ~0xfff, own, str(path))
    body = message(8, 0, origin("svc"), [known.module()], nodes([0], [known.frame]), [profile({1: 3})],
                   unix_minus_uptime=(int(time.time()) - 60) * 10**9)
    assert server.push(body) == 200
    other = message(9, 0, origin("broken"), [end], nodes([0], [known.frame]), [profile({1: 3})], unix_minus_uptime=(int(time.time()) - 60) * 10**9)
    assert server.push(other) == 200


def processes(process):
    """It and all that it started."""
    found = [process]
    for child in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split():
        found += processes(int(child))
    return found


def names(server, service):
    return [function["name"] for function in server.get("/api/profile", service=service, **{"from": "0"})[1]["top"]]


def failures(server):
    text = server.request("GET", "/metrics")[1].decode()
    return {how: int(number) for how, number in re.findall(r'^edgeprof_symbol_files_failed_total\{how="(\w+)"\} (\d+)$', text, re.M)}


@pytest.mark.parametrize("letter, how, words", [
    ("c", "crash", "signal"), ("C", "crash", "signal"), ("H", "time", "CPU time"), ("F", "memory", "memory"), ("Q", "crash", "ended"), ("q", "crash", "ended"),
    ("w", "answer", "invalid"), ("W", "answer", "invalid")])
def test_one_module_without_names(start, known, tmp_path, letter, how, words):
    server = start()
    own = spoilt(tmp_path / "app", known, letter)
    send(server, known, own, tmp_path / "app")
    assert names(server, "broken") == [f"app+0x{known.hot:x}"]
    assert names(server, "svc") == ["hot"]
    assert wait_until(lambda: failures(server).get(how) == 1), failures(server)
    assert names(server, "broken") == [f"app+0x{known.hot:x}"], "asked for again"
    lines = [line for line in server.stderr().splitlines() if "symbols: " in line]
    assert len(lines) == 1 and str(tmp_path / "app") in lines[0] and words in lines[0], lines
    assert sum(failures(server).values()) == 1, "it is not read again"


def test_what_parses_may_only_compute(start, known, tmp_path):
    server = start()
    own = spoilt(tmp_path / "app", known, "T")
    send(server, known, own, tmp_path / "app")
    assert names(server, "broken") == ["hot"]
    assert sum(failures(server).values()) == 0, server.stderr()


def test_another_file_takes_its_place(start, known, tmp_path):
    """The debug file beside it breaks, so the module's own symbols are used."""
    (tmp_path / "folder").mkdir()
    spoilt(tmp_path / "folder" / "app.dbg", known, "C", known.debug)
    subprocess.run(["objcopy", "--strip-debug", known.path, tmp_path / "plain"], check=True)
    own = spoilt(tmp_path / "app", known, "-", tmp_path / "plain")
    server = start("--symbols", str(tmp_path / "folder"))
    send(server, known, own, tmp_path / "app")
    assert names(server, "broken") == ["hot"] and failures(server)["crash"] == 1


def test_cut_and_replaced(start, known, tmp_path):
    """A file that is overwritten in place while it is in use."""
    server = start()
    path = tmp_path / "app"
    own = spoilt(path, known, "-")
    send(server, known, own, path)
    assert names(server, "broken") == ["hot"]
    whole = path.read_bytes()
    for bytes_ in (whole[:5000], b""):
        path.write_bytes(bytes_)
        body = message(10 + len(bytes_) % 100, 0, origin("broken"), [module(4096, 1 << 20, known.hot & ~0xfff, own, str(path))],
                       nodes([0], [known.frame + 1 + len(bytes_) % 3]), [profile({1: 3})], unix_minus_uptime=(int(time.time()) - 60) * 10**9)
        assert server.push(body) == 200
        names(server, "broken")
    assert names(server, "svc") == ["hot"] and sum(failures(server).values()) == 0, server.stderr()


def test_nothing_is_left(start, known, tmp_path):
    """Each process ends with its file or with the server, however that ends."""
    server = start()
    send(server, known, spoilt(tmp_path / "app", known, "-"), tmp_path / "app")
    assert names(server, "broken") == ["hot"] and names(server, "svc") == ["hot"]
    opener, = [int(word) for word in pathlib.Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()]
    readers = pathlib.Path(f"/proc/{opener}/task/{opener}/children").read_text().split()
    assert len(readers) == 2
    assert {pathlib.Path(f"/proc/{reader}/comm").read_text() for reader in readers} == {"edgeprof-reader\n"}
    server.stop(9)
    assert wait_until(lambda: not any(os.path.exists(f"/proc/{process}/fd/0") for process in (opener, *readers)))


def test_large_and_compressed(start, known, tmp_path):
    """A file that is mapped, not copied, with compressed sections: libelf writes to its headers."""
    subprocess.run(["objcopy", "--compress-debug-sections=zlib", known.debug, tmp_path / "debug"], check=True)
    own = spoilt(tmp_path / "app", known, "-", tmp_path / "debug")
    os.truncate(tmp_path / "app", 17 << 20)
    server = start()
    send(server, known, own, tmp_path / "app")
    assert names(server, "broken") == ["hot"] and sum(failures(server).values()) == 0, server.stderr()


def test_zip_bomb(start, known, tmp_path):
    """100 KB of debugging information that are 100 MB unpacked: the limit of memory, or libelf, refuses it."""
    zeros = tmp_path / "zeros"
    zeros.touch()
    os.truncate(zeros, 100 << 20)
    subprocess.run(["objcopy", f"--update-section=.debug_info={zeros}", known.debug, tmp_path / "large"], check=True)
    subprocess.run(["objcopy", "--compress-debug-sections=zlib", tmp_path / "large", tmp_path / "bomb"], check=True)
    assert os.path.getsize(tmp_path / "bomb") < 2 << 20
    own = spoilt(tmp_path / "app", known, "-", tmp_path / "bomb")
    server, peaks = start(), [0]
    send(server, known, own, tmp_path / "app")
    assert names(server, "broken")[0] in ("hot", f"app+0x{known.hot:x}") and names(server, "svc") == ["hot"]
    for process in processes(server.process.pid):
        peaks.append(int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{process}/status").read_text())[1]) >> 10)
    assert sum(peaks) < 256, peaks


def test_blocks_in_blocks(keeper, known, tmp_path):
    """libdw goes down into blocks by recursion, so those of this file need more stack than there is."""
    ident = "ad" * 20
    elf = assembled(tmp_path, ident, DEEP % (300_000, 300_000))
    assert keeper.request("POST", f"/api/symbols/{ident}", gzip.compress(elf, 1))[0] == 201
    for segment, service, part in ((8, "svc", known.module()), (9, "broken", module(4096, 1 << 16, 4096, bytes.fromhex(ident), "/nowhere/bomb"))):
        frame = known.frame if service == "svc" else 4100
        assert keeper.push(message(segment, 0, origin(service), [part], nodes([0], [frame]), [profile({1: 3})], unix_minus_uptime=(int(time.time()) - 60) * 10**9)) == 200
    assert names(keeper, "broken") == ["bomb+0x1004"] and names(keeper, "svc") == ["hot"]
    assert failures(keeper) == {**failures(keeper), "crash": 1}
    lines = [line for line in keeper.stderr().splitlines() if "symbols: " in line]
    assert len(lines) == 1 and "signal" in lines[0], lines


# ---- uploads ----

MIB = 1 << 20


def peak_mib(server):
    """Of the server alone, not of what parses for it."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{server.process.pid}/status").read_text())[1]) >> 10


def kept(store):
    return [path.name for path in store.rglob("*") if path.is_file()]


@pytest.fixture
def keeper(start_server, shipped, tmp_path):
    return start_server("--symbols-store", str(tmp_path / "store"), program=shipped)


def test_large_upload(keeper, known, tmp_path):
    """A file is received and inflated as it comes, whether it was packed or not."""
    zeros = tmp_path / "zeros"
    zeros.touch()
    os.truncate(zeros, 100 * MIB)
    subprocess.run(["objcopy", f"--add-section=.padding={zeros}", known.debug, tmp_path / "large"], check=True)
    large = contents(tmp_path / "large")
    packed = gzip.compress(large, 1)
    for body, status in ((packed + gzip.compress(b""), 201), (large, 200), (packed, 200)):
        assert keeper.request("POST", "/api/symbols/" + known.build_id, body)[0] == status
    assert contents(tmp_path / "store" / known.build_id[:2] / (known.build_id[2:] + ".debug")) == large
    assert peak_mib(keeper) < 64


def test_upload_that_is_a_zip_bomb(keeper, tmp_path):
    """16 GiB in 16 MiB: the folder has 512 MiB of it at most, and nothing of it in the end."""
    status, text = keeper.request("POST", "/api/symbols/" + "ab" * 20, gzip_of(b"\0" * (16 * MIB), 1000))
    assert (status, text) == (413, b"larger than 536870912 bytes when inflated\n")
    assert kept(tmp_path / "store") == [] and peak_mib(keeper) < 64


def test_upload_that_is_refused_or_cut(keeper, known, tmp_path):
    path, packed = "/api/symbols/" + known.build_id, gzip.compress(contents(known.debug))
    for body, headers, status, words in ((packed[:-10], {}, 400, b"broken gzip data\n"), (packed + b"more", {}, 400, b"broken gzip data\n"), (packed, {"Content-Encoding": "br"}, 415, None),
                                         (b"\x1f", {}, 400, b"not an ELF file\n"), (b"", {}, 400, b"not an ELF file\n"), (b"\x1f\x8b", {}, 400, b"broken gzip data\n")):
        answer = keeper.request("POST", path, body, headers)
        assert answer[0] == status and words in (answer[1], None), answer
        assert kept(tmp_path / "store") == []
    assert keeper.request("POST", "/api/symbols/xyz", packed)[0] == 400
    with contextlib.suppress(OSError, http.client.HTTPException):
        keeper.request("POST", path, iter([b"x" * MIB] * 130), {"Transfer-Encoding": "chunked"})
    assert wait_until(lambda: kept(tmp_path / "store") == []), "more than 128 MiB"
    with socket.create_connection(("127.0.0.1", keeper.port)) as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(packed)}\r\n\r\n".encode() + packed[:-1])
        assert wait_until(lambda: len(kept(tmp_path / "store")) == 1), "what came is in the folder"
    assert wait_until(lambda: kept(tmp_path / "store") == []), "nobody has the rest of it"
    assert keeper.request("POST", path, packed)[0] == 201 and len(kept(tmp_path / "store")) == 1


def test_uploads_have_room_for_two(keeper, tmp_path):
    """A GiB in the folder at the same time; a third sender is told to come again."""
    half = gzip_of(b"\0" * (16 * MIB), 31)[:-10]
    connections = [socket.create_connection(("127.0.0.1", keeper.port)) for _ in range(3)]
    for i, connection in enumerate(connections):
        connection.sendall(f"POST /api/symbols/{f'a{i}' * 20} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(half) + 1}\r\n\r\n".encode() + half)
        assert wait_until(lambda: sum(path.stat().st_size for path in (tmp_path / "store").rglob("*") if path.is_file()) > min(i + 1, 2) * 490 * MIB)
    connections[2].sendall(b"x")
    answer = connections[2].recv(4096)
    assert answer.startswith(b"HTTP/1.1 503 ") and b"too many requests from other senders" in answer, answer
    for connection in connections:
        connection.close()
    assert wait_until(lambda: kept(tmp_path / "store") == [])
    assert peak_mib(keeper) < 64
