"""Symbol files that break what reads them: a library's fault, for which a preloaded one stands, or the file itself. They cost
their module its names, one line and a count in /metrics; the server and the other modules go on."""
import os
import pathlib
import re
import subprocess
import time

import pytest

from generate import message, module, nodes, origin, profile
from harness import REPOSITORY, wait_until
from sample import contents


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
