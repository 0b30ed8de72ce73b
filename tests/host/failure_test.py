"""A disk that is full, a database that is locked, read-only or damaged: one clear line each, nothing that was
acknowledged is lost, and it works again when the cause is gone. Usage: failure_test.py EDGEPROF"""
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile

from generate import message, module, nodes, origin, profile
from harness import Checks, Server
from senders import Fleet, wait_for

PROGRAM = sys.argv[1]
check = Checks()


def first(segment, service="svc"):
    return message(segment, 0, origin(service), [module(4096, 4096, 0, b"\1" * 20, "/nowhere/app")], nodes([0], [4100]), [profile({1: 1})])


def without_symbols(errors):
    """Lines on standard error but those about symbols."""
    return [line for line in errors.splitlines() if " symbols: " not in line]


def lines_of(server):
    return without_symbols(server.stderr())


def run(arguments, prefix=()):
    """(exit code, lines)"""
    done = subprocess.run([*prefix, *arguments], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, without_symbols(done.stderr)


def says(answer, code, *words):
    lines = answer[1]
    check(answer[0] == code and len(lines) == 1 and lines[0].startswith("edgeprof: ") and all(word in lines[0] for word in words),
          f"exit code {code}, a line with {words}: {answer}")


def filled(path, count=200):
    """A database with something in it, closed."""
    server = Server(PROGRAM, path)
    for segment in range(1, count + 1):
        check.equal(server.push(first(segment, f"svc{segment % 7}")), 200, "filling")
    check.equal(server.stop(), 0, "exit code")


def full_disk(folder):
    """Several senders at a time, so that groups fail."""
    db, fleet = os.path.join(folder, "full.db"), Fleet()
    server = Server(PROGRAM, db, prefix=["prlimit", "--fsize=700000"])
    fleet.run(server.port, lambda: wait_for(lambda: fleet.put_off() > 50))
    lines = lines_of(server)
    check(lines and all(line.startswith(f"edgeprof: database {db}: ") for line in lines), f"clear lines: {lines}")
    check.equal(fleet.wrong(server), [], "what was refused is not there, what was acknowledged is")
    server.stop()
    server = Server(PROGRAM, db)
    before = fleet.acknowledged()
    fleet.run(server.port, lambda: wait_for(lambda: fleet.acknowledged() > before + 100))
    check.equal(fleet.wrong(server), [], "with room again all go on")
    check.equal(server.stop(), 0, "exit code")


def locked(folder):
    db = os.path.join(folder, "locked.db")
    server = Server(PROGRAM, db)
    check.equal(server.push(first(1)), 200, "before")
    other = sqlite3.connect(db, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    check.equal(server.push(first(2)), 503, "while another program writes")
    check.equal(server.get("/api/profile", service="svc")[1]["total"], 10_000_000, "reading goes on")
    other.execute("ROLLBACK")
    check.equal(server.push(first(2)), 200, "afterwards")
    check.equal(server.get("/api/profile", service="svc")[1]["total"], 20_000_000, "once")
    lines = lines_of(server)
    check(len(lines) == 2 and "locked" in lines[0] and "works again" in lines[1], f"two lines: {lines}")
    other.close()
    server.stop()
    other = sqlite3.connect(db, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    says(run([PROGRAM, "serve", "--listen", "127.0.0.1:0", "--db", db]), 1, db, "locked")
    other.close()


def read_only(folder):
    """As a user who may only read."""
    os.chmod(folder, 0o755)
    program, db, copy = (os.path.join(folder, name) for name in ("program", "readonly.db", "sealed/copy.db"))
    shutil.copy(PROGRAM, program)
    filled(db)
    os.mkdir(os.path.dirname(copy))
    check.equal(run([PROGRAM, "backup", "--db", db, "-o", copy]), (0, []), "backup")
    shutil.copy(db, os.path.join(folder, "sealed", "log.db"))
    other = os.path.join(folder, "open")
    os.mkdir(other)
    for path, mode in ((db, 0o444), (copy, 0o444), (os.path.join(folder, "sealed", "log.db"), 0o444), (os.path.join(folder, "sealed"), 0o555), (other, 0o777)):
        os.chmod(path, mode)
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.getuid() == 0 else []
    for path in (db, copy):
        says(run([program, "serve", "--listen", "127.0.0.1:0", "--db", path], prefix), 1, path, "may not write")
    check.equal(run([program, "top", "--db", copy, "--service", "svc1"], prefix), (0, []), "a backup can be read where nothing can be written")
    says(run([program, "top", "--db", os.path.join(folder, "sealed", "log.db"), "--service", "svc1"], prefix), 1, "log.db", "folder")
    check.equal(run([program, "backup", "--db", copy, "-o", os.path.join(other, "copy.db")], prefix), (0, []), "a copy of the copy")
    says(run([program, "backup", "--db", copy, "-o", os.path.join(folder, "sealed", "no.db")], prefix), 1, "no.db")
    os.chmod(os.path.join(folder, "sealed"), 0o755)


def spoil(path, offset, size):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(os.urandom(size))


def damaged(folder):
    whole, db, copy = (os.path.join(folder, name) for name in ("whole.db", "damaged.db", "kept.db"))
    filled(whole)
    check.equal(run([PROGRAM, "backup", "--db", whole, "-o", copy]), (0, []), "backup")
    kept = open(copy, "rb").read()
    shutil.copy(whole, db)
    spoil(db, 0, 100)
    for command in (["serve", "--listen", "127.0.0.1:0", "--db", db], ["top", "--db", db], ["backup", "--db", db, "-o", copy]):
        says(run([PROGRAM, *command]), 1, db, "not a database")
    size = os.path.getsize(whole)
    for what, at, bytes_ in (("the schema", 100, 3900), ("all but the beginning", 4096, size - 4096), ("a part", size // 2, size // 4)):
        shutil.copy(whole, db)
        spoil(db, at, bytes_)
        says(run([PROGRAM, "backup", "--db", db, "-o", copy]), 1, db)
        check.equal(open(copy, "rb").read(), kept, f"{what} is damaged: the older copy stays")
        code, lines = run([PROGRAM, "top", "--db", db, "--service", "svc1"])
        check(code in (0, 1) and len(lines) == code, f"{what} is damaged: {code} {lines}")
    shutil.copy(whole, db)
    spoil(db, 4096, size - 4096)
    try:
        server = Server(PROGRAM, db)
    except RuntimeError as error:
        check(str(error).count("edgeprof:") == 1 and "malformed" in str(error), f"one line: {error}")
    else:
        check.equal(server.push(first(1000)), 503, "a damaged database takes nothing")
        lines = lines_of(server)
        check(len(lines) == 1 and "malformed" in lines[0] and "backup" in lines[0], f"one line: {lines}")
        server.stop()
    check.equal([name for name in os.listdir(folder) if name.startswith("kept.db")], ["kept.db"], "nothing is left behind")


def no_room_for_a_copy(folder):
    db, copy = os.path.join(folder, "source.db"), os.path.join(folder, "small.db")
    filled(db)
    check.equal(run([PROGRAM, "backup", "--db", db, "-o", copy]), (0, []), "backup")
    kept = open(copy, "rb").read()
    says(run([PROGRAM, "backup", "--db", db, "-o", copy], ["prlimit", "--fsize=40000"]), 1, "small.db.part")
    check.equal(open(copy, "rb").read(), kept, "the older copy stays")
    check.equal([name for name in os.listdir(folder) if name.startswith("small.db")], ["small.db"], "nothing is left behind")
    for target, word in ((db, "itself"), (folder, "no file"), (os.path.join(folder, "no", "where.db"), "where.db.part")):
        says(run([PROGRAM, "backup", "--db", db, "-o", target]), 1, target, word)
    server = Server(PROGRAM, copy)
    server.push(first(5000))
    says(run([PROGRAM, "backup", "--db", db, "-o", copy]), 1, copy, "in use")
    server.stop()


def main():
    with tempfile.TemporaryDirectory(prefix="edgeprof-failure-") as folder:
        for test in (full_disk, locked, read_only, damaged, no_room_for_a_copy):
            own = os.path.join(folder, test.__name__)
            os.mkdir(own)
            os.chmod(folder, 0o755)
            test(own)
    check.done("test-tools-failure")


main()
