#!/usr/bin/python3
"""Device and host name the methods of a .NET program alike: names that the device pushes with a profile, and names that the
tool finds for addresses.

usage: names.py EDGEPROF NAMES TABLE WORK"""
import os
import re
import subprocess
import sys

edgeprof, names, table, work = (os.path.abspath(argument) for argument in sys.argv[1:5])
os.makedirs(work, exist_ok=True)
FORMS = {".ctor(lambda#0)", "RunAsync(async)", "RunAsync(lambda#0)(async)", "RunAsync.LocalAsync(local)(async)", "RunAsync.Inner(local)",
         "RunAsync.Items(local)(iterator)", "Stream(iterator)"}


def run(*command, **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
    done = subprocess.run(command, capture_output=True, text=True, env={**env, **variables}, timeout=120)
    if done.returncode != 0:
        sys.exit(f"names.py: {' '.join(command[:3])}: {done.stdout}{done.stderr}")
    return done.stdout


def forms(who, *options, **variables):
    """The methods that use the time, without type arguments, which only the host knows. To it the program has another name than
    its assembly."""
    profile = os.path.join(work, who)
    if os.path.exists(profile):
        os.remove(profile)
    run(names, "burn", "file://" + profile, **variables)
    stacks = run(edgeprof, "cat", "--folded", "--kind", "cpu", *options, profile).splitlines()
    found = {re.sub(r"<[^<>]*>", "", frame).removeprefix("Programs.") for stack in stacks for frame in stack.rsplit(" ", 1)[0].split(";")}
    return {frame.removeprefix("NameForms.") for frame in found if frame.startswith("NameForms.")} - {"Burn"}


print(run(names, "table", table), end="")
device = forms("device", EDGEPROF_NAMES="1", EDGEPROF_FORMAT="pprof")
host = forms("host", "--symbols", os.path.dirname(os.path.realpath(names)))
for who, found in (("device", device), ("host", host)):
    if not FORMS <= found:
        sys.exit(f"names.py: the {who} has {sorted(found)}, missing {sorted(FORMS - found)}")
COMPILER = [frame for frame in device | host if re.search(r"[<>|]", frame)]
if COMPILER:
    sys.exit(f"names.py: names of the compiler: {COMPILER}")
print(f"names.py: device and host name {len(FORMS)} forms alike")
