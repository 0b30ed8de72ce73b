"""Databases of every schema and streams of version 0.1 (golden.py) are read by this version with the same answers; a newer database is refused."""
import json
import os
import pathlib
import subprocess
import tempfile

import golden
import pytest
from golden import version
from harness import Server, clean_environment, database

SCHEMAS = (3, 4, 5, 6, 7)
SAID = json.loads((golden.FOLDER / "answers.json").read_text())
COMMANDS = (("top", "--service", "hours"), ("query", "services"), ("export", "--service", "hours", "-o", "out.folded"), ("backup", "-o", "copy.db"),
            ("serve", "--listen", "127.0.0.1:0"))


@pytest.fixture
def db(folder):
    return os.path.join(folder, "golden.db")


def test_files():
    """What the tests read is small and says something."""
    sizes = {path.name: path.stat().st_size for path in golden.FOLDER.iterdir()}
    assert max(sizes.values()) < 50_000, sizes
    assert set(SAID) == set(golden.questions())
    assert all(answer.get("total") for path, answer in SAID.items() if path.startswith("/api/profile") and "other" not in path and "%222%22" not in path)
    for schema in SCHEMAS:
        assert set(golden.said(schema)[1]) == {path for path, first in (("/metrics", golden.LABELS), ("/api/crashes", golden.CRASHES)) if schema >= first}


def test_none_is_missing(edgeprof, db):
    """The schema that this version writes has its database here, so that later versions are tested with it: golden.py PROGRAM."""
    with Server(edgeprof, db):
        assert version(db) == max(SCHEMAS)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_served(edgeprof, db, schema):
    """Twice: an older schema is upgraded by the first start."""
    golden.unpack(f"schema-{schema}.sqlite.gz", db)
    assert version(db) == schema
    for _ in range(2):
        with Server(edgeprof, db, *golden.OPTIONS) as server:
            assert golden.differences(server, schema) == []
    assert version(db) == max(SCHEMAS)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_goes_on(edgeprof, db, schema):
    """A device whose segment is in the database goes on with it."""
    golden.unpack(f"schema-{schema}.sqlite.gz", db)
    with Server(edgeprof, db, *golden.OPTIONS) as server:
        before = server.total("hours", **{"from": 0})
        body = golden.generate.message(20, 24, profiles=[golden.generate.profile({2: 5}, start=0)], unix_minus_uptime=(golden.START + 5 * golden.HOUR) * golden.SECOND)
        assert server.push(body) == 200
        assert server.total("hours", **{"from": 0}) == before + 5 * 10_000_000


@pytest.mark.parametrize("schema", SCHEMAS)
def test_read_only(cli, schema):
    """Somebody who may not write reads it as it is."""
    with tempfile.TemporaryDirectory() as place:
        db = os.path.join(place, "golden.db")
        golden.unpack(f"schema-{schema}.sqlite.gz", db)
        with database(db) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
        os.chmod(db, 0o444)
        os.chmod(place, 0o555)
        before = pathlib.Path(db).read_bytes()
        as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"] if os.geteuid() == 0 else []
        done = subprocess.run([*as_nobody, cli.program, "query", "profile", "--json", "--db", db, "--service", "kinds", "--kind", "wait"],
                              capture_output=True, text=True, check=False, env=clean_environment())
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["total"] == SAID["/api/profile?service=kinds&from=0&kind=wait"]["total"]
        assert pathlib.Path(db).read_bytes() == before and version(db) == schema
        os.chmod(place, 0o755)


@pytest.mark.parametrize("arguments", COMMANDS[:-1], ids=lambda arguments: arguments[0])
def test_newest_is_taken(cli, db, folder, arguments):
    """By every command, without a word, and none of these writes to it; the server is asked above."""
    golden.unpack(f"schema-{max(SCHEMAS)}.sqlite.gz", db)
    before = pathlib.Path(db).read_bytes()
    done = cli.run(arguments[0], "--db", db, *arguments[1:], cwd=folder)
    assert (done.returncode, done.err) == (0, "")
    assert pathlib.Path(db).read_bytes() == before


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_newer_is_refused(cli, db, folder, arguments):
    """In one line, and nothing is written: neither to the database nor beside it."""
    golden.unpack(f"schema-{max(SCHEMAS)}.sqlite.gz", db)
    newer = 99
    with database(db) as connection:
        connection.execute(f"PRAGMA user_version = {newer}")
    before, files = pathlib.Path(db).read_bytes(), sorted(os.listdir(folder))
    cli.fails(1, f"newer edgeprof (schema {newer})", arguments[0], "--db", db, *arguments[1:], cwd=folder)
    assert pathlib.Path(db).read_bytes() == before and sorted(os.listdir(folder)) == files


def test_newer_leaves_an_older_backup(cli, db, folder):
    """Also a database that is in use, whose newer schema is in its log only."""
    copy = os.path.join(folder, "copy.db")
    golden.unpack(f"schema-{max(SCHEMAS)}.sqlite.gz", db)
    cli.run("backup", "--db", db, "-o", copy)
    kept = pathlib.Path(copy).read_bytes()
    with database(db) as connection:
        connection.execute("PRAGMA user_version = 99")
        cli.fails(1, "newer edgeprof (schema 99)", "backup", "--db", db, "-o", copy)
    assert pathlib.Path(copy).read_bytes() == kept and not [name for name in os.listdir(folder) if ".part" in name]


@pytest.mark.parametrize("stream", golden.STREAMS)
def test_stream(cli, stream):
    """Decodes to the same text."""
    done = cli.run("cat", str(golden.FOLDER / f"{stream}.edgeprof"))
    assert (done.returncode, done.err) == (0, "")
    assert done.out == (golden.FOLDER / f"{stream}.txt").read_text()


@pytest.mark.parametrize("stream", golden.STREAMS)
def test_stream_is_taken(edgeprof, db, stream):
    """And the server has what the text says."""
    lines = (golden.FOLDER / f"{stream}.txt").read_text().splitlines()
    total, kind = 0, ""
    for line in lines:
        words = line.split()
        kind = words[1] if words[0] == "profile" else kind if words[0] == "node" and "value" in words else ""
        total += int(words[words.index("value") + 1]) if kind == "kind=1(cpu)" and words[0] == "node" else 0
    with Server(edgeprof, db, *golden.OPTIONS) as server:
        assert {server.push(message) for message in golden.messages(stream)} == {200}
        assert total > 0 and server.total("device", kind="cpu", **{"from": 0}) == total
