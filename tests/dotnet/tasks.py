#!/usr/bin/python3
"""`edgeprof tasks` with a real program whose pending methods are known (tests/dotnet/Async, Pending.cs).

usage: tasks.py EDGEPROF PROGRAM WORK [OBJECTS]           RUNNER in the environment starts the program: on_machine.py

Each list has exactly the chains that are pending, also while other threads allocate and await; what is complete or garbage is not
in it. Prints what a list costs, with OBJECTS more objects in the heap."""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

edgeprof, program, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
objects = sys.argv[4] if len(sys.argv) > 4 else "100000"
os.makedirs(work, exist_ok=True)
socket = os.environ.get("MACHINE_CONTROL") or os.path.join(work, "control")
machine = "MACHINE" in os.environ
settings = {"EDGEPROF_CONTROL": "4041" if machine else socket, "EDGEPROF_CONTROL_TOKEN": "a token that is long enough", "MACHINE_STDIN": "1"}
os.environ.update(EDGEPROF_CONTROL_TOKEN=settings["EDGEPROF_CONTROL_TOKEN"])
CHECKOUT = "Orders.Db.ReadAsync <- Orders.Pricing.SumAsync <- Orders.Api.CheckoutAsync"
BATCH = " <- Orders.Api.BatchAsync"
DELAY = "[System.Threading.Tasks.Task+DelayPromise] <- Orders.Clock.PauseAsync"
ENTER = "[System.Threading.SemaphoreSlim+TaskNode] <- Orders.Gate.EnterAsync <- Orders.Gate.Forget"
PENDING = {CHECKOUT: 123, "Orders.Db.ReadAsync" + BATCH: 14, DELAY + BATCH: 7, DELAY: 40, ENTER: 5}
METHODS = 123 * 3 + 7 * 4 + 40 + 5 * 2


def lists(wanted, methods=None):
    """The first line of a list whose chains of our methods are the wanted ones."""
    out = subprocess.run([edgeprof, "tasks", "--at", socket], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    first, *lines = out.stdout.splitlines()
    found = {chain: int(count) for count, chain in (line.split(None, 1) for line in lines)}
    ours = {chain: count for chain, count in found.items() if "Orders." in chain}
    assert ours == wanted, f"{out.stdout}\nnot {wanted}"
    if methods is not None:
        assert int(first.split()[0]) >= methods and "the program stood for" in first, out.stdout
    return first


def two_lists(wanted):
    """Two clients at once: they get one list, or one each."""
    with ThreadPoolExecutor(2) as clients:
        for client in [clients.submit(lists, wanted) for _ in range(2)]:
            client.result()


def stood(first):
    return [float(text) for text in re.search(r"stood for ([\d.]+) ms: a collection, and ([\d.]+) ms for", first).groups()]


env = {name: value for name, value in os.environ.items() if not name.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
if os.path.exists(socket):
    os.unlink(socket)
with subprocess.Popen([*os.environ.get("RUNNER", "").split(), program, "tasks"], env={**env, **settings}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                      text=True) as process:
    def say(line):
        process.stdin.write(line + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == line + "\n"

    assert process.stdout.readline() == "ready\n"
    for _ in range(2):
        print(lists(PENDING, METHODS))
    say(f"heap {objects}")
    all_ms, list_ms = stood(lists(PENDING, METHODS))
    print(f"figure tasks_stood_ms {all_ms} ms\nfigure tasks_list_ms {list_ms} ms")
    say("busy")
    for _ in range(3 if machine else 30):
        lists(PENDING)
    for _ in range(2 if machine else 20):
        two_lists(PENDING)
    say("open")
    del PENDING[CHECKOUT]
    for _ in range(5):
        lists(PENDING)
    process.stdin.close()
    assert process.wait(20) == 0
print("tasks.py: every list has the pending chains")
