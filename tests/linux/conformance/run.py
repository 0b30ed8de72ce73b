#!/usr/bin/env python3
"""What devices really send to Pyroscope's push API, taken from the socket and held against rules.py, protoc and go tool pprof.

    run.py WORK PUSH_PROTO PROFILE_PROTO C_PROGRAM [NATIVEAOT_PROGRAM]"""
import base64
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from proto import decode
from receiver import Receiver
import rules

work, push_proto, profile_proto = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
programs = [os.path.abspath(argument) for argument in sys.argv[4:]]
failed = []


def want(condition, text):
    if not condition:
        failed.append(text)


def run(program, url, seconds="4", **settings):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("EDGEPROF", "PYROSCOPE", "OTEL"))}
    env.update(PYROSCOPE_SERVER_ADDRESS=url, PYROSCOPE_APPLICATION_NAME="conformance", EDGEPROF_LEVEL="high", EDGEPROF_INTERVAL="1000",
               EDGEPROF_THREAD_LABELS="1", EDGEPROF_TAGS="zone=north,odd=a\udcffb,service_name=other,zone=twice")
    env.update(settings)
    done = subprocess.run([program, seconds], env=env, capture_output=True, text=True, timeout=120)
    want(done.returncode == 0, f"{program} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def protoc(message, proto, data):
    done = subprocess.run(["protoc", f"--proto_path={proto.parent}", f"--decode={message}", proto.name], input=data, capture_output=True)
    want(done.returncode == 0, f"protoc: {message}: {done.stderr.decode()}")
    want(not re.search(rb"^\s*\d+[:\s{]", done.stdout, re.M), f"protoc: {message} has a field that the published schema does not know")
    return done.stdout


def pprof_samples(path):
    done = subprocess.run(["go", "tool", "pprof", "-raw", path], capture_output=True, text=True)
    want(done.returncode == 0, f"go tool pprof: {path}: {done.stderr}")
    if done.returncode:
        return None
    rows = done.stdout.split("Samples:")[1].split("Locations")[0].splitlines()[2:]
    return [int(n) for n in map(sum, zip(*([int(v) for v in re.match(r"[\d\s]+(?=:)", row)[0].split()] for row in rows
                                           if re.match(r"\s*\d+[\d\s]*:", row))))]


def profiles(receiver, what, named):
    """family -> decoded profiles, all of them checked."""
    folder, found = work / what, {}
    folder.mkdir(parents=True)
    want(not receiver.wrong, f"{what}: {receiver.wrong}")
    for number, (head, body) in enumerate(receiver.requests):
        for rule, text in rules.check_push(head, body, time.time(), named):
            failed.append(f"{what}: request {number}: {rule}: {text}")
        protoc("push.v1.PushRequest", push_proto, body)
        for series in decode("PushRequest", body)["series"]:
            labels = {pair["name"]: pair["value"] for pair in series["labels"]}
            data = rules.inflated(series["samples"][0]["raw_profile"])
            want(b"string_table" in protoc("perftools.profiles.Profile", profile_proto, data), f"{what}: protoc shows no strings")
            path = folder / f"{number:03}.{labels[b'__name__'].decode()}.pb"
            path.write_bytes(data)
            profile = decode("Profile", data)
            sums = [sum(column) for column in zip(*(sample["value"] for sample in profile.get("sample", [])))]
            want(pprof_samples(path) == sums, f"{path}: go tool pprof reads {pprof_samples(path)}, not {sums}")
            want(labels[b"service_name"] == b"conformance" and labels[b"zone"] == b"north" and labels[b"odd"] == b"a?b", f"{what}: {labels}")
            found.setdefault(labels[b"__name__"].decode(), []).append(profile)
    return found


def names_of(found):
    return {profile["string_table"][function["name"]].decode() for one in found.values() for profile in one for function in profile["function"]}


def show(what, receiver, found):
    bytes_ = sum(len(body) for _, body in receiver.requests)
    print(f"conformance: {what}: {len(receiver.requests)} requests, {bytes_} bytes, " + " ".join(sorted(found)))


def captured(program, what, families, names, **settings):
    """One run of a program with names, one without; returns the second's requests' heads."""
    for named in (True, False):
        receiver = Receiver()
        run(program, receiver.url, EDGEPROF_NAMES="1" if named else "0", **settings)
        receiver.close()
        case = what + ("-names" if named else "-addresses")
        found = profiles(receiver, case, named)
        show(case, receiver, found)
        want(set(found) >= families, f"{case}: there is no {families - set(found)}")
        told = names_of(found)
        for pattern in names:
            want(any(re.search(pattern, name) for name in told) == named, f"{case}: {'no' if named else 'a'} name like {pattern}")
    return [dict((name.lower(), value) for name, value in head[1]) for head, _ in receiver.requests]


def credentials(heads):
    want(heads and all(head.get("authorization") == "Basic " + base64.b64encode(b"u:p w").decode() and head.get("x-scope-orgid") == "7"
                       and head.get("x-more") == "a b" for head in heads), "credentials and headers are in every request")


def answered(program):
    """What the server says decides what becomes of a message."""
    receiver = Receiver(["429 Too Many Requests\nRetry-After: 1", "408 Request Timeout", "400 Bad Request", "413 Too Large", "503 Unavailable",
                         "501 Unimplemented"])
    told = run(program, receiver.url, seconds="8", EDGEPROF_KINDS="cpu")
    receiver.close()
    bodies = [body for _, body in receiver.requests]
    want(len(bodies) > 6 and bodies[0] == bodies[1] == bodies[2], "429 and 408: the same message again")
    want(len(bodies) > 6 and bodies[3] != bodies[2] and bodies[4] != bodies[3], "400: the next message; 413: half of it")
    want(len(bodies) > 6 and len(bodies[4]) < len(bodies[3]), "413: half of it")
    want(len(bodies) > 6 and bodies[5] == bodies[4] and bodies[6] != bodies[5], "503: again; 501: the other half")
    numbers = {name: int(value) for name, value in re.findall(r"(\w+) (\d+)", told)}
    want(numbers["failures"] == 3 and numbers["refused"] > 0, f"counted: {told}")
    want(numbers["delivered"] == len(bodies) - 6, f"{len(bodies)} requests, six of them failed or were refused: {told}")
    print(f"conformance: answers: {told.strip()}")


def main():
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    heads = captured(programs[0], "c", {"process_cpu", "block", "mutex", "goroutine"}, [r"^exported_burn$", r"^qsort(_r)?$", r"^device\+0x[0-9a-f]+$"],
                     PYROSCOPE_BASIC_AUTH_USER="u", PYROSCOPE_BASIC_AUTH_PASSWORD="p w", PYROSCOPE_TENANT_ID="7",
                     PYROSCOPE_HTTP_HEADERS='{"X-More":"a b"}')
    credentials(heads)
    answered(programs[0])
    if programs[1:]:
        captured(programs[1], "nativeaot", set(rules.FAMILIES) - {"write", "sync"}, [r"^Make\.Cpu$", r"^Make\.Wait$", r"^KindException$", r"^System\.", r"^Kinds\+0x[0-9a-f]+$"])
    for line in failed[:40]:
        print(f"conformance: {line}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
