"""Checks a file for speedscope by the rules of its file-format-spec.ts, and what the rules only mean. Standard library only."""
import numbers

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
UNITS = {"none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}
# name -> (type, required)
FILE = {"$schema": (str, True), "shared": (dict, True), "profiles": (list, True), "name": (str, False),
        "activeProfileIndex": (numbers.Real, False), "exporter": (str, False)}
FRAME = {"name": (str, True), "file": (str, False), "line": (numbers.Real, False), "col": (numbers.Real, False)}
SAMPLED = {"type": (str, True), "name": (str, True), "unit": (str, True), "startValue": (numbers.Real, True),
           "endValue": (numbers.Real, True), "samples": (list, True), "weights": (list, True)}


def fields(value, rules, where):
    if not isinstance(value, dict):
        yield f"{where} is no object"
        return
    for name, (kind, required) in rules.items():
        if name not in value:
            if required:
                yield f"{where}.{name} is missing"
        elif not isinstance(value[name], kind) or isinstance(value[name], bool):
            yield f"{where}.{name} is {value[name]!r}"
    yield from (f"{where}.{name} is not part of the format" for name in value if name not in rules)


def sampled(value, frames, where):
    yield from fields(value, SAMPLED, where)
    if value.get("type") != "sampled" or value.get("unit") not in UNITS:
        yield f"{where}: type {value.get('type')!r}, unit {value.get('unit')!r}"
    samples, weights = value.get("samples", []), value.get("weights", [])
    if len(samples) != len(weights):
        yield f"{where}: {len(samples)} samples, {len(weights)} weights"
    for stack in samples:
        if not isinstance(stack, list) or not stack or not all(type(frame) is int and 0 <= frame < frames for frame in stack):
            yield f"{where}: a stack {stack!r} of {frames} frames"
    if not all(type(weight) is int and weight > 0 for weight in weights):
        yield f"{where}: weights {weights!r}"
    elif value.get("endValue") != value.get("startValue", 0) + sum(weights):
        yield f"{where}: ends at {value.get('endValue')}, weights are {sum(weights)}"


def problems(document):
    """What is wrong with it, a line each."""
    found = list(fields(document, FILE, "file"))
    if found:
        return found
    if document["$schema"] != SCHEMA:
        found.append(f"schema {document['$schema']!r}")
    found += fields(document["shared"], {"frames": (list, True)}, "shared")
    frames = document["shared"].get("frames", [])
    for at, frame in enumerate(frames):
        found += fields(frame, FRAME, f"frame {at}")
    for at, profile in enumerate(document["profiles"]):
        found += sampled(profile, len(frames), f"profile {at}")
    if not 0 <= document.get("activeProfileIndex", 0) < len(document["profiles"]):
        found.append("no such active profile")
    return found


def folded(document):
    """{"root;caller;leaf": weight}"""
    names = [frame["name"] for frame in document["shared"]["frames"]]
    sums = {}
    for stack, weight in zip(document["profiles"][0]["samples"], document["profiles"][0]["weights"]):
        line = ";".join(names[frame] for frame in stack)
        sums[line] = sums.get(line, 0) + weight
    return sums
