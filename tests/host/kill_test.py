"""kill -9 while senders of all kinds send and the server merges what came, again and again: what was acknowledged is there
exactly once, devices go on with their segments, and a backup that is killed leaves what was there. Usage: kill_test.py EDGEPROF [ROUNDS]"""
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from harness import Checks, Server
from senders import Fleet, wait_for

PROGRAM, ROUNDS = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 12
check = Checks()


def merged(path):
    """Rows that were merged; what the senders tell of is long past."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT count(*) FROM profile WHERE level > 0").fetchone()[0]
    finally:
        connection.close()


def sound(path, least=0, alone=False):
    """Whether a database is whole and has as many services; alone: without what may lie beside it."""
    connection = sqlite3.connect(f"file:{path}?immutable={int(alone)}", uri=True)
    try:
        services = connection.execute("SELECT count(DISTINCT service) FROM origin").fetchone()[0]
        return services >= least and connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    except sqlite3.DatabaseError:
        return False
    finally:
        connection.close()


def killed_in_the_middle(server, fleet, rng):
    """The server dies while all send; not by the clock but when so many messages were acknowledged."""
    wanted = fleet.acknowledged() + rng.randrange(1, 120)

    def wait():
        wait_for(lambda: fleet.acknowledged() >= wanted)
        server.stop(signal.SIGKILL)
    fleet.run(server.port, wait)


def killed_while_ingesting(folder, rng):
    db, fleet = os.path.join(folder, "kill.db"), Fleet()
    for round_ in range(ROUNDS):
        server = Server(PROGRAM, db)
        if round_:
            check.equal(fleet.wrong(server), [], f"round {round_}: what is there is what was acknowledged")
        killed_in_the_middle(server, fleet, rng)
        check(sound(db), f"round {round_}: the database is sound")
    server = Server(PROGRAM, db)
    before = fleet.acknowledged()
    fleet.run(server.port, lambda: wait_for(lambda: all(s.next > 0 for s in fleet.streams) and fleet.acknowledged() > before + 20))
    check.equal(fleet.wrong(server, settled=True), [], "in the end everything is there exactly once")
    check.equal(server.stop(), 0, "exit code")
    check(merged(db) > 0, "some of it is merged")
    return fleet.acknowledged()


def swell(db):
    """Copying is to take longer than starting."""
    connection = sqlite3.connect(db, timeout=60)
    connection.execute("CREATE TABLE filler AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 15000)"
                       " SELECT randomblob(3000) AS bytes FROM n")
    connection.commit()
    connection.close()


def killed_while_copying(folder, rng):
    db, copy = os.path.join(folder, "source.db"), os.path.join(folder, "copy.db")
    server, fleet = Server(PROGRAM, db), Fleet()
    fleet.run(server.port, lambda: wait_for(lambda: all(s.next > 20 for s in fleet.streams)))
    swell(db)
    begun = time.monotonic()
    subprocess.run([PROGRAM, "backup", "--db", db, "-o", copy], check=True)
    takes = time.monotonic() - begun
    killed = finished = 0

    def copies():
        nonlocal killed, finished
        for round_ in range(ROUNDS):
            backup = subprocess.Popen([PROGRAM, "backup", "--db", db, "-o", copy], stderr=subprocess.PIPE)
            try:
                _, errors = backup.communicate(timeout=rng.random() * 1.5 * takes)
                check.equal((backup.returncode, errors), (0, b""), f"backup {round_}")
                finished += 1
            except subprocess.TimeoutExpired:
                backup.kill()
                backup.communicate()
                killed += 1
            check(sound(copy, len(fleet.streams), alone=True), f"after backup {round_} there is a sound copy")
    fleet.run(server.port, copies)
    check.equal(fleet.wrong(server), [], "backups change nothing")
    check.equal(server.stop(), 0, "exit code")
    check.equal(subprocess.run([PROGRAM, "backup", "--db", db, "-o", copy], check=False).returncode, 0, "after the killed ones")
    check.equal([name for name in os.listdir(folder) if name.startswith("copy.db")], ["copy.db"], "nothing is left behind")
    restored = Server(PROGRAM, copy)
    check.equal(fleet.wrong(restored), [], "the copy has everything")
    restored.stop()
    return killed, finished


def main():
    rng = random.Random(int(os.environ.get("SEED", "1")))
    with tempfile.TemporaryDirectory(prefix="edgeprof-kill-") as folder:
        print(f"{killed_while_ingesting(folder, rng)} messages acknowledged, {ROUNDS} kills")
        print("backups: {} killed, {} finished".format(*killed_while_copying(folder, rng)))
    check.done("test-tools-kill")


main()
