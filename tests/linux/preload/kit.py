"""What the scripts of this folder share. Standard library only."""
import os
import subprocess
import sys


def fail(text):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {text}")


def output(*command, ok=(0,), **variables):
    """What the command prints; one of `ok` is its exit code. variables: of its environment, beside the script's."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, **variables})
    if done.returncode not in ok:
        fail(f"{command[1:]}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def absent(db):
    """The path of a database, which does not exist any more; its folder does."""
    os.makedirs(os.path.dirname(db), exist_ok=True)
    for path in (db, db + "-wal", db + "-shm"):
        if os.path.exists(path):
            os.remove(path)
    return db


def folded(text):
    """[(frames, root first, value)]"""
    return [(path.split(";"), int(value)) for path, value in (line.rsplit(" ", 1) for line in text.splitlines())]
