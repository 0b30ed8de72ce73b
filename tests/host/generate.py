"""Makes compact messages, sound and unsound, from nothing but the rules of core/proto/compact.proto; and pprof."""
import struct
import zlib


def mutations(body, rng, rounds, most):
    """The body so many times, each time with another 1 to `most` of its bytes changed."""
    for _ in range(rounds):
        changed = bytearray(body)
        for _ in range(rng.randint(1, most)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        yield bytes(changed)


def gzip_of(chunk, times):
    """chunk, so many times, without making all of it: deflate's blocks can be repeated after a full flush."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(chunk) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\3" + block * times + b"\3\0" + struct.pack("<II", 0, 0)


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value):
    return varint((value << 1) ^ (value >> 63) if value < 0 else value << 1)


def number(field, value):
    return varint(field << 3) + varint(value) if value else b""


def fixed64(field, value):
    return varint(field << 3 | 1) + struct.pack("<Q", value) if value else b""


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value if value else b""


def nested(field, value):
    return varint(field << 3 | 2) + varint(len(value)) + value


def origin(service="svc", tags=(), host="host", boot_id="boot", pid=7, executable="app", arch="x86_64",
           agent="edgeprof/test", start=1, version=1):
    return (number(1, version) + data(2, service) + b"".join(nested(3, data(1, k) + data(2, v)) for k, v in tags) +
            data(4, host) + data(5, boot_id) + number(6, pid) + data(7, executable) + data(8, arch) + data(9, agent) +
            number(10, start))


def module(base, size, address=0, build_id=b"", path=""):
    return number(1, base) + number(2, size) + number(3, address) + data(4, build_id) + data(5, path)


def nodes(back, frames):
    deltas = (zigzag(frame - before) for frame, before in zip(frames, [0, *frames]))
    return data(1, b"".join(map(varint, back))) + data(2, b"".join(deltas))


def profile(stacks, quantum=10_000_000, start=1_000_000_000, duration=1_000_000_000, period=10_000_000, samples=None, kind=1):
    """stacks: {node: value in quanta}, or [(node, context, count, value)] in the order of nodes"""
    rows = stacks if isinstance(stacks, list) else [(node, 0, 0, stacks[node]) for node in sorted(stacks)]
    before, column, values, counts, contexts = 0, b"", b"", b"", b""
    for node, context, count, value in rows:
        column += varint(node - before)
        values += varint(value)
        counts += varint(count)
        contexts += varint(context)
        before = node
    has_count, has_context = (any(row[i] for row in rows) for i in (2, 1))
    return (number(1, kind) + fixed64(2, start) + number(3, duration) + number(4, period) + number(5, quantum) +
            number(6, sum(row[3] for row in rows) if samples is None else samples) + data(7, column) + data(8, values) +
            data(9, counts if has_count else b"") + data(10, contexts if has_context else b""))


def tag_set(ident, **tags):
    return number(1, ident) + b"".join(nested(2, data(1, k) + data(2, v)) for k, v in tags.items())


def context(tags=0, span=0, trace=(0, 0), thread=""):
    return number(1, tags) + fixed64(2, span) + fixed64(3, trace[0]) + fixed64(4, trace[1]) + data(5, thread)


def stats(samples=0, exact=0, gap=0, cut=0, losses=(), hits=0, misses=0, threads=1):
    return (b"".join(nested(1, number(1, r) + number(2, c) + number(3, w)) for r, c, w in losses) + number(2, samples) +
            number(3, exact) + number(4, gap) + number(5, cut) + number(6, hits) + number(7, misses) + number(8, threads))


def unsampled(reason, threads, names=(), error=0, limit=0, ns=0, of=0):
    """To be added to stats(): threads that are not sampled, their CPU time and all there is."""
    return (nested(1, number(1, reason) + number(2, threads) + b"".join(data(4, name.encode()) for name in names) + number(5, error) +
                   number(6, limit)) + number(14, ns) + number(15, of))


def crash(threads=(), cause=1, signal=11, code=1, address=0, pid=7, boot_id="", executable="app", start=0, end=0, unix=0, runtime=b"", missed=0):
    """threads: (tid, name, leaf node), the one that crashed first. cause 2: an end without a record."""
    return (number(1, cause) + number(2, signal) + (varint(3 << 3) + zigzag(code) if code else b"") + number(4, address) +
            number(10, pid) + data(11, boot_id) + data(12, executable) + number(13, start) + number(14, end) + fixed64(15, unix) +
            b"".join(nested(16, number(1, tid) + data(2, name) + number(3, node)) for tid, name, node in threads) + data(17, runtime) + number(20, missed))


TICK = 1 << 20  # ns, of a timeline's times


def timeline(incident, samples=(), part=0, more=False, cause=3, name="", tid=0, time=0, value=0, limit=0, threads=((100, "worker"),), period=10_000_000):
    """samples: (time of the end, kind, place of the thread, node, duration), ns, in the order of their times."""
    ticks = [sample[0] // TICK for sample in samples]
    return (fixed64(1, incident) + number(2, part) + number(3, int(more)) + number(4, cause) + data(5, name) + number(6, tid) + number(7, time) +
            number(8, value) + number(9, limit) + number(12, period) + b"".join(nested(13, number(1, t) + data(2, n)) for t, n in threads) +
            number(14, ticks[0] if ticks else 0) + data(15, b"".join(varint(b - a) for a, b in zip(ticks[:1] + ticks, ticks))) +
            data(16, b"".join(varint(kind | place << 4) for _, kind, place, _, _ in samples)) +
            data(17, b"".join(varint(node) for _, _, _, node, _ in samples)) + data(18, b"".join(varint(ns >> 16) for *_, ns in samples)))


def message(segment, sequence, origin=None, modules=(), nodes=None, profiles=(), stats=None, last=False,
            unix_minus_uptime=1_700_000_000_000_000_000, tag_sets=(), contexts=(), crash=None, timeline=None):
    return (fixed64(1, segment) + number(2, sequence) + (nested(3, origin) if origin is not None else b"") +
            b"".join(nested(4, m) for m in modules) + (nested(5, nodes) if nodes is not None else b"") +
            b"".join(nested(6, p) for p in profiles) + (nested(7, stats) if stats is not None else b"") +
            number(8, int(last)) + fixed64(9, unix_minus_uptime) +
            b"".join(nested(10, t) for t in tag_sets) + b"".join(nested(11, c) for c in contexts) +
            (nested(13, crash) if crash is not None else b"") + (nested(14, timeline) if timeline is not None else b""))


def function_of(ident, name):
    return nested(5, number(1, ident) + number(2, name))


def pprof_profile(strings, samples, types=((1, 2),), locations=(), functions=(), extra=b""):
    return (b"".join(nested(1, number(1, t) + number(2, u)) for t, u in types) + b"".join(nested(2, s) for s in samples) +
            b"".join(locations) + b"".join(functions) + b"".join(varint(6 << 3 | 2) + varint(len(s)) + s for s in strings) + extra)


def push_request(all_labels, *profiles):
    """A push.v1.PushRequest, one series for each list of labels, with all the profiles."""
    series = (b"".join(data(1, data(1, k.encode()) + data(2, v.encode())) for k, v in labels) +
              b"".join(data(2, data(1, p) + data(2, b"an-id")) for p in profiles) for labels in all_labels)
    return b"".join(data(1, s) for s in series)


def unsound():
    """(what is wrong, bytes) of messages that a receiver must refuse with 400, whatever it knows."""
    good = dict(segment=99, sequence=0, origin=origin(), modules=[module(4096, 4096, 0, b"\1" * 20, "/bin/x")],
                nodes=nodes([0, 1], [4100, 4200]))

    def but(**changed):
        return message(**{**good, **changed})
    broken_columns = data(1, varint(0)) + data(2, zigzag(4100) + zigzag(1))
    broken_profile = fixed64(2, 1) + number(5, 1) + data(7, varint(1) + varint(1)) + data(8, varint(1))
    return [
        ("empty", b""),
        ("no protobuf", b"\xff" * 64),
        ("text", b"GET / HTTP/1.1\r\n\r\n"),
        ("no segment", but(segment=0)),
        ("no origin", but(origin=None)),
        ("origin later", message(99, 1, origin=origin())),
        ("unknown version", but(origin=origin(version=2))),
        ("no service", but(origin=origin(service=""))),
        ("tag without key", but(origin=origin(tags=[("", "v")]))),
        ("long service", but(origin=origin(service="s" * 5000))),
        ("module below 256", but(modules=[module(255, 4096)], nodes=None)),
        ("module without size", but(modules=[module(4096, 0)], nodes=None)),
        ("module beyond 32 bits", but(modules=[module(0xfffff000, 0x2000)], nodes=None)),
        ("modules overlap", but(modules=[module(4096, 4096), module(8191, 10)], nodes=None)),
        ("module address overflow", but(modules=[module(4096, 4096, 2**64 - 10)], nodes=None)),
        ("long build id", but(modules=[module(4096, 4096, 0, b"x" * 65)], nodes=None)),
        ("back beyond the root", but(nodes=nodes([1], [4100]))),
        ("back far beyond", but(nodes=nodes([0, 2**31], [4100, 4101]))),
        ("frame outside modules", but(nodes=nodes([0], [9000]))),
        ("frame between 256 and the first module", but(nodes=nodes([0], [256]))),
        ("frame beyond 32 bits", but(nodes=nodes([0], [2**33]))),
        ("negative frame", but(nodes=nodes([0], [-5]))),
        ("columns differ", but(nodes=broken_columns)),
        ("too deep", but(nodes=nodes([0] + [1] * 1024, [4100] * 1025))),
        ("stack of no node", but(profiles=[profile({3: 1})])),
        ("stack of the root", but(profiles=[profile({0: 1})])),
        ("profile columns differ", but(profiles=[broken_profile])),
        ("no quantum", but(profiles=[profile({1: 1}, quantum=0)])),
        ("value overflow", but(profiles=[profile({1: 2**62}, quantum=10**9)])),
        ("sum overflow", but(profiles=[profile({1: 2**62, 2: 2**62}, quantum=1, samples=1)])),
        ("time overflow", but(profiles=[profile({1: 1}, start=2**63)])),
        ("clock overflow", but(profiles=[profile({1: 1})], unix_minus_uptime=2**64 - 1)),
        ("context of nothing", but(profiles=[profile([(1, 1, 0, 1)])])),
        ("context beyond", but(profiles=[profile([(1, 2, 0, 1)])], contexts=[context()])),
        ("tag set of nothing", but(contexts=[context(5)])),
        ("tag set 0", but(tag_sets=[tag_set(0, a="b")])),
        ("tag set beyond 65535", but(tag_sets=[tag_set(65536, a="b")])),
        ("tag set twice", but(tag_sets=[tag_set(3, a="b"), tag_set(3, a="b")])),
        ("key twice", but(tag_sets=[number(1, 3) + 2 * nested(2, data(1, "k") + data(2, "v"))])),
        ("label without key", but(tag_sets=[tag_set(3, **{"": "b"})])),
        ("long label", but(tag_sets=[tag_set(3, a="x" * 5000)])),
        ("long set", but(tag_sets=[tag_set(3, **{f"k{i}": "x" * 4000 for i in range(3)})])),
        ("many tag sets", but(tag_sets=[tag_set(i, a="b") for i in range(1, 5000)])),
        ("long thread", but(contexts=[context(thread="t" * 5000)])),
        ("counts too short", but(profiles=[profile({1: 1, 2: 1}) + data(9, b"\1")])),
        ("counts too long", but(profiles=[profile({1: 1}) + data(9, b"\1\1")])),
        ("contexts too short", but(profiles=[profile({1: 1, 2: 1}) + data(10, b"\0")])),
        ("a node twice without contexts", but(profiles=[profile([(1, 0, 0, 1), (1, 0, 0, 1)])])),
        ("no node with contexts", but(profiles=[profile([(0, 1, 0, 1)])], contexts=[context()])),
        ("unknown kind, wrong", but(profiles=[profile({9: 1}, kind=77)])),
        ("duration overflow", but(profiles=[profile({1: 1}, duration=2**63)])),
    ]
