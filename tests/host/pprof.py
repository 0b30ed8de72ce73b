"""pprof as Python values, by the classes that protoc makes, and go tool pprof's merge of several. Knows nothing of edgeprof's code."""
import gzip
import os
import subprocess
from collections import Counter

import wire
from harness import clean_environment


def encode(types, stacks, period=None, start_ns=0, duration_ns=0, line=0, file=""):
    """types and period: (name, unit); stacks: [(frames, root first, values, {label: value})]. A frame that is a tuple is
    one place with calls inlined into it, outermost first."""
    texts, functions, places = {"": 0}, {}, {}

    def text(value):
        return texts.setdefault(value, len(texts))

    def value_type(pair):
        return wire.ValueType(type=text(pair[0]), unit=text(pair[1]))
    made = wire.Profile(sample_type=map(value_type, types), time_nanos=start_ns, duration_nanos=duration_ns)
    if period:
        made.period_type.CopyFrom(value_type(period))
        made.period = 1
    for frames, values, labels in stacks:
        for frame in frames:
            if frame not in places:
                names = frame if isinstance(frame, tuple) else (frame,)
                made.location.add(id=places.setdefault(frame, len(places) + 1), line=[
                    wire.Line(function_id=functions.setdefault(name, len(functions) + 1), line=line) for name in reversed(names)])
        made.sample.add(location_id=[places[frame] for frame in reversed(frames)], value=values,
                        label=[wire.Label(key=text(key), str=text(value)) for key, value in labels.items()])
    for name, ident in functions.items():
        made.function.add(id=ident, name=text(name), system_name=text(name), filename=text(file))
    made.string_table.extend(texts)
    return made.SerializeToString()


def read(body):
    return wire.Profile.FromString(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)


def frames(profile):
    """{id of a location: names, innermost first}"""
    names = {one.id: profile.string_table[one.name] for one in profile.function}
    return {place.id: [names[line.function_id] for line in place.line] for place in profile.location}


def decode(body):
    """([sample type], [(names, root first, values, labels)])"""
    profile = read(body)
    texts, places = profile.string_table, frames(profile)
    samples = [(tuple(reversed([name for place in sample.location_id for name in places[place]])), list(sample.value),
                {texts[label.key]: texts[label.str] for label in sample.label if label.str}) for sample in profile.sample]
    return [texts[one.type] for one in profile.sample_type], samples


def merge(folder, bodies, *options):
    """What go tool pprof makes of them, decoded; options: -tagfocus and the like."""
    if not bodies:
        return [], []
    paths = []
    for i, body in enumerate(bodies):
        paths.append(os.path.join(folder, f"raw{i}.pb"))
        with open(paths[-1], "wb") as file:
            file.write(body)
    out = os.path.join(folder, "merged.pb.gz")
    done = subprocess.run(["go", "tool", "pprof", "-proto", "-symbolize=none", "-trim=false", f"-output={out}", *options, *paths],
                          capture_output=True, text=True, check=False, env=clean_environment(HOME=folder, PPROF_TMPDIR=folder))
    if done.returncode:
        raise RuntimeError(f"go tool pprof: {done.stderr}")
    with open(out, "rb") as file:
        return decode(file.read())


def sums(decoded, sample_type):
    """{stack: value} of one sample type."""
    types, samples = decoded
    found = Counter()
    for stack, values, _ in samples:
        found[stack] += values[types.index(sample_type)]
    return +found
