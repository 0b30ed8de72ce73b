#!/usr/bin/env python3
"""What the relay really sends to each backend, taken from the socket and held against rules.py and relay_rules.py, protoc and go tool
pprof; its sums are those that the server shows.

    relay_run.py PROGRAM WORK PROTO_FOLDER PROFILE_PROTO SAMPLE"""
import base64
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "host"))
import generate
from harness import Server
from backends import Grpc
from proto import decode, encode
from receiver import Receiver
from relay_rules import check_datadog, check_export, check_otlp, check_writeraw, parts_of
from rules import check_push, inflated

program, work, protos, profile_proto, sample = sys.argv[1], *(pathlib.Path(argument).resolve() for argument in sys.argv[2:6])
SECOND = 10**9
KINDS = {1: "cpu", 2: "wait", 3: "lock", 4: "alloc", 5: "live", 6: "exception", 7: "gc", 8: "thread", 9: "heap", 10: "write", 11: "sync"}
failed = []


def want(condition, text):
    if not condition:
        failed.append(text)


def protoc(message, proto, data):
    done = subprocess.run(["protoc", f"--proto_path={proto.parent}", f"--decode={message}", proto.name], input=data, capture_output=True)
    want(done.returncode == 0, f"protoc: {message}: {done.stderr.decode()}")
    want(not re.search(rb"^\s*\d+[:\s{]", done.stdout, re.M), f"protoc: {message} has a field that the schema does not know")


def build_id():
    text = subprocess.run(["readelf", "-n", sample], capture_output=True, text=True, check=True).stdout
    return bytes.fromhex(re.search(r"Build ID: ([0-9a-f]+)", text)[1])


def functions():
    text = subprocess.run(["nm", sample], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0], 16) for line in text.splitlines() if " T " in line or " t " in line][:8]


def messages():
    """Two devices with all kinds; labels that are none elsewhere, frames outside every module, one at address 0, a span, a trace."""
    places = functions()
    low, high = min(places) & ~0xfff, (max(places) | 0xfff) + 1
    for number, (service, tags) in enumerate((("shop", [("version", "1.2"), ("a.b-c", 'x"y'), ("__hidden", "1")]), ("café\n", [("device", "pi-7")]))):
        modules = [generate.module(4096, high - low, low, build_id(), str(sample)), generate.module(0x4000000, 4096, 0, b"", "/lib/without-id.so")]
        nodes = generate.nodes([0, 1, 0, 1, 1, 1, 1], [4096 + places[0] - low, 4096 + places[1] - low, 2, 0x4000000, 4096 + places[2] - low, 0x4000010, 12])
        contexts = [generate.context(1, span=2**63 + 5, trace=(1, 2), thread="worker"), generate.context(0, thread="odd.thr-ead"), generate.context(0, span=7)]
        rows = [(2, 0, 1, 5), (3, 1, 2, 7), (4, 2, 3, 11), (6, 3, 4, 13), (7, 0, 5, 17)]
        profiles = [generate.profile([(node, context, count if kind in (2, 3, 4, 5, 7) else 0, value) for node, context, count, value in rows],
                                     start=SECOND, kind=kind, quantum=10**6, period=10**7) for kind in KINDS]
        yield generate.message(50 + number, 0, origin=generate.origin(service=service, tags=tags, host=f"host-{number}"), modules=modules, nodes=nodes,
                               profiles=profiles, contexts=contexts, tag_sets=[generate.tag_set(1, **{"step.one": "pricing", "empty": "", "9": "nine"})],
                               unix_minus_uptime=int((time.time() - 10) * SECOND))


def named_pprof():
    """What a managed runtime's profiler sends: names, no addresses; and wall time."""
    strings = [b"", b"wall", b"nanoseconds", b"main", b"Main.cs", b"work", b"/app/x.dll", b"0a0b"]
    return encode("Profile", {"sample_type": [{"type": 1, "unit": 2}], "sample": [{"location_id": [1, 2], "value": [9 * SECOND]}],
                              "mapping": [{"id": 1, "filename": 6, "build_id": 7}], "function": [{"id": 1, "name": 5, "filename": 4}, {"id": 2, "name": 3}],
                              "location": [{"id": 1, "mapping_id": 1, "line": [{"function_id": 1, "line": 3}]}, {"id": 2, "line": [{"function_id": 2}]}],
                              "string_table": strings, "time_nanos": int((time.time() - 20) * SECOND), "duration_nanos": 9 * SECOND,
                              "period_type": {"type": 1, "unit": 2}, "period": 100})


def pprof_sums(path, data):
    """Sums of each sample type, as go tool pprof reads them."""
    path.write_bytes(data)
    done = subprocess.run(["go", "tool", "pprof", "-raw", path], capture_output=True, text=True)
    want(done.returncode == 0, f"go tool pprof: {path}: {done.stderr}")
    if done.returncode:
        return {}
    types, *rows = done.stdout.split("Samples:\n")[1].split("Locations")[0].splitlines()
    columns = zip(*([int(value) for value in re.match(r"[\d\s]+(?=:)", row)[0].split()] for row in rows if re.match(r"\s*\d[\d\s]*: \d", row)))
    return dict(zip((type_.replace("[dflt]", "") for type_ in types.split()), map(sum, columns)))


def pprofs_of(backend, head, body):
    """(service, pprof) of a request's profiles, whatever wraps them."""
    if backend == "pyroscope":
        protoc("push.v1.PushRequest", protos / "push.proto", body)
        for series in decode("PushRequest", body)["series"]:
            yield {pair["name"]: pair["value"] for pair in series["labels"]}[b"service_name"].decode(), series["samples"][0]["raw_profile"]
    elif backend == "parca-writeraw":
        for series in json.loads(body)["series"]:
            labels = {label["name"]: label["value"] for label in series["labels"]["labels"]}
            yield labels["service_name"], base64.b64decode(series["samples"][0]["rawProfile"])
    else:
        boundary = dict((name.lower(), value) for name, value in head[1])["content-type"].partition("boundary=")[2]
        parts = parts_of(body, boundary.encode())
        tags = dict(tag.split(":", 1) for tag in json.loads(parts[0][3])["tags_profiler"].split(","))
        for _, _, _, content in parts[1:]:
            yield tags["service"], content


def has_functions(profile):
    """Mappings say that they have functions exactly when each of their locations has a line; else queries of Pyroscope are slow."""
    lined = {}
    for location in profile["location"]:
        lined.setdefault(location.get("mapping_id", 0), set()).add(bool(location.get("line")))
    return all(bool(mapping.get("has_functions", 0)) == (lined.get(mapping["id"]) == {True}) for mapping in profile.get("mapping", []))


def otlp_sums(body, sums):
    request = decode("Export", inflated(body))
    protoc("otlp.ExportProfilesServiceRequest", protos / "otlp.proto", inflated(body))
    strings = request["dictionary"]["string_table"]
    for resource in request["resource_profiles"]:
        attributes = {pair["key"]: pair["value"]["string_value"].decode() for pair in resource["resource"]["attributes"]}
        for profile in resource["scope_profiles"][0]["profiles"]:
            type_ = "/".join(strings[profile["sample_type"][f"{part}_strindex"]].decode() for part in ("type", "unit"))
            key = (attributes[b"service.name"], type_)
            sums[key] = sums.get(key, 0) + sum(value for row in profile["samples"] for value in row["values"])


CHECKS = {"pyroscope": lambda *a: check_push(*a, relayed=True), "parca": check_export, "parca-writeraw": check_writeraw, "otlp": check_otlp, "datadog": check_datadog}
# What a backend calls the value and the count of each kind.
GO = {"wall": "wall/nanoseconds", "cpu": "cpu/nanoseconds samples/count", "wait": "delay/nanoseconds contentions/count",
      "lock": "delay/nanoseconds contentions/count", "alloc": "alloc_space/bytes alloc_objects/count", "live": "inuse_space/bytes inuse_objects/count",
      "exception": "exception/count", "gc": "pause/nanoseconds pauses/count", "thread": "goroutine/count", "write": "written/bytes writes/count", "sync": "sync_time/nanoseconds syncs/count", "heap": "heap_size/bytes"}
PARCA = {**GO, "cpu": "cpu/nanoseconds"}  # Parca shows counts of samples times the period
DATADOG = {"wall": "wall/nanoseconds", "cpu": "cpu/nanoseconds cpu-samples/count", "wait": "off-cpu-time/nanoseconds off-cpu-samples/count",
           "lock": "lock-time/nanoseconds lock-count/count", "alloc": "alloc-size/bytes alloc-samples/count",
           "live": "inuse-space/bytes inuse-objects/count", "exception": "exception/count"}

NAMES = {"datadog": DATADOG, "parca": PARCA, "parca-writeraw": PARCA}


def wanted_sums(server, names):
    sums = {}
    for service in server.get("/api/services")[1]["services"]:
        kind, name = service["kind"], service["service"]
        # a type id that the sender chose is also its name; Datadog's is that of the family
        for type_, measure in zip(names.get(kind, names.get(kind.split(":")[0], "")).split(), ("value", "count")):
            total = server.get("/api/profile", service=name, kind=kind, value=measure)[1]["total"]
            if total and not (kind.startswith("wall") and name != "named"):
                sums[(name, type_)] = sums.get((name, type_), 0) + total
    return sums


def checked(case, backend, receiver, named):
    """Sums of what was sent, all of it held against the rules."""
    sums, folder = {}, work / f"{case}-{backend}"
    folder.mkdir()
    want(not receiver.wrong, f"{case} {backend}: {receiver.wrong}")
    for number, (head, body) in enumerate(receiver.requests):
        for rule, text in CHECKS[backend](head, body, time.time(), named):
            failed.append(f"{case} {backend}: request {number}: {rule}: {text}")
        if backend in ("otlp", "parca"):
            otlp_sums(body, sums)
            continue
        for index, (service, data) in enumerate(pprofs_of(backend, head, body)):
            protoc("perftools.profiles.Profile", profile_proto, inflated(data))
            want(has_functions(decode("Profile", inflated(data))), f"{case} {backend}: request {number}: has_functions")
            for type_, value in pprof_sums(folder / f"{number}-{index}.pb.gz", data).items():
                sums[(service, type_)] = sums.get((service, type_), 0) + value
    return sums


def names_in(receiver):
    """All strings of what Pyroscope got."""
    return {string.decode() for _, body in receiver.requests for series in decode("PushRequest", body)["series"]
            for string in decode("Profile", inflated(series["samples"][0]["raw_profile"]))["string_table"]}


def captured(case, symbolize):
    receivers = {backend: Grpc() if backend == "parca" else Receiver() for backend in CHECKS}
    config = work / f"{case}.conf"
    config.write_text("".join(f"[relay {backend}]\nto = {backend}\nurl = {receiver.url}\nsymbolize = {symbolize}\n" for backend, receiver in receivers.items()))
    server = Server(program, str(work / f"{case}.db"), "--config", str(config), "--symbols", str(sample.parent))
    for message in messages():
        status, said = server.request("POST", "/edgeprof/v1/push", message)
        want(status == 200, f"{case}: a push: {status} {said}")
    want(server.request("POST", "/ingest?name=named{version=2}", named_pprof())[0] == 200, f"{case}: a pprof")
    end = time.monotonic() + 60
    while any(relay["waiting"] for relay in server.get("/api/relays")[1]["relays"]) and time.monotonic() < end:
        time.sleep(0.1)
    for backend, receiver in receivers.items():
        sums, wanted = checked(case, backend, receiver, symbolize != "no"), wanted_sums(server, NAMES.get(backend, GO))
        want(sums == wanted, f"{case} {backend}: sums {sorted(sums.items())} instead of {sorted(wanted.items())}")
        print(f"relay conformance: {case}: {backend}: {len(receiver.requests)} requests, {sum(len(body) for _, body in receiver.requests)} bytes, "
              f"{len(sums)} sums as shown")
        receiver.close()
    told = names_in(receivers["pyroscope"])
    want("work" in told and "[stack cut]" in told, f"{case}: names that are known without symbols")
    want(any(name.startswith("App.Shop") for name in told) == (symbolize != "no"), f"{case}: names of the sample: {sorted(told)}")
    want(not any(re.fullmatch(r"sample\+0x[0-9a-f]+", name) for name in told), f"{case}: addresses as names: {sorted(told)}")
    want(server.stop() == 0, f"{case}: the server ends: {server.stderr()}")


def main():
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for case, symbolize in (("addresses", "no"), ("names", "yes"), ("fallback", "fallback")):
        captured(case, symbolize)
    for line in failed[:40]:
        print(f"relay conformance: {line}", file=sys.stderr)
    return 1 if failed else 0


sys.exit(main())
