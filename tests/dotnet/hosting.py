#!/usr/bin/python3
"""EdgeProf.Extensions.Hosting as its users see it.

usage: hosting.py NUGET VERSION EDGEPROF PROGRAM DLL WORK

PROGRAM (tests/dotnet/Hosting) checks settings, log, health and meter in its own process; DLL is the same on CoreCLR. Then a
new web project of the SDK's template gets AddEdgeProf() and a section in appsettings.json, and nothing else; it has a hosted
service that uses CPU time while it stops. With the variable PLAIN it leaves out AddEdgeProf(). With a server that refuses, and one
that accepts and is silent, the times from SIGTERM to the end are compared, one run with and one without after the other."""
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

nuget, version, edgeprof, program, dll, work = sys.argv[1:7]
nuget, edgeprof, program, dll, work = (os.path.abspath(path) for path in (nuget, edgeprof, program, dll, work))
PAIRS, MOST_PAIRS, MOST_MS, BURN_MS, LONG_BURN_MS = 4, 40, 100, 50, 1000
LONG_TIMEOUT = "00:00:20"  # where the contents count, not the time
failed = []

SLOW = """using System.Diagnostics;
using System.Runtime.CompilerServices;
public sealed class SlowStop : IHostedService
{
    private static double sink;
    public Task StartAsync(CancellationToken token) => Task.CompletedTask;
    public Task StopAsync(CancellationToken token)
    {
        Goodbye(TimeSpan.FromMilliseconds(int.Parse(Environment.GetEnvironmentVariable("BURN_MS")!)));
        return Task.CompletedTask;
    }
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Goodbye(TimeSpan time)
    {
        using var self = Process.GetCurrentProcess();
        var end = self.TotalProcessorTime + time;
        for (; self.TotalProcessorTime < end; self.Refresh())
            for (var i = 1; i < 200_000; i++)
                sink += Math.Sqrt(i);
    }
}
"""
CONFIG = """<configuration>
  <config><add key="globalPackagesFolder" value="packages" /></config>
  <fallbackPackageFolders><add key="user" value="{cache}" /></fallbackPackageFolders>
  <packageSources><add key="edgeprof" value="{source}" /></packageSources>
</configuration>
"""


def check(good, what):
    print(f"{'ok  ' if good else 'FAIL'} {what}", flush=True)
    if not good:
        failed.append(what)


def write(path, text):
    with open(os.path.join(work, path), "w", encoding="utf-8") as file:
        file.write(text)


def run(command, folder=work, environment=None):
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode or (command[1] == "publish" and done.stdout + done.stderr):
        sys.exit(f"hosting.py: {' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")


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


def make(name):
    """A project of the template, published; returns its folder."""
    environment = clean_environment()
    run(["dotnet", "new", "web", "-o", name, "--no-restore"], environment=environment)
    project, main = (os.path.join(work, name, file) for file in (name + ".csproj", "Program.cs"))
    text = open(project, encoding="utf-8").read()
    write(project, re.sub("<TargetFramework>.*</TargetFramework>",
                          "<TargetFramework>net9.0</TargetFramework><PublishAot>true</PublishAot><TreatWarningsAsErrors>true</TreatWarningsAsErrors>", text))
    text = open(main, encoding="utf-8").read()
    added = """builder.Services.AddHostedService<SlowStop>();
if (Environment.GetEnvironmentVariable("PLAIN") is null)
    builder.Services.AddEdgeProf();
"""
    write(main, text.replace("var app =", added + "var app =", 1))
    write(os.path.join(name, "SlowStop.cs"), SLOW)
    run(["dotnet", "add", "package", "EdgeProf.Extensions.Hosting", "-v", version], os.path.join(work, name), environment)
    run(["dotnet", "publish", "-nologo", "-v", "quiet", "-o", os.path.join(work, "out", name)], os.path.join(work, name), environment)
    return os.path.join(work, "out", name)


def configure(folder, section):
    path = os.path.join(folder, "appsettings.json")
    settings = json.load(open(path, encoding="utf-8"))
    settings["EdgeProf"] = section
    write(path, json.dumps(settings))


def stop_ms(folder, seconds, burn=BURN_MS, plain=False):
    """Starts the service, ends it by SIGTERM, and returns the time to its end and its log."""
    environment = {**clean_environment(), "ASPNETCORE_URLS": "http://127.0.0.1:0", "BURN_MS": str(burn), **({"PLAIN": "1"} if plain else {})}
    name = os.path.basename(folder)
    log = os.path.join(work, name + ".log")
    with open(log, "w", encoding="utf-8") as out:
        service = subprocess.Popen([os.path.join(folder, name)], cwd=folder, env=environment, stdout=out, stderr=out)
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
        sys.exit(f"hosting.py: {name} ended with {status}:\n{text}")
    return took, text


def shutdown_is_bounded(what, profiled, port):
    """Pairs of runs; the smallest time with and without, because a busy machine only adds time. On a busy machine there are more
    pairs. A profile every 100 ms, so that an attempt to send one is under way when the signal comes."""
    section = {"Endpoint": f"http://127.0.0.1:{port}", "Level": "High", "Interval": "00:00:00.1"}
    configure(profiled, section)
    pairs, extra = [], MOST_MS + 1
    while len(pairs) < PAIRS or (extra > MOST_MS and len(pairs) < MOST_PAIRS):
        took, log = stop_ms(profiled, 0.5, plain=True)
        if "profiling" in log:
            sys.exit(f"hosting.py: PLAIN runs with the profiler:\n{log}")
        pairs.append((stop_ms(profiled, 0.5)[0], took))
        own = min(b for _, b in pairs)
        extra = min(a for a, _ in pairs) - own
    check(extra <= MOST_MS, f"{what}: from SIGTERM to the end {own + extra:.0f} ms, {own:.0f} ms without edgeprof: {extra:.0f} ms more, "
          f"at most {MOST_MS}; pairs: {', '.join(f'{a:.0f} {b:.0f}' for a, b in pairs)}")
    return section, own


def long_timeout_is_seen(profiled, section, own):
    """The same measure finds a timeout that is too long."""
    configure(profiled, {**section, "ShutdownTimeout": "00:00:01"})
    extra = min(stop_ms(profiled, 0.5)[0] for _ in range(2)) - own
    check(extra > 5 * MOST_MS, f"with a ShutdownTimeout of 1 s and a silent server it is {extra:.0f} ms more")


def burnt(profile, folder):
    """CPU time of Goodbye() in ns, and the beginning of the profile."""
    out = subprocess.run([edgeprof, "cat", "--folded", "--kind", "cpu", "--symbols", folder, profile], capture_output=True, text=True)
    lines = [line.rsplit(" ", 1) for line in out.stdout.splitlines()]
    return sum(int(v) for s, v in lines if "SlowStop" in s and "Goodbye" in s), out.stdout[:500] + out.stderr


def shutdown_is_profiled(profiled):
    profile = os.path.join(work, "file.profile")
    configure(profiled, {"Endpoint": "file://" + profile, "Level": "High", "ShutdownTimeout": LONG_TIMEOUT})
    _, log = stop_ms(profiled, 0.5, LONG_BURN_MS)
    value, text = burnt(profile, profiled)
    share = value / (LONG_BURN_MS * 1e6)
    check(0.7 < share < 1.3, f"{share:.0%} of the shutdown's CPU time is in the profile of a file{'' if value else ': ' + text}")
    check(f"profiling at level High; profiles go to file://{profile}" in log and "stopped: " in log, "the log has the start and the end")


def shutdown_is_spooled(profiled):
    spool, profile = os.path.join(work, "spool"), os.path.join(work, "spooled.profile")
    configure(profiled, {"Endpoint": "http://127.0.0.1:9", "Level": "High", "SpoolDirectory": spool, "ShutdownTimeout": LONG_TIMEOUT})
    _, log = stop_ms(profiled, 0.5, LONG_BURN_MS)
    check(re.search(r"stopped: 0 messages delivered, [1-9]\d* in the spool", log) is not None, f"without a server it is in the spool: {log.splitlines()[-1]}")
    configure(profiled, {"Endpoint": "file://" + profile, "SpoolDirectory": spool})
    stop_ms(profiled, 4, burn=0)
    value, text = burnt(profile, profiled)
    share = value / (LONG_BURN_MS * 1e6)
    check(0.7 < share < 1.3, f"{share:.0%} of it arrives after the next start{'' if value else ': ' + text}")


def wrong_setting(profiled):
    configure(profiled, {"Endpoint": "gateway:4040", "Level": "High"})
    done = subprocess.run([os.path.join(profiled, "profiled")], cwd=profiled, env={**clean_environment(), "BURN_MS": "0"}, capture_output=True, text=True, timeout=60)
    said = next((line for line in (done.stdout + done.stderr).splitlines() if "EdgeProf: Endpoint must be" in line), "")
    check(done.returncode != 0 and said != "", f"a wrong endpoint: status {done.returncode}, {said}")


shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
in_process()
write("Directory.Build.props", "<Project />")
write("Directory.Build.targets", "<Project />")
write("nuget.config", CONFIG.format(cache=os.environ.get("NUGET_PACKAGES", os.path.expanduser("~/.nuget/packages")), source=nuget))
PROFILED = make("profiled")
wrong_setting(PROFILED)
shutdown_is_profiled(PROFILED)
shutdown_is_spooled(PROFILED)
shutdown_is_bounded("a server that refuses", PROFILED, 9)
with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
    long_timeout_is_seen(PROFILED, *shutdown_is_bounded("a server that accepts and is silent", PROFILED, silent.getsockname()[1]))
print(f"hosting.py: {len(failed)} failures")
sys.exit(1 if failed else 0)
