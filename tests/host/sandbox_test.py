"""Code that has broken into the server cannot read, write or start what is not the server's; names and replaced files still work."""
import ctypes
import errno
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from generate import message, nodes, origin, profile
from harness import REPOSITORY, wait_until

LANDLOCK = ctypes.CDLL(None, use_errno=True).syscall(444, None, ctypes.c_size_t(0), 1) >= 2


def status(server, key):
    return int(re.search(rf"^{key}:\s+(\d+)$", pathlib.Path(f"/proc/{server.process.pid}/status").read_text(), re.M)[1])


def metric(server, by):
    return float(re.search(rf'^edgeprof_sandbox{{by="{by}"}} (\S+)$', server.request("GET", "/metrics")[1].decode(), re.M)[1])


def children(server):
    return [int(word) for word in pathlib.Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()]


@pytest.fixture
def outside():
    """A folder that no setting names and that is not for temporary files: the clone may be in one that is."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as path:
        yield pathlib.Path(path)


def test_limits_hold(server):
    line = server.process.stdout.readline()
    assert (status(server, "NoNewPrivs"), status(server, "Seccomp")) == (1, 2)
    assert (metric(server, "landlock"), metric(server, "seccomp")) == (LANDLOCK, 1)
    assert ("files limited to" if LANDLOCK else "landlock: not in this kernel") in line and "seccomp: unused" in line


def test_opener_ends_with_the_server(server):
    opener, = children(server)
    assert pathlib.Path(f"/proc/{opener}/comm").read_text() == "edgeprof-opener\n"
    server.stop(signal.SIGKILL)
    assert wait_until(lambda: not os.path.exists(f"/proc/{opener}") or "State:\tZ" in pathlib.Path(f"/proc/{opener}/status").read_text())


@pytest.mark.parametrize("setting", [False, True], ids=["option", "setting"])
def test_switched_off(start_server, tmp_path, setting):
    config = tmp_path / "edgeprof.conf"
    config.write_text("[serve]\nsandbox = no\n")
    server = start_server(*(("--config", str(config)) if setting else ("--no-sandbox",)))
    assert server.process.stdout.readline() == "edgeprof: sandbox: off\n"
    assert (status(server, "NoNewPrivs"), status(server, "Seccomp"), metric(server, "seccomp")) == (0, 0, 0)


@pytest.fixture(scope="module")
def intruder(tmp_path_factory):
    path = tmp_path_factory.mktemp("intruder") / "try.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", path, REPOSITORY / "tests/host/try_files.c"], check=True)
    return str(path)


@pytest.mark.parametrize("arguments", [(), ("--no-sandbox",)], ids=["limited", "free"])
def test_code_in_the_server(start_server, shipped, intruder, outside, tmp_path, arguments):
    """Nothing of others is readable, writable or started; without the sandbox all of it is."""
    (outside / "secret").write_text("secret")
    output = tmp_path / "output"
    server = start_server(*arguments, program=shipped, prefix=(
        "env", f"LD_PRELOAD={intruder}", f"TRY_READ={outside}/secret", f"TRY_WRITE={outside}/new", f"TRY_OUTPUT={output}"))
    server.process.send_signal(signal.SIGUSR1)
    if arguments:
        assert server.process.wait(60) == 0 and (outside / "new").exists()  # it became /bin/true
        return
    found = wait_until(output.read_text).split()
    assert found == [*([str(errno.EACCES)] * 2 if LANDLOCK else ["0", "0"]), str(errno.EPERM)]
    assert (outside / "new").exists() != LANDLOCK
    assert server.request("GET", "/api/services")[0] == 200


@pytest.mark.parametrize("kind, line, seccomp", [("ends", "sandbox: off: ", 0), ("missing", "landlock: not in this kernel; seccomp: unused", 1)])
def test_without_landlock(start_server, shipped, intruder, tmp_path, kind, line, seccomp):
    """A unit of somebody's own, whose SystemCallFilter does not know landlock; an older kernel."""
    server = start_server(program=shipped, prefix=(
        "env", f"LD_PRELOAD={intruder}", f"TRY_FILTER={kind}", "TRY_READ=/", "TRY_WRITE=/", f"TRY_OUTPUT={tmp_path}/output"))
    assert server.process.stdout.readline().startswith("edgeprof: " + line)
    assert server.request("GET", "/api/services")[0] == 200
    assert (metric(server, "landlock"), metric(server, "seccomp")) == (0, seccomp)


@pytest.mark.parametrize("opener", [True, False], ids=["opener", "opener gone"])
def test_names_from_a_program_anywhere(start_server, known, outside, opener):
    """A device names its program, which is in no folder of a setting."""
    program = outside / "app"
    shutil.copy(known.path, program)
    server = start_server()
    if not opener:
        os.kill(children(server)[0], signal.SIGKILL)
    body = message(8, 0, origin("svc"), [known.module(str(program))], nodes([0], [known.frame]), [profile({1: 3})],
                   unix_minus_uptime=(int(time.time()) - 60) * 10**9)
    assert server.push(body) == 200
    assert [function["name"] for function in server.get("/api/profile", service="svc", **{"from": "0"})[1]["top"]] == (["hot"] if opener else [f"app+0x{known.hot:x}"])
    assert server.stderr().count("the process that opens symbol files has ended") == (not opener)
