#!/usr/bin/env python3
"""What the sample service's profile costs and lacks, with everything on: its own labels and spans under its own load.

    truncated.py --edgeprof TOOL --program SERVICE --work FOLDER [--seconds 45] [--warm 10] [--levels low,medium,high] [--most PCT]
                 [--budget PPM] [--suffix _TEXT] [--everything]
    truncated.py --edgeprof TOOL --work FOLDER --name NAME [--preload LIBRARY] [--most PCT] -- COMMAND...

The second form runs a command that ends by itself, at level high. The service runs with the default interval, sends to `edgeprof serve`, and has
no budget unless one is named. Prints figures for `make bench`, and the statistics that the service reports at its control endpoint:

truncated_KIND_pct_LEVEL, contexts_lost_pct_LEVEL   over the whole run
overhead_LEVEL_pct    what the profiler accounts to itself (time in handlers, CPU time of the collect and the deliver thread) in percent of the CPU
                      time of the rest of the process, from about WARM seconds to the end; with _hooks also hooks that took no sample, over the
                      last minute, as the governor accounts them
rate_held_LEVEL_pct   CPU samples for each second of that CPU time, in percent of the level's rate
stretch_LEVEL_pct     with a budget: the sampling distance at the end, in percent of the level's

With --everything the service, published with EdgeProfCrash, EdgeProfNativeMemory and EdgeProfOtelContext, also has every kind of the list, async
parents, a history for incidents, crash records and OpenTelemetry's contexts; each of them must be on, as the status says it.

With --most it fails when a share is larger, or when without a budget a distance was stretched.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

KINDS = {"low": ["cpu"], "medium": ["cpu", "alloc"], "high": ["cpu", "alloc", "wait"]}
EVERYTHING = ["cpu", "alloc", "live", "wait", "lock", "exception"]


def address(process, log):
    """Of the server or service, as its log says it."""
    for _ in range(200):
        found = re.search(r"http://(127[^\s/]*)", log.read_text())
        if found:
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit(f"truncated.py: {process.args[0]} did not start, see {log}")


def start(command, log, **environment):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("EDGEPROF")}
    with open(log, "w", encoding="utf-8") as out:
        return subprocess.Popen(command, stdout=out, stderr=out, env={**kept, **environment})


def end(process):
    process.send_signal(signal.SIGTERM)
    process.wait(60)


def status(tool, control):
    done = subprocess.run([tool, "status", "--json", "--at", control], capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def everything(work):
    """What is off by default, but for spans and labels, which the service sets itself."""
    crashes = work / "crashes"
    crashes.mkdir(exist_ok=True)
    return {"EDGEPROF_KINDS": ",".join(EVERYTHING), "EDGEPROF_AWAITED": "1", "EDGEPROF_INCIDENT": "1", "EDGEPROF_CRASH": f"{crashes}/",
            "EDGEPROF_OTEL_CONTEXT": "1", "EDGEPROF_THREAD_LABELS": "1"}


def missing(a, work, control, pid, database):
    """Which of it is not there."""
    done = subprocess.run([a.edgeprof, "incident", "--now", "--at", control], capture_output=True, text=True, check=False)
    listed = subprocess.CompletedProcess((), 1)
    for _ in range(40 if done.returncode == 0 else 0):  # the history's tail, and delivery
        time.sleep(0.5)
        listed = subprocess.run([a.edgeprof, "incidents", "--db", database], capture_output=True, text=True, check=False)
        if listed.returncode == 0:
            break
    profile = folded(a.edgeprof, database, "alloc")
    there = {"incidents": listed.returncode == 0, "crash records": any((work / "crashes").iterdir()),
             "OpenTelemetry's contexts": "OTEL_CTX" in pathlib.Path(f"/proc/{pid}/maps").read_text(),
             "async parents": "[awaited by]" in profile, "native memory": "[native]" in profile}
    return [name for name, found in there.items() if not found]


def folded(tool, database, kind):
    return subprocess.run([tool, "export", "--db", database, "--kind", kind, "--folded"], capture_output=True, text=True, check=False).stdout


def shares(tool, database, kind):
    """Percentage in [truncated]; None without samples."""
    total = truncated = 0
    for line in folded(tool, database, kind).splitlines():
        path, _, value = line.rpartition(" ")
        total += int(value)
        truncated += int(value) if "[truncated]" in path.split(";") else 0
    return 100 * truncated / total if total else None


class Snapshot:
    """What the service has used and sampled so far. The profiler adds up the time of its handlers every few seconds, so a snapshot
    waits for such a moment."""

    def __init__(self, a, control, pid):
        before = status(a.edgeprof, control).get("handler_ns")
        for _ in range(80):
            time.sleep(0.25)
            self.said = status(a.edgeprof, control)
            if self.said.get("handler_ns") != before:
                break
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        self.cpu_ns = (int(fields[11]) + int(fields[12])) * 1e9 / os.sysconf("SC_CLK_TCK")
        self.own_ns = sum(self.said[name] for name in ("handler_ns", "collect_cpu_ns", "deliver_cpu_ns"))
        self.samples = self.said["samples"]


def cost(level, suffix, first, last):
    own, cpu, samples = (getattr(last, name) - getattr(first, name) for name in ("own_ns", "cpu_ns", "samples"))
    governor = last.said["governor"]
    rate = 1e9 / (last.said["kinds"]["cpu"]["period"] * 100 / governor["stretch_pct"])
    print(f"figure overhead_{level}{suffix}_pct {100 * own / (cpu - own):.4f} %")
    print(f"figure overhead_{level}{suffix}_hooks_pct {governor['cost_ppm'] / (1e4 - governor['cost_ppm'] / 100):.4f} %")
    print(f"figure rate_held_{level}{suffix}_pct {100 * samples / ((cpu - own) / 1e9) / rate:.1f} %")
    if governor["budget_ppm"]:
        print(f"figure stretch_{level}{suffix}_pct {governor['stretch_pct']} %")
    parts = ", ".join(f"{name} {(last.said[name] - first.said[name]) / 1e6:.1f} ms" for name in ("handler_ns", "collect_cpu_ns", "deliver_cpu_ns"))
    weight = (last.said["weight_ns"] - first.said["weight_ns"]) / (cpu - own)
    print(f"{level}{suffix}: {parts} in {cpu / 1e9:.1f} s of CPU time, {samples} samples at {rate:.0f} Hz stand for {100 * weight:.1f} % of it, {governor}")


def run(a, level):
    work = pathlib.Path(a.work).resolve()
    database, control = work / f"{level}.db", work / f"{level}.sock"
    for old in work.glob(f"{level}.db*"):
        old.unlink()
    server = start([a.edgeprof, "serve", "--db", database, "--listen", "127.0.0.1:0"], work / "serve.log")
    to = address(server, work / "serve.log")
    service = start([a.program], work / "service.log", ASPNETCORE_URLS="http://127.0.0.1:0", EDGEPROF_ENDPOINT="http://" + to,
                    EDGEPROF_LEVEL=level, EDGEPROF_CONTROL=str(control), **({"EDGEPROF_BUDGET": str(a.budget)} if a.budget else {}),
                    **(everything(work) if a.everything else {}))
    url = "http://" + address(service, work / "service.log")
    load = start([a.program, "--load", url, "--seconds", "3600"], work / "load.log")
    began = time.monotonic()
    time.sleep(a.warm)
    first = Snapshot(a, control, service.pid)
    time.sleep(max(0, a.seconds - (time.monotonic() - began)))
    last = Snapshot(a, control, service.pid)
    lacking = missing(a, work, control, service.pid, database) if a.everything else []
    load.kill()
    load.wait()
    end(service)
    end(server)
    cost(level, a.suffix, first, last)
    if lacking:
        sys.exit(f"truncated.py: {level}: there are no {' and no '.join(lacking)}")
    return {kind: shares(a.edgeprof, database, kind) for kind in (EVERYTHING if a.everything else KINDS[level])}, last.said


def run_command(a):
    work = pathlib.Path(a.work).resolve()
    database = work / f"{a.name}.db"
    for old in work.glob(f"{a.name}.db*"):
        old.unlink()
    server = start([a.edgeprof, "serve", "--db", database, "--listen", "127.0.0.1:0"], work / "serve.log")
    log = work / f"{a.name}.log"
    command = start(a.command, log, EDGEPROF_ENDPOINT="http://" + address(server, work / "serve.log"), EDGEPROF_LEVEL="high",
                    EDGEPROF_SERVICE=a.name, EDGEPROF_INTERVAL="10000", **({"LD_PRELOAD": a.preload} if a.preload else {}))
    failed = command.wait()
    said = log.read_text().strip()
    end(server)
    share = shares(a.edgeprof, database, "cpu")
    print(f"figure truncated_cpu_pct_{a.name} {share:.2f} %" if share is not None else f"{a.name}: no profile")
    print(f"{a.name}: {said}")
    return f"{a.name}: status {failed}, {share} %, allowed are {a.most}" if failed or share is None or share > a.most else None


def main():
    parser = argparse.ArgumentParser()
    for option in ("edgeprof", "work"):
        parser.add_argument("--" + option, required=True)
    for option in ("program", "name", "preload"):
        parser.add_argument("--" + option)
    parser.add_argument("command", nargs="*")
    parser.add_argument("--seconds", type=int, default=45)
    parser.add_argument("--levels", default="low,medium,high")
    parser.add_argument("--most", type=float, default=100)
    parser.add_argument("--warm", type=int, default=10)
    parser.add_argument("--budget", type=int, default=0)
    parser.add_argument("--suffix", default="")
    parser.add_argument("--everything", action="store_true")
    a = parser.parse_args()
    pathlib.Path(a.work).mkdir(parents=True, exist_ok=True)
    if a.command:
        # On a busy machine the server may answer so late that nothing can leave the program; once more, then it counts.
        wrong = run_command(a) and run_command(a)
        if wrong:
            sys.exit("truncated.py: " + wrong)
        return
    bad = []
    for level in a.levels.split(","):
        found, said = run(a, level)
        for kind, share in found.items():
            if share is None and kind in ("lock", "exception"):
                continue  # a quiet service has none
            if share is None:
                bad.append(f"{level}: no {kind}")
                continue
            print(f"figure truncated_{kind}_pct_{level}{a.suffix} {share:.2f} %")
            if share > a.most:
                bad.append(f"{level}: {share:.2f} % of {kind}")
        lost = said.get("losses", {}).get("labels full", {}).get("count", 0)
        events = sum(said.get(quality, 0) for quality in ("exact", "gap", "cut"))
        contexts = 100 * lost / max(1, events)
        print(f"figure contexts_lost_pct_{level}{a.suffix} {contexts:.2f} %")
        if contexts > a.most or not events:
            bad.append(f"{level}: {contexts:.2f} % of {events} events lost their labels and span")
        if not a.budget and said["governor"]["stretches"]:
            bad.append(f"{level}: distances were stretched without a budget")
        print(f"{level}: {events} events, {said.get('messages')} messages, {said.get('intervals_early')} early, losses {said.get('losses')}")
    if bad:
        sys.exit("truncated.py: " + ", ".join(bad))


if __name__ == "__main__":
    main()
