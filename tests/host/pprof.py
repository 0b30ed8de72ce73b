"""pprof as Python values, protobuf by hand, and go tool pprof's merge of several. Knows nothing of edgeprof's code."""
import gzip
import os
import subprocess
from collections import Counter

from generate import data, nested, number, varint
from harness import clean_environment


def fields(body):
    """[(number, value)]: ints, and bytes of what has a length."""
    found, at = [], 0

    def read():
        nonlocal at
        value = shift = 0
        while True:
            byte = body[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(body):
        key = read()
        if key & 7 == 0:
            found.append((key >> 3, read()))
        elif key & 7 == 1:
            found.append((key >> 3, int.from_bytes(body[at:at + 8], "little")))
            at += 8
        else:
            size = read()
            found.append((key >> 3, body[at:at + size]))
            at += size
    return found


def every(found, wanted):
    return [value for field, value in found if field == wanted]


def one(found, wanted, otherwise=0):
    return (every(found, wanted) or [otherwise])[-1]


def numbers(found, wanted):
    """A repeated number, packed or not."""
    out = []
    for value in every(found, wanted):
        if isinstance(value, int):
            out.append(value)
        else:
            out += [number_ for _, number_ in fields(b"".join(b"\x08" + part for part in varints(value)))]
    return out


def varints(body):
    parts, start = [], 0
    for i, byte in enumerate(body):
        if byte < 0x80:
            parts.append(body[start:i + 1])
            start = i + 1
    return parts


def encode(types, period, stacks, start_ns, duration_ns):
    """types and period: (name, unit); stacks: [(frames, root first, values, {label: value})]. A frame that is a tuple is
    one place with calls inlined into it, outermost first."""
    texts = [""]

    def text(value):
        if value not in texts:
            texts.append(value)
        return texts.index(value)

    def value_type(pair):
        return number(1, text(pair[0])) + number(2, text(pair[1]))
    functions, places, samples = {}, {}, b""
    for frames, values, labels in stacks:
        for frame in frames:
            places.setdefault(frame, len(places) + 1)
            for name in frame if isinstance(frame, tuple) else (frame,):
                functions.setdefault(name, len(functions) + 1)
        samples += nested(2, data(1, b"".join(varint(places[frame]) for frame in reversed(frames))) +
                          data(2, b"".join(varint(value) for value in values)) +
                          b"".join(nested(3, number(1, text(k)) + number(2, text(v))) for k, v in labels.items()))
    locations = b"".join(
        nested(4, number(1, ident) + b"".join(nested(4, number(1, functions[name]))
                                              for name in reversed(frame if isinstance(frame, tuple) else (frame,))))
        for frame, ident in places.items())
    named = b"".join(nested(5, number(1, ident) + number(2, text(name)) + number(3, text(name))) for name, ident in functions.items())
    head = b"".join(nested(1, value_type(pair)) for pair in types)
    tail = number(9, start_ns) + number(10, duration_ns) + nested(11, value_type(period)) + number(12, 1)
    return head + samples + locations + named + b"".join(nested(6, value.encode()) for value in texts) + tail


def decode(body):
    """([sample type], [(names, root first, values, labels)])"""
    body = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
    found = fields(body)
    texts = [value.decode() for value in every(found, 6)]
    names = {one(f, 1): texts[one(f, 2)] for f in map(fields, every(found, 5))}
    lines = {one(f, 1): [names[one(fields(line), 1)] for line in every(f, 4)] for f in map(fields, every(found, 4))}
    samples = []
    for sample in map(fields, every(found, 2)):
        stack = [name for place in numbers(sample, 1) for name in lines[place]]
        labels = {texts[one(f, 1)]: texts[one(f, 2)] for f in map(fields, every(sample, 3)) if one(f, 2)}
        samples.append((tuple(reversed(stack)), numbers(sample, 2), labels))
    return [texts[one(fields(value), 1)] for value in every(found, 1)], samples


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
