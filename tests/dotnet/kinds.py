#!/usr/bin/python3
"""Every kind of profile of a real service arrives: in `edgeprof serve` with its own unit, count and stacks, and in the pprof that
the device itself writes under the names that Go's profiles have.

usage: kinds.py EDGEPROF PROGRAM WORK           RUNNER in the environment starts the program, such as on_machine.py"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time
import urllib.request

# kind: unit, what one of the count is, a method that must be in its stacks, sample types in pprof and a frame that needs no symbols
KINDS = {
    "cpu": ("nanoseconds", "samples", "Make.Cpu", "samples/count cpu/nanoseconds", ""),
    "wait": ("nanoseconds", "waits", "Make.Wait", "contentions/count delay/nanoseconds", "[sleep]"),
    "lock": ("nanoseconds", "contentions", "Make.Lock", "contentions/count delay/nanoseconds", "[lock]"),
    "alloc": ("bytes", "objects", "Make.Allocation", "alloc_objects/count alloc_space/bytes", ""),
    "live": ("bytes", "objects", "Make.LiveHeap", "inuse_objects/count inuse_space/bytes", ""),
    "exception": ("count", "", "Make.Exception", "exception/count", ""),
    "gc": ("nanoseconds", "pauses", "[gc gen0]", "pauses/count pause/nanoseconds", "[gc gen0]"),
    "thread": ("count", "", "Make.HoldLock", "goroutine/count", ""),
    "heap": ("bytes", "", "[gc unused]", "heap_size/bytes", "[gc unused]"),
}
SECONDS = "5"
edgeprof, program, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
wrong = []


def run(**settings):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
    env.update({"EDGEPROF_" + k: v for k, v in settings.items()}, EDGEPROF_LEVEL="high", EDGEPROF_SERVICE="kinds")
    out = subprocess.run([*os.environ.get("RUNNER", "").split(), program, SECONDS], env=env, capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"kinds.py: the program ended with {out.returncode}\n{out.stdout}{out.stderr}")


def serve():
    log = open(os.path.join(work, "serve.log"), "w+", encoding="utf-8")
    server = subprocess.Popen([edgeprof, "serve", "--listen", "127.0.0.1:0", "--db", os.path.join(work, "kinds.db"),
                               "--symbols", os.path.dirname(program)], stdout=log, stderr=log)
    for _ in range(100):
        found = re.search(r"http://127\.0\.0\.1:\d+", open(log.name, encoding="utf-8").read())
        if found:
            return server, found.group(0)
        time.sleep(0.1)
    sys.exit("kinds.py: the server did not start: " + open(log.name, encoding="utf-8").read())


def get(url):
    with urllib.request.urlopen(url) as answer:
        return json.loads(answer.read())


def names(call):
    yield call["name"]
    for child in call.get("children", ()):
        yield from names(child)


def named(url, method):
    """The server reads symbol files in another process: an answer can have addresses until it has read them."""
    for _ in range(300):
        profile = get(url)
        if any(method in name for name in names(profile["tree"])):
            break
        time.sleep(0.1)
    return profile


def on_the_server():
    server, url = serve()
    run(ENDPOINT=url)
    listed = {row["kind"]: row for row in get(url + "/api/services")["services"]}
    for kind, (unit, counts, method, *_) in KINDS.items():
        row = listed.get(kind)
        if not row or (row["unit"], row["counts"]) != (unit, counts):
            wrong.append(f"serve lists {kind} as {row and (row['unit'], row['counts'])}, not {(unit, counts)}")
            continue
        profile = named(f"{url}/api/profile?service=kinds&kind={kind}", method)
        if profile["unit"] != unit or not profile["total"]:
            wrong.append(f"the profile of {kind} has {profile['total']} {profile['unit']}")
        if not any(method in name for name in names(profile["tree"])):
            wrong.append(f"no stack of {kind} has {method}")
        print(f"kinds.py: serve: {kind}: {profile['total']} {unit}")
    threads = get(f"{url}/api/profile?service=kinds&kind=thread")["labels"].get("thread", {})
    for name in ("Kinds", "rïval with a l", ".NET TP Worker"):
        if not threads.get(name):
            wrong.append(f"no thread is called {name}, there are {sorted(threads)}")
    print(f"kinds.py: threads: {', '.join(sorted(threads))}")
    server.terminate()
    server.wait(20)


def messages(path):
    data, at = open(path, "rb").read(), 0
    while at < len(data):
        size, = struct.unpack_from("<I", data, at)
        yield data[at + 4:at + 4 + size]
        at += 4 + size


def types_of(raw):
    return re.search(r"^Samples:\n(.*)$", raw, re.M).group(1).replace("[dflt]", "")


def has(raw, types, frame):
    return set(types.split()) <= set(types_of(raw).split()) and frame in raw


def in_pprof():
    path = os.path.join(work, "kinds.pprof")
    run(ENDPOINT="file://" + path, FORMAT="pprof")
    found = []
    for i, message in enumerate(messages(path)):
        one = os.path.join(work, f"{i}.pb")
        with open(one, "wb") as out:
            out.write(message)
        found.append(subprocess.run(["go", "tool", "pprof", "-raw", one], capture_output=True, text=True, check=True).stdout)
    for kind, (*_, types, frame) in KINDS.items():
        if not any(has(raw, types, frame) for raw in found):
            wrong.append(f"none of the device's {len(found)} pprofs has {types} {frame} for {kind}")
    print(f"kinds.py: pprof: {len(found)} messages, {len({types_of(raw) for raw in found})} families")


on_the_server()
in_pprof()
for text in wrong:
    print(f"kinds.py: {text}", file=sys.stderr)
sys.exit(bool(wrong))
