"""What earlier versions left behind, in tests/host/golden/: databases, streams of devices, and what is said of them.

    tests/host/golden.py PROGRAM      adds the database of the schema that this program writes. It must give the answers
                                      of version 0.1, answers.json. more.json has what that version could not be asked
    tests/host/golden.py PROGRAM all  records the databases and answers of version 0.1 again; for a version's first
                                      release only, since later versions have to give the answers of the earlier one

The streams are of tests/install/example/device.c, statically linked, at two levels; PROGRAM only says what is in them."""
import gzip
import json
import os
import pathlib
import re
import sqlite3
import struct
import subprocess
import sys
import tempfile

import generate
from harness import Server, database, wait_until

FOLDER = pathlib.Path(__file__).parent / "golden"
STREAMS = ("medium", "high")
SECOND, HOUR = 10**9, 3600
START = 1_700_000_000 // HOUR * HOUR
# What came with a schema: labels of counters, crashes.
LABELS, CRASHES = 5, 6
KINDS = {1: "cpu", 2: "wait", 3: "lock", 4: "alloc", 5: "live", 6: "exception", 7: "gc", 8: "thread", 9: "heap"}
# Nothing goes for its age: the fine rows neither, since a timeline of what is left says less exactly when something was.
OPTIONS = ("--config", FOLDER / "keep.conf")


def questions():
    yield from ("/api/services", "/api/devices", "/api/timeline?service=hours&from=0&points=10", "/api/callers?service=hours&function=%5Bapp%5D%2B0x68",
                "/api/profile?service=pushed&from=0", "/api/profile?service=traced&from=0", "/api/timeline?service=device&from=0&points=5",
                f"/api/diff?service=hours&from={START + 2 * HOUR}&to={START + 4 * HOUR}&baseline_from={START}&baseline_to={START + 2 * HOUR}")
    for kind in KINDS.values():
        yield f"/api/profile?service=kinds&from=0&kind={kind}"
    for label in ("step=pricing", "thread=worker", "span_id=0000000000abcdef", "step=other"):
        yield f"/api/profile?service=kinds&from=0&kind=wait&label={label}"
    for version in ("1.0", "1.1", "2"):
        yield f"/api/profile?service=hours%7Bversion%3D%22{version}%22%7D&from=0"
    yield f"/render?query=hours.cpu&from={START}&until={START + 10 * HOUR}"
    yield "/api/profile?service=hours&from=0&group-by=version"


def answers(server):
    """Without the time of the answer. The stream's profile is left to its text: names of the kernel's code are of the machine."""
    found = {path: json.loads(server.request("GET", path)[1]) for path in questions()}
    found["/api/devices"].pop("now")
    return found


def more_answers(server, schema):
    """To what a database of this schema can be asked, and earlier ones could not."""
    found = {}
    if schema >= LABELS:
        lines = server.request("GET", "/metrics")[1].decode().splitlines()
        counters = (re.fullmatch(r'(edgeprof_\w+_total\{.*service="kinds".*\}) (\S+)', line) for line in lines)
        found["/metrics"] = {match[1]: match[2] for match in counters if match}
    if schema >= CRASHES:
        found["/api/crashes"] = json.loads(server.request("GET", "/api/crashes?from=0")[1])
    return found


def missing(said, now, where):
    """Where an answer lacks what was said once. A later version may say more."""
    if isinstance(said, dict) and isinstance(now, dict):
        return [text for key in said for text in (missing(said[key], now[key], f"{where}.{key}") if key in now else [f"{where}.{key} is gone"])]
    if isinstance(said, list) and isinstance(now, list) and len(said) == len(now):
        return [text for i, (one, other) in enumerate(zip(said, now)) for text in missing(one, other, f"{where}[{i}]")]
    return [] if said == now else [f"{where}: {said!r} is {now!r}"]


def said(schema):
    """What a database of this schema answered when it was recorded, and what is only asked of it."""
    more = json.loads((FOLDER / "more.json").read_text()) if (FOLDER / "more.json").exists() else {}
    return json.loads((FOLDER / "answers.json").read_text()), more.get(str(schema), {})


def differences(server, schema):
    return [text for then, now in zip(said(schema), (answers(server), more_answers(server, schema))) for path in then
            for text in missing(then[path], now[path], path)]


def messages(stream):
    """Of a file, each after its length."""
    data, at = (FOLDER / f"{stream}.edgeprof").read_bytes(), 0
    while at < len(data):
        size = struct.unpack_from("<I", data, at)[0]
        yield data[at + 4:at + 4 + size]
        at += 4 + size


def fill(server):
    """Profiles of all kinds with labels; hours that can be merged; a push; OTLP; a device's own stream."""
    app = generate.module(4096, 65536, 0, b"\7" * 20, "[app]")
    rows = [(1, 0, 2, 3), (2, 1, 5, 7)]
    profiles = [generate.profile([(node, context, count if kind not in (1, 6, 8, 9) else 0, value + kind) for node, context, count, value in rows],
                                 start=SECOND, kind=kind, quantum=1000) for kind in KINDS]
    status = [server.push(generate.message(11, 0, generate.origin("kinds", [("zone", "a")]), [app], generate.nodes([0, 1], [4100, 4200]), profiles,
                                           generate.stats(10, 9, losses=((1, 2, 3),)), tag_sets=[generate.tag_set(1, step="pricing")],
                                           contexts=[generate.context(1, span=0xabcdef, trace=(1, 2), thread="worker")], unix_minus_uptime=START * SECOND))]
    for number, version in enumerate(("1.0", "1.1")):
        for i in range(24):
            first = (generate.origin("hours", [("version", version)], host=f"pi-{number}"), [app], generate.nodes([0, 1, 2], [4100, 4200, 4300])) if i == 0 else ()
            status.append(server.push(generate.message(20 + number, i, *first, profiles=[generate.profile({1: 3, 2: 4 + number, 3: i + 1}, start=i * 600 * SECOND)],
                                                       unix_minus_uptime=START * SECOND)))
    pushed = generate.pprof_profile([b"", b"cpu", b"nanoseconds", b"main"], [generate.data(1, b"\1") + generate.data(2, generate.varint(500))], ((1, 2),),
                                    [generate.nested(4, generate.number(1, 1) + generate.nested(4, generate.number(1, 1)))], [generate.function_of(1, 3)],
                                    generate.number(9, START * SECOND) + generate.number(10, SECOND))
    body = generate.push_request([[("__name__", "process_cpu"), ("service_name", "pushed")]], pushed)
    status.append(server.request("POST", "/push.v1.PusherService/Push", body, {"Content-Type": "application/proto"})[0])
    body = generate.pprof_profile([b"", b"cpu", b"nanoseconds", b"main", b"key", b"value"],
                                  [generate.data(1, b"\1") + generate.data(2, generate.varint(500)) + generate.nested(3, generate.number(1, 4) + generate.number(2, 5))],
                                  ((1, 2),), [generate.nested(4, generate.number(1, 1) + generate.nested(4, generate.number(1, 1)))],
                                  [generate.function_of(1, 3)], generate.number(9, START * SECOND) + generate.number(10, SECOND))
    status.append(server.request("POST", "/ingest?name=traced&format=pprof", body)[0])
    status += [server.push(message) for message in messages("medium")]
    assert set(status) == {200}, status


def hours(db):
    with database(db) as connection:
        return connection.execute("SELECT count(*) FROM profile WHERE level = 2").fetchone()[0]


def version(path):
    with database(path) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def fill_more(server, schema):
    """What came with later schemas. The crash is of a process that is there already."""
    if schema >= CRASHES:
        app = generate.module(4096, 65536, 0, b"\7" * 20, "[app]")
        body = generate.message(12, 0, generate.origin("kinds", [("zone", "a")]), [app], generate.nodes([0, 1], [4100, 4200]),
                                crash=generate.crash(((7, "main", 2), (8, "worker", 1)), address=16, boot_id="boot", start=SECOND, end=5 * SECOND,
                                                     unix=START * SECOND), last=True)
        assert server.push(body) == 200


def as_schema_3(path):
    """What version 4 of the schema added, taken away."""
    with database(path) as connection:
        connection.executescript("DROP TABLE rollup; DROP TABLE rolled; DROP TABLE incident; DROP TABLE collect; DROP TABLE mark; DROP TABLE deleted; DROP INDEX series_labels_labels; DROP INDEX labelset_labels;"
                                 "DROP INDEX segment_origin; DROP INDEX span_module; ALTER TABLE series_labels DROP COLUMN pass; PRAGMA user_version = 3")


def pack(path, name):
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE; PRAGMA page_size = 1024; VACUUM; PRAGMA journal_mode = WAL")
    connection.close()
    (FOLDER / name).write_bytes(gzip.compress(pathlib.Path(path).read_bytes(), 9, mtime=0))


def unpack(name, path):
    pathlib.Path(path).write_bytes(gzip.decompress((FOLDER / name).read_bytes()))


def record(program):
    with tempfile.TemporaryDirectory() as folder:
        db = os.path.join(folder, "golden.db")
        with Server(program, db, *OPTIONS) as server:
            fill(server)
            said = answers(server)
        with Server(program, db, *OPTIONS) as server:
            assert wait_until(lambda: hours(db) >= 6), "hours are merged"
            again = answers(server)
        changed = [path for path in said if said[path] != again[path]]
        assert not changed, f"merging changed {changed}"
        pack(db, "schema-4.sqlite.gz")
        as_schema_3(db)
        pack(db, "schema-3.sqlite.gz")
    (FOLDER / "answers.json").write_text(json.dumps(said, sort_keys=True, separators=(",", ":")).replace('},"/', '},\n"/') + "\n")
    for stream in STREAMS:
        text = subprocess.run([program, "cat", FOLDER / f"{stream}.edgeprof"], capture_output=True, text=True, check=True).stdout
        (FOLDER / f"{stream}.txt").write_text(text)


def add(program):
    with tempfile.TemporaryDirectory() as folder:
        db, config = os.path.join(folder, "golden.db"), os.path.join(folder, "golden.conf")
        with Server(program, db, *OPTIONS):
            schema = version(db)
        pathlib.Path(config).write_text((FOLDER / "keep.conf").read_text() + ("[serve]\nmetric-labels = zone\n" if schema >= LABELS else ""))
        with Server(program, db, "--config", config) as server:
            fill(server)
            fill_more(server, schema)
            more = more_answers(server, schema)
        with Server(program, db, *OPTIONS) as server:
            assert wait_until(lambda: hours(db) >= 6), "hours are merged"
            file = FOLDER / "more.json"
            known = json.loads(file.read_text()) if file.exists() else {}
            known = {**known, str(schema): more} if more else known
            file.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
            changed = differences(server, schema)
            assert not changed, changed
        pack(db, f"schema-{schema}.sqlite.gz")


if __name__ == "__main__":
    (record if sys.argv[2:] == ["all"] else add)(os.path.abspath(sys.argv[1]))
