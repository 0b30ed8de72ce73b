"""An allocation that fails gives one line and leaves no part of a profile; commands and the server do not crash.

Each allocation of a command or of a server fails once (fail_alloc.c): never a crash, one line, never a part of a profile.
--rounds N: every allocation whose number is a multiple of N of the first; 1: all."""
import http.client
import os
import subprocess

import generate
import pytest
from cli import message_of
from harness import clean_environment, database, Server
from otlp_test import PROTO, binary, named, one

pytestmark = pytest.mark.all

POINTS = 40  # of a command in the default run
WHOLE = {"compact": 60_000_000, "pprof": 7, "otlp": 500}
START, SECOND = 1_700_000_000, 10**9


@pytest.fixture(scope="module")
def library(build):
    return str(build / "tests/tools/fail_alloc.so")


@pytest.fixture(scope="module")
def db(shipped, shared_folder):
    """Two services, one of them over hours and in two versions, the other with labels."""
    with Server(shipped, os.path.join(shared_folder, "oom.db")) as server:
        for number, version in enumerate(("1.0", "1.1")):
            for i in range(24):
                assert server.push(message_of(20 + number, "hours", {2: 3, 3: 4 + number, 6: i + 1}, i, [("version", version)], start=i * 600 * SECOND)) == 200
        profiles = [generate.profile([(1, 0, 2, 300), (2, 1, 5, 700)], quantum=1000, kind=kind) for kind in (1, 2)]
        body = generate.message(30, 0, generate.origin("kinds"), [generate.module(4096, 65536, 0, b"\7" * 20, "[app]")], generate.nodes([0, 1], [4100, 4200]),
                                profiles, tag_sets=[generate.tag_set(1, step="pricing")], contexts=[generate.context(1, span=0xabcdef, thread="worker")])
        assert server.push(body) == 200
    return server.db


@pytest.fixture(scope="module")
def stream(shared_folder):
    """A device's messages, each after its length."""
    path = os.path.join(shared_folder, "stream.edgeprof")
    with open(path, "wb") as file:
        for i in range(4):
            body = message_of(20, "stream", {2: 3, 6: i + 1}, i)
            file.write(len(body).to_bytes(4, "little") + body)
    return path


def failing(library, number, folder, more=1):
    return clean_environment(LD_PRELOAD=library, FAIL_ALLOC=str(number), FAIL_ALLOC_FOR=str(more), FAIL_ALLOC_COUNT=os.path.join(folder, "count"))


def points(count, rounds):
    """Allocations to fail: the first ones, where a program starts, and others at a distance."""
    step = rounds or max(1, count // POINTS)
    return sorted({*range(1, min(count, 6)), *range(1, count + 1, step)})


def counted(folder):
    with open(os.path.join(folder, "count")) as file:
        return int(file.read())


def one_line(errors, what):
    lines = errors.splitlines()
    assert len(lines) <= 1 and all(line.startswith("edgeprof: ") for line in lines), f"{what}: {errors}"


@pytest.mark.parametrize("arguments", [("top", "--service", "hours"), ("export", "--service", "kinds", "--kind", "wait", "-o", "out.pb.gz"), ("query", "services", "--json"),
                                       ("cat",)], ids=lambda arguments: arguments[0])
def test_command(shipped, library, db, stream, folder, rounds, arguments):
    command = [shipped, *arguments, *(["--db", db] if arguments[0] != "cat" else [stream])]

    def run(number):
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120, env=failing(library, number, folder))
    whole = run(0)
    assert whole.returncode == 0
    failed = 0
    for number in points(counted(folder), rounds):
        done = run(number)
        one_line(done.stderr, f"allocation {number}")
        assert done.returncode in (0, 1) and (done.returncode == 0 or done.stderr), f"allocation {number}: {done.returncode} {done.stderr}"
        assert done.returncode or done.stdout == whole.stdout, f"allocation {number}: another answer"
        failed += done.returncode
    assert failed > 3, "some failures are told"


def requests(segment):
    app = generate.module(4096, 65536, 0, b"\7" * 20, "[app]")
    compact = generate.message(segment, 0, generate.origin("compact", [("a", "b")]), [app], generate.nodes([0, 1], [4100, 4200]),
                               [generate.profile({1: 2, 2: 4})], unix_minus_uptime=START * SECOND)
    pprof = generate.pprof_profile([b"", b"cpu", b"nanoseconds", b"main"], [generate.data(1, b"\1") + generate.data(2, generate.varint(7))], ((1, 2),),
                                   [generate.nested(4, generate.number(1, 1) + generate.nested(4, generate.number(1, 1)))], [generate.function_of(1, 3)],
                                   generate.number(9, START * SECOND) + generate.number(10, SECOND))
    return [("compact", "/edgeprof/v1/push", compact, {}), ("pprof", "/ingest?name=pprof&format=pprof", pprof, {}),
            ("otlp", "/v1development/profiles", binary(named("otlp", one(500))), PROTO)]


def send(server):
    """{service: whether it was acknowledged}; a query follows each."""
    kept = {}
    for service, path, body, headers in requests(77):
        try:
            kept[service] = server.request("POST", path, body, headers)[0] == 200
            server.request("GET", f"/api/profile?service={service}&from=0")
        except (OSError, http.client.HTTPException):
            kept.setdefault(service, False)
    return kept


def serve(shipped, db, environment):
    """What was acknowledged, exit code, errors. None: it did not start."""
    try:
        server = Server(shipped, db, prefix=["env", *(f"{name}={value}" for name, value in environment.items() if name.startswith(("FAIL_", "LD_")))])
    except RuntimeError as error:
        return {}, 1, str(error)
    kept = send(server)
    code = server.stop() if server.process.poll() is None else server.process.wait()
    return kept, code, server.stderr()


def test_server(shipped, library, folder, rounds):
    """What was acknowledged is there, whole; what was not is there whole or not at all."""
    def run(number):
        db = os.path.join(folder, f"{number}.db")
        kept, code, errors = serve(shipped, db, failing(library, number, folder))
        assert code in (0, 1), f"allocation {number}: the server ended with {code}: {errors}"
        assert len(errors.splitlines()) <= 3, f"allocation {number}: {errors}"
        with database(db) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)], f"allocation {number}"
        with Server(shipped, db) as again:
            services = {row["service"] for row in again.get("/api/services")[1]["services"]}
            totals = {service: again.total(service, **{"from": 0}) if service in services else 0 for service in WHOLE}
        for service, total in totals.items():
            assert total == WHOLE[service] or (total == 0 and not kept.get(service)), f"allocation {number}: {service}: {total}, {kept}"
        return kept, code
    assert run(0) == (dict.fromkeys(WHOLE, True), 0)
    codes = [run(number)[1] for number in points(counted(folder), rounds)]
    assert 1 in codes, "some failures end the server"
