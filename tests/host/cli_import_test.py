"""`edgeprof import` stores recordings of devices in a server or a database, each message once, and says which it could not."""
import os
import struct

import pytest

from cli import Cli, message_of
from harness import clean_environment

MESSAGES = [message_of(7, "svc", {2: 5, 3: 30}), message_of(7, "svc", {3: 2}, 1), message_of(7, "svc", {2: 1}, 2)]


def record(folder, name, messages, end=b""):
    """A file as the endpoint file:// writes it."""
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(b"".join(struct.pack("<I", len(message)) + message for message in messages) + end)
    return path


@pytest.fixture
def cli(edgeprof):
    return Cli(edgeprof)


def test_server(cli, folder, start_server):
    """A file that has grown is imported again; each message counts once."""
    server = start_server(db=os.path.join(folder, "a.db"))
    first, grown = record(folder, "first", MESSAGES[:1]), record(folder, "grown", MESSAGES)
    assert cli.run("import", first, "--url", server.url).out == f"{first}: 1 messages\n"
    one = server.total("svc")
    done = cli.run("import", grown, first, env=clean_environment(EDGEPROF_URL=server.url))
    assert done.returncode == 0 and done.out == f"{grown}: 3 messages\n{first}: 1 messages\n"
    assert server.total("svc") * 35 == one * 38


def test_database(cli, folder):
    db, path = os.path.join(folder, "b.db"), record(folder, "whole", MESSAGES)
    for _ in range(2):
        assert cli.run("import", path, "--db", db).returncode == 0
    out = [os.path.join(folder, name) for name in ("db.folded", "file.folded")]
    assert cli.run("export", "--db", db, "--service", "svc", "-o", out[0]).returncode == 0
    assert cli.run("export", path, "-o", out[1]).returncode == 0
    texts = [open(name, encoding="utf-8").read() for name in out]
    assert texts[0] == texts[1] != ""


def test_failures(cli, folder, start_server):
    server = start_server(db=os.path.join(folder, "c.db"))
    torn = record(folder, "torn", MESSAGES[:2], struct.pack("<I", 500) + b"half")
    done = cli.fails(0, "truncated within message 3", "import", torn, "--url", server.url)
    assert done.out == f"{torn}: 2 messages\n"
    cli.fails(1, "absent", "import", os.path.join(folder, "absent"), "--url", server.url)
    done = cli.run("import", record(folder, "gap", MESSAGES[:1] + MESSAGES[2:]), "--url", start_server(db=os.path.join(folder, "d.db")).url)
    assert done.returncode == 1 and "message 2 was not stored; the 1 before it were" in done.err
    cli.fails(1, "message 2", "import", record(folder, "gap", MESSAGES[:1] + MESSAGES[2:]), "--db", os.path.join(folder, "e.db"))
    cli.fails(2, "FILE", "import")
    cli.fails(2, "--db", "import", torn, "--db", os.path.join(folder, "f.db"), "--url", server.url)
    cli.fails(3, "no message", "import", record(folder, "empty", []), "--db", os.path.join(folder, "f.db"))
