"""Server answers equal an independent merge by go tool pprof, before and after the store merges blocks.

What the server answers equals an independent merge of the raw profiles by `go tool pprof -proto`: every address, kind
and figure, by time, process, label and span; and again after the store has merged them, and has only blocks left."""
import collections
import contextlib
import json
import random
import sqlite3
import struct
import subprocess
import urllib.parse
import urllib.request

import pytest

import pprof
import wire
from generate import context, data, message, module, nodes, number, origin, profile, tag_set
from harness import Server

pytestmark = pytest.mark.all

START = 1_700_000_001  # no profile starts where a block does
SECOND = 1_000_000_000
INTERVAL = 10
BLOCK = 300
WHOLE = (START // BLOCK * BLOCK, (START + 120 + BLOCK) // BLOCK * BLOCK)
TIMES = {"start": WHOLE[0] * 1000, "end": WHOLE[1] * 1000}
PERIOD = 10_000_000

# kind -> number in compact, pprof: name before the types, (count, value), (period, unit); the figure's quantum
KINDS = {
    "cpu": (1, "process_cpu", (("samples", "count"), ("cpu", "nanoseconds")), ("cpu", "nanoseconds"), PERIOD),
    "wait": (2, "block", (("contentions", "count"), ("delay", "nanoseconds")), ("contentions", "count"), 1000),
    "lock": (3, "mutex", (("contentions", "count"), ("delay", "nanoseconds")), ("contentions", "count"), 1000),
    "alloc": (4, "memory", (("alloc_objects", "count"), ("alloc_space", "bytes")), ("space", "bytes"), 16),
    "live": (5, "memory", (("inuse_objects", "count"), ("inuse_space", "bytes")), ("space", "bytes"), 16),
    "exception": (6, "exception", (("exception", "count"),), ("exception", "count"), 1),
    "gc": (7, "gc", (("pauses", "count"), ("pause", "nanoseconds")), ("pause", "nanoseconds"), 1),
    "thread": (8, "goroutine", (("goroutine", "count"),), ("goroutine", "count"), 1),
    "heap": (9, "gc_heap", (("heap_size", "bytes"),), ("space", "bytes"), 1),
    "write": (10, "write", (("writes", "count"), ("written", "bytes")), ("space", "bytes"), 16),
    "sync": (11, "sync", (("syncs", "count"), ("sync_time", "nanoseconds")), ("sync_time", "nanoseconds"), 1),
}
LEVELS = ("live", "heap")
IN_PPROF = ("cpu", "wait", "lock", "alloc")

AS_IT_CAME = pytest.mark.parametrize("server", ["as it came", "merged"], indirect=True)  # what came is still there

Raw = collections.namedtuple("Raw", "service host version kind start stacks")


def span_of(device):
    """A hexadecimal number that go tool pprof does not take for a decimal one."""
    return 0xabc0 + device


class Device:
    """A process that sends compact messages: one tree of stacks, all kinds, labels and spans."""
    NODES = [0, 1, 2, 2, 1, 5, 6, 5]  # parents; 0 is the root

    def __init__(self, rng, number_, service, version):
        self.rng, self.service, self.version = rng, service, version
        self.host, self.segment, self.sequence = f"pi-{number_}", number_ + 100, 0
        self.labels = [{}, {"step": "pricing"}, {"step": "routing", "tenant": "a b"},
                       {"span_id": f"{span_of(number_):016x}", "trace_id": f"{span_of(number_):032x}", "step": "pricing"}, {"thread": "worker"}]

    def stack(self, node):
        frames = []
        while node:
            frames.append(f"app+0x{4 + 16 * (node % 5):x}")  # nodes 1 and 6, 2 and 7 have one function
            node = self.NODES[node - 1]
        return tuple(reversed(frames))

    def profile(self, kind, start):
        number_, _, types, _, quantum = KINDS[kind]
        rows, stacks = [], []
        for node in sorted(self.rng.sample(range(1, 9), 5)):
            for labels in sorted(self.rng.sample(range(5), 2)):
                value, count = self.rng.randrange(1, 50), self.rng.randrange(1, 9)
                counted = len(types) == 2 and kind != "cpu"
                rows.append((node, labels, count if counted else 0, value))
                figures = [value * quantum] if len(types) == 1 else [value if kind == "cpu" else count, value * quantum]
                stacks.append((self.stack(node), figures, self.labels[labels]))
        encoded = profile(rows, quantum, start=(start - START + 1) * SECOND, duration=INTERVAL * SECOND,
                          period=PERIOD if kind == "cpu" else 1, kind=number_)
        return encoded, Raw(self.service, self.host, self.version, kind, start, stacks)

    def send(self, server, start):
        made = [self.profile(kind, start) for kind in KINDS]
        ident = self.segment - 100
        extra = {"contexts": [context(1), context(2), context(1, span_of(ident), (0, span_of(ident))), context(thread="worker")]}
        if self.sequence == 0:
            frames = [4100 + 16 * (node % 5) for node in range(1, 9)]
            back = [node - parent if parent else 0 for node, parent in enumerate(self.NODES, 1)]
            extra |= {"origin": origin(self.service, [("version", self.version)], host=self.host, boot_id=f"b{ident}", pid=ident),
                     "modules": [module(4096, 4096, 0, bytes([ident]) * 20, "/nowhere/app")], "nodes": nodes(back, frames),
                      "tag_sets": [tag_set(1, step="pricing"), tag_set(2, step="routing", tenant="a b")]}
        body = message(self.segment, self.sequence, profiles=[encoded for encoded, _ in made],
                       unix_minus_uptime=(START - 1) * SECOND, **extra)
        status, why = server.request("POST", "/edgeprof/v1/push", body)
        assert status == 200, f"{self.host} at {start}: {why}"
        self.sequence += 1
        return [raw for _, raw in made]


def as_pprof(raw):
    _, _, types, period, _ = KINDS[raw.kind]
    return pprof.encode(types, raw.stacks, period, raw.start * SECOND, INTERVAL * SECOND)


def pushed_pprof(server, rng, service, host, version, kind, start):
    """A process whose profiles come as pprof, with names, inlined calls and recursion."""
    names = ["main", ("handle", "parse"), "sum", "main", "sort<T>", "größe"]
    types = KINDS[kind][2]
    stacks = []
    for _ in range(12):
        frames = tuple(rng.choice(names) for _ in range(rng.randrange(1, 7)))
        value = rng.randrange(1, 1000)
        figures = [value, value * PERIOD] if kind == "cpu" else [rng.randrange(1, 9), value * 7919]
        stacks.append((frames, figures[:len(types)], rng.choice([{}, {"step": "pricing"}, {"step": "x=y", "queue": "q"}])))
    raw = Raw(service, host, version, kind, start, stacks)
    name = f"{service}{{host={host},version={version},__name__={KINDS[kind][1]}}}"
    status, body = server.request("POST", "/ingest?" + urllib.parse.urlencode(
        {"name": name, "from": start, "until": start + INTERVAL, "format": "pprof"}), as_pprof(raw))
    assert status == 200, f"pprof of {kind}: {body}"
    return raw


# ---- what the server says ----

def from_levels(names, levels):
    """{stack: self} of a flamebearer."""
    found, above = collections.Counter(), []
    for level in levels:
        at, row = 0, []
        for i in range(0, len(level), 4):
            start = at + level[i]
            at = start + level[i + 1]
            parents = [stack for first, end, stack in above if first <= start and at <= end]
            stack = (parents[0] if parents else ()) + (names[level[i + 3]],)
            row.append((start, at, stack))
            found[stack[1:]] += level[i + 2]
        above = row
    return +found


def from_folded(text):
    found = collections.Counter()
    for line in text.splitlines():
        stack, _, value = line.rpartition(" ")
        found[tuple(stack.split(";"))] += int(value)
    return +found


def from_tree(call, path=()):
    found = collections.Counter({path: call["self"]})
    for child in call.get("children", []):
        found += from_tree(child, path + (child["name"],))
    return +found


def fetch(server, path, **arguments):
    status, body = server.request("GET", path + "?" + urllib.parse.urlencode(arguments))
    assert status == 200, f"{path} {arguments}: {body[:200]}"
    return body


def ask_json(server, method, **request):
    status, body = server.request("POST", "/querier.v1.QuerierService/" + method, json.dumps(request), {"Content-Type": "application/json"})
    assert status == 200, f"{method} {request}: {body[:200]}"
    return json.loads(body)


def ask(server, method, body):
    status, answer = server.request("POST", "/querier.v1.QuerierService/" + method, body, {"Content-Type": "application/proto"})
    assert status == 200, f"{method}: {answer[:200]}"
    return getattr(wire, method + "Response").FromString(answer)


def binary_levels(answer):
    return from_levels(answer.flamegraph.names, [level.values for level in answer.flamegraph.levels])


def type_id(kind, sample_type):
    _, name, types, period, _ = KINDS[kind]
    return ":".join((name, *next(pair for pair in types if pair[0] == sample_type), *period))


def quoted(matchers):
    return "{" + ",".join(f'{name}{how}"{value}"' for name, how, value in matchers) + "}"


class Answers:
    """Every way to ask the same question."""

    def __init__(self, server, kind, sample_type, matchers, start, end):
        self.server, self.kind, self.sample_type, self.matchers = server, kind, sample_type, matchers
        self.start, self.end = start, end
        self.type, self.selector = type_id(kind, sample_type), quoted(matchers)
        self.own = {"kind": kind, "value": "count" if (sample_type, "count") == KINDS[kind][2][0] and len(KINDS[kind][2]) == 2 else "value",
                    "service": self.selector, "from": start, "to": end}
        self.request = {"profileTypeID": self.type, "labelSelector": self.selector, "start": start * 1000, "end": end * 1000,
                        "maxNodes": 100000}
        self.binary = (data(1, self.type) + data(2, self.selector) + number(3, start * 1000) + number(4, end * 1000) + number(5, 100000))

    def stacks(self):
        """(how it was asked, {stack: value})"""
        render = {"query": self.type + self.selector, "from": self.start, "until": self.end, "max-nodes": 100000}
        answer = json.loads(fetch(self.server, "/render", **render))
        yield "/render", from_levels(answer["flamebearer"]["names"], answer["flamebearer"]["levels"])
        assert sum(answer["flamebearer"]["levels"][0]) == answer["flamebearer"]["numTicks"], "levels[0] is the total"
        if self.kind not in LEVELS and self.start == WHOLE[0]:  # the first point has also what is before the range
            assert sum(answer["timeline"]["samples"]) == answer["flamebearer"]["numTicks"], f"timeline of {self.kind} {self.selector}"
        yield "collapsed", from_folded(fetch(self.server, "/pyroscope/render", format="collapsed", **render).decode())
        yield "/render pprof", pprof.sums(pprof.decode(fetch(self.server, "/render", format="pprof", **render)), self.sample_type)
        graph = ask_json(self.server, "SelectMergeStacktraces", **self.request)["flamegraph"]
        yield "JSON", from_levels(graph["names"], [[int(value) for value in level["values"]] for level in graph["levels"]])
        yield "binary", binary_levels(ask(self.server, "SelectMergeStacktraces", self.binary))
        wrapped = ask(self.server, "SelectMergeStacktraces", self.binary + number(6, 4)).pprof
        decoded = pprof.decode(wrapped.profile.SerializeToString())
        assert decoded[0] == [self.sample_type], "the sample type that was asked for alone"
        yield "binary pprof", pprof.sums(decoded, self.sample_type)
        yield "/api/profile", from_tree(json.loads(fetch(self.server, "/api/profile", **self.own))["tree"])
        yield "/api/pprof", pprof.sums(pprof.decode(fetch(self.server, "/api/pprof", **self.own)), self.sample_type)


def by_function(stacks):
    """{name: (self, total)}; recursion counts once."""
    found = collections.defaultdict(lambda: [0, 0])
    for stack, value in stacks.items():
        found[stack[-1]][0] += value
        for name in set(stack):
            found[name][1] += value
    return {name: tuple(figures) for name, figures in found.items()}


def chosen(raws, kind, start, end, accept):
    """The raw profiles that a question is about; of a level the last of each process."""
    kept = [raw for raw in raws if raw.kind == kind and start <= raw.start < end and accept(raw)]
    if kind in LEVELS:
        last = {}
        for raw in kept:
            last[raw.service, raw.host] = max(raw.start, last.get((raw.service, raw.host), 0))
        kept = [raw for raw in kept if raw.start == last[raw.service, raw.host]]
    return kept


def compare(server, folder, raws, kind, matchers, accept, start, end, *focus):
    decoded = pprof.merge(folder, [as_pprof(raw) for raw in chosen(raws, kind, start, end, accept)], *focus)
    for sample_type, _ in KINDS[kind][2]:
        wanted = pprof.sums(decoded, sample_type) if decoded[0] else {}
        what = f"{kind} {sample_type} {quoted(matchers)} {focus} +{start - START}..{end - START}"
        assert wanted, f"{what}: there is something to compare"
        answers = Answers(server, kind, sample_type, matchers, start, end)
        for how, found in answers.stacks():
            assert dict(found) == dict(wanted), f"{what}: {how}"
        top = json.loads(fetch(server, "/api/profile", **answers.own))["top"]
        assert {row["name"]: (row["self"], row["total"]) for row in top} == by_function(wanted), f"{what}: functions"


def series(server, raws, kind, sample_type, group, value_of, start, end, step):
    """Sums over time by a label: of each step, and of all."""
    at = [name for name, _ in KINDS[kind][2]].index(sample_type)
    wanted = collections.Counter()
    for raw in chosen(raws, kind, start, end, lambda raw: True):
        for _, figures, labels in raw.stacks:
            wanted[value_of(raw, labels), -(-(raw.start - start) // step)] += figures[at]  # a point has what is up to it
    answer = ask_json(server, "SelectSeries", profileTypeID=type_id(kind, sample_type), labelSelector="{}", start=start * 1000,
                      end=end * 1000, step=step, groupBy=[group])
    found = collections.Counter()
    for line in answer.get("series", []):
        labels = {pair["name"]: pair["value"] for pair in line.get("labels", [])}
        for point in line["points"]:
            found[labels.get(group, ""), (int(point["timestamp"]) // 1000 - start) // step] += int(point["value"])
    assert dict(found) == dict(+wanted), f"SelectSeries {kind} {sample_type} by {group}"
    request = (data(1, type_id(kind, sample_type)) + data(2, "{}") + number(3, start * 1000) + number(4, end * 1000) + data(5, group) +
               b"\x31" + struct.pack("<d", step))
    total = sum(point.value for line in ask(server, "SelectSeries", request).series for point in line.points)
    assert total == float(sum(wanted.values())), f"binary SelectSeries {kind} {sample_type} by {group}"


def send_all(server):
    rng, raws = random.Random(7), []
    devices = [Device(rng, i, "gateway", "1.2.3" if i < 3 else "1.3.0") for i in range(1, 5)]
    for step in range(12):
        start = START + step * INTERVAL
        for device in devices:
            raws += device.send(server, start)
        for kind in IN_PPROF:
            raws.append(pushed_pprof(server, rng, "gateway", "pc-1", "1.3.0", kind, start))
    return raws


# ---- what is asked, of each state of the store ----

def rows(db, merged):
    """How many profiles are there as they came, or merged ones. The server may have merged some by itself."""
    with contextlib.closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT count(*) FROM profile WHERE (level > 0) = ?", (merged,)).fetchone()[0]


@pytest.fixture(scope="module")
def sent(edgeprof, shared_folder):
    """(database, what was sent to it)"""
    db = shared_folder + "/sent.db"
    with Server(edgeprof, db) as server:
        return db, send_all(server)


@pytest.fixture(scope="module")
def raws(sent):
    return sent[1]


@pytest.fixture(scope="module", params=["as it came", "merged", "only blocks"])
def server(request, build, edgeprof, tmp_path_factory, sent):
    """A server whose store has what was sent, in one of its states."""
    db = str(tmp_path_factory.mktemp("state") / "merge.db")
    with contextlib.closing(sqlite3.connect(sent[0])) as source, contextlib.closing(sqlite3.connect(db)) as copy:
        source.backup(copy)

    def merge_now(*how):
        done = subprocess.run([build / "tests/tools/merge_now", db, *how], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), f"merging {how}"

    if request.param != "as it came":
        came = rows(db, False)
        merge_now()
        assert rows(db, True) > 0 and rows(db, False) == came, "there are blocks beside what came"
    if request.param == "only blocks":
        merge_now("drop")
        assert rows(db, True) > 0 and rows(db, False) == 0, "only blocks are left"
    with Server(edgeprof, db) as started:
        yield started


def everyone(_):
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_kind(server, folder, raws, kind):
    compare(server, folder, raws, kind, [("service_name", "=", "gateway")], everyone, *WHOLE)


@pytest.mark.parametrize("kind", ["cpu", "lock", "alloc", "live"])
def test_selectors(server, folder, raws, kind):
    compare(server, folder, raws, kind, [("host", "=~", "pi-[12]")], lambda raw: raw.host in ("pi-1", "pi-2"), *WHOLE)
    compare(server, folder, raws, kind, [("version", "!=", "1.2.3")], lambda raw: raw.version != "1.2.3", *WHOLE)
    compare(server, folder, raws, kind, [("step", "=", "pricing")], everyone, *WHOLE, "-tagfocus=step=^pricing$")


def test_several_selectors(server, folder, raws):
    compare(server, folder, raws, "alloc", [("step", "=~", "x=y|routing"), ("version", "=", "1.3.0")],
            lambda raw: raw.version == "1.3.0", *WHOLE, "-tagfocus=step=^(x=y|routing)$")


def test_span(server, folder, raws):
    compare(server, folder, raws, "cpu", [("span_id", "=", f"{span_of(2):016x}")], everyone, *WHOLE, f"-tagfocus=span_id={span_of(2):016x}")


@pytest.mark.parametrize("kind", ["cpu", "live", "heap"])
@AS_IT_CAME
def test_parts(server, folder, raws, kind):
    """Ranges within blocks, as long as what came is there."""
    compare(server, folder, raws, kind, [("version", "=", "1.3.0")], lambda raw: raw.version == "1.3.0", START + 30, START + 79)


def over_time(server, raws, start, end, step):
    for group, value_of in (("host", lambda raw, labels: raw.host), ("version", lambda raw, labels: raw.version),
                            ("step", lambda raw, labels: labels.get("step", ""))):
        series(server, raws, "cpu", "cpu", group, value_of, start, end, step)
        series(server, raws, "alloc", "alloc_objects", group, value_of, start, end, step)


def test_over_time(server, raws):
    over_time(server, raws, *WHOLE, BLOCK)


@AS_IT_CAME
def test_over_time_in_parts(server, raws):
    over_time(server, raws, START, START + 120, 20)


def test_spans(server, folder, raws):
    """Span selectors, as Grafana sends them from a trace."""
    wanted = pprof.sums(pprof.merge(folder, [as_pprof(raw) for raw in raws if raw.kind == "cpu"],
                                    f"-tagfocus=span_id={span_of(1):016x}|{span_of(3):016x}"), "cpu")
    request = data(1, type_id("cpu", "cpu")) + data(2, "{}") + data(3, f"{span_of(1):016x}") + data(3, f"{span_of(3):016x}".upper()) + number(4, WHOLE[0] * 1000) + number(5, WHOLE[1] * 1000)
    assert dict(binary_levels(ask(server, "SelectMergeSpanProfile", request))) == dict(wanted), "SelectMergeSpanProfile"
    graph = ask_json(server, "SelectMergeStacktraces", profileTypeID=type_id("cpu", "cpu"), labelSelector="{}",
                     traceIdSelector=[f"{span_of(1):032x}", f"{span_of(3):032x}"], **TIMES)["flamegraph"]
    assert dict(from_levels(graph["names"], [[int(v) for v in level["values"]] for level in graph["levels"]])) == dict(wanted), "traces"


def test_calls(server, folder, raws):
    """Stacks that begin with these calls, and CPU time and waits together."""
    cpu, wait = (pprof.sums(pprof.merge(folder, [as_pprof(raw) for raw in raws if raw.kind == kind]), name)
                 for kind, name in (("cpu", "cpu"), ("wait", "delay")))
    recursive = next(stack[:3] for stack in sorted(cpu) if len(stack) > 2 and stack[0] == stack[1])
    for site in (("handle", "parse"), ("app+0x14",), recursive):
        graph = ask_json(server, "SelectMergeStacktraces", profileTypeID=type_id("cpu", "cpu"), labelSelector="{}", maxNodes=100000,
                         stackTraceSelector={"callSite": [{"name": name} for name in site]}, **TIMES)["flamegraph"]
        wanted = {stack: value for stack, value in cpu.items() if stack[:len(site)] == site}
        assert wanted and len(wanted) < len(cpu), f"below {site} is something"
        assert dict(from_levels(graph["names"], [[int(v) for v in level["values"]] for level in graph["levels"]])) == wanted, f"below {site}"
    found = from_folded(fetch(server, "/render", query="gateway.wall", format="folded").decode())
    assert dict(found) == dict(cpu + wait), "wall time"
    wall = "wall:wall:nanoseconds:cpu:nanoseconds"
    assert wall in json.loads(fetch(server, "/pyroscope/label-values", label="__name__")), "its profile type"


def test_lists(server, raws):
    """Series are the processes' kinds and figures, each once; labels are those of processes and stacks."""
    wanted = {(raw.host, raw.version, type_id(raw.kind, name)) for raw in raws for name, _ in KINDS[raw.kind][2]}
    answer = ask_json(server, "Series", matchers=['{service_name="gateway"}'], labelNames=["version", "host", "__profile_type__"])
    found = [{pair["name"]: pair["value"] for pair in labels["labels"]} for labels in answer["labelsSet"]]
    assert sorted((one["host"], one["version"], one["__profile_type__"]) for one in found) == sorted(wanted), "series"
    assert ask_json(server, "Series", matchers=['{service_name="other"}']) == {}, "no series"
    steps = {labels["step"] for raw in raws for _, _, labels in raw.stacks if "step" in labels}
    assert ask_json(server, "LabelValues", name="step", matchers=[])["names"] == sorted(steps), "values of a stack's label"
    assert json.loads(fetch(server, "/label-values", label="version")) == ["1.2.3", "1.3.0"], "values of a tag"
    names = set(json.loads(fetch(server, "/pyroscope/label-names")))
    assert {"host", "service_name", "version", "step", "tenant", "queue", "__profile_type__"} <= names, f"names {names}"
    stats = ask_json(server, "GetProfileStats")
    newest = int(stats.pop("newestProfileTime")) // 1000
    assert stats == {"dataIngested": True, "oldestProfileTime": str(START * 1000)}, "times"
    assert newest in (START + 110, (START + 110) // BLOCK * BLOCK + BLOCK // 2), "the start of the newest, or its block's middle"


@AS_IT_CAME
def test_two_labels(server, raws):
    wanted = collections.Counter()
    for raw in raws:
        for _, figures, labels in raw.stacks if raw.kind == "cpu" else ():
            wanted[raw.version, labels.get("step", "")] += figures[0]
    answer = ask_json(server, "SelectSeries", profileTypeID=type_id("cpu", "samples"), labelSelector="{}", start=START * 1000,
                      end=(START + 120) * 1000, step=120, groupBy=["version", "step"])
    found = collections.Counter()
    for line in answer["series"]:
        labels = {pair["name"]: pair["value"] for pair in line["labels"]}
        found[labels["version"], labels.get("step", "")] += sum(point["value"] for point in line["points"])
    assert dict(found) == dict(wanted), "series by two labels"


def test_both_sides(server, folder, raws):
    """Two versions side by side: each side's stacks are those of its own merge."""
    old, new = ([as_pprof(raw) for raw in raws if raw.kind == "cpu" and raw.version == version] for version in ("1.2.3", "1.3.0"))
    wanted = [pprof.sums(pprof.merge(folder, bodies), "cpu") for bodies in (old, new)]
    answer = json.loads(fetch(server, "/render-diff", leftQuery="gateway.cpu{version=1.2.3}", rightQuery='gateway.cpu{version="1.3.0"}',
                              **{"max-nodes": 100000}))
    assert (answer["leftTicks"], answer["rightTicks"]) == tuple(sum(side.values()) for side in wanted), "ticks of both sides"
    graph = ask_json(server, "Diff", left={"profileTypeID": type_id("cpu", "cpu"), "labelSelector": '{version="1.2.3"}', **TIMES},
                     right={"profileTypeID": type_id("cpu", "cpu"), "labelSelector": '{version="1.3.0"}', "maxNodes": "100000", **TIMES})["flamegraph"]
    for names, levels, how in ((answer["flamebearer"]["names"], answer["flamebearer"]["levels"], "/render-diff"),
                               (graph["names"], [[int(v) for v in level["values"]] for level in graph["levels"]], "Diff")):
        for side in range(2):
            halves = [[value for i in range(0, len(level), 7) for value in (*level[i + 3 * side:i + 3 * side + 3], level[i + 6])]
                      for level in levels]
            assert dict(from_levels(names, halves)) == dict(wanted[side]), f"{how}, side {side}"


def test_script(server, raws):
    """As somebody would write it."""
    url = f"{server.url}/render?query=gateway.cpu{{version=1.2.3}}&from={WHOLE[0]}&until=now&format=json"
    wanted = sum(figures[1] for raw in raws if raw.kind == "cpu" and raw.version == "1.2.3" for _, figures, _ in raw.stacks)
    for address in (url, url.replace("{", "%7B").replace("}", "%7D")):
        with urllib.request.urlopen(address) as answer:
            assert sum(json.load(answer)["flamebearer"]["levels"][0]) == wanted, address


def test_forms(server, raws):
    """The other arguments of /render, and what is wrong."""
    totals = collections.Counter()
    for raw in raws:
        totals[raw.version, raw.kind] += sum(figures[-1] for _, figures, _ in raw.stacks)
    cpu = {version: totals[version, "cpu"] for version in ("1.2.3", "1.3.0")}
    whole = {"query": "gateway.cpu", "from": WHOLE[0], "until": START + 600}
    by_name = json.loads(fetch(server, "/render", name="gateway.cpu", **{"from": WHOLE[0], "until": START + 600}))
    grouped = json.loads(fetch(server, "/render", groupBy="version", **whole))
    assert by_name["flamebearer"] == grouped["flamebearer"], "name is query"
    assert {value: sum(line["samples"]) for value, line in grouped["groups"].items()} == cpu, "groups"
    for line in (grouped["timeline"], *grouped["groups"].values()):
        assert (line["startTime"], line["durationDelta"], line["watermarks"]) == (WHOLE[0], 15, None), "a timeline's shape"
    assert not any(grouped["timeline"]["samples"]), "of several groups only they have points"
    one_group = json.loads(fetch(server, "/render", groupBy="service_name", **whole))
    assert one_group["timeline"] == one_group["groups"]["gateway"] == by_name["timeline"] and sum(by_name["timeline"]["samples"]) == sum(cpu.values())
    assert grouped["metadata"] == {"format": "single", "spyName": "", "sampleRate": 1000000000, "units": "samples", "name": "cpu"}, "CPU"
    objects = json.loads(fetch(server, "/render", query="gateway.alloc_objects"))["metadata"]
    assert (objects["units"], objects["name"], objects["sampleRate"]) == ("objects", "alloc_objects", 100), "objects"
    few = json.loads(fetch(server, "/render", **{"max-nodes": 3}, **whole))["flamebearer"]
    assert "other" in few["names"] and few["levels"][0] == [0, sum(cpu.values()), 0, 0], f"pruned: {few}"
    assert sum(from_levels(few["names"], few["levels"]).values()) == sum(cpu.values()), "nothing is lost"
    none = json.loads(fetch(server, "/render", query="nobody.cpu"))["flamebearer"]
    assert (none["levels"], none["names"]) == ([[0, 0, 0, 0]], ["total"]), "no data has a level"
    for path, word in (("/render", "query"), ("/render?query=svc{", "operator"), ("/render?query=svc&format=html", "format"),
                       ("/render?query=svc&from=yesterday", "from"), ("/render-diff?leftQuery=svc.cpu", "rightQuery"),
                       ("/render-diff?leftQuery=svc.cpu&rightQuery=svc.alloc_space", "same profile type"), ("/label-values", "label"),
                       ("/render?query=a:b:c", "profile type")):
        status, body = server.request("GET", path)
        assert status == 400 and word in json.loads(body)["message"], f"{path}: {status} {body}"
