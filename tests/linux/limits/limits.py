#!/usr/bin/python3
"""A program under limits of the system, by itself, under `edgeprof run`, and with the library linked in: it lives, its output and its exit
status stay, one line says what edgeprof could not do and what to do about it, and its CPU time is accounted for.

usage: limits.py EDGEPROF PROGRAM LINKED WORK"""
import os
import re
import subprocess
import sys
import time

edgeprof, program, linked, work = (os.path.abspath(argument) for argument in sys.argv[1:5])
os.makedirs(work, exist_ok=True)
NAMES = r"\((worker-\d|busy), (worker-\d|busy), (worker-\d|busy)(, \.\.\.)?\)"
TIMERS = r"^edgeprof: [34] threads were not sampled " + NAMES + r", (9\d|100) % of the CPU time: "
SECCOMP = r"the kernel refuses timers \({}\); .*seccomp"
OUTLIVE = r"^edgeprof: if this process is killed, its last profile is lost: .*EDGEPROF_OUTLIVE: a full file system, or a limit$"
# The limit; the lines that `edgeprof run` prints; whether a profile comes; what the linked library counts.
CASES = [
    ("none", [], True, None),
    ("sigpending", [TIMERS + r'.*RLIMIT_SIGPENDING, 0\).*"ulimit -i"$'], True, "no timer"),
    ("eperm", [TIMERS + SECCOMP.format("Operation not permitted")], True, "no timer"),
    ("enosys", [TIMERS + SECCOMP.format("Function not implemented")], True, "no timer"),
    ("blocked", [r"^edgeprof: 3 threads were not sampled " + NAMES + r", (9\d|100) % of the CPU time: .*block.* signal"], True, "signal blocked"),
    ("nofile", [], True, None),  # one free descriptor is enough
    ("nofile-late", [OUTLIVE, r'^edgeprof: profiles were not delivered: .*RLIMIT_NOFILE, 3\).*"ulimit -n"$'], False, None),
    ("nproc", [r'^edgeprof: not profiling: .*RLIMIT_NPROC, 1\).*"ulimit -u"$'], False, None),
    ("as", [r'^edgeprof: not profiling: .*RLIMIT_AS, \d+\).*"ulimit -v"$'], False, None),
]
NOBODY = 61000
wrong = []


def least_address_space():
    """KiB at which the dynamic linker still has room for the program and the preloaded library: no thread of edgeprof's has any then."""
    preload = os.path.join(os.path.dirname(edgeprof), "libedgeprof-preload.so")
    for kib in range(2048, 65536, 64):
        environment = {**os.environ, "BUSY_AS_KIB": str(kib), "BUSY_QUICK": "1", "LD_PRELOAD": preload}
        done = subprocess.run([program, "as"], capture_output=True, env=environment, timeout=20)
        if done.returncode == 7 and not done.stderr:
            return str(kib)
    sys.exit("limits.py: the program does not live with 64 MiB of address space")


def want(good, text):
    if not good:
        wrong.append(text)


def run(command, user=None):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, user=user)


def lines_of(done):
    """What the program printed, without its CPU time; that; what edgeprof said."""
    own = [line for line in done.stdout.splitlines() if "pieces of work" in line]
    cpu = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("cpu_ns ")]
    return own, cpu[0] if cpu else 0, [line for line in done.stderr.splitlines() if line.startswith("edgeprof:")]


def total_of(db):
    done = run([edgeprof, "export", "--db", db, "--kind", "cpu", "--folded"])
    return sum(int(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()) if done.returncode == 0 else 0


def under_run(limit, patterns, profile, alone):
    db = os.path.join(work, f"{limit}.db")
    for ending in ("", "-wal", "-shm"):
        if os.path.exists(db + ending):
            os.remove(db + ending)
    nobody = NOBODY if limit == "nproc" and os.getuid() == 0 else None  # root may have as many processes as it likes
    done = run([edgeprof, "run", *([] if nobody else ["--db", db]), "--", program, limit], nobody)
    own, cpu, said = lines_of(done)
    share = 100 * total_of(db) / cpu if cpu else 0
    same = done.returncode == alone.returncode and own == lines_of(alone)[0]
    accounted = f"{share:.1f} %" if share else "no profile"
    print(f"{limit:12} | {said[0] if said else '-'} | {'yes' if same else 'NO'} | {accounted}", flush=True)
    for more in said[1:]:
        print(f"{'':12} | {more} | | ")
    want(same, f"{limit}: ended with {done.returncode} and {own}, not {alone.returncode}\n{done.stderr}")
    want(len(said) == len(patterns), f"{limit}: {len(said)} lines of edgeprof: {said}")
    for pattern in patterns:
        want(any(re.search(pattern, line) for line in said), f"{limit}: no line like {pattern}: {said}")
    want(profile is None or (share > 0) == profile, f"{limit}: a share of {share:.1f} %")
    want(not share or 90 < share < 110, f"{limit}: {share:.1f} % of the CPU time is accounted for")


def with_library(limit, reason, alone):
    done = run([linked, limit])
    own, _, said = lines_of(done)
    same = done.returncode == alone.returncode and own == lines_of(alone)[0]
    share = [float(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("accounted ")]
    lost = [line[5:] for line in done.stderr.splitlines() if line.startswith("lost ")]
    accounted = f"{share[0]:.1f} %" if share else "not profiled"
    print(f"{limit:12} | {', '.join(lost + said) or '-'} | {'yes' if same else 'NO'} | {accounted}", flush=True)
    want(same, f"{limit}, linked: ended with {done.returncode} and {own}\n{done.stderr}")
    want(share or said, f"{limit}, linked: neither profiled nor an error\n{done.stderr}")
    want(not share or 90 < share[0] < 110, f"{limit}, linked: {share} % of the CPU time is accounted for")
    want(not reason or any(line.startswith(reason) for line in lost), f"{limit}, linked: {reason} is not in {lost}")


CLOCK_MONOTONIC_COARSE = 6  # moves with the ticks


def rate_line(environment, where):
    """`edgeprof status` names the rate held and the rate asked for; and the kernel's ticks, if these are fewer."""
    found = None
    with subprocess.Popen([program, "none"], env={**environment, "EDGEPROF_RATE": "1000"}, stdout=subprocess.DEVNULL) as running:
        while running.poll() is None:
            done = run([edgeprof, "status", "--at", where])
            found = re.search(r"^rate     (\d+) samples a second of CPU time so far, 1000 asked for(?:; the kernel ticks (\d+) times a second, .*)?$", done.stdout, re.M) or found
    print(f"status: {found[0] if found else 'no rate'}")
    hz = round(1 / time.clock_getres(CLOCK_MONOTONIC_COARSE))
    want(found and int(found[2] or 1000) == min(hz, 1000), f"edgeprof status says of the rate: {found and found[0]}")


def while_it_runs():
    """`edgeprof status` says it of a program that still runs."""
    where = os.path.join(work, "control")
    environment = {**os.environ, "EDGEPROF_CONTROL": where, "EDGEPROF_ENDPOINT": f"file://{work}/status.profile", "EDGEPROF_INTERVAL": "100",
                   "LD_PRELOAD": os.path.join(os.path.dirname(edgeprof), "libedgeprof-preload.so")}
    line = ""
    with subprocess.Popen([program, "sigpending"], env=environment, stdout=subprocess.DEVNULL) as running:
        pattern = re.compile(r'^threads  [1-4] threads? (was|were) not sampled \((worker-\d|busy).*RLIMIT_SIGPENDING, 0\).*"ulimit -i"$')
        while running.poll() is None and not pattern.search(line): # at first the program has no name of its own yet
            done = run([edgeprof, "status", "--at", where])
            line = next((one for one in done.stdout.splitlines() if one.startswith("threads ")), "") or line
    print(f"status: {line}")
    rate_line(environment, where)
    want(pattern.search(line), f"edgeprof status says: {line!r}")


def file_size():
    """`edgeprof run` itself below the limit of the size of files: no room for its database."""
    done = subprocess.run(["prlimit", "--fsize=5120", edgeprof, "run", "--", program, "none"], capture_output=True, text=True)
    print(f"fsize: {done.stderr.strip()}")
    want(done.returncode == 125 and done.stderr.endswith('the limit of the size of files is reached; raise it with "ulimit -f"\n'),
         f"fsize: ended with {done.returncode}: {done.stderr}")


os.environ["BUSY_MS"] = "300"
os.environ["BUSY_AS_KIB"] = least_address_space()
outcomes = {limit: run([program, limit]) for limit, *_ in CASES}
print("under edgeprof run:\nlimit | line printed | exit status and output same | CPU time accounted for")
for limit, patterns, profile, _ in CASES:
    under_run(limit, patterns, profile, outcomes[limit])
print("linked:\nlimit | what is counted or said | exit status and output same | CPU time accounted for")
for limit, _, _, reason in CASES:
    with_library(limit, reason, outcomes[limit])
while_it_runs()
file_size()
if wrong:
    sys.exit("limits.py: " + "\nlimits.py: ".join(wrong))
print("limits.py: all limits are survived, said and accounted for")
