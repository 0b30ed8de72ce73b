"""Programs that take for granted that they are alone: stacks of their own, generated code, other runtimes, other namespaces, sandboxes."""
import glob
import hashlib
import os
import re
import struct

from kit import TREE
from rows_programs import FOLDER
from rows_servers import postgres_starts, postgres_stops

STEPS = "import os; print(os.getpid() < 20, os.getuid(), sum(i * i for i in range(20000000)))"
SETTINGS = {"jit": "on", "jit_above_cost": 0, "jit_inline_above_cost": 0, "jit_optimize_above_cost": 0, "max_parallel_workers_per_gather": 0}
TABLE = "create table numbers as select i, i % 97 a, i * 7 % 1001 b, md5(i::text) c from generate_series(1, 600000) i"
SUMS = "select a, count(*), sum(b * i + a), max(c) from numbers where b between 10 and 900 and c like '%a%' group by a order by a"


def library(name):
    return (glob.glob(f"/usr/lib/*/{name}") or [""])[0]


def ordinary(seconds, command, build=(), env=None, folder=None, least=90, whole=95, witness=""):
    """Exit status, output and messages must be the same. build: commands that make what is run. least, whole: % of the CPU time that the profile
    accounts for, and % of that with whole stacks. witness: its words, less for a row that starts short processes."""
    def row(run):
        fill = lambda words: [str(word).format(tools=run.tools, folder=FOLDER, work=run.work, tree=TREE) for word in words]
        for words in build:
            run.outside(fill(words), env={**os.environ, "GO111MODULE": "off", "GOCACHE": f"{run.work}/go", "HOME": str(run.work)})
        status, out, err = run.program(fill(command), env=env, folder=folder)
        made = hashlib.sha256(out.encode()).hexdigest()[:12]
        return {"exit status": status, "output": made if len(out) > 2000 else out, "messages": err,
                "summary": f"{status}: {made + ' ' + str(len(out)) if len(out) > 44 else ' '.join(out.split())}"}
    row.seconds, row.least, row.whole, row.witness = seconds, least, whole, witness
    return row


def tcpdump(run):
    """Reads 100,000 packets that this function writes."""
    with open(run.work / "packets", "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for i in range(100000):
            load = bytes(range(i % 200))
            datagram = struct.pack(">HHHH", 1000 + i % 5000, 53, 8 + len(load), 0) + load
            packet = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(datagram), i & 0xffff, 0, 64, 17, 0, 0x0a000001, 0x0a000000 + i % 65536) + datagram
            frame = bytes(12) + b"\x08\0" + packet
            out.write(struct.pack("<IIII", i // 1000, i % 1000 * 1000, len(frame), len(frame)) + frame)
    status, out, err = run.program(["tcpdump", "-Z", "root", "-nvvr", run.work / "packets", "udp and src portrange 1000-4000"])
    return {"exit status": status, "output": hashlib.sha256(out.encode()).hexdigest(), "messages": err.replace(str(run.work), ""),
            "summary": f"{status}: {out.count('length')} packets"}


def sshd(run):
    """Checks its configuration, and shows it."""
    run.outside(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", run.work / "key"])
    if os.getuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)
    results = [run.program(["/usr/sbin/sshd", option, "-f", "/dev/null", "-h", run.work / "key"]) for option in ("-t", "-T")]
    shown = re.sub(r"hostkey .*", "hostkey", results[1][1])
    return {"exit status": [status for status, _, _ in results], "output": shown, "messages": [err for _, _, err in results],
            "summary": f"{results[0][0]}, {results[1][0]}: {len(shown.splitlines())} settings"}


def postgres_jit(run):
    """Expressions that LLVM compiles."""
    server, psql = postgres_starts(run, SETTINGS)
    # One process: each is profiled from 100 ms of CPU time on.
    sums, _, plan = psql("; ".join([TABLE, "analyze numbers", *[SUMS] * 4, "select 'plan'", f"explain (analyze) {SUMS}"])).partition("plan")
    compiled = re.findall(r"Functions: (\d+)", plan)
    status, wrong = postgres_stops(run, server)
    return {"exit status": status, "sums": sums, "compiled": compiled, "log": wrong, "summary": f"{status}: functions compiled {' '.join(compiled)}"}


tcpdump.seconds, sshd.seconds, postgres_jit.seconds = 60, 20, 120
# The check takes 10 ms, of which half is before the first instruction of a library.
sshd.least, postgres_jit.least = 0, 90
# Each process of the server is profiled from 100 ms of CPU time on.
tcpdump.whole, sshd.whole, postgres_jit.whole = 95, 0, 85
SANDBOX = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
ROWS = {
    "php-fibers": ordinary(60, ["php", "{folder}/fibers.php"]),
    "ruby-fibers": ordinary(60, ["ruby", "{folder}/fibers.rb"]),
    "boost-context": ordinary(60, ["{work}/coroutines", "200"], build=[["g++", "-O2", "-g", "{folder}/coroutines.cpp", "-o", "{work}/coroutines",
                                                                       "-lboost_context"]]),
    "qemu-system": ordinary(120, ["qemu-system-x86_64", "-nic", "none", "-display", "none", "-serial", "stdio", "-no-reboot", "-device",
                                  "isa-debug-exit,iobase=0xf4,iosize=4", "-kernel", "{work}/kernel"],
                            build=[["gcc", "-m32", "-DROUNDS=150000000", "-nostdlib", "-static", "-Wl,--build-id=none,-N,-Ttext=0x100000,-e,start",
                                    "-Wl,-z,noexecstack,--no-warn-rwx-segments", "{folder}/kernel.S", "-o", "{work}/kernel"]]),
    "luajit": ordinary(60, ["luajit", "{folder}/work.lua"]),
    "git-grep": ordinary(60, ["git", "grep", "--no-index", "-c", "-P", r"\b(\w+)\W+(?:\w+\W+){{0,300}}\1\b", "docs", "core", "port"], folder=TREE),
    "postgres-jit": postgres_jit,
    # Go ends by the system call, so the last interval is missing.
    "go": ordinary(240, ["{work}/work", "2500"], build=[["go", "build", "-o", "{work}/work", "{folder}/work.go"]], least=50, whole=0),
    "go-library": ordinary(240, ["{work}/calls", "{work}/work.so"], build=[["go", "build", "-buildmode=c-shared", "-o", "{work}/work.so",
                                                                          "{folder}/work.go"],
                                                                         ["gcc", "-O2", "{folder}/calls_go.c", "-o", "{work}/calls"]], whole=0),
    "ripgrep": ordinary(60, ["rg", "--no-ignore", "-c", r"(a|b|c)[a-z]*\s+[a-z]+ing\b.*e", "/usr/include", "/usr/share/perl", "--sort", "path"]),
    "fd-find": ordinary(60, ["fdfind", "--no-ignore", "-j2", "--regex", r"[a-z]+[0-9].*\.so", "/usr", "--exec-batch", "true"]),
    "mimalloc": ordinary(60, ["{work}/allocations"], build=[["g++", "-O2", "-g", "{folder}/allocations.cpp", "-o", "{work}/allocations"]],
                         env={"LD_PRELOAD": library("libmimalloc.so.2")}),
    # Nobody waits for what the sandbox runs, so its CPU time is not in the one that the profile is compared with.
    "bubblewrap": ordinary(60, [*SANDBOX, "/usr/bin/python3", "-c", STEPS], witness="more less"),
    "unshare": ordinary(60, ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "/usr/bin/python3", "-c", STEPS], witness="less"),
    "sshd": sshd,
    "tcpdump": tcpdump,
    "file": ordinary(60, ["sh", "-c", "file -b /usr/bin/[a-m]* /usr/share/man/man1/*"], witness="less"),
    # Many short processes, some of them below a seccomp filter that refuses sockets.
    "man": ordinary(60, ["man", "-P", "cat", "bash"], least=0, whole=0, witness="less"),
}
