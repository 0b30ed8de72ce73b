#!/usr/bin/python3
"""EdgeProf.Extensions.Hosting as its users see it.

usage: hosting.py EDGEPROF PROGRAM DLL WORK

PROGRAM is tests/dotnet/Hosting, published from the NuGet packages; DLL is the same on CoreCLR. It checks settings, log, health and
meter in its own process. `PROGRAM --service` is the SDK's template of a web service with AddEdgeProf(), a section in appsettings.json,
and a hosted service that uses CPU time while it stops. With the variable PLAIN it leaves out AddEdgeProf(). With a server that
refuses, and one that accepts and is silent, the times from SIGTERM to the end are compared, one run with and one without after the
other."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

edgeprof, program, dll, work = (os.path.abspath(path) for path in sys.argv[1:5])
PAIRS, MOST_PAIRS, MOST_MS, BURN_MS, LONG_BURN_MS = 4, 40, 100, 50, 1000
LONG_TIMEOUT = "00:00:20"  # where the contents count, not the time
failed = []


def check(good, what):
    print(f"{'ok  ' if good else 'FAIL'} {what}", flush=True)
    if not good:
        failed.append(what)


def clean_environment():
    return {k: v for k, v in os.environ.items() if not k.lower().startswith(("edgeprof", "pyroscope", "otel", "nuget_packages"))}


def in_process():
    folder = os.path.join(work, "checks")
    os.makedirs(folder)
    automatic = {"EDGEPROF_ENDPOINT": "file://" + os.path.join(folder, "automatic.profile")}
    for command, added in (([program, folder], {}), ([program, "--disabled"], automatic), (["dotnet", dll, "--jit"], {})):
        done = subprocess.run(command, env={**clean_environment(), **added}, capture_output=True, text=True)
        print(done.stdout, end="")
        check(done.returncode == 0 and not done.stderr, f"{command[0]}: status {done.returncode}, nothing on stderr{': ' + done.stderr if done.stderr else ''}")
    database = os.path.join(folder, "db")
    subprocess.run([edgeprof, "import", "--db", database, os.path.join(folder, "routes.profile")], check=True, capture_output=True)
    listed = subprocess.run([edgeprof, "incidents", "--db", database], capture_output=True, text=True)
    slow = listed.stdout.count("/orders/{id}")
    check(slow >= 2, f"{slow} incidents of slow requests are called by their route{': ' + listed.stdout + listed.stderr if slow < 2 else ''}")


def configure(section):
    with open(os.path.join(work, "appsettings.json"), "w", encoding="utf-8") as file:
        json.dump({"AllowedHosts": "*", "EdgeProf": section}, file)


def stop_ms(seconds, burn=BURN_MS, plain=False):
    """Starts the service, ends it by SIGTERM, and returns the time to its end and its log."""
    environment = {**clean_environment(), "ASPNETCORE_URLS": "http://127.0.0.1:0", "BURN_MS": str(burn), **({"PLAIN": "1"} if plain else {})}
    log = os.path.join(work, "service.log")
    with open(log, "w", encoding="utf-8") as out:
        service = subprocess.Popen([program, "--service"], cwd=work, env=environment, stdout=out, stderr=out)
    for _ in range(600):
        if "Application started" in open(log, encoding="utf-8").read() or service.poll() is not None:
            break
        time.sleep(0.05)
    time.sleep(seconds)
    begin = time.monotonic()
    service.send_signal(signal.SIGTERM)
    late = threading.Timer(120, service.kill)
    late.start()
    status = service.wait() # with a timeout it would poll
    late.cancel()
    took = (time.monotonic() - begin) * 1000
    text = open(log, encoding="utf-8").read()
    if status:
        sys.exit(f"hosting.py: the service ended with {status}:\n{text}")
    return took, text


def shutdown_is_bounded(what, port):
    """Pairs of runs; the smallest time with and without, because a busy machine only adds time. On a busy machine there are more
    pairs. A profile every 100 ms, so that an attempt to send one is under way when the signal comes."""
    section = {"Endpoint": f"http://127.0.0.1:{port}", "Level": "High", "Interval": "00:00:00.1"}
    configure(section)
    pairs, extra = [], MOST_MS + 1
    while len(pairs) < PAIRS or (extra > MOST_MS and len(pairs) < MOST_PAIRS):
        took, log = stop_ms(0.5, plain=True)
        if "profiling" in log:
            sys.exit(f"hosting.py: PLAIN runs with the profiler:\n{log}")
        pairs.append((stop_ms(0.5)[0], took))
        own = min(b for _, b in pairs)
        extra = min(a for a, _ in pairs) - own
    check(extra <= MOST_MS, f"{what}: from SIGTERM to the end {own + extra:.0f} ms, {own:.0f} ms without edgeprof: {extra:.0f} ms more, "
          f"at most {MOST_MS}; pairs: {', '.join(f'{a:.0f} {b:.0f}' for a, b in pairs)}")
    return section, own


def long_timeout_is_seen(section, own):
    """The same measure finds a timeout that is too long."""
    configure({**section, "ShutdownTimeout": "00:00:01"})
    extra = min(stop_ms(0.5)[0] for _ in range(2)) - own
    check(extra > 5 * MOST_MS, f"with a ShutdownTimeout of 1 s and a silent server it is {extra:.0f} ms more")


def burnt(profile):
    """CPU time of Goodbye() in ns, and the beginning of the profile."""
    out = subprocess.run([edgeprof, "cat", "--folded", "--kind", "cpu", "--symbols", os.path.dirname(program), profile], capture_output=True, text=True)
    lines = [line.rsplit(" ", 1) for line in out.stdout.splitlines()]
    return sum(int(v) for s, v in lines if "SlowStop" in s and "Goodbye" in s), out.stdout[:500] + out.stderr


def shutdown_is_profiled():
    profile = os.path.join(work, "file.profile")
    configure({"Endpoint": "file://" + profile, "Level": "High", "ShutdownTimeout": LONG_TIMEOUT})
    _, log = stop_ms(0.5, LONG_BURN_MS)
    value, text = burnt(profile)
    share = value / (LONG_BURN_MS * 1e6)
    check(0.7 < share < 1.3, f"{share:.0%} of the shutdown's CPU time is in the profile of a file{'' if value else ': ' + text}")
    check(f"profiling at level High; profiles go to file://{profile}" in log and "stopped: " in log, "the log has the start and the end")


def shutdown_is_spooled():
    spool, profile = os.path.join(work, "spool"), os.path.join(work, "spooled.profile")
    configure({"Endpoint": "http://127.0.0.1:9", "Level": "High", "SpoolDirectory": spool, "ShutdownTimeout": LONG_TIMEOUT})
    _, log = stop_ms(0.5, LONG_BURN_MS)
    check(re.search(r"stopped: 0 messages delivered, [1-9]\d* in the spool", log) is not None, f"without a server it is in the spool: {log.splitlines()[-1]}")
    configure({"Endpoint": "file://" + profile, "SpoolDirectory": spool})
    stop_ms(4, burn=0)
    value, text = burnt(profile)
    share = value / (LONG_BURN_MS * 1e6)
    check(0.7 < share < 1.3, f"{share:.0%} of it arrives after the next start{'' if value else ': ' + text}")


def wrong_setting():
    configure({"Endpoint": "gateway:4040", "Level": "High"})
    done = subprocess.run([program, "--service"], cwd=work, env={**clean_environment(), "BURN_MS": "0"}, capture_output=True, text=True, timeout=60)
    said = next((line for line in (done.stdout + done.stderr).splitlines() if "EdgeProf: Endpoint must be" in line), "")
    check(done.returncode != 0 and said != "", f"a wrong endpoint: status {done.returncode}, {said}")


shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
in_process()
wrong_setting()
shutdown_is_profiled()
shutdown_is_spooled()
shutdown_is_bounded("a server that refuses", 9)
with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
    long_timeout_is_seen(*shutdown_is_bounded("a server that accepts and is silent", silent.getsockname()[1]))
print(f"hosting.py: {len(failed)} failures")
sys.exit(1 if failed else 0)
