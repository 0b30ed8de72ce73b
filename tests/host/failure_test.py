"""A full disk and a locked, read-only or damaged database give one clear line and lose nothing acknowledged.

A disk that is full, a database that is locked, read-only or damaged: one clear line each, nothing that was
acknowledged is lost, and it works again when the cause is gone."""
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time

import pytest

from generate import message, module, nodes, origin, profile
from harness import Server, database
from sample import contents
from senders import Fleet, wait_for

pytestmark = pytest.mark.all


def first(segment, service="svc", **more):
    return message(segment, 0, origin(service), [module(4096, 4096, 0, b"\1" * 20, "/nowhere/app")], nodes([0], [4100]), [profile({1: 1})], **more)


def without_symbols(errors):
    """Lines on standard error but those about symbols."""
    return [line for line in errors.splitlines() if " symbols: " not in line]


def lines_of(server):
    return without_symbols(server.stderr())


@pytest.fixture
def run(edgeprof):
    """run(argument ..., prefix=(), program=): (exit code, lines)"""
    def start(*arguments, prefix=(), program=edgeprof):
        done = subprocess.run([*prefix, program, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
        return done.returncode, without_symbols(done.stderr)
    return start


def serve(db):
    """The command line of a server."""
    return ["serve", "--listen", "127.0.0.1:0", "--db", db]


def assert_says(answer, code, *words):
    assert answer[0] == code
    assert len(answer[1]) == 1 and answer[1][0].startswith("edgeprof: ")
    assert [word for word in words if word not in answer[1][0]] == [], answer[1]


@pytest.fixture(scope="module")
def whole(edgeprof, shared_folder):
    """A database with something in it, closed."""
    with Server(edgeprof, os.path.join(shared_folder, "whole.db")) as server:
        for segment in range(1, 201):
            assert server.push(first(segment, f"svc{segment % 7}")) == 200
    return server.db


@pytest.fixture
def copy(run, folder, whole):
    """(the path of a backup that is there, its bytes)"""
    path = os.path.join(folder, "copy.db")
    assert run("backup", "--db", whole, "-o", path) == (0, [])
    return path, contents(path)


def assert_kept(copy):
    path, kept = copy
    assert contents(path) == kept, "the older copy stays"
    assert [name for name in os.listdir(os.path.dirname(path)) if name.startswith("copy.db")] == ["copy.db"], "nothing is left behind"


def test_full_disk(start_server):
    """Several senders at a time, so that groups fail."""
    fleet = Fleet()
    server = start_server(prefix=["prlimit", "--fsize=700000"])
    fleet.run(server.port, lambda: wait_for(lambda: fleet.put_off() > 50))
    lines = lines_of(server)
    assert lines and [line for line in lines if not line.startswith(f"edgeprof: database {server.db}: ")] == []
    assert fleet.wrong(server) == [], "what was refused is not there, what was acknowledged is"
    assert server.stop() == 0
    server = start_server()
    before = fleet.acknowledged()
    fleet.run(server.port, lambda: wait_for(lambda: fleet.acknowledged() > before + 100))
    assert fleet.wrong(server) == [], "with room again all go on"


def test_locked(run, server):
    assert server.push(first(1)) == 200
    other = sqlite3.connect(server.db, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert server.push(first(2)) == 503, "while another program writes"
    assert server.get("/api/profile", service="svc")[1]["total"] == 10_000_000, "reading goes on"
    other.execute("ROLLBACK")
    assert server.push(first(2)) == 200, "afterwards"
    assert server.get("/api/profile", service="svc")[1]["total"] == 20_000_000, "once"
    lines = lines_of(server)
    assert len(lines) == 2 and "locked" in lines[0] and "works again" in lines[1]
    other.close()
    assert server.stop() == 0
    other = sqlite3.connect(server.db, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    assert_says(run(*serve(server.db)), 1, server.db, "locked")
    other.close()


@pytest.mark.parametrize("arguments", [("top", "--service", "svc1"), ("query", "services")], ids=lambda arguments: arguments[0])
def test_reading_beside_a_writer(run, whole, arguments):
    """Takes no lock for writing, and writes nothing."""
    before = contents(whole)
    with sqlite3.connect(whole, isolation_level=None) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert run(arguments[0], "--db", whole, *arguments[1:]) == (0, [])
        writer.execute("ROLLBACK")
    writer.close()
    assert contents(whole) == before


# ---- as a user who may only read ----

@pytest.fixture
def open_folder():
    """For every user; pytest's own folders are not."""
    with tempfile.TemporaryDirectory(prefix="edgeprof-failure-") as path:
        os.chmod(path, 0o755)
        yield path


def test_read_only(run, edgeprof, whole, open_folder):
    program, db, sealed, other = (os.path.join(open_folder, name) for name in ("program", "readonly.db", "sealed", "open"))
    copy, log = os.path.join(sealed, "copy.db"), os.path.join(sealed, "log.db")
    shutil.copy(edgeprof, program)
    shutil.copy(whole, db)
    os.mkdir(sealed)
    os.mkdir(other)
    assert run("backup", "--db", db, "-o", copy) == (0, [])
    shutil.copy(db, log)
    for path, mode in ((db, 0o444), (copy, 0o444), (log, 0o444), (sealed, 0o555), (other, 0o777)):
        os.chmod(path, mode)
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.getuid() == 0 else []

    def reader(*arguments):
        return run(*arguments, program=program, prefix=prefix)
    for path in (db, copy):
        assert_says(reader(*serve(path)), 1, path, "no permission to write")
    assert reader("top", "--db", copy, "--service", "svc1") == (0, []), "a backup can be read where nothing can be written"
    assert reader("top", "--db", log, "--service", "svc1") == (0, []), "so can the database of a server that has ended"
    os.chmod(sealed, 0o755)
    with open(log + "-wal", "w", encoding="ascii") as left:
        left.write("of a server that was killed")
    os.chmod(sealed, 0o555)
    assert_says(reader("top", "--db", log, "--service", "svc1"), 1, "log.db", "folder")
    assert reader("backup", "--db", copy, "-o", os.path.join(other, "copy.db")) == (0, []), "a copy of the copy"
    assert_says(reader("backup", "--db", copy, "-o", os.path.join(sealed, "no.db")), 1, "no.db")
    os.chmod(sealed, 0o755)


# ---- of another schema ----

@pytest.fixture(params=[7, 99, 0], ids=["older", "newer", "another program's"])
def other(request, folder, whole):
    """(a database, what names it)"""
    path, number = os.path.join(folder, "other.db"), request.param
    shutil.copy(whole, path)
    with database(path) as connection:
        connection.execute(f"PRAGMA user_version = {number}")
    return path, f"another version of edgeprof (schema {number}," if number else "another program"


@pytest.mark.parametrize("command", ["serve", "top", "query", "backup"])
def test_another_schema(run, other, copy, command):
    """In one line that says what to do, and nothing is written: neither to the database nor beside it."""
    db, word = other
    before = contents(db), sorted(os.listdir(os.path.dirname(db)))
    arguments = {"serve": serve(db), "top": ["top", "--db", db, "--service", "svc1"], "query": ["query", "services", "--db", db],
                 "backup": ["backup", "--db", db, "-o", copy[0]]}[command]
    assert_says(run(*arguments), 1, db, word, "choose another")
    assert (contents(db), sorted(os.listdir(os.path.dirname(db)))) == before
    assert_kept(copy)


# ---- damaged ----

@pytest.fixture
def spoiled(folder, whole, rng):
    """spoiled(offset, size): the path of a database of which so many bytes are garbage"""
    def write(offset, size):
        path = os.path.join(folder, "damaged.db")
        shutil.copy(whole, path)
        with open(path, "r+b") as file:
            file.seek(offset)
            file.write(rng.randbytes(size))
        return path
    return write


@pytest.mark.parametrize("command", ["serve", "top", "backup"])
def test_no_database(run, spoiled, copy, command):
    db = spoiled(0, 100)
    arguments = {"serve": serve(db), "top": ["top", "--db", db], "backup": ["backup", "--db", db, "-o", copy[0]]}[command]
    assert_says(run(*arguments), 1, db, "not a database")
    assert_kept(copy)


@pytest.mark.parametrize("part", [pytest.param(lambda size: (100, 3900), id="the schema"),
                                  pytest.param(lambda size: (4096, size - 4096), id="all but the beginning"),
                                  pytest.param(lambda size: (size // 2, size // 4), id="a part")])
def test_damaged(run, spoiled, whole, copy, part):
    db = spoiled(*part(os.path.getsize(whole)))
    assert_says(run("backup", "--db", db, "-o", copy[0]), 1, db)
    assert_kept(copy)
    code, lines = run("top", "--db", db, "--service", "svc1")
    assert code in (0, 1) and len(lines) == code


def test_copy_of_a_damaged_page(run, spoiled, whole, copy):
    """The finding of SQLite's check, which has a heading of its own line."""
    with sqlite3.connect(whole) as connection:
        page, size = (connection.execute(sql).fetchone()[0] for sql in ("SELECT rootpage FROM sqlite_master WHERE name = 'labels'", "PRAGMA page_size"))
    connection.close()
    db = spoiled(0, 0)
    with open(db, "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\x77")
    assert_says(run("backup", "--db", db, "-o", copy[0]), 1, db, "damaged", f"Page {page}")
    assert_kept(copy)


# What happens to a stored profile, and the reason that `check` gives.
DAMAGES = {"noise": ("update stacks set stacks = x'ff' where profile = ?", "cannot be read"),
           "lost": ("delete from stacks where profile = ?", "its stacks are missing"),
           "figures": ("update profile set value_sum = value_sum + 1 where id = ?", "do not add up")}


@pytest.fixture
def ten(folder, start_server):
    """A database with ten profiles of one service of now, which no server merges yet, and their ids."""
    db = os.path.join(folder, "ten.db")
    with start_server(db=db) as server:
        for n in range(10):
            assert server.push(first(n + 1, unix_minus_uptime=int(time.time()) * 10**9)) == 200
    with sqlite3.connect(db) as connection:
        ids = [row[0] for row in connection.execute("select id from profile where not level order by id")]
    connection.close()
    return db, ids


def change(db, *statements):
    connection = sqlite3.connect(db)
    for statement in statements:
        connection.execute(*statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("damage", ["noise", "lost", "figures"])
def test_damaged_stacks_cost_one_profile(run, folder, start_server, ten, damage):
    db, ids = ten
    bad = ids[len(ids) // 2]
    whole = os.path.join(folder, "whole-ten.db")
    shutil.copy(db, whole)
    assert run("check", whole) == (0, [])
    change(db, (DAMAGES[damage][0], (bad,)))
    damaged = run("top", "--db", db, "--service", "svc")[1]
    assert len(damaged) == 1 and f"profile {bad} is damaged" in damaged[0] and "service svc" in damaged[0]
    answers, lines = [], []  # a server that runs for long merges what can be read
    for path in (whole, db):
        with start_server(db=path) as server:
            answers.append([server.get("/api/profile", service="svc")[1] for _ in range(3)][-1])
            assert server.get("/api/timeline", service="svc", label="thread!=x")[0] == 200
            assert f"edgeprof_damaged_profiles {len(answers) - 1}" in server.request("GET", "/metrics")[1].decode()
        lines = lines_of(server)
    assert [answer["damaged_profiles"] for answer in answers] == [0, 1] and answers[1]["total"] * 10 == answers[0]["total"] * 9
    assert sum("is damaged" in line for line in lines) == 1, f"named once: {lines}"


def test_stacks_that_refer_to_nothing(run, start_server, ten):
    """A node of the dictionary is gone: the profiles with it are left out, the others are shown."""
    db, ids = ten
    change(db, ("delete from node where id = (select max(id) from node)",))
    with start_server(db=db) as server:
        status, answer = server.get("/api/profile", service="svc")
    assert status == 200 and answer["damaged_profiles"] >= 1 and answer["damaged_profiles"] <= 10
    assert all("which is missing" in line for line in lines_of(server) if "is damaged" in line)


def test_check_finds_all(cli, ten):
    db, ids = ten
    assert "10 profiles and sums, none is damaged" in cli.run("check", db).out
    bad = dict(zip(("noise", "lost", "figures"), ids[2:5]))
    change(db, *((DAMAGES[damage][0], (number,)) for damage, number in bad.items()), ("update profile set series = 77 where id = ?", (ids[6],)))
    done = cli.fails(1, "4 damaged, of 10", "check", db)
    for damage, number in bad.items():
        line = next(line for line in done.out.splitlines() if line.startswith(f"profile {number}:"))
        assert DAMAGES[damage][1] in line and "service svc, kind cpu" in line and time.strftime("%Y-", time.gmtime()) in line, line
    assert f"profile {ids[6]}: service ?" in done.out
    cli.fails(1, "does not exist", "check", db + "-none")
    cli.fails(2, "unexpected argument", "check", db, db)


def test_server_of_a_damaged_database(start_server, spoiled, whole):
    db = spoiled(4096, os.path.getsize(whole) - 4096)
    try:
        server = start_server(db=db)
    except RuntimeError as error:
        assert str(error).count("edgeprof:") == 1 and "malformed" in str(error)
    else:
        assert server.push(first(1000)) == 503
        lines = lines_of(server)
        assert len(lines) == 1 and "malformed" in lines[0] and "backup" in lines[0]


# ---- backups ----

def test_no_room_for_a_copy(run, whole, copy):
    assert_says(run("backup", "--db", whole, "-o", copy[0], prefix=["prlimit", "--fsize=40000"]), 1, "copy.db.part")
    assert_kept(copy)


def test_wrong_target_of_a_copy(run, folder, whole):
    for target, word in ((whole, "itself"), (folder, "not a regular file"), (os.path.join(folder, "no", "where.db"), "where.db.part")):
        assert_says(run("backup", "--db", whole, "-o", target), 1, target, word)


def test_a_copy_replaces_copies_alone(run, cli, folder, whole, copy):
    assert "in place of the copy of 20" in cli.run("backup", "--db", whole, "-o", copy[0]).out
    assert "in place" not in cli.run("backup", "--db", whole, "-o", os.path.join(folder, "new.db")).out
    notes = os.path.join(folder, "notes.txt")
    with open(notes, "w") as file:
        file.write("a year's work\n")
    assert_says(run("backup", "--db", whole, "-o", notes), 1, notes, "no database")
    assert contents(notes) == b"a year's work\n"


@pytest.mark.parametrize("ending", ("-wal", "-shm", "-journal"))
@pytest.mark.parametrize("there", (True, False))
def test_a_copy_never_replaces_the_log(run, folder, whole, ending, there):
    """By any name: of the file, through a link to the database, through a link to its folder."""
    os.symlink(whole, os.path.join(folder, "link.db"))
    os.symlink(os.path.dirname(whole), os.path.join(folder, "elsewhere"))
    target = whole + ending
    if there:
        with open(target, "ab"):
            pass
    try:
        for name in (target, os.path.join(folder, "elsewhere", os.path.basename(target))):
            for db in (whole, os.path.join(folder, "link.db")):
                assert_says(run("backup", "--db", db, "-o", name), 1, name, "the database itself, or its log")
        assert os.path.exists(target) == there
    finally:
        if there:
            os.unlink(target)


def test_a_copy_is_as_private_as_its_source(run, whole, copy):
    mode = os.stat(whole).st_mode
    os.chmod(whole, 0o600)
    try:
        assert run("backup", "--db", whole, "-o", copy[0]) == (0, [])
    finally:
        os.chmod(whole, mode)
    assert os.stat(copy[0]).st_mode & 0o777 == 0o600


def test_a_planted_part_is_not_used(run, whole, copy, folder):
    """A second name, or another user's file: who planted it would have what is written into it."""
    planted = copy[0] + ".part"
    with open(planted, "w"):
        os.link(planted, os.path.join(folder, "mine"))
    assert_says(run("backup", "--db", whole, "-o", copy[0]), 1, planted, "another user's")
    assert contents(copy[0]) == copy[1] and contents(planted) == b""


def test_target_of_a_copy_is_in_use(run, whole, copy, start_server):
    server = start_server(db=copy[0])
    assert server.push(first(5000)) == 200
    assert_says(run("backup", "--db", whole, "-o", copy[0]), 1, copy[0], "in use")
