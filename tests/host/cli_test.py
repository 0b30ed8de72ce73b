"""Commands from outside: exit codes, one clear line, the same order as `go tool pprof`, run.
Usage: cli_test.py EDGEPROF_WITH_SANITIZERS EDGEPROF SAMPLE"""
import atexit
import gzip
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

from cli import Cli, message_of
from generate import context, message, module, nodes, origin, profile, tag_set
from harness import Checks, Server, clean_environment

CHECKED, SHIPPED, SAMPLE = (os.path.abspath(path) for path in sys.argv[1:4])
check = Checks()
COMMANDS = ("serve", "run", "top", "flame", "export", "cat", "watch", "query", "devices", "diff", "symbols", "symbolize", "status", "level", "kinds", "threads")
cli = Cli(CHECKED, check)
run, fails = cli.run, cli.fails


def help_texts():
    version = re.search(r'EP_VERSION "(.*)"', open("core/edgeprof.h").read())[1]
    check.equal(run("--version").out, f"edgeprof {version}\n", "version")
    text = run("--help")
    check(text.returncode == 0 and all(f"  {name}" in text.out for name in COMMANDS), "help names every command")
    check("exit codes" in text.out, "help tells the exit codes")
    for name in COMMANDS:
        text = run(name, "--help")
        check(text.returncode == 0 and text.out.startswith(f"usage: edgeprof {name}"), f"{name} --help")
        check("exit codes" in text.out and text.err == "", f"{name} --help tells the exit codes")
    check.equal(run().returncode, 2, "no command")
    fails(2, "'nonsense'", "nonsense")


def wrong_usage(folder):
    for word, *arguments in (
            ("--bogus", "top", "--bogus"), ("-n", "top", "-n"), ("abc", "top", "-n", "abc"), ("0", "top", "-n", "0"),
            ("yesterday", "top", "--from", "yesterday"), ("5", "top", "--last", "5"), ("extra", "top", "extra"),
            ("exclude", "top", "--db", "a", "--url", "b"), ("a{", "top", "--service", "a{"), ("novalue", "top", "--tag", "novalue"),
            ("-o", "flame"), ("x.png", "flame", "-o", "x.png"), ("x.png", "run", "--flame", "x.png", "true"), ("-o FILE", "export"),
            ("FILE", "cat"), ("FILE", "cat", "a", "b"), ("command", "run"), ("extreme", "run", "--level", "extreme", "true"),
            ("12", "run", "--interval", "12", "true"), ("--rows", "export", "--rows", "3")):
        fails(2, word, *arguments, cwd=folder)
    fails(1, "edgeprof serve", "top", "--db", "none.db", cwd=folder)
    fails(1, "/nowhere", "flame", "--db", "/nowhere/x.db", "-o", "x.svg", cwd=folder)
    fails(1, "127.0.0.1:1", "top", "--url", "http://127.0.0.1:1")
    fails(1, "--symbols /nowhere", "top", "--symbols", "/nowhere")
    fails(1, "ftp", "top", "--url", "ftp://127.0.0.1/")
    fails(1, "missing", "cat", "missing", cwd=folder)
    fails(1, folder, "cat", folder)


def framed(*messages):
    return b"".join(struct.pack("<I", len(body)) + body for body in messages)


def pprof_order(path):
    done = subprocess.run(["go", "tool", "pprof", "-top", "-nodefraction=0", path], capture_output=True, text=True, check=False,
                          env=clean_environment(HOME=os.path.dirname(path), PPROF_TMPDIR=os.path.dirname(path)))
    check.equal(done.returncode, 0, f"go tool pprof: {done.stderr}")
    rows = re.findall(r"^ *\S+ +([\d.]+)% +\S+% +\S+ +([\d.]+)% +(.*)$", done.stdout, re.M)
    return [(name.removesuffix(" (inline)"), float(flat), float(cum)) for flat, cum, name in rows]


def our_order(text):
    return [(name, float(flat), float(cum)) for flat, cum, name in re.findall(r"^ *([\d.]+)% +\S+ +([\d.]+)% +\S+  (.*)$", text, re.M)]


def same_order(ours, theirs, what):
    """By flat; among equals the two may differ."""
    check(len(ours) > 2, f"{what}: something to compare")
    check.equal([row for row in ours if row[1]], [row for row in theirs if row[1]], f"{what}: order of what has a value")
    check.equal(sorted(ours), sorted(theirs), f"{what}: the rest")


def same_after_pprof(folder, path, folded):
    """pprof in: gzipped, plain, in frames as a file endpoint writes it; wrong ones in one line."""
    packed = open(path, "rb").read()
    plain = gzip.decompress(packed)
    for data, times, what in ((packed, 1, "gzipped"), (plain, 1, "plain"), (framed(plain, packed), 2, "framed")):
        text = run("cat", "-", data=data).out
        check.equal((text.count("pprof bytes="), text.count("kind=cpu unit=nanoseconds total=480000000")), (times, times), f"cat of {what} pprof")
        again = {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in run("cat", "--folded", "-", data=data).out.splitlines()}
        check.equal(again, {line.rsplit(" ", 1)[0]: times * int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()}, f"folded from {what} pprof")
    fails(1, "gzip", "cat", "-", data=packed[:40])
    fails(1, "gzip", "cat", "--folded", "-", data=packed[:40])
    fails(1, "message 1", "cat", "--folded", "-", data=plain[:-3])
    fails(3, "no profile", "cat", "--folded", "--kind", "gc", "-", data=plain)


def kinds_and_labels(folder):
    """--value, --label and --group-by, of a file and of a database."""
    body = message(31, 0, origin("labels", tags=[("version", "1")]), [module(4096, 65536, 0, b"\7" * 20, "[app]")],
                   nodes([0, 1, 2], [4100, 4200, 4300]),
                   [profile([(2, 1, 3, 300), (2, 2, 5, 500), (3, 0, 7, 700)], quantum=1, kind=4),
                    profile([(3, 2, 2, 20)], quantum=1, kind=3)],
                   tag_sets=[tag_set(1, step="a"), tag_set(2, step="b")], contexts=[context(1), context(2, span=7)])
    path, db = os.path.join(folder, "labels.edgeprof"), os.path.join(folder, "labels.db")
    with open(path, "wb") as file:
        file.write(framed(body))
    server = Server(CHECKED, db)
    check.equal(server.push(body), 200, "labels are taken")
    two, three = "[app]+0x4;[app]+0x68", "[app]+0x4;[app]+0xcc"
    for kind, options, expected in (
            ("alloc", [], [f"{two} 800", f"{three} 700"]), ("alloc", ["--value", "count"], [f"{two} 8", f"{three} 7"]),
            ("alloc", ["--value", "value"], [f"{two} 800", f"{three} 700"]), ("lock", ["--value", "count"], [f"{three} 2"]),
            ("alloc", ["--label", "step=a"], [f"{two} 300"]), ("alloc", ["--label", "step=b", "--value", "count"], [f"{two} 5"]),
            ("alloc", ["--label", "step=b", "--label", "span_id=0000000000000007"], [f"{two} 500"]),
            ("alloc", ["--label", "version=1"], [f"{two} 800", f"{three} 700"]),
            ("alloc", ["--group-by", "step"], [f"step=a;{two} 300", f"step=b;{two} 500", f"[no step];{three} 700"]),
            ("alloc", ["--group-by", "step", "--label", "step=a", "--value", "count"], [f"step=a;{two} 3"])):
        for source in (["cat", path], ["export", "--db", db], ["export", "--url", server.url]):
            done = run(source[0], "--folded", "--kind", kind, *options, *source[1:])
            check.equal(sorted(done.out.splitlines()), sorted(expected), f"{source} {kind} {options}: {done.err}")
    for source in (["cat", path], ["export", "--db", db], ["export", "--url", server.url]):
        fails(3, "no", source[0], "--folded", "--kind", "alloc", "--label", "step=none", *source[1:])
    for word, *arguments in (("--value", "--value", "weight"), ("--label", "--label", "step"), ("--group-by", "--group-by", "")):
        fails(2, word, "top", "--db", db, *arguments)
    check.equal(server.stop(), 0, "server")


def files(folder):
    path = os.path.join(folder, "two.edgeprof")
    first, second = message_of(7, "svc", {2: 5, 3: 30, 6: 11}), message_of(7, "svc", {3: 2}, 1)
    with open(path, "wb") as file:
        file.write(framed(first, second))
    text = run("cat", path)
    check(text.returncode == 0 and text.out.count("message segment=0000000000000007") == 2 and "service=svc" in text.out, "cat as text")
    check.equal(run("cat", "-", data=first).out.count("message "), 1, "cat of a bare message on standard input")
    folded = run("cat", "--folded", path).out
    check.equal(sorted(folded.splitlines()), ["[app]+0x4;[app]+0x130;[app]+0x1f8 110000000", "[app]+0x4;[app]+0x68 50000000",
                                              "[app]+0x4;[app]+0xcc 320000000"], "folded")
    out = os.path.join(folder, "cat.pb.gz")
    check.equal(run("cat", "--pprof", out, path).returncode, 0, "cat to pprof")
    check.equal([row[0] for row in pprof_order(out)][:3], ["[app]+0xcc", "[app]+0x1f8", "[app]+0x68"], "pprof's order")
    same_after_pprof(folder, out, folded)
    for cut, code in ((-1, 1), (-len(second) - 2, 1)):
        with open(path + ".cut", "wb") as file:
            file.write(framed(first, second)[:cut])
        torn = fails(code, "middle of message 2", "cat", path + ".cut")
        check.equal(torn.out.count("message "), 1, "what is before the tear is printed")
    fails(1, "message 1", "cat", "-", data=b"\xff" * 100)
    check.equal(run("cat", "-", data=b"").returncode, 3, "an empty file holds no profile")
    fails(3, "no profile", "cat", "--folded", "-", data=message(9, 0, origin("x")))
    fails(1, "/nowhere/out.pb.gz", "cat", "--pprof", "/nowhere/out.pb.gz", path)


def stored(folder):
    db = os.path.join(folder, "filled.db")
    server = Server(CHECKED, db)
    server.push(message_of(1, "one", {2: 5, 3: 30, 4: 7, 6: 11}))
    fails(3, "no data", "top", "--db", db, "--last", "1m")
    check.equal(our_order(run("top", "--url", server.url).out), our_order(run("top", "--db", db).out), "db and url agree")
    top = run("top", "--db", db)
    check(top.returncode == 0 and top.out.startswith("one cpu: 530.00ms in 53 samples"), f"top: {top.out}")
    out = os.path.join(folder, "db.pb.gz")
    check.equal(run("export", "--db", db, "--pprof", out).returncode, 0, "export")
    same_order(our_order(top.out), pprof_order(out), "stored profile")
    check.equal(our_order(run("top", "--db", db, "-n", "2").out), our_order(top.out)[:2], "top -n")
    check("\"total\":530000000" in run("top", "--db", db, "--json").out, "top --json")
    server.push(message_of(2, "two", {2: 1}))
    fails(2, "one, two", "top", "--db", db)
    check("one" in fails(1, "several", "top", "--url", server.url).err, "the server says the same")
    fails(3, "zzz", "top", "--db", db, "--service", "zzz")
    check.equal(run("top", "--db", db, "--service", "two").out.splitlines()[0].split(":")[0], "two cpu", "chosen service")
    piped = subprocess.run(["sh", "-c", f"'{CHECKED}' top --db '{db}' --service one | true; '{CHECKED}' cat '{folder}/two.edgeprof' | true"],
                           capture_output=True, text=True, check=False)
    check.equal(piped.stderr, "", "a reader that leaves early")
    flames(folder, db)
    check.equal(server.stop(), 0, "server")


def flames(folder, db):
    svg, html = os.path.join(folder, "f.svg"), os.path.join(folder, "f.html")
    check.equal(run("flame", "--db", db, "--service", "one", "-o", svg).returncode, 0, "svg")
    text = "".join(xml.etree.ElementTree.parse(svg).getroot().itertext())
    check("[app]+0xcc" in text and "56.60%" in text, "the picture has the names and shares")
    check.equal(run("flame", "--db", db, "--service", "one", "-o", html).returncode, 0, "html")
    text = open(html).read()
    check("[app]+0xcc" in text and "http://" not in text.replace("http://www.w3.org", ""), "the page needs nothing from elsewhere")
    fails(1, "/nowhere/x.svg", "flame", "--db", db, "--service", "one", "-o", "/nowhere/x.svg")


def preload(folder):
    """With the program and the library as they are shipped."""
    def go(*arguments, **options):
        return run("run", *arguments, program=SHIPPED, cwd=folder, **options)
    out, html = os.path.join(folder, "run.pb.gz"), os.path.join(folder, "run.html")
    done = go("--level", "high", "--pprof", out, "--flame", html, "--", SAMPLE, "2500")
    check.equal(done.returncode, 0, f"run: {done.err}")
    rows = our_order(done.out)
    check(rows and rows[0][0] == "hot" and 55 < rows[0][1] < 90, f"hot has three quarters: {rows[:2]}")
    check({"outer", "middle", "inner", "main"} <= {row[0] for row in rows}, f"inlined calls have names: {rows}")
    same_order(rows, pprof_order(out), "profile of a run")
    check("hot" in open(html).read(), "flame graph of a run")
    check.equal(go("--", SAMPLE, "300", "7").returncode, 7, "the program's exit code")
    check.equal(go("--", "sh", "-c", "kill -TERM $$").returncode, 128 + 15, "ended by a signal")
    check.equal(go("--", "/nowhere/program").returncode, 127, "not found")
    check.equal(go("--", folder).returncode, 126, "not executable")
    check.equal(go("--", "true").returncode, 3, "nothing was measured")
    check.equal(go("--preload", "/nowhere.so", "--", "true").returncode, 125, "no preload library")
    environment = go("--service", "named", "--level", "low", "--interval", "500", "--", "env",
                     env=clean_environment(EDGEPROF_TAGS="zone=a")).out
    for line in ("EDGEPROF_SERVICE=named", "EDGEPROF_LEVEL=low", "EDGEPROF_INTERVAL=500", "EDGEPROF_TAGS=zone=a"):
        check(line in environment, f"environment has {line}")
    check(re.search(r"EDGEPROF_ENDPOINT=http://127\.0\.0\.1:\d+\n", environment), "environment has the endpoint")
    check.equal([name for name in os.listdir("/tmp") if name.startswith("edgeprof-") and os.path.exists(f"/tmp/{name}/edgeprof.db")
                 and os.stat(f"/tmp/{name}").st_mtime > START], [], "no database is left behind")


def end_group(process):
    """Whatever a failed test has left running."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def signals(folder):
    """What is sent to `run` reaches the program, and its database is kept when it is named."""
    db = os.path.join(folder, "kept.db")
    script = f"trap 'exit 9' TERM; echo ready; while :; do {SAMPLE} 200; done"
    process = subprocess.Popen([SHIPPED, "run", "--db", db, "--service", "loop", "--", "sh", "-c", script], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=clean_environment(), start_new_session=True)
    atexit.register(end_group, process)
    check.equal(process.stdout.readline(), "ready\n", "the program runs")
    time.sleep(1)  # something to measure; how much does not matter
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    check.equal(process.returncode, 9, f"exit code of the trap: {err}")
    check("hot" in out, f"result after a signal: {out} {err}")
    check("hot" in run("top", "--db", db, "--service", "loop").out, "the named database is kept")


def keeps_serving(folder):
    process = subprocess.Popen([SHIPPED, "run", "--serve", "--", SAMPLE, "500"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, cwd=folder, env=clean_environment(), start_new_session=True)
    atexit.register(end_group, process)
    line = ""
    while not line.startswith("edgeprof: http://"):
        line = process.stdout.readline()
        if not line:
            break
    top = run("top", "--url", line.removeprefix("edgeprof: ").strip())
    check("hot" in top.out, f"the page is up afterwards: {line} {top.err}")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    check.equal(process.returncode, 0, "exit code after --serve")


def says(text, *lines):
    return all(re.search(f"^{line}$", text, re.M) for line in lines)


def control(folder):
    """A program that runs, told what to do from outside."""
    path = os.path.join(folder, "control.sock")
    at = ("--at", path)
    env = dict(clean_environment(), EDGEPROF_ENDPOINT="file:///dev/null", EDGEPROF_CONTROL=path, EDGEPROF_CONTROL_TOKEN="sesame",
               LD_PRELOAD=os.path.join(os.path.dirname(SHIPPED), "libedgeprof-preload.so"))
    program = subprocess.Popen(["sleep", "60"], env=env)
    for _ in range(100):
        if os.path.exists(path):
            break
        time.sleep(0.05)
    fails(1, "EDGEPROF_CONTROL_TOKEN", "level", *at, "high")
    known = dict(clean_environment(), EDGEPROF_CONTROL_TOKEN="sesame")
    check(says(run("status", *at, env=known).out, "level    low", "kinds    cpu", "sent     .*"), "status")
    high = run("level", "--at", "unix:" + path, "high", env=known)
    check(says(high.out, "level    high", "kinds    cpu wait lock alloc live exception gc thread heap"), f"level: {high.out}{high.err}")
    check(says(run("kinds", *at, "cpu,lock", env=known).out, "kinds    cpu lock"), "kinds alone")
    check(says(run("kinds", "on", "gc,wait", "off", "cpu", env=dict(known, EDGEPROF_CONTROL=path)).out, "kinds    wait lock gc"),
          "kinds on and off, the place from the environment")
    check.equal(run("threads", *at, env=known).returncode, 0, "threads")
    check('"running":true' in run("status", *at, "--json", env=known).out, "status --json")
    fails(2, "loud", "level", *at, "loud", env=known)
    fails(2, "wall", "kinds", *at, "cpu,wall", env=known)
    fails(2, "on", "kinds", *at, "on", env=known)
    program.terminate()
    program.wait()
    fails(1, path, "status", *at)
    fails(2, "EDGEPROF_CONTROL", "status")
    fails(2, "--at relative", "status", "--at", "relative")
    fails(1, "127.0.0.1:1:", "status", "--at", "1")


def compressed_answers(folder):
    out = os.path.join(folder, "db.pb.gz")
    check(gzip.decompress(open(out, "rb").read())[:1] == b"\x0a", "pprof is gzipped")


START = time.time()
with tempfile.TemporaryDirectory(prefix="edgeprof-test-") as folder_:
    help_texts()
    wrong_usage(folder_)
    files(folder_)
    kinds_and_labels(folder_)
    stored(folder_)
    compressed_answers(folder_)
    preload(folder_)
    signals(folder_)
    keeps_serving(folder_)
    control(folder_)
check.done("test-tools-cli")
