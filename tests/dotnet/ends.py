#!/usr/bin/python3
"""How a .NET service ends, and how its level changes, on a whole ARM machine: what arrives against the program's own count.

usage: ends.py EDGEPROF PROGRAM WORK              on_machine.py has booted a machine with PROGRAM; see there
       ends.py EDGEPROF PROGRAM WORK --power      boots two machines with one disk: the power of the first is cut

The program (tests/dotnet/Programs/Counted.cs) throws 40 times a second, and says how often so far."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(TREE / "tests/arm/qemu"))
import on_machine  # noqa: E402

edgeprof, program, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
PORT_TOKEN = {"EDGEPROF_CONTROL": "4041", "EDGEPROF_CONTROL_TOKEN": "a token that is long enough"}
INTERVAL_S, OUTAGE_S = 2, 130
UNWRITTEN_S = 60 + 2 * INTERVAL_S + 6  # core/features/spool/README.md: the messages of a minute and the current interval


def check(good, what):
    if not good:
        sys.exit(f"ends.py: {what}")


class Counted:
    """The program there, and how often it has thrown."""

    def __init__(self, **settings):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
        self.process = subprocess.Popen([on_machine.__file__, "run", program], env={**env, **settings}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def until(self, count):
        """The line with that count or a later one."""
        for line in self.process.stdout:
            self.last = int(line)
            if self.last >= count:
                return self.last
        sys.exit(f"ends.py: the program has ended before {count}")

    def end(self):
        """Its last count and its exit status, after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        rest = self.process.stdout.read().split()
        return int(rest[-1]) if rest else self.last, self.process.wait()


def told(profile):
    """Exceptions in what a file:// endpoint wrote."""
    text = subprocess.run([edgeprof, "cat", "--folded", "--kind", "exception", profile], capture_output=True, text=True).stdout
    return sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines())


def fresh(name):
    path = os.path.join(work, name)
    if os.path.exists(path):
        os.unlink(path)
    return path


def terminated():
    profile = fresh("terminated.profile")
    counted = Counted(EDGEPROF_ENDPOINT="file://" + profile, EDGEPROF_LEVEL="high", EDGEPROF_INTERVAL="60000")
    counted.until(100)
    last, status = counted.end()
    check(status == 128 + signal.SIGTERM, f"SIGTERM: exit status {status}")
    check(0 <= told(profile) - last <= 1, f"SIGTERM: {told(profile)} exceptions told of {last}")
    print(f"ends.py: SIGTERM: {told(profile)} exceptions told of {last}, the signal ended it")


def level():
    """None at level low; then from the answer of the control endpoint on."""
    profile = fresh("level.profile")
    counted = Counted(EDGEPROF_ENDPOINT="file://" + profile, EDGEPROF_LEVEL="low", **PORT_TOKEN)
    before = counted.until(50)
    done = subprocess.run([edgeprof, "level", "high", "--at", os.environ["MACHINE_CONTROL"]], env={**os.environ, **PORT_TOKEN}, capture_output=True, text=True)
    check(done.returncode == 0, f"edgeprof level: {done.stderr}")
    status = subprocess.run([edgeprof, "status", "--at", os.environ["MACHINE_CONTROL"]], env={**os.environ, **PORT_TOKEN}, capture_output=True, text=True).stdout
    check("high" in status, f"edgeprof status: {status}")
    after = counted.until(0)
    counted.until(after + 100)
    last, _ = counted.end()
    number = told(profile)
    # lines in the pipe are older than the answer
    check(last - after - 40 * 20 <= number <= last - before + 1, f"level: {number} exceptions told, {last - after} to {last - before} thrown since high")
    print(f"ends.py: level low to high: {number} exceptions told, {last - before} thrown since shortly before")


def serve(database):
    server = subprocess.Popen([edgeprof, "serve", "--listen", "127.0.0.1:0", "--db", database], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return server, re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())[0]


def total(url, service):
    try:
        with urllib.request.urlopen(f"{url}/api/profile?service={service}&kind=exception") as answer:
            return json.loads(answer.read())["total"]
    except urllib.error.HTTPError:
        return 0


def uptime_s():
    return float(on_machine.ask(int(os.environ["MACHINE"]), "cat /proc/uptime").split()[0])


def boot(folder, disk):
    folder.mkdir()
    prepare = "mkdir /spool; mount -t ext4 /dev/vda /spool"
    machine = on_machine.Machine(folder, [program], ["-drive", f"file={disk},format=raw,if=none,id=disk", "-device", "virtio-blk-device,drive=disk"], prepare)
    os.environ["MACHINE"] = str(machine.port)
    return machine


def power():
    """No server answers, until the power is cut; what was spooled arrives after the next boot, all but the last minute."""
    folder = pathlib.Path(work, "power")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    disk = folder / "disk"
    with open(disk, "wb") as out:
        out.truncate(32 << 20)
    subprocess.run(["/sbin/mke2fs", "-q", "-t", "ext4", "-F", disk], check=True)
    spool = {"EDGEPROF_SPOOL": "/spool/profiles", "EDGEPROF_LEVEL": "high", "EDGEPROF_INTERVAL": str(INTERVAL_S * 1000)}
    machine = boot(folder / "first", disk)
    counted = Counted(EDGEPROF_ENDPOINT="http://127.0.0.1:1", EDGEPROF_SERVICE="before", **spool)
    began, first, last = uptime_s(), counted.until(1), 1
    while uptime_s() - began < OUTAGE_S:
        last = counted.until(last + 100)
    rate = (last - first) / (uptime_s() - began)
    machine.cut()
    counted.process.kill()
    server, url = serve(folder / "db")
    machine = boot(folder / "second", disk)
    counted = Counted(EDGEPROF_ENDPOINT=url, EDGEPROF_SERVICE="after", **spool)
    counted.until(200)
    counted.end()
    machine.cut()
    number = total(url, "before")
    server.terminate()
    check(last - UNWRITTEN_S * rate <= number <= last + rate, f"power cut: {number} exceptions told of {last}, {rate:.0f} a second")
    print(f"ends.py: power cut: {number} exceptions told of {last}, {rate:.0f} a second: {max(0, last - number) / rate:.0f} s are missing")


os.makedirs(work, exist_ok=True)
if "--power" in sys.argv:
    power()
else:
    terminated()
    level()
