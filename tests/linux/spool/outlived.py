#!/usr/bin/python3
"""A process that ends by SIGKILL, a crash, exec or the system call exit_group(), without `edgeprof run`: the next process of the program
has its last interval delivered, by function, linked (LINKED) and preloaded (SUDDEN), and a line says how it ended. A file that is damaged,
of another version or of another user is refused and counted, and that of a process that runs stays.

usage: outlived.py EDGEPROF LINKED PRELOAD SUDDEN WORK"""
import atexit
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import serve

edgeprof, linked, preload, sudden, work = (os.path.abspath(argument) for argument in sys.argv[1:6])
TRIES = 4  # where other programs keep the processors busy, some CPU time is in no sample, however a process ends
LINE = "ended without its last profile"
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
folder = tempfile.mkdtemp(prefix="edgeprof-test-", dir="/dev/shm")  # a tmpfs
count = 0


def fail(text):
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(f"outlived: {text}")


def variables(phase, spool, **more):
    return {**os.environ, "EDGEPROF_OUTLIVE": folder, "EDGEPROF_SPOOL": os.path.join(work, spool), "EDGEPROF_LEVEL": "high",
            "EDGEPROF_INTERVAL": "600000", "EDGEPROF_SERVICE": "graceful", "EDGEPROF_TAGS": f"phase={phase}", **more}


def linked_start(phase, spool, url="http://127.0.0.1:9"):
    run = subprocess.Popen([linked, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables(phase, spool))
    run.stdout.readline()
    return run


def linked_killed(phase, spool, seconds):
    """Is killed after so many seconds of CPU time. What it has used."""
    run = linked_start(phase, spool)
    with open(f"/proc/{run.pid}/schedstat") as clock:
        while int(clock.read().split()[0]) < seconds * 1e9:
            time.sleep(0.02)
            clock.seek(0)
    run.kill()
    used = os.wait4(run.pid, 0)[2]
    run.returncode = -signal.SIGKILL
    return used.ru_utime + used.ru_stime


def linked_end(run):
    run.send_signal(signal.SIGTERM)
    out, err = run.communicate(timeout=120)
    if run.returncode or not out:
        fail(f"the next process: {run.returncode}, {err}")
    return json.loads(out.splitlines()[-1]), err


def next_linked(spool, url):
    run = linked_start("next", spool)
    said = linked_end(run)
    drain(spool, url)
    return said


def drain(spool, url):
    """Delivers what the spool has. Files of another program, which the preload library has left, would be refused."""
    run = subprocess.Popen([linked, url], stdout=subprocess.PIPE, text=True, env={**variables("next", spool), "EDGEPROF_OUTLIVE": ""})
    run.stdout.readline()
    run.send_signal(signal.SIGUSR1)
    if json.loads(run.communicate(timeout=120)[0].splitlines()[-1])["left"]:
        fail("the spool was not delivered")


def top(db, phase):
    """Total, and seconds by function."""
    done = subprocess.run([edgeprof, "top", "--db", db, "--service", "graceful", "--tag", f"phase={phase}", "-n", "1000", "--json"],
                          capture_output=True, text=True)
    rows = json.loads(done.stdout) if done.returncode == 0 else {"total": 0, "top": []}
    return rows["total"] / 1e9, {row["name"]: row["self"] / 1e9 for row in rows["top"]}


def left():
    return sorted(name for name in os.listdir(folder) if name[0].isdigit()) if os.path.exists(folder) else []


def functions(db, phase):
    rows = top(db, phase)[1]
    return rows.get("hot_main", 0) + rows.get("hot_thread", 0)


def usual(db, url, phase):
    """What a process has on this machine now that ends by exit()."""
    preloaded("exit", phase, "spool-exit", url)
    return functions(db, phase)


def both_forms(db, url):
    """Each has at least 95 % of the process's CPU time, or what it has that ends by exit(), less 5."""
    worst = 100.0
    for how in ("linked", "group", "wait", "crash", "exec"):
        for attempt in range(TRIES):
            phase, spool = f"{how}-{attempt}", f"spool-{how}"
            if how == "linked":
                used = linked_killed(phase, spool, 1)
                said, err = next_linked(spool, url)
                seen = top(db, phase)[0]
            else:
                used, err = preloaded(how, phase, spool, url)
                seen = functions(db, phase)
            if LINE not in err or (how == "exec") != ("has called exec" in err):
                fail(f"{how}: no line, or a wrong one: {err!r}")
            if left():
                fail(f"{how}: {left()} is left")
            if 0.95 * used <= seen <= 1.02 * used or (how != "linked" and seen >= usual(db, url, "exit-" + phase) - 0.05 * used):
                break
        else:
            fail(f"{how}: {seen:.3f} s of {used:.3f} s are in the profile")
        worst = min(worst, 100 * seen / used)
    return worst


def preloaded(how, phase, spool, url):
    again = [sudden, "exit", "100", "0"]
    first = [sudden, how, "1000", "2", *(["/usr/bin/env", "EDGEPROF_TAGS=phase=next", *again] if how == "exec" else [])]
    env = variables(phase, spool, LD_PRELOAD=preload, EDGEPROF_ENDPOINT="http://127.0.0.1:9")
    with open(os.path.join(work, "first.err"), "w+") as error:
        run = subprocess.Popen(first, stdout=subprocess.PIPE, stderr=error, text=True, env=env)
        if how == "wait":
            os.kill(int(run.stdout.readline()), signal.SIGKILL)
        run.stdout.read()
        run.wait()
        error.seek(0)
        err = error.read()
    env["EDGEPROF_TAGS"] = "phase=next"
    err += subprocess.run(again, env=env, capture_output=True, text=True, timeout=120).stderr
    drain(spool, url)
    return 1.0, err


def refused(url):
    """What a stranger may find in the folder."""
    linked_killed("good", "spool-bad", 0.5)
    good = os.path.join(folder, left()[0])
    with open(good, "rb") as file:
        image = file.read()
    dice = random.Random(1)

    def put(name, content):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
    elsewhere = os.path.join(tempfile.mkdtemp(dir=folder), "elsewhere")
    shutil.copy(good, elsewhere)
    put("1001-1-0", image[:len(image) // 2])
    put("1002-1-0", b"")
    put("1003-1-0", bytes(len(image)))
    os.symlink(elsewhere, os.path.join(folder, "1004-1-0"))
    os.link(elsewhere, os.path.join(folder, "1005-1-0"))
    os.mkfifo(os.path.join(folder, "1006-1-0"))
    expected = 5  # zeros mean that nothing was measured
    if os.geteuid() == 0:
        put("1007-1-0", image)
        os.chown(os.path.join(folder, "1007-1-0"), 65534, 65534)
        expected += 1
    for i in range(20):
        damaged = bytearray(image)
        for _ in range(1 + dice.randrange(200)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        put(f"{2000 + i}-1-0", bytes(damaged))
    said, err = next_linked("spool-bad", url)
    if said["refused"] < expected or err.count("is refused") < expected:
        fail(f"{said['refused']} of {expected} files are refused:\n{err}")
    if not os.path.exists(elsewhere) or any(name.startswith("2") for name in left()):
        fail(f"a file of ours stays, or one of others is gone: {left()}")
    for entry in os.scandir(folder):
        (shutil.rmtree if entry.is_dir() and not entry.is_symlink() else os.remove)(entry.path)
    return said["refused"]


def running_stays(url):
    first = linked_start("runs", "spool-runs", url)
    mine = left()
    err = linked_end(linked_start("next", "spool-other", url))[1]
    if left() != mine or len(mine) != 1 or LINE in err:
        fail(f"the file of a process that runs was read: {mine}, {left()}: {err}")
    linked_end(first)
    if left():
        fail(f"{left()} is left by a process that has stopped")


db = os.path.join(work, "outlived.db")
server, port = serve.start(edgeprof, db)
atexit.register(server.kill)  # also if a check fails
address = f"http://127.0.0.1:{port}"
least = both_forms(db, address)
print(f"outlived: at least {least:.1f} % of 5 processes; {refused(address)} of 26 foreign and damaged files refused")
running_stays(address)
server.terminate()
server.wait(20)
shutil.rmtree(folder)
