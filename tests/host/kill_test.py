"""After kill -9 at any moment each acknowledged profile is in the database exactly once.

kill -9 while senders of all kinds send and the server merges what came, again and again: what was acknowledged is there
exactly once, devices go on with their segments, and a backup that is killed leaves what was there. `--rounds N`: as often."""
import os
import signal
import sqlite3
import subprocess
import time

import pytest

from harness import Server, database
from senders import Fleet, wait_for

pytestmark = pytest.mark.all


@pytest.fixture(params=[12, pytest.param(200, marks=pytest.mark.long)])
def kills(request, rounds):
    return rounds or request.param


@pytest.fixture
def program(edgeprof, shipped, kills):
    """As users have it for many rounds: it is faster."""
    return shipped if kills > 12 else edgeprof


def merged(path):
    """Rows that were merged; what the senders tell of is long past."""
    with database(path) as connection:
        return connection.execute("SELECT count(*) FROM profile WHERE level > 0").fetchone()[0]


def sound(path, least=0, alone=False):
    """Whether a database is whole and has as many services; alone: without what may lie beside it."""
    try:
        with database(f"file:{path}?immutable={int(alone)}", uri=True) as connection:
            services = connection.execute("SELECT count(DISTINCT service) FROM origin").fetchone()[0]
            return services >= least and connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    except sqlite3.DatabaseError:
        return False


def killed_in_the_middle(server, fleet, rng):
    """The server dies while all send; not by the clock but when so many messages were acknowledged."""
    wanted = fleet.acknowledged() + rng.randrange(1, 120)

    def wait():
        wait_for(lambda: fleet.acknowledged() >= wanted)
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    fleet.run(server.port, wait)


def test_killed_while_ingesting(program, folder, rng, kills):
    db, fleet = os.path.join(folder, "kill.db"), Fleet()
    for round_ in range(kills):
        with Server(program, db) as server:
            if round_:
                assert fleet.wrong(server) == [], f"round {round_}: what is there is what was acknowledged"
            killed_in_the_middle(server, fleet, rng)
        assert sound(db), f"round {round_}"
    with Server(program, db) as server:
        before = fleet.acknowledged()
        fleet.run(server.port, lambda: wait_for(lambda: all(s.next > 0 for s in fleet.streams) and fleet.acknowledged() > before + 20))
        assert fleet.wrong(server, settled=True) == [], "in the end everything is there exactly once"
    assert merged(db) > 0
    print(f"{fleet.acknowledged()} messages acknowledged, {kills} kills")


def swell(db):
    """Copying is to take longer than starting."""
    with database(db) as connection:
        connection.execute("CREATE TABLE filler AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 15000)"
                           " SELECT randomblob(3000) AS bytes FROM n")


def test_killed_while_copying(program, folder, rng, kills):
    db, copy = os.path.join(folder, "source.db"), os.path.join(folder, "copy.db")
    backup, fleet, finished = [program, "backup", "--db", db, "-o", copy], Fleet(), 0

    def copies():
        nonlocal finished
        for round_ in range(kills):
            process = subprocess.Popen(backup, stderr=subprocess.PIPE)
            try:
                _, errors = process.communicate(timeout=rng.random() * 1.5 * takes)
                assert (process.returncode, errors) == (0, b""), f"backup {round_}"
                finished += 1
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
            assert sound(copy, len(fleet.streams), alone=True), f"after backup {round_}"
    with Server(program, db) as server:
        fleet.run(server.port, lambda: wait_for(lambda: all(s.next > 20 for s in fleet.streams)))
        swell(db)
        begun = time.monotonic()
        subprocess.run(backup, check=True)
        takes = time.monotonic() - begun
        fleet.run(server.port, copies)
        assert fleet.wrong(server) == [], "backups change nothing"
    assert subprocess.run(backup, check=False).returncode == 0, "after the killed ones"
    assert [name for name in os.listdir(folder) if name.startswith("copy.db")] == ["copy.db"], "nothing is left behind"
    with Server(program, copy) as restored:
        assert fleet.wrong(restored) == [], "the copy has everything"
    print(f"backups: {kills - finished} killed, {finished} finished")
