#!/usr/bin/python3
"""A program whose system calls are refused one by one by a seccomp filter, with EPERM and with ENOSYS, from the start and once the profiler
runs: its output and exit status are as without edgeprof, edgeprof says one line at most, and where it says none the profile is whole.
edgeprof's threads never loop: their CPU time stays below 5 % of the program's.

usage: refused.py EDGEPROF PROGRAM LINKED WORK"""
import os
import re
import subprocess
import sys

edgeprof, program, linked, work = (os.path.abspath(argument) for argument in sys.argv[1:5])
os.makedirs(work, exist_ok=True)
EPERM, ENOSYS = 1, 38
WHY = r"(Operation not permitted|Function not implemented)"
TIMERS = rf"^edgeprof: [34] threads were not sampled .*, (9\d|100) % of the CPU time: the kernel refuses timers \({WHY}\); "
NOT_SENT = rf"^edgeprof: profiles were not delivered: {WHY}$"
STARTS = rf"^edgeprof: not profiling: .*: {WHY}$"
NO_SYMBOLS = r"^edgeprof: symbols:  \(build id .*\): no symbol file found"
# The line of `edgeprof run` when the call is refused from the start, and later. Other calls: no line, and a whole profile.
SAID = {
    "timer_create": (TIMERS, TIMERS), "timer_settime": (TIMERS, TIMERS), "rt_sigaction": (STARTS, None), "getdents64": (STARTS, None),
    "socket": (NOT_SENT, NOT_SENT), "connect": (NOT_SENT, NOT_SENT), "sendto": (NOT_SENT, NOT_SENT), "readlink": (NO_SYMBOLS, None),
}
SAID_BY_ERROR = {("clone3", EPERM): (STARTS, None)}  # with ENOSYS the C library calls clone()
CALLS = ("timer_create timer_settime timer_gettime timer_delete rt_sigaction rt_sigprocmask rt_tgsigqueueinfo tgkill clock_gettime cpu-clocks "
         "clock_getres futex openat readlink getdents64 newfstatat sched_getaffinity prctl clone3 clone membarrier eventfd2 pipe2 socket connect "
         "bind sendto poll fsync fdatasync renameat2 ftruncate getrandom statx process_vm_readv setpriority prlimit64 uname sched_yield madvise "
         "rseq clock_nanosleep pidfd_open").split()
BY_ERROR = "timer_create timer_settime rt_sigaction tgkill cpu-clocks getdents64 clone3 poll".split()  # both are tried
wrong = []


def run(command, **environment):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, "BUSY_MS": "80", **environment})
    numbers = dict(re.findall(r"^(own_ns|cpu_ns) (\d+)$", done.stdout, re.M))
    said = [line for line in done.stderr.splitlines() if line.startswith(("edgeprof:", "lost "))]
    return done, "pieces of work done" in done.stdout, {name: int(value) for name, value in numbers.items()}, said


def total_of(db):
    done = subprocess.run([edgeprof, "export", "--db", db, "--kind", "cpu", "--folded"], capture_output=True, text=True, timeout=60)
    return sum(int(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()) if done.returncode == 0 else 0


def want(good, case, text):
    if not good:
        wrong.append(f"{case}: {text}")


def share_of(part, whole):
    return 100 * part / whole if whole else 0


def judge(case, done, alone, works, share, numbers):
    want(done.returncode == alone.returncode and works, case, f"ended with {done.returncode}, not {alone.returncode}\n{done.stderr}")
    margin = 10  # without a clock a thread is known to one period of 97 Hz only
    if "clock" in case and numbers.get("cpu_ns"):
        margin += 100 * 4 * 10.4e6 / numbers["cpu_ns"]
    want(not share or abs(share - 100) < margin, case, f"{share:.1f} % of the CPU time is accounted for")
    want(numbers.get("own_ns", 0) < 0.05 * numbers.get("cpu_ns", 1), case, f"edgeprof's threads used {numbers.get('own_ns', 0) / 1e6:.0f} ms")


def one(call, error, late, more):
    limit = f"{call}={error}{',late' if late else ''}"
    alone = run([program, limit], **more)[0]
    case = " ".join([limit, *(["one thread"] if "BUSY_ALONE" in more else [])])
    if alone.returncode != 7:
        print(f"{case:28} | the program needs it", flush=True)
        return
    db = os.path.join(work, "refused.db")
    for longer in (more, {**more, "BUSY_MS": "400"}):  # in 400 ms a few late ticks are 10 %
        for ending in ("", "-wal", "-shm"):
            if os.path.exists(db + ending):
                os.remove(db + ending)
        done, works, numbers, said = run([edgeprof, "run", "--db", db, "--", program, limit], **longer)
        share = share_of(total_of(db), numbers.get("cpu_ns", 0))
        if not share or abs(share - 100) < 10:
            break
    pattern = SAID_BY_ERROR.get((call, error), SAID.get(call, (None, None)))[late]
    judge(case, done, alone, works, share, numbers)
    want(len(said) == (pattern is not None), case, f"{len(said)} lines: {said}, share {share:.1f} %")
    want(not pattern or re.search(pattern, "\n".join(said), re.M), case, f"no line like {pattern}: {said}")
    want(pattern is not None or share, case, "no profile, and no line says so")
    for longer in (more, {**more, "BUSY_MS": "400"}):
        own, own_works, own_numbers, own_said = run([linked, limit], EDGEPROF_CONTROL=os.path.join(work, "control"), **longer)
        accounted = [float(line.split()[1]) for line in own.stderr.splitlines() if line.startswith("accounted ")]
        if not accounted or abs(accounted[0] - 100) < 10:
            break
    judge(f"{case}, linked", own, alone, own_works, accounted[0] if accounted else 0, own_numbers)
    want(own_said or accounted and accounted[0], f"{case}, linked", f"neither profiled nor said: {own.stderr}")
    print(f"{case:28} | {f'{share:.1f} %' if share else '-':8} | {said[0] if said else '-'} | linked: "
          f"{f'{accounted[0]:.1f} %' if accounted else '-'}, {', '.join(own_said) or '-'}", flush=True)


def with_spool(call):
    """Profiles wait in a spool; its disk calls are refused once the profiler runs."""
    spool = os.path.join(work, "spool")
    subprocess.run(["rm", "-rf", spool], check=True)
    os.makedirs(spool)
    preload = os.path.join(os.path.dirname(edgeprof), "libedgeprof-preload.so")
    done, works, numbers, said = run([program, f"{call}={EPERM},late"], LD_PRELOAD=preload, EDGEPROF_SPOOL=spool, EDGEPROF_ENDPOINT="http://127.0.0.1:1")
    stored = sum(os.path.getsize(os.path.join(spool, name)) for name in os.listdir(spool))
    judge(f"spool, {call}", done, done, works and done.returncode == 7, 0, numbers)
    want(len(said) <= 1 and (said or stored), f"spool, {call}", f"{stored} bytes stored, said {said}")
    print(f"{'spool, ' + call:28} | {stored} bytes stored | {said[0] if said else '-'}", flush=True)


def often(limit):
    """A race is rarely lost: a parked thread that had not left its stack yet crashed one of 30 programs when tgkill() was refused."""
    preload = os.path.join(os.path.dirname(edgeprof), "libedgeprof-preload.so")
    ends = [run([program, limit], LD_PRELOAD=preload, EDGEPROF_ENDPOINT=f"file://{work}/often.profile", BUSY_MS="5")[0].returncode for _ in range(120)]
    want(set(ends) == {7}, limit, f"ended with {sorted(set(ends))}")
    print(f"{limit:28} | {ends.count(7)} of {len(ends)} short programs ended as they should", flush=True)


print("call=error[,late] | CPU time in the profile | line of edgeprof run | linked: CPU time accounted for, what is said or counted")
for name in sys.argv[5:] or CALLS:
    for number, after in ((EPERM, False), (EPERM, True), *([(ENOSYS, False)] if name in BY_ERROR else [])):
        one(name, number, after, {"BUSY_MS": "200"} if "clock" in name else {})
    if name == "cpu-clocks":
        one(name, EPERM, False, {"BUSY_ALONE": "1", "BUSY_MS": "200"})
if not sys.argv[5:]:
    often(f"tgkill={EPERM}")
    for name in ("fsync", "fdatasync", "ftruncate", "openat"):
        with_spool(name)
if wrong:
    sys.exit("refused.py: " + "\nrefused.py: ".join(wrong))
print("refused.py: every refusal is survived, and said where it costs something")
