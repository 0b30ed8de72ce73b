"""Requests of Grafana's Pyroscope data source get the answers it expects, byte for byte.

The files for Grafana, and the requests that its Pyroscope data source makes, byte for byte as its Connect client
encodes them: recorded from the data source's source (pkg/tsdb/grafana-pyroscope-datasource, its query.go of commit
09f63e1b), because Grafana itself is no Debian package. Answers are read as the data source reads them."""
import gzip
import json
import re
import struct

import pytest

import wire
from generate import context, data, message, module, nodes, number, origin, profile, tag_set

FOLDER = "tools/grafana"
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
ALLOC = "memory:alloc_space:bytes:space:bytes"
START, END = 1_700_000_000_000, 1_700_000_060_000
HEADERS = {"Content-Type": "application/proto", "Connect-Protocol-Version": "1", "Accept-Encoding": "gzip",
           "User-Agent": "connect-go/1.18.1 (go1.25.0)", "X-Grafana-Org-Id": "1"}


# ---- files ----

def scalar(text):
    if text[:1] in "\"'":
        if len(text) < 2 or text[-1] != text[0]:
            raise ValueError(text)
        return text[1:-1]
    if re.search(r": |[\[\]{}&*!|>%@`]", text):
        raise ValueError(f"not plain: {text}")
    return {"true": True, "false": False}.get(text, int(text) if re.fullmatch(r"-?\d+", text) else text)


def lines_of(text):
    for line in text.splitlines():
        if "\t" in line:
            raise ValueError("tab")
        line = re.sub(r"(^|\s)#.*$", "", line).rstrip()
        if line:
            yield len(line) - len(line.lstrip()), line.lstrip()


def block(lines, indent):
    """Mappings, lists of mappings, and plain or quoted scalars: what these files need of YAML, and no more."""
    if lines[0][1].startswith("- "):
        items = []
        while lines and lines[0][0] == indent and lines[0][1].startswith("- "):
            lines[0] = (indent + 2, lines[0][1][2:])
            items.append(block(lines, indent + 2))
        return items
    found = {}
    while lines and lines[0][0] == indent and not lines[0][1].startswith("- "):
        key, colon, value = lines.pop(0)[1].partition(":")
        if not colon or key in found or (value and value[0] != " "):
            raise ValueError(key)
        found[key] = scalar(value.strip()) if value.strip() else block(lines, lines[0][0])
    return found


def yaml(path):
    lines = list(lines_of(open(path).read()))
    found = block(lines, 0)
    if lines:
        raise ValueError(f"{path}: {lines[0]}")
    return found


@pytest.fixture(scope="module")
def sources():
    return yaml(f"{FOLDER}/provisioning/datasources/edgeprof.yaml")


@pytest.fixture(scope="module")
def board():
    return json.load(open(f"{FOLDER}/dashboards/edgeprof.json"))


def test_files(sources):
    assert sources["apiVersion"] == 1, "version of the data sources' file"
    by_type = {source["type"]: source for source in sources["datasources"]}
    profiles, traces = by_type["grafana-pyroscope-datasource"], by_type["tempo"]
    for source in (profiles, traces):
        assert source["access"] == "proxy" and re.fullmatch(r"http://[a-z]+:\d+", source["url"]) and source["uid"], f"{source['name']}"
    assert re.fullmatch(r"\d+s", profiles["jsonData"]["minStep"]), "a step"
    to_profiles = traces["jsonData"]["tracesToProfiles"]
    assert to_profiles["datasourceUid"] == profiles["uid"], "traces lead to the profiles"
    assert to_profiles["profileTypeId"] == CPU, "their type"
    assert to_profiles["tags"] == [{"key": "service.name", "value": "service_name"}], "their labels"
    provider = yaml(f"{FOLDER}/provisioning/dashboards/edgeprof.yaml")["providers"][0]
    assert provider["type"] == "file", "dashboards from files"
    assert f":{provider['options']['path']}:ro" in open(f"{FOLDER}/README.md").read(), "the dashboards are mounted where they are looked for"


def test_dashboard(sources, board):
    uid = next(source["uid"] for source in sources["datasources"] if source["type"] == "grafana-pyroscope-datasource")
    assert board["uid"] and board["title"] and board["schemaVersion"] >= 36 and board["time"]["from"], "what a dashboard has"
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]), "ids of panels"
    taken = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24, f"{panel['title']} has a place of its own"
        taken |= cells
        for target in panel["targets"]:
            assert target["datasource"] == {"type": "grafana-pyroscope-datasource", "uid": uid}, f"{panel['title']}: source"
            assert target["queryType"] == ("profile" if panel["type"] == "flamegraph" else "metrics"), f"{panel['title']}: query"
    variable = board["templating"]["list"][0]
    assert "$" + variable["name"] in json.dumps(board["panels"]), "the variable is used"
    assert (variable["query"]["type"], variable["query"]["labelName"]) == ("labelValue", "service_name"), "its values"


# ---- requests ----

@pytest.fixture(scope="module")
def server(shared_server):
    """Two services: orders and users."""
    for ident, (service, version, span, values) in enumerate((("orders", "1.2.3", 0x00f067aa0ba902b7, (20, 30)), ("users", "2.0", 0, (20, 0))), 1):
        stacks = [(1, 0, 0, values[0])] + ([(2, 1, 0, values[1])] if values[1] else [])
        contexts = [context(span=span)] if span else []
        made = [profile(stacks, start=15_000_000_000, duration=10_000_000_000), profile([(1, 0, 2, 9)], quantum=64, start=15_000_000_000, kind=4),
                profile([(2, 0, 1, 7)], quantum=1000, start=15_000_000_000, kind=3)]
        body = message(ident, 0, origin(service, [("version", version)], host=f"pi-{ident}", boot_id=f"b{ident}", pid=ident),
                       [module(4096, 4096, 0, bytes([ident]) * 20, "/nowhere/app")], nodes([0, 1], [4100, 4200]), made,
                       contexts=contexts, unix_minus_uptime=1_700_000_000_000_000_000)
        assert shared_server.push(body) == 200, f"push of {service}"
    return shared_server


def ask(server, method, body):
    status, answer = server.request("POST", "/querier.v1.QuerierService/" + method, body, HEADERS)
    assert status == 200, f"{method}: {answer[:200]}"
    assert server.headers["Content-Type"] == "application/proto", f"{method}: content type"
    return getattr(wire, method + "Response").FromString(answer)


def between():
    return number(3, START) + number(4, END)


def levels_to_tree(levels, names):
    """The data source's way: each bar belongs to the first bar above that it lies within."""
    root = {"name": names[levels[0][3]], "start": 0, "value": levels[0][1], "nodes": []}
    above = [root]
    for level in levels[1:]:
        row, offset, parents = [], 0, iter(above)
        parent = next(parents)
        for i in range(0, len(level), 4):
            start, value = level[i] + offset, level[i + 1]
            while not (start >= parent["start"] and start + value <= parent["start"] + parent["value"]):
                parent = next(parents)  # StopIteration: a bar without a parent
            row.append({"name": names[level[i + 3]], "start": start, "value": value, "self": level[i + 2], "nodes": []})
            parent["nodes"].append(row[-1])
            offset = start + value
        above = row
    return root


def flame(answer):
    return levels_to_tree([level.values for level in answer.flamegraph.levels], answer.flamegraph.names)


def paths(node, path=()):
    found = {path + (node["name"],): node["value"]}
    for child in node["nodes"]:
        found |= paths(child, path + (node["name"],))
    return found


def test_data_source(server, board):
    board_types = {target["profileTypeId"] for panel in board["panels"] for target in panel["targets"]}
    types = ask(server, "ProfileTypes", number(1, START) + number(2, END)).profile_types
    ids = [found.ID for found in types]
    assert board_types <= set(ids), f"types of the dashboard: {board_types - set(ids)}"
    assert [found.name + " - " + found.sample_type for found in types if found.ID == CPU] == ["process_cpu - cpu"], "label of a type"
    ranged = number(2, START) + number(3, END)
    names = list(ask(server, "LabelNames", data(1, CPU + "{}") + ranged).names)
    assert {"service_name", "host", "version"} <= set(names), f"label names {names}"
    assert [name for name in names if names.count(name) > 1] == [], "names are there once"
    for selector, label, wanted in ((CPU + "{}", "service_name", ["orders", "users"]), (CPU + '{service_name="orders"}', "version", ["1.2.3"]),
                                    ('{service_name="users"}', "host", ["pi-2"]), ("", "version", ["1.2.3", "2.0"])):
        found = ask(server, "LabelValues", data(1, label) + data(2, selector) + between()).names
        assert found == wanted, f"values of {label} by {selector}"


def test_metrics(server):
    for group, wanted in ((["service_name"], {"orders": 500.0, "users": 200.0}), ([], {None: 700.0}), (["host", "service_name"], None)):
        body = (data(1, CPU) + data(2, "{}") + between() + b"".join(data(5, label) for label in group) + b"\x31" + struct.pack("<d", 15) +
                number(10, 1))
        found = {}
        for line in ask(server, "SelectSeries", body).series:
            labels = {pair.name: pair.value for pair in line.labels}
            stamps = [point.timestamp for point in line.points]
            assert stamps == sorted(set(stamps)) and all(START <= stamp <= END + 15000 for stamp in stamps), f"times {stamps}"
            assert sorted(labels) == sorted(group), "labels of a series"
            found[tuple(labels.values())[0] if labels else None] = sum(point.value for point in line.points) / 1e6
        if wanted:
            assert found == wanted, f"series by {group}"
        else:
            assert sorted(found.values()) == [200.0, 500.0], "series by two labels"
    limited = data(1, CPU) + data(2, "{}") + between() + data(5, "service_name") + b"\x31" + struct.pack("<d", 15) + number(9, 1)
    assert len(ask(server, "SelectSeries", limited).series) == 1, "the largest series alone"


def test_flames(server):
    body = data(1, CPU) + data(2, '{service_name="orders"}') + between() + number(5, 16384)
    assert paths(flame(ask(server, "SelectMergeStacktraces", body))) == {
        ("total",): 500000000, ("total", "app+0x4"): 500000000, ("total", "app+0x4", "app+0x68"): 300000000}
    status, packed = server.request("POST", "/querier.v1.QuerierService/SelectMergeStacktraces", gzip.compress(body),
                                    {**HEADERS, "Content-Encoding": "gzip"})
    assert (status, wire.SelectMergeStacktracesResponse.FromString(packed)) == (200, ask(server, "SelectMergeStacktraces", body)), "a compressed request"
    few = flame(ask(server, "SelectMergeStacktraces", data(1, CPU) + data(2, "{}") + between() + number(5, 1)))
    assert few["value"] == 700000000, "pruned, nothing is lost"
    span = data(1, CPU) + data(2, '{service_name="orders"}') + data(3, "00f067aa0ba902b7") + number(4, START) + number(5, END) + number(6, 16384)
    assert flame(ask(server, "SelectMergeSpanProfile", span))["value"] == 300000000, "profile of a span"
    assert flame(ask(server, "SelectMergeSpanProfile", span.replace(b"902b7", b"902b8")))["value"] == 0, "a span that nothing is known of"
    assert flame(ask(server, "SelectMergeStacktraces", data(1, ALLOC) + data(2, '{service_name="none"}') + between()))["value"] == 0, "no data"


def test_errors(server):
    for method, body, status, code in (("SelectMergeStacktraces", data(1, "cpu") + data(2, "{}"), 400, "invalid_argument"),
                                       ("SelectMergeStacktraces", data(1, CPU) + data(2, "{a=~\"(\"}"), 400, "invalid_argument"),
                                       ("SelectSeries", data(1, CPU) + data(2, "{}") + between(), 400, "invalid_argument"),
                                       ("SelectHeatmap", data(1, CPU) + data(2, "{}") + between(), 400, "invalid_argument"),
                                       ("SelectMergeStacktraces", data(1, CPU) + data(2, "{}") + between() + data(7, b"\x0a\0" * 400_000), 400, "invalid_argument"),
                                       ("Nothing", b"", 501, "unimplemented"), ("ProfileTypes", b"\xff", 400, "invalid_argument")):
        got, answer = server.request("POST", "/querier.v1.QuerierService/" + method, body, HEADERS)
        assert (got, server.headers["Content-Type"], json.loads(answer)["code"]) == (status, "application/json", code), f"{method} {body[:200]}"
        assert len(json.loads(answer)["message"]) > 10, f"{method}: {answer}"
    assert server.request("POST", "/querier.v1.QuerierService/ProfileTypes", b"", {"Content-Type": "text/plain"})[0] == 415, "no such encoding"


def test_selectors(server):
    """Pyroscope refuses a selection without a selector or without times, a range that ends before it begins, and what Prometheus cannot read.
    One instant is a range."""
    for selector, start, end, wanted in ((b"", START, START + 1, 400), ("{}", START, START + 1, 200), ("{}", START, START, 200), ("{}", START + 1, START, 400),
                                         ("{}", 0, 0, 400), ("{}", 0, START, 400), ("{}", START, 0, 400), ("{a.b=\"c\"}", START, END, 400),
                                         ("{\"a.b\"=\"c\"}", START, END, 200), ("{a=b}", START, END, 400), ("{ a = \"b\" , }", START, END, 200),
                                         ("{9a=\"b\"}", START, END, 400)):
        body = data(1, CPU) + data(2, selector) + number(3, start) + number(4, end)
        status = server.request("POST", "/querier.v1.QuerierService/SelectMergeStacktraces", body, HEADERS)[0]
        assert status == wanted, f"{selector} from {start} to {end}"


def ask_json(server, method, accept="*/*", **body):
    status, answer = server.request("POST", "/querier.v1.QuerierService/" + method, json.dumps(body).encode(),
                                    {"Content-Type": "application/json", "Accept": accept})
    assert status == 200, f"{method}: {answer[:200]}"
    return json.loads(answer)


@pytest.fixture(scope="module")
def timed(server):
    """A service with three profiles of 1, 2 and 4 units, of which the second starts on a full second and the third 1 ns later."""
    stacks = [(1, 0, 0, 1)], [(1, 0, 1, 2)], [(2, 1, 0, 3), (2, 0, 1, 1)]
    starts = 30_500_000_000, 45_000_000_000, 45_000_000_001
    made = [profile(rows, start=start, duration=10_000_000_000) for rows, start in zip(stacks, starts)]
    body = message(9, 0, origin("timed", [("odd.name", "x")], host="pi-9", boot_id="b9", pid=9),
                   [module(4096, 4096, 0, bytes([9]) * 20, "/nowhere/app")], nodes([0, 1], [4100, 4200]), made,
                   contexts=[context(span=7)], unix_minus_uptime=1_700_000_000_000_000_000)
    assert server.push(body) == 200
    return {"profileTypeID": CPU, "labelSelector": '{service_name="timed"}'}


def test_starts(server, timed):
    """A profile counts at its start: in a range that includes it, both ends included; in the step that ends at it or after it."""
    unit = 10_000_000

    def flames(first, last):
        return int(ask_json(server, "SelectMergeStacktraces", **timed, start=START + first, end=START + last)["flamegraph"].get("total", 0)) // unit

    def points(first, last, step, **more):
        series = ask_json(server, "SelectSeries", **timed, start=START + first, end=START + last, step=step, **more).get("series", [])
        return {int(p["timestamp"]) - START: p["value"] / unit for one in series for p in one["points"]}

    for first, last, wanted in ((0, 60_000, 7), (30_500, 30_500, 1), (30_501, 44_999, 0), (45_000, 45_000, 2), (45_000, 45_001, 6), (45_001, 60_000, 0)):
        assert flames(first, last) == wanted, f"from {first} to {last}"
    assert points(0, 60_000, 15) == {45_000: 7}
    assert points(30_000, 60_000, 10) == {40_000: 1, 50_000: 6}
    assert points(30_500, 60_000, 10) == {30_500: 1, 50_500: 6}, "the first point has what came before it"
    assert points(40_500, 60_000, 10) == {40_500: 1, 50_500: 6}, "from one step earlier, included"
    assert points(40_501, 60_000, 10) == {50_501: 6}
    assert points(30_000, 45_000, 15) == {45_000: 3}, "the end is included to the nanosecond"
    assert points(30_000, 45_001, 15) == {45_000: 7}
    assert points(30_000, 50_000, 15) == {45_000: 7}, "no point is after the end"
    assert points(0, 60_000, 15, aggregation="TIME_SERIES_AGGREGATION_TYPE_AVERAGE") == {45_000: 7}
    assert points(0, 60_000, 15, stackTraceSelector={"callSite": [{"name": "nothing"}]}) == {45_000: 7}


def test_heatmap(server, timed):
    def slots(kind, **more):
        series = ask_json(server, "SelectHeatmap", **timed, start=START, end=START + 60_000, step=15, queryType="HEATMAP_QUERY_TYPE_" + kind, **more)["series"]
        return {tuple(sorted((x["name"], x["value"]) for x in one.get("labels", []))): {
            int(slot["timestamp"]) - START: {low / 1e7: count for low, count in zip(slot["yMin"], slot["counts"]) if count} for slot in one["slots"]} for one in series}

    assert slots("INDIVIDUAL") == {(): {45_000: {1: 1, 1.9: 1, 3.85: 1}}}, "three profiles of 1, 2 and 4"
    assert slots("INDIVIDUAL", groupBy=["service_name", "none"]) == {(("service_name", "timed"),): {45_000: {1: 1, 1.9: 1, 3.85: 1}}}
    assert slots("SPAN") == {(): {45_000: {3: 1}}}, "one span, 2 and 1 at one millisecond"
    assert ask_json(server, "SelectHeatmap", profileTypeID=CPU, labelSelector='{service_name="none"}', start=START, end=END, step=15,
                    queryType="HEATMAP_QUERY_TYPE_SPAN") == {}
    assert ask_json(server, "AnalyzeQuery", start=START, end=END, query=CPU + "{}") == {}


def test_exemplars_of_spans_in_series(server):
    """Each point has the span with the largest value that it sums up, with its trace, in the series that the span belongs to."""
    rows = [(1, 1, 1, 2), (1, 2, 1, 4), (2, 0, 1, 9), (2, 1, 1, 1), (2, 3, 1, 2)]  # stack, context, samples, value
    made = [profile(rows, start=start, duration=1_000_000_000) for start in (30_500_000_000, 45_000_000_000)]
    spans = [context(tags=0, span=0xa1, trace=(0xb1, 0xc1)), context(tags=1, span=0xa2, trace=(0xb2, 0xc2)), context(tags=0, span=0xa3)]
    body = message(10, 0, origin("spans", host="pi-9", boot_id="b9", pid=10), [module(4096, 4096, 0, bytes([9]) * 20, "/nowhere/app")],
                   nodes([0, 1], [4100, 4200]), made, contexts=spans, tag_sets=[tag_set(1, route="/buy")], unix_minus_uptime=1_700_000_000_000_000_000)
    assert server.push(body) == 200

    def exemplars(**more):
        series = ask_json(server, "SelectSeries", profileTypeID=CPU, labelSelector='{service_name="spans"}', start=START, end=START + 60_000, step=10,
                          exemplarType="EXEMPLAR_TYPE_SPAN", **more)["series"]
        return {tuple(pair["value"] for pair in one.get("labels", [])): [
            [(e["spanId"], e.get("traceId", ""), int(e["value"]) // 10**7) for e in point.get("exemplars", [])] for point in one["points"]] for one in series}

    buys = ("00000000000000a2", "00000000000000b200000000000000c2", 4)
    assert exemplars() == {(): [[buys], [buys]]}
    assert exemplars(groupBy=["route"]) == {(): [[("00000000000000a1", "00000000000000b100000000000000c1", 3)]] * 2, ("/buy",): [[buys]] * 2}


def test_call_sites(server, timed):
    ranged = {"start": START, "end": END}
    graph = ask_json(server, "SelectMergeStacktraces", **timed, **ranged, stackTraceSelector={"callSite": [{"name": "app+0x4"}, {"name": "app+0x68"}]})
    assert graph["flamegraph"]["names"] == ["total", "app+0x4", "app+0x68"] and graph["flamegraph"]["total"] == "40000000"
    assert "levels" in graph["flamegraph"] and "20000000" not in json.dumps(graph), "nothing of other stacks"


def test_dot(server, timed):
    """Graphs for Graphviz: one node a function, an edge a call, dotted where a node between is not drawn."""
    def dot(**more):
        return ask_json(server, "SelectMergeStacktraces", **timed, start=START, end=END, format="PROFILE_FORMAT_DOT", **more).get("dot", "")

    lines = dot().splitlines()
    assert [line.split(" ")[0] for line in lines] == ["digraph", "node", "subgraph", "N1", "N2", "N1", "}"], "two functions and a call"
    assert lines[3].startswith(r'N1 [label="app+0x4\n0.03s (42.86%)\nof 0.07s (100%)" id="node1"') and 'tooltip="app+0x4 (0.07s)"' in lines[3]
    assert lines[5].startswith('N1 -> N2 [label=" 0.04s" weight=58 penwidth=3 color=') and '"app+0x4 -> app+0x68 (0.04s)"' in lines[5]
    assert r"Showing top 1 nodes out of 2\l" in dot(maxNodes=1) and "N2" not in dot(maxNodes=1)
    status, text = server.request("GET", "/render?query=timed.cpu&format=dot&maxNodes=1")
    assert (status, text.decode().count("fontsize")) == (200, 2)
    assert ask_json(server, "SelectMergeStacktraces", profileTypeID=CPU, labelSelector='{service_name="none"}', start=START, end=END,
                    format="PROFILE_FORMAT_DOT") == {}, "nothing has no graph"
    assert server.request("GET", "/render?query=nobody.cpu&format=dot") == (200, b"")


def test_label_names(server, timed):
    """A client that does not say that it takes them gets no names that Prometheus does not have. All matchers must match."""
    ranged = {"matchers": [timed["labelSelector"]], "start": START, "end": END}
    accept = "*/*; allow-utf8-labelnames=true"
    assert "odd.name" not in ask_json(server, "LabelNames", **ranged)["names"]
    assert "odd.name" in ask_json(server, "LabelNames", accept, **ranged)["names"]
    assert "odd.name" not in json.dumps(ask_json(server, "Series", **ranged))
    assert "odd.name" in json.dumps(ask_json(server, "Series", accept, **ranged))
    both = {**ranged, "matchers": [timed["labelSelector"], '{host="pi-1"}']}
    assert ask_json(server, "LabelValues", name="host", **both) == {}
    assert ask_json(server, "LabelValues", name="host", **{**both, "matchers": both["matchers"][:1]}) == {"names": ["pi-9"]}


def test_newest(server, timed):
    assert int(ask_json(server, "GetProfileStats")["newestProfileTime"]) == START + 45_000, "the start of the newest"


def test_extremes(server):
    """Numbers at the ends of their ranges, and more of everything than anybody needs, are answered."""
    ends = (0, 1, 2**63 - 1, 2**63, 2**64 - 1, START)
    for start in ends:
        for end in ends:
            times = data(2, "{}") + number(3, start) + number(4, end)
            first, last = (n - 2**64 if n >= 2**63 else n for n in (start, end))
            status, _ = server.request("POST", "/querier.v1.QuerierService/SelectMergeStacktraces", data(1, CPU) + times + number(5, end), HEADERS)
            assert status == (200 if first and last and first <= last else 400), f"stacks from {start} to {end}"
            for step in (1e-300, 15.0, 1e8, 1e300, float("nan"), -1.0):
                status, _ = server.request("POST", "/querier.v1.QuerierService/SelectSeries",
                                           data(1, CPU) + times + b"\x31" + struct.pack("<d", step), HEADERS)
                assert status in (200, 400), f"series from {start} to {end} by {step}: {status}"
    for start in ("0", "1", "9200000000000000000", "99999999999999999999", "now"):
        for end in ("0", "1", "9200000000000000000", "now-1s"):
            status, answer = server.request("GET", f"/render?query=orders.cpu&from={start}&until={end}&max-nodes={start}")
            wanted = 400 if len(start) > 19 or int(end if end.isdigit() else 2**40) < int(start if start.isdigit() else 2**41) else 200
            assert status == wanted and (wanted == 400 or json.loads(answer)["flamebearer"]["levels"]), f"/render from {start} to {end}: {answer}"
    for method, body in (("LabelNames", data(1, "{a=b}") * 1000), ("Series", data(2, "a") * 1000), ("Series", data(1, CPU + "{}") * 1000),
                         ("SelectMergeStacktraces", data(1, CPU) + data(11, "00f067aa0ba902b7") * 1000),
                         ("SelectSeries", data(1, CPU) + between() + data(5, "host") * 1000 + b"\x31" + struct.pack("<d", 15))):
        status, answer = server.request("POST", "/querier.v1.QuerierService/" + method, body, HEADERS)
        assert (status, json.loads(answer)["code"]) == (400, "invalid_argument"), f"too much for {method}"
    assert server.request("POST", "/querier.v1.QuerierService/LabelNames", bytes(2 << 20), HEADERS)[0] == 413, "too large"
