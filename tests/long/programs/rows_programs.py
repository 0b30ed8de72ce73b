"""Programs that run to their end, other profilers and debuggers beside edgeprof."""
import glob
import hashlib
import re
import time

from kit import TREE, Differs

FOLDER = TREE / "tests/long/programs"


def plain(seconds, command, env=None):
    """Exit status, output and messages must be the same."""
    def row(run):
        words = [str(word).format(tools=run.tools, folder=FOLDER, work=run.work) for word in command]
        status, out, err = run.program(words, env=env)
        return {"exit status": status, "output": out, "messages": err, "summary": f"{status}: {' '.join(out.split())[:44]}"}
    row.seconds = seconds
    return row


def gcc(run):
    """Of the tree's own: a long one, without headers that are made."""
    object_file = run.work / "made.o"
    status, out, err = run.program(["gcc", "-std=c11", "-O2", "-g", "-D_GNU_SOURCE", f"-ffile-prefix-map={run.work}=.", "-I.", "-c",
                                    "tools/symbols/demangle_dotnet.c", "-o", object_file], folder=TREE)
    made = hashlib.sha256(object_file.read_bytes()).hexdigest() if object_file.exists() else "nothing"
    return {"exit status": status, "object": made, "messages": out + err, "summary": f"{status}: object {made[:12]}"}


def chromium(run):
    page = run.work / "page.html"
    page.write_text((FOLDER / "page.html").read_text())
    status, out, err = run.program(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                                    "--disable-component-update", "--disable-sync", f"--user-data-dir={run.work}/profile", "--dump-dom",
                                    f"file://{page}"])
    crashes = re.findall(r"FATAL:.*", err)
    return {"exit status": status, "page": out, "crashes": [re.sub(r"\d+", "N", line) for line in crashes],
            "summary": f"{status}: {len(out)} bytes, {' '.join(re.findall('id=.sum.>([^<]*)', out)) or 'no sum'}"}


def gperftools(run):
    library = glob.glob("/usr/lib/*/libprofiler.so.0")[0]
    where = run.work / "profile"
    status, out, err = run.program([run.tools / "work", "40"], env={"LD_PRELOAD": library, "CPUPROFILE": str(where), "CPUPROFILE_FREQUENCY": "100"})
    samples = int((re.findall(r"PROFILE: interrupts/evictions/bytes = (\d+)", err) or [-1])[0])
    return {"exit status": status, "output": out, "libprofiler profiles": samples > 20, "messages": re.sub(r"PROFILE: .*\n", "", err),
            "summary": f"{status}: {samples} samples of libprofiler"}


def gdb(run):
    leave = run.work / "leave"
    process = run.start([run.tools / "work", "150", leave])
    pid = run.pid()
    time.sleep(1)
    stacks = []
    for _ in range(2):
        done = run.outside(["gdb", "-nx", "-batch", "-p", pid, "-ex", "thread apply all bt", "-ex", "detach"], check=False)
        stacks.append("work (argument=" in done.stdout and "main (argc=" in done.stdout and "detached" in done.stdout)
        time.sleep(0.3)
    runs_on = process.poll() is None
    leave.touch()
    status, out, err = run.end(process)
    if not runs_on:
        raise Differs(f"ended with {status} while gdb was there: {err[-200:]}")
    return {"exit status": status, "output": out, "messages": err, "stacks": stacks, "summary": f"{status}: stacks {stacks}"}


def asan(run):
    """Compiled with what is there; the runtime comes behind the profiler."""
    program = run.work / "sanitized"
    run.outside(["gcc", "-g", "-O1", "-fsanitize=address", FOLDER / "work.c", "-o", program])
    status, out, err = run.program([program, "20"])
    return {"exit status": status, "output": out, "messages": err, "summary": f"{status}: {out.strip()[:44]}"}


def chosen_none(run):
    """The library is linked; preloaded it is not chosen."""
    status, out, err = run.program([run.tools / "linked", "60"], options=["--only", "nothing"])
    return {"exit status": status, "output": out, "messages": err, "summary": f"{status}: {out.strip()[:44]}"}


def least(row, percent, again=0):
    row.least, row.again = percent, again
    return row


gcc.seconds, chromium.seconds, gperftools.seconds, gdb.seconds, asan.seconds, chosen_none.seconds = 60, 60, 40, 60, 40, 40
ROWS = {
    "java": plain(60, ["java", "-Xmx256m", "{folder}/Work.java"]),
    "node": plain(60, ["node", "{folder}/work.mjs"]),
    "gcc": gcc,
    # Its renderers are forked by the zygote, without exec: those are not profiled.
    "chromium": least(chromium, 50),
    "jemalloc": plain(40, ["{tools}/work", "40"], {"LD_PRELOAD": (glob.glob("/usr/lib/*/libjemalloc.so.2") or [""])[0]}),
    "gperftools": gperftools,
    # valgrind and ASan work before and after the program that the library is in. Once in about 200 runs, on a busy machine, memcheck took a
    # part of the collect thread's stack for unaddressable, in read() of a buffer in the same frame, whose first byte had just been written. Not
    # seen again in 130 runs; its stack trace ends behind read(), as where memcheck has lost the thread's stack. So it must come twice.
    "valgrind": least(plain(90, ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "{tools}/work", "2"]), 30, again=1),
    "gdb": gdb,
    "setpriv": plain(20, ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "{tools}/work", "10"]),
    "asan": least(asan, 70),
    "linked": chosen_none,
}
