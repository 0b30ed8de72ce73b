"""The other views of the page show the figures of the API in Chromium.

The page's other views in headless Chromium: callers and callees, comparing, spans, devices. What each shows is
compared with the API's figures, and these with figures that are known."""
import itertools
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time
import types

import pytest

from generate import context, crash, message, module, nodes, number, origin, profile, stats, tag_set, timeline, unsampled
from harness import wait_until
from page_kit import ROWS, SHOP, fill, format_share, format_value

pytestmark = pytest.mark.all

HERE = pathlib.Path(__file__).parent
WEB = HERE.parents[1] / "tools" / "web"
NOW = 0  # set by conftest.py when the first test begins
SECOND = 10**9

# f calls itself, and g on the way; h is called by f and by others.
RECURSIVE = {
    ("main", "f", "g", "f", "h"): 1 * SECOND, ("main", "f", "h"): 2 * SECOND, ("main", "f"): 4 * SECOND,
    ("other", "f", "g"): 8 * SECOND, ("other", "h"): 16 * SECOND, ("f",): 32 * SECOND,
}
SPAN, TRACE = 0x00f067aa0ba902b7, (0x4bf92f3577b34da6, 0xa3ce929d0e0e4736)


@pytest.fixture(scope="module")
def server(shared_server):
    fill(shared_server, "shop", SHOP, "version=1")
    fill(shared_server, "calls", RECURSIVE)
    diff_fill(shared_server)
    spans_fill(shared_server)
    return shared_server


# ---- all services ----

def test_services(page_of, start_server):
    server = start_server()
    fill(server, "quiet", {("main", "rest"): SECOND // 100}, at=NOW - 300)
    fill(server, "busy", {("main", "work"): 5 * SECOND}, at=NOW - 300)
    fill(server, "busy", {("main", "work"): 3 * SECOND}, at=NOW - 40_000)
    for i, version in enumerate(("1.1", "1.2")):
        assert server.push(device(60 + i, "ab"[i], version, 90 - i, number(10, 16_000 + i), pid=i)) == 200
    crash_push(server, 71, "a", "1.1", [4100, 4200], unix=(NOW - 400) * SECOND)
    incident_push(server, 72, "b", 3, NOW - 300)
    older = f"/ingest?name=busy.alloc_space&format=groups&from={NOW - 50_000}&until={NOW - 49_990}"
    assert server.request("POST", older, b"main;work 1000\n")[0] == 200
    listed = [row["service"] for row in server.get("/api/services")[1]["services"]]
    assert listed.index("gateway") == 0 and [one for one, _ in itertools.groupby(listed)] == list(dict.fromkeys(listed)), "the latest first, the kinds of each together"
    page = page_of(server)
    page.open()
    names = page.js("[...document.querySelectorAll('#services td.name button')].map((b) => b.textContent)")
    assert names == ["busy", "gateway", "quiet", "shop"], "the one that uses most is first"
    row = lambda name: [cell.split("\n")[0] for cell in (page.rows("services", i)[names.index(name)] for i in range(9))]
    assert [row(name)[2] for name in names] == ["8.00 s", "2.00 s", "10.0 ms", "–"], "CPU time"
    assert row("gateway")[3:8] == ["2", "1.2, 1.1", "1", "–", "1.6 %"] and row("shop")[5:7] == ["–", "1"], [row("gateway"), row("shop")]
    assert page.js("document.querySelectorAll('#services .spark path').length") == 4 and page.js("document.querySelector('.spark path').getAttribute('d').length") > 100
    assert page.hidden("timeline") and page.hidden("labels")
    page.type_into("service-filter", "1.2")
    assert page.js("[...document.querySelectorAll('#services td.name button')].map((b) => b.textContent)") == ["gateway"], "found by its version"
    page.after(lambda: page.js("[...document.querySelectorAll('#services .link.bad')][0].click()"))
    assert [page.address("view"), page.address("find"), len(page.rows("crashes", 0))] == ["crashes", "gateway", 1], "its crashes"
    page.after(lambda: page.js("history.back()"))
    page.type_into("service-filter", "")
    page.after(lambda: page.click("#services td.name button"))
    assert [page.address("view"), page.address("service")] == ["", "busy"] and "work" in page.js(ROWS), "to the service"


# ---- the timeline's marks ----

def test_marks(page_of, start_server):
    server = start_server()
    for i, (name, version, ago, start) in enumerate((("a", "1.1", 3000, 1), ("a", "1.1", 2500, 2), ("a", "1.2", 2000, 3), ("b", "1.2", 2400, 4), ("b", "1.2", 2400, 5))):
        assert server.push(device(60 + i, name, version, ago, pid=i, start=start)) == 200
    leveled = message(66, 0, origin("gateway", [("device", "c"), ("version", "1.2")], executable="gatewayd"), [module(4096, 4096, 0, b"", "/opt/app")], nodes([0], [4100]),
                      [profile([(1, 0, 0, 2)], start=10 * i * SECOND, quantum=1_000_000, period=period) for i, period in enumerate((52_631_579, 55_000_000, 10_309_278, 10_309_278))],
                      unix_minus_uptime=(NOW - 2200) * SECOND)
    assert server.push(leveled) == 200
    crash_push(server, 71, "a", "1.1", [4100, 4200], unix=(NOW - 1500) * SECOND)
    incident_push(server, 72, "b", 3, NOW - 1000, service="gateway")
    page = page_of(server)
    page.open({"service": "gateway"})
    page.wait("document.querySelectorAll('#plot .mark').length > 0")
    marks = page.js("[...document.querySelectorAll('#plot .mark')].map((m) => [m.getAttribute('class').slice(5), m.querySelector('title').textContent.slice(20)])")
    assert sorted(marks) == [["crash", "crash on a: SIGSEGV"], ["incident", "incident on b: span checkout"],
                             ["level", "other level on c: 19 (low) → 97 (medium) samples per second of CPU time"], ["restart", "restart on a: gatewayd"],
                             ["version", "new version on a: 1.1 → 1.2"]], "two processes side by side are no restart"
    assert page.js("document.querySelector('#marks summary').textContent") == "1 new version, 1 crash, 1 incident, 1 other level, 1 restart"
    x = page.js("[...document.querySelectorAll('#plot .mark')].map((m) => Number(/translate.([0-9.]+)/.exec(m.getAttribute('transform'))[1]))")
    data = server.get("/api/timeline", service="gateway", buckets=240, **{"from": "now-3600s"})[1]
    width = page.js("Number(document.querySelector('#plot svg').getAttribute('width'))")
    at = (NOW - 1500 - data["from"]) / data["step"] / data["buckets"] * width
    assert any(abs(one - at) < 30 for one in x), f"the crash is at {at}: {x}"
    page.js("document.getElementById('marks').open = true")
    page.after(lambda: page.js("[...document.querySelectorAll('#marks button')].find((b) => b.textContent.includes('crash')).click()"))
    assert page.address("view") == "crashes" and page.address("crash"), "a mark leads to what happened"


def test_fit_and_wheel(page):
    page.open({"service": "calls", "range": "6h"})
    page.after(lambda: page.click("#fit"))
    length = float(page.address("to")) - float(page.address("from"))
    assert 0 < length <= 300 and not page.hidden("chart"), f"{length} s of data"
    shown = page.js("(() => { const e = document.querySelector('#plot .edge.at'); return e.ariaValueMax - e.ariaValueMin; })()")  # ends now, if that is earlier
    x, y, width, height = page.box("#plot svg")
    page.after(lambda: page.mouse("mouseWheel", x + width / 2, y + height / 2, deltaX=0, deltaY=200, modifiers=2))
    assert float(page.address("to")) - float(page.address("from")) > 1.1 * shown, "the wheel zooms"
    before = float(page.address("from"))
    page.after(lambda: page.mouse("mouseWheel", x + width / 2, y + height / 2, deltaX=-200, deltaY=0))
    assert float(page.address("from")) < before, "sideways it moves"
    assert len(page.js("[...document.querySelectorAll('#plot .level')]")) >= 1 and "cores" in page.js("document.querySelector('#plot text').textContent"), "an axis"


# ---- callers and callees ----

def test_callers_figures(server):
    status, api = server.get("/api/callers", service="calls", function="f")
    assert status == 200, "callers"
    assert [api["all"] // SECOND, api["total"] // SECOND, api["self"] // SECOND] == [63, 47, 36], "sums of the function"
    assert [(row["name"], row["value"] // SECOND) for row in api["callers"]] == [("other", 8), ("main", 7)], "callers"
    assert [(row["name"], row["value"] // SECOND) for row in api["callees"]] == [("g", 9), ("h", 2)], "callees: the outermost call counts"
    inner = [child for child in api["callees_tree"]["children"] if child["name"] == "g"][0]["children"][0]
    assert [inner["name"], inner["value"] // SECOND] == ["f", 1], "the inner call lies below"
    assert [api["callers_tree"]["name"], api["callers_tree"]["value"]] == ["f", api["total"]], "the function is the root"
    assert server.get("/api/callers", service="calls")[0] == 400, "without a function"
    assert server.get("/api/callers", service="calls", function="F")[1]["total"] == 0, "names are compared whole"


def test_odd_questions(server):
    """Answers are JSON, whatever is asked for."""
    for query in ({"to": "0.1"}, {"from": 9_223_372_036}, {"from": "now", "to": 1}, {"from": 1, "buckets": 10**30}, {"buckets": -1}, {"kind": "nope"}):
        for path in ("timeline", "callers", "diff", "devices"):
            assert server.get(f"/api/{path}", service="calls", base_service="calls", function="f", **query)[0] == 200, f"{path} {query}"
    same = server.get("/api/diff", service="calls", base_service="calls", base_kind="alloc")[1]
    assert same["sides"][0]["total"] == same["sides"][1]["total"], "both sides are of one kind"


def test_callers(page):
    page.open({"service": "calls"})
    page.after(lambda: page.js("[...document.querySelectorAll('#top tbody tr')].find((r) => r.querySelector('td.name button').textContent === 'f')"
                               ".querySelector('.quiet').click()"))
    assert [page.address("view"), page.address("fn")] == ["", "f"], "a function's callers by the table, in the graph's place"
    api = page.server.get("/api/callers", service="calls", function="f")[1]
    page.js("document.getElementById('fn-tables').open = true")
    for side, rest in (("callers", "(no caller: root of the stack)"), ("callees", "(the function itself)")):
        left = api["total"] - sum(row["value"] for row in api[side])
        wanted = [(format_share(row["value"], api["total"]), format_value(row["value"], "nanoseconds"), row["name"]) for row in api[side]]
        wanted.append((format_share(left, api["total"]), format_value(left, "nanoseconds"), rest))
        shown = list(zip(*(page.rows(f"{side}-table", i) for i in range(3))))
        assert sorted(shown) == sorted(wanted), f"{side} are the API's"
    assert format_value(api["total"], "nanoseconds") in page.text("fn-figures") and format_share(api["self"], api["all"]) in page.text("fn-figures"), "figures"
    for chart, wanted in (("callers", {"f", "main", "other"}), ("callees", {"f", "g", "h"})):
        texts = page.js(f"document.getElementById('chart-{chart}').graph.frames().map((f) => f.name)")
        assert set(texts) == wanted, f"graph of {chart}"
    tops = page.js("['main', 'f'].map((name) => document.getElementById('chart-callers').graph.frames().find((f) => f.name === name).y)")
    assert tops[0] < tops[1], "callers stand above the function"
    page.after(lambda: page.js("[...document.querySelectorAll('#callees-table button')].find((b) => b.textContent === 'h').click()"))
    assert page.address("fn") == "h", "on to a callee"
    page.after(lambda: page.js("history.back()"))
    assert "Callers and callees of f" in page.text("sandwich"), "and back"
    page.shot("sandwich")
    page.after(lambda: page.js("[...document.querySelectorAll('#top td.name button')].find((b) => b.textContent === 'main').click()"))
    assert page.address("fn") == "main", "a function of the table"
    page.after(lambda: page.click("#fn-close"))
    assert page.hidden("sandwich") and not page.hidden("chart") and page.js("document.getElementById('chart').graph.frames().length") > 5, "the flame graph again"
    page.open({"service": "calls", "view": "callers", "fn": "nothing"})
    assert "in no stack" in page.text("fn-hint"), "a function that is not there, in a link of an older page"


# ---- comparing ----

def diff_fill(server):
    """Version 2 spends twice as much in Round, nothing in Gone and something in New."""
    common = {("Program.Main", "Same"): 2 * SECOND}
    fill(server, "diff", {**common, ("Program.Main", "Round"): 1 * SECOND, ("Program.Main", "Gone"): 1 * SECOND}, "version=1", at=NOW - 1500)
    fill(server, "diff", {**common, ("Program.Main", "Round"): 2 * SECOND, ("Program.Main", "New"): 1 * SECOND}, "version=2", at=NOW - 300)


def signed(points):
    points = round(points, 2)
    return f"+{points:.2f}" if points > 0 else f"−{-points:.2f}" if points < 0 else "0.00"


def diff_is_shown(page, api, what):
    left, right = (side["total"] for side in api["sides"])
    shares = {row["name"]: (row["self"][0] / left, row["self"][1] / right) for row in api["rows"]}
    names = page.js("[...document.querySelectorAll('#diff-table td.name button')].map((b) => b.textContent)")
    assert sorted(names) == sorted(shares), f"{what}: functions"
    for column, wanted in ((0, lambda a, b: format_share(a, 1)), (1, lambda a, b: format_share(b, 1)), (2, lambda a, b: signed(100 * (b - a)))):
        assert page.rows("diff-table", column) == [wanted(*shares[name]) for name in names], f"{what}: column {column}"
    changes = [abs(shares[name][1] - shares[name][0]) for name in names]
    assert changes == sorted(changes, reverse=True), f"{what}: largest change first"
    assert format_value(left, "nanoseconds") in page.text("diff-figures") and format_value(right, "nanoseconds") in page.text("diff-figures"), f"{what}: totals"


def hue_of(page, name):
    """Of a frame of the difference's graph, as red, green, blue."""
    return page.js(f"(() => {{ const c = new OffscreenCanvas(1, 1).getContext('2d'); c.fillStyle = document.querySelector('[data-of=diff] .chart').graph.frames()"
                   f".find((f) => f.name === {json.dumps(name)}).fill; c.fillRect(0, 0, 1, 1); return [...c.getImageData(0, 0, 1, 1).data]; }})()")[:3]


def test_diff(page):
    page.open({"service": "diff", "view": "diff", "range": "15m"})
    api = page.server.get("/api/diff", service="diff", **{"from": NOW - 900, "base_service": "diff", "base_from": NOW - 1800, "base_to": NOW - 900})[1]
    assert [side["total"] // SECOND for side in api["sides"]] == [4, 5], "sides"
    rows = {row["name"]: [f // SECOND for f in row["self"]] for row in api["rows"]}
    assert rows == {"Same": [2, 2], "Round": [1, 2], "Gone": [1, 0], "New": [0, 1], "Program.Main": [0, 0]}, "rows of the API"
    assert all(row["verdict"] == "unsure" for row in api["rows"]), "nobody knows how many samples these are"
    diff_is_shown(page, api, "previous range")
    red, blue, grey = hue_of(page, "New"), hue_of(page, "Gone"), hue_of(page, "Program.Main")
    assert red[0] > red[2] + 40 and blue[2] > blue[0] + 40 and max(grey) - min(grey) < 12, f"colours: {red} {blue} {grey}"
    assert "Baseline" in page.text("sides") and "Compared" in page.text("readout"), "what is compared is said"
    page.open({"service": "diff", "view": "diff", "range": "1h", "base": "same", "filter": 'version="2"', "basefilter": 'version="1"'})
    diff_is_shown(page, api, "two versions")
    page.after(lambda: page.click("#swap"))
    assert [page.address("filter"), page.address("basefilter")] == ['version="1"', 'version="2"'], "swapped"
    names = page.js("[...document.querySelectorAll('#diff-table td.name button')].map((b) => b.textContent)")
    assert page.rows("diff-table", 2)[names.index("New")] == "−20.00", "the other way round"


def test_diff_without_a_baseline(page):
    """Nothing is more or less than what is not there."""
    page.open({"service": "diff", "view": "diff", "basefilter": 'version="none"', "base": "same"})
    fills = set(page.js("document.querySelector('[data-of=diff] .chart').graph.frames().map((f) => f.fill)"))
    assert "has no profiles" in page.text("sides") and len(fills) == 1 and " 8% 86%" in fills.pop(), fills


def test_diff_form(page):
    page.open({"service": "diff", "view": "diff", "range": "1h"})
    assert "has no profiles in its range" in page.text("sides"), "an hour before there is nothing"
    page.choose("base", "same")
    assert set(page.rows("diff-table", 2)) == {"0.00"}, "the same with itself: no difference"
    page.choose("basefilter", 'version="1"')
    assert page.address("basefilter") == 'version="1"', "the baseline's filter"
    assert "+" in page.rows("diff-table", 2)[0] or "−" in page.rows("diff-table", 2)[0], "now there is one"
    x, y, width, height = page.box("#plot svg")
    page.after(lambda: page.drag(x + width * 0.5, x + width * 0.7, y + 40))
    assert "-" in page.address("at"), "what is compared is chosen on the timeline"
    page.type_into("which", "base", "change")
    x, y, width, height = page.box("#plot svg")
    page.after(lambda: page.drag(x + width * 0.2, x + width * 0.4, y + 40))
    assert "-" in page.address("base"), "and so is the baseline"
    assert page.js("document.getElementById('base').value") == "chosen", "which the form says"
    page.open({"service": "diff", "view": "diff", "range": "all"})
    assert "no range before" in page.text("sides"), "before all there is nothing"


# ---- spans ----

def spans_fill(server):
    contexts = [context(1, SPAN + i, TRACE) for i in range(3)]
    body = message(91, 0, origin("gateway", host="gw-9"), [module(4096, 4096, 0, b"", "/opt/app")], nodes([0, 0], [4100, 4200]),
                   [profile([(1, 1, 0, 10), (1, 2, 0, 20), (1, 3, 0, 30), (2, 1, 0, 5)], quantum=1_000_000)],
                   unix_minus_uptime=(NOW - 120) * SECOND, tag_sets=[tag_set(1, step="pricing")], contexts=contexts)
    assert server.push(body) == 200, "message with spans"


def test_spans(page):
    page.open({"service": "gateway", "view": "span"})
    shown = list(zip(page.rows("span-table", 3), page.rows("span-table", 0), page.rows("span-table", 4)))
    trace = f"{TRACE[0]:016x}{TRACE[1]:016x}"
    assert shown == [(f"{SPAN + i:016x}", format_value(ms * 10**6, "nanoseconds"), trace) for i, ms in ((2, 30), (1, 20), (0, 15))], "spans, the longest first"
    page.after(lambda: page.js(f"[...document.querySelectorAll('#span-table button')].find((b) => b.textContent === '{SPAN:016x}').click()"))
    assert page.address("span_id") == f"{SPAN:016x}", "a span of the list"
    assert "15.0 ms" in page.text("one-span") and "covers" not in page.text("one-span"), "its figures"
    assert sorted(page.js("document.querySelector('#one-span .chart').graph.frames().map((f) => f.name)")) == ["all", "app+0x4", "app+0x68"], \
        "its flame graph"


def test_a_span_has_one_graph_of_all_that_it_did(page_of, start_server):
    server = start_server()
    body = message(1, 0, origin("one"), [module(4096, 4096, 0, b"", "/opt/app")], nodes([0, 0], [4100, 4200]),
                   [profile([(1, 1, 0, 10)], quantum=1_000_000), profile([(2, 1, 0, 40)], kind=2, quantum=1_000_000)],
                   unix_minus_uptime=(NOW - 120) * SECOND, contexts=[context(0, SPAN, TRACE)])
    assert server.push(body) == 200
    page = page_of(server)
    page.open(f"?span_id={SPAN:016x}")
    frames = page.js("document.querySelector('#one-span .chart').graph.frames().map((f) => f.name)")
    assert "50.0 ms" in page.text("one-span") and {"app+0x4", "app+0x68"} <= set(frames), f"CPU time and waits: {frames}"
    page.open(f"?span_id={SPAN:016x}&kind=cpu")
    assert "10.0 ms" in page.text("one-span"), "or the kind that was chosen"


def test_every_span_is_listed(start_server):
    """A tree with what each span called would have room for a part of them."""
    server, many = start_server(), 3000
    depth = 5
    stacks = [(depth, i + 1, 1, 1) for i in range(many)]
    body = message(1, 0, origin("busy"), [module(4096, 65536)], nodes([0] + [1] * (depth - 1), [4100 + 100 * i for i in range(depth)]), [profile(stacks)],
                   contexts=[context(0, SPAN + i, TRACE) for i in range(many)])
    assert server.push(body) == 200
    spans = server.get("/api/spans", service="busy")[1]
    assert (spans["count"], spans["chosen"], len(spans["spans"]), spans["operations"][0]["count"]) == (many, many, 500, many), "counted, and the longest of them"
    flat = server.get("/api/profile", service="busy", group="span_id", depth=1)[1]
    assert (len(flat["tree"]["children"]), flat["pruned"], flat["total"]) == (many, 0, many * 10_000_000)
    assert {child["value"] for child in flat["tree"]["children"]} == {10_000_000}
    whole = server.get("/api/profile", service="busy", group="span_id")[1]
    assert len(whole["tree"]["children"]) < many and whole["pruned"], "as before: the graph is pruned"


def latencies_fill(server, service="checkout"):
    """Of each operation spans of 10 ms, 20 ms ...: CPU time in one profile and a wait in the next. POST has 100, GET 10."""
    for second, (endpoint, count) in enumerate((("POST /orders", 100), ("GET /orders", 10))):
        contexts = [context(1, SPAN + 1000 * second + i, TRACE) for i in range(count)]
        body = message(700 + second, 0, origin(service, [("version", "1")]), [module(4096, 4096, 0, b"", "/opt/app")], nodes([0, 0], [4100, 4200]),
                       [profile([(1, 1 + i, 0, 4 * (1 + i)) for i in range(count)], quantum=1_000_000),
                        profile([(2, 1 + i, 0, 6 * (1 + i)) for i in range(count)], kind=2, quantum=1_000_000, start=10 * SECOND)],
                       unix_minus_uptime=(NOW - 600 + 60 * second) * SECOND, tag_sets=[tag_set(1, endpoint=endpoint)], contexts=contexts)
        assert server.push(body) == 200, endpoint


def test_operations_and_lengths(page_of, start_server):
    """Percentiles are those of the lengths that were sent; a cell of the heat map leads to what its spans did."""
    server = start_server()
    latencies_fill(server)
    answer = server.get("/api/spans", service="checkout", group="endpoint")[1]
    assert [[row[key] for key in ("name", "count", "p50", "p95", "p99", "longest")] for row in answer["operations"]] == [
        ["POST /orders", 100, *(ms * 10**7 for ms in (50, 95, 99, 100))], ["GET /orders", 10, *(ms * 10**7 for ms in (5, 10, 10, 10))]]
    heat = answer["heat"]
    assert sum(map(sum, heat["counts"])) == 110 and all(len(row) == heat["columns"] for row in heat["counts"])
    assert heat["edges"][0] == 10**7 and heat["edges"][-1] == 2 * 10**9 and len(heat["edges"]) == len(heat["counts"]) + 1
    assert [row["value"] for row in server.get("/api/spans", service="checkout", length="900000000-1000000000")[1]["spans"]] == [ms * 10**7 for ms in range(99, 89, -1)]
    page = page_of(server)
    page.open({"service": "checkout", "view": "span"})
    assert page.rows("operation-table", 0) == ["POST /orders", "GET /orders"] and page.rows("operation-table", 3) == ["500 ms", "50.0 ms"]
    page.js("document.getElementById('heat-map').focus()")
    page.key("ArrowDown")
    assert "500 ms to 1 s: 50 spans" in page.text("heat-map-detail"), "by keyboard"
    page.after(lambda: page.key("Enter"))
    assert page.rows("span-table", 0)[:2] == ["990 ms", "980 ms"] and len(page.rows("span-table", 0)) == 50
    assert "50 chosen spans" in page.text("cell-about") and {"app+0x4", "app+0x68"} <= set(page.js("document.querySelector('#one-span .chart').graph.frames().map((f) => f.name)"))
    assert "37.3 s" in page.text("one-span"), "CPU time and waits of these spans alone"
    page.shot("spans-cell")
    page.after(lambda: page.js("document.querySelector('#operation-table tbody tr:nth-child(2) button').click()"))
    assert page.address("filter") == 'endpoint="GET /orders"' and page.rows("operation-table", 2) == ["10"] and page.address("cell") == ""
    page.open({"service": "checkout", "view": "span", "group": "version\nendpoint"})
    assert page.rows("operation-table", 0) == ["1, POST /orders", "1, GET /orders"], "an operation may be of several labels"


def test_span_links(page):
    """As a tracing tool makes them: nothing but an id, other services here or not."""
    page.open(f"?span_id={SPAN + 1:016x}")
    assert "20.0 ms" in page.text("one-span"), "a span by its id alone"
    assert [page.address("view"), page.js("location.search")] == ["span", ""], "the address is the page's own now"
    page.open(f"?view=span&trace_id={TRACE[0]:016X}{TRACE[1]:016X}&from={NOW - 600}&to={NOW}")
    assert "65.0 ms" in page.text("one-span"), "a trace by its id, in capitals, with times"
    page.open("?span_id=00000000000000aa")
    assert "No samples for this span" in page.text("empty"), "an id that nobody has"


# ---- devices ----

def device(segment, name, version, ago, told=b"", pid=7, start=1):
    return message(segment, 0, origin("gateway", [("version", version), ("device", name)], host="host-" + name, pid=pid, start=start,
                                      agent="edgeprof/0.1.0", executable="gatewayd", arch="aarch64"),
                   [module(4096, 4096, 0, b"", "/opt/app")], nodes([0], [4100]), [profile({1: 100})],
                   stats(1000, 990, 5, 5, [(0, 3, 5_000_000), (4, 7, 0)] if name == "b" else []) + told, unix_minus_uptime=(int(time.time()) - ago) * SECOND)


def test_unsampled_line(page):
    page.open({"service": "shop"})
    assert page.hidden("unsampled"), "nothing is said where all threads are sampled"
    told = stats(100, 90, 5, 5) + unsampled(1, 3, ["<b>worker</b>"], 11, 10, 300, 1000)
    body = message(110, 0, origin("limited", host="h"), [module(4096, 4096, 0, b"", "/opt/app")], nodes([0], [4100]),
                   [profile({1: 100})], told, unix_minus_uptime=(NOW - 60) * SECOND)
    assert page.server.push(body) == 200, "a message of a service with threads that are not sampled"
    page.open({"service": "limited"})
    assert page.text("unsampled") == page.server.get("/api/stats", service="limited")[1]["unsampled"], "the line is the API's"
    assert "3 threads were not sampled (<b>worker</b>, ...), 30 % of the CPU time" in page.text("unsampled"), page.text("unsampled")


def devices_fill(server):
    for body in (device(101, "a", "1.1", 3000, number(10, 200), pid=1), device(102, "a", "1.2", 60, number(10, 340) + number(15, 10**10), pid=2, start=2),
                 device(106, "a", "1.2", 61, number(10, 900_000) + number(15, 10**4), pid=3, start=3),
                 device(103, "b", "1.2", 70), device(104, "c", "1.1", 1000, number(11, 41) + number(12, 167_000)),
                 device(105, "d", "1.1", 80, number(13, 28))):
        assert server.push(body) == 200, "device's message"


def test_devices(page_of, start_server):
    server = start_server()  # the list is of all there are
    devices_fill(server)
    page = page_of(server)
    page.open({"view": "devices"})
    assert page.address("range") == "1d", "a day of devices"
    api = {row["device"]: row for row in page.server.get("/api/devices", **{"from": "now-86400s"})[1]["devices"]}
    assert [api["a"][key] for key in ("versions", "processes", "cost_ppm", "samples")] == [["1.2", "1.1"], 3, 340, 3000], "three processes of one device; cost is by CPU time"
    assert [(loss["reason"], loss["count"], loss["kept"]) for loss in api["b"]["losses"]] == [("ring full", 3, False), ("entries full", 7, True)], "losses by reason"
    assert [api["c"][key] for key in ("spool_messages", "spool_bytes")] == [41, 167_000], "spool"
    assert [api["d"][key] for key in ("spool_error", "spool_error_text")] == [28, os.strerror(28)], "a spool that does not work"
    names = page.js("[...document.querySelectorAll('#devices td.name button')].map((b) => b.textContent)")
    assert sorted(names) == sorted(api), "devices are the API's"
    cell = lambda name, column: page.rows("devices", column)[names.index(name)]
    assert cell("c", 2) == "41 (163 KiB)", "spool's depth"
    assert cell("d", 2) == os.strerror(28), "spool's error"
    assert cell("b", 3).startswith("3\n") and "3 ring full (5.00 ms), 7 entries full" in cell("b", 3), f"losses: {cell('b', 3)!r}"
    assert [cell("a", 4), cell("a", 5), cell("a", 6), cell("a", 7)] == ["1.2, 1.1", "0.034 %", "edgeprof/0.1.0", "3"], "version, cost, agent, processes"
    late = page.js("[...document.querySelectorAll('#devices tbody tr')].filter((r) => r.cells[1].classList.contains('bad')).map((r) => r.querySelector('button').textContent)")
    assert late == ["c"], "who is late"
    figures = dict(zip(*[iter(reversed(page.text("device-figures").split("\n")))] * 2))
    assert figures == {"devices": str(len(api)), "late": "1", "waiting in spools": "41", "lost": "3"}, "figures of all; what has less detail is not lost"
    page.js("[...document.querySelectorAll('#devices th button')].find((b) => b.textContent === 'spool').click()")
    assert [page.rows("devices", 2)[0], page.address("sort")] == ["41 (163 KiB)", "-spool"], "sorted by spool"
    page.type_into("filter", "no space")
    assert len(page.rows("devices", 0)) == 1, "filtered"
    page.after(lambda: page.click("#devices td.name button"))
    assert [page.address("service"), page.address("filter")] == ["gateway", 'device="d"'], "a device's profiles"


def test_late_devices(page_of, start_server):
    """A device is late when none of its services sends, not when one has ended."""
    server = start_server()
    assert server.push(device(111, "a", "1.1", 5)) == server.push(device(112, "b", "1.1", 3000)) == 200
    fill(server, "ended", {("main", "work"): SECOND}, tags="device=a", at=NOW - 3000)
    page = page_of(server)
    page.open({"view": "devices"})
    late = page.js("[...document.querySelectorAll('#devices tbody tr')].filter((r) => r.cells[1].classList.contains('bad')).length")
    assert (late, page.text("device-figures").split("\n")[:4]) == (2, ["2", "devices", "1", "late"])


def test_targets(page_of, start_server, folder):
    """What the server scrapes is told with the devices, even when there are none yet."""
    config = os.path.join(folder, "targets.conf")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen: who asks there is refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"[scrape away]\nurl = {url}\nprofiles = allocs, heap\ninterval = 1s\ntags = zone=<b>a</b>\n")
        server = start_server("--config", config)
        assert wait_until(lambda: {one["state"] for one in server.get("/api/targets")[1]["targets"][0]["profiles"]} == {"down"})
        page = page_of(server)
        page.open({"view": "devices"})
        api = server.get("/api/targets")[1]["targets"][0]
        assert url in page.rows("target-table", 0)[0] and "away" in page.rows("target-table", 0)[0], "the target's address and service"
        state = page.rows("target-table", 1)[0]
        assert state.startswith("down") and all(one["name"] in state and one["error"] in state for one in api["profiles"]), f"its state: {state!r}"
        assert [page.rows("target-table", 3), page.hidden("devices")] == [["0"], False], "nothing was taken yet; the list of devices is empty"
        page.shot("targets")


def test_no_targets(page):
    page.open({"view": "devices"})
    assert page.hidden("targets"), "without targets nothing is said of them"


# ---- crashes ----

def test_devices_are_counted_once(page_of, start_server):
    """However many services they run; and profiling that costs much is marked."""
    server = start_server()
    for i, service in enumerate(("gateway", "shop", "shop2")):
        body = message(i + 1, 0, origin(service, [("device", "a")], pid=i), [module(4096, 4096)], nodes([0], [4100]), [profile({1: 100})],
                       stats(1000, 990, 5, 5) + number(10, 226_766 if i else 0), unix_minus_uptime=(NOW - 60) * SECOND)
        assert server.push(body) == 200
    page = page_of(server)
    page.open({"view": "devices"})
    assert page.text("device-figures").split("\n")[:2] == ["1", "device"] and len(page.rows("devices", 0)) == 3
    assert sorted(page.rows("devices", 5)) == ["22.7 %", "22.7 %", "–"], "cost"
    assert page.js("[...document.querySelectorAll('#devices tbody tr')].filter((r) => r.cells[5].classList.contains('bad')).length") == 2


def crash_push(server, segment, device, version, frames, **about):
    threads = [(100, "worker", len(frames)), (101, "other", 0)] if frames else []
    body = message(segment, 0, origin("gateway", [("device", device), ("version", version)], host="host"), [module(4096, 4096, 0, b"", "/opt/app")],
                   nodes([0] + [1] * (len(frames) - 1), frames) if frames else None, last=True, crash=crash(threads, **about))
    assert server.push(body) == 200, "a crash"


def test_crashes(page_of, start_server):
    server = start_server()
    page = page_of(server)
    page.open({"view": "crashes"})
    assert "No crash in this range" in page.text("empty"), "none yet"
    crash_push(server, 1, "a", "1.1", [4100, 4200, 4300], address=16, unix=(NOW - 500) * SECOND, start=SECOND, end=91 * SECOND)
    crash_push(server, 2, "b", "1.2", [4100, 4200, 4300], address=16, unix=(NOW - 400) * SECOND)
    crash_push(server, 3, "c", "1.2", [4100, 4250], signal=6, code=-6, unix=(NOW - 300) * SECOND,
               runtime=json.dumps({"exception": {"type": "System.Boom", "message": "<b>no oil</b>"}}))
    crash_push(server, 4, "d", "1.1", [], cause=2, signal=0, code=0, unix=(NOW - 600) * SECOND, missed=3)
    page.after(lambda: page.click("#refresh"))
    assert page.address("range") == "1d", "a day of crashes"
    api = server.get("/api/crashes", **{"from": "now-86400s"})[1]["groups"]
    reasons = page.js("[...document.querySelectorAll('#crashes td.name button')].map((b) => b.textContent)")
    assert [group["reason"] for group in api] == ["System.Boom", "SIGSEGV", "killed, out of memory or stack overflow"], "the latest first"
    assert reasons == ["app+0x9a", api[1]["crashes"][0]["threads"][0]["frames"][0]["function"], "killed, out of memory or stack overflow"], "named by their function"
    assert [text.split("\n")[1].split(" · ")[0] for text in page.rows("crashes", 0)] == ["System.Boom", "SIGSEGV", "gateway"], "and why below"
    assert [page.rows("crashes", column) for column in (1, 3, 4, 5)] == \
        [["1", "2", "1"], ["SIGABRT", "SIGSEGV", "–"], ["c", "a, b", "d"], ["1.2", "1.1, 1.2", "1.1"]], "count, signal, devices, versions"
    figures = dict(zip(*[iter(reversed(page.text("crash-figures").split("\n")))] * 2))
    assert figures == {"crashes": "4", "different": "3", "devices": "4", "without a record": "1"}, "figures of all"

    def stack():
        return page.js("[...document.querySelectorAll('#crash-stack li')].map((li) => li.textContent)")
    assert [stack(), "<b>no oil</b>" in page.text("crash")] == [["app+0x9a", "app+0x4"], True], "stack and message of the latest"
    page.click("#crashes tr:nth-child(2) td.name button")
    frames = [frame["function"] for frame in api[1]["crashes"][0]["threads"][0]["frames"]]
    assert stack() == frames and len(frames) == 3, "the stack of the group that was chosen is the API's"
    assert "at address 0x10" in page.text("crash") and "in thread worker" in page.text("crash"), "what is known of it"
    other = page.js("[...document.querySelectorAll('#crash-threads summary')].map((s) => s.textContent)")
    assert other == ["other 101: no stack"], "the other threads"
    page.js("document.getElementById('crash-list').open = true")
    lines = page.js("[...document.querySelectorAll('#crash-list li')].map((li) => li.textContent)")
    assert [len(lines), "b · version 1.2 · SIGSEGV" in lines[0], "a · version 1.1 · SIGSEGV" in lines[1]] == [2, True, True], f"each crash: {lines}"
    chosen = page.js("location.hash")
    page.click("#crashes tr:nth-child(3) td.name button")
    assert "so there is no stack" in page.text("crash") and "3 such ends" in page.text("crash"), "an end without a record"
    page.open({"view": "crashes", "crash": "0123456789abcdef"})
    assert "is not in this range" in page.text("crash") and stack() == [], "an old link shows no other crash"
    assert len(page.rows("crashes", 0)) == 3
    page.open(chosen)
    assert page.address("crash") == api[1]["fingerprint"] and stack() == frames, "the address has the group"
    page.js("[...document.querySelectorAll('#crashes th button')].find((b) => b.textContent === 'count').click()")
    assert [page.rows("crashes", 1)[0], page.address("sort")] == ["2", "-count"], "sorted by count"
    page.type_into("crash-filter", "boom")
    assert len(page.rows("crashes", 0)) == 1, "filtered"
    page.after(lambda: page.click("#crash-profile"))
    assert [page.address(key) for key in ("view", "service", "filter", "range")] == ["", "gateway", 'device="b",version="1.2"', "custom"], "to the profile of its device and version"
    assert float(page.address("to")) - float(page.address("from")) == 3600 and abs(float(page.address("to")) - NOW + 400) < 2, "of the hour before"
    page.after(lambda: page.js("history.back()"))
    page.shot("crashes")


OWN = [
    (["__pthread_kill_implementation", "raise", "abort", "Shop::Checkout", "main"], "Shop::Checkout"), (["__GI_raise", "__GI_abort", "__assert_fail_base", "__assert_fail", "pay"], "pay"),
    (["abort", "__libc_message", "malloc_printerr", "_int_free", "free", "drop"], "drop"), (["raise", "abort"], "raise"), (["abort_order", "main"], "abort_order"), ([], "")]


def test_crashes_are_named_by_their_own_function(page_of, start_server, tmp_path):
    """The API's name is the page's. A library has a function of each name, a page apart."""
    names = sorted({name for frames, _ in OWN for name in frames})
    (tmp_path / "names.s").write_text("".join(f'.balign 64\n.globl "{name}"\n.type "{name}", @function\n"{name}": .skip 64\n.size "{name}", 64\n' for name in names))
    library = tmp_path / "libnames.so"
    subprocess.run(["gcc", "-shared", "-nostdlib", f"-Wl,--build-id=0x{'6e' * 20}", "-o", library, tmp_path / "names.s"], check=True)
    listed = subprocess.run(["nm", library], capture_output=True, text=True, check=True).stdout
    at = {line.split()[2]: int(line.split()[0], 16) for line in listed.splitlines() if line.split()[1] == "T"}
    server = start_server()
    for i, (frames, _) in enumerate(OWN, 1):
        body = message(i, 0, origin("named", host="host"), [module(4096, 1 << 20, 0, b"n" * 20, str(library))],
                       nodes([0] + [1] * (len(frames) - 1), [4096 + at[name] + 32 for name in reversed(frames)]) if frames else None, last=True,
                       crash=crash([(100, "worker", len(frames))] if frames else [], unix=(NOW - i) * SECOND))
        assert server.push(body) == 200
    wait_until(lambda: not server.get("/api/crashes", **{"from": "now-86400s"})[1].get("names_pending"))
    groups = server.get("/api/crashes", **{"from": "now-86400s"})[1]["groups"]
    api = sorted((one for group in groups for one in group["crashes"]), key=lambda one: -one["time"])
    assert [[frame["function"] for thread in one["threads"][:1] for frame in thread["frames"]] for one in api] == [frames for frames, _ in OWN]
    assert [one["function"] for one in api] == [own for _, own in OWN]
    page = page_of(server)
    page.open({"view": "crashes"})
    assert page.js("[...document.querySelectorAll('#crashes td.name button')].map((b) => b.textContent)") == [group["crashes"][0]["function"] for group in groups]


# ---- incidents ----

MS = 10**6
CPU, WAIT, GC, THREAD = 1, 2, 7, 8


def incident_push(server, incident, device, cause, at, name="checkout", service="shop", **more):
    """Thread 100 waited 300 ms for a lock, which 101 had; 101 collected, too. The trigger is at 10 s of uptime."""
    samples = [(9_640 * MS, CPU, 0, 1, 20 * MS), (9_900 * MS, GC, 1, 4, 60 * MS), (9_960 * MS, CPU, 1, 3, 40 * MS),
               (10_000 * MS, THREAD, 0, 2, 0), (10_050 * MS, WAIT, 0, 2, 350 * MS)]
    body = message(incident, 0, origin(service, [("device", device)], host="host"), [module(4096, 4096, 0, b"", "/opt/app")], nodes([0, 1, 0, 1], [4100, 12, 4300, 19]),
                   unix_minus_uptime=(at - 10) * SECOND, last=True,
                   timeline=timeline(incident, samples, cause=cause, name=name, tid=100, time=10 * SECOND, value=300 * MS, limit=250 * MS,
                                     threads=((100, "worker"), (101, "collector"), (102, "idle")), **more))
    assert server.push(body) == 200, "an incident"


SENTENCE = """import('./page.js').then(({ sentencesOf }) => sentencesOf({ tid: 7, functions: ['[sleep]', '__wrap_SystemNative_TimedWait', 'System.Threading.Thread.Sleep', 'Shop.Pay'],
  stacks: [[-1, 3], [0, 2], [1, 1], [2, 0]] }, { samples: [], threads: ['worker 7'] }, [{ thread: 0, kind: 'wait', name: '[sleep]', ms: 300, stack: 3 }]))"""


def test_sentence_names_own_code(page_of, start_server):
    """What the program called, not what .NET and the C library called in turn."""
    page = page_of(start_server())
    page.open({"view": "incidents"})
    assert page.js(SENTENCE) == "Thread worker 7 waited asleep for 300 ms in Shop.Pay."
    page.open({"service": "nosuch"})
    assert "No service nosuch" not in page.text("empty"), "a server without profiles has other advice"


def test_incidents(page_of, start_server):
    server = start_server()
    page = page_of(server)
    page.open({"view": "incidents"})
    assert "No incident in this range" in page.text("empty"), "none yet"
    incident_push(server, 1, "a", 3, NOW - 300)
    incident_push(server, 2, "b", 4, NOW - 500, name="<b>login</b>", more=True)
    page.after(lambda: page.click("#refresh"))
    buttons = page.js("[...document.querySelectorAll('#incidents td.name button')].map((b) => b.textContent)")
    assert buttons == ["span checkout", "open span <b>login</b>"], "the latest first"
    assert [page.rows("incidents", 2)[0], page.rows("incidents", 4)] == ["300 ms, limit 250 ms", ["a", "b"]], "value, devices"
    api = server.get("/api/incident", id="0000000000000001")[1]

    def lanes():
        """[(class, row, left, right)] of the samples, as parts of the width."""
        return page.js("(() => { const svg = document.querySelector('#lanes svg'); const g = Number(svg.dataset.gutter); const w = svg.width.baseVal.value - g; return [...svg.querySelectorAll('.moment')]"
                       ".map((r) => [r.getAttribute('class').replace('moment ', ''), Math.floor(Number(r.getAttribute('y')) / 26),"
                       " (Number(r.getAttribute('x')) - g) / w, (Number(r.getAttribute('x')) - g + Number(r.getAttribute('width'))) / w]); })()")
    page.click("#lanes-all")
    shown, first, last = lanes(), min(s[0] for s in api["samples"]), max(s[0] + s[1] for s in api["samples"])
    assert [[kind, row] for kind, row, _, _ in shown] == [["cpu", 0], ["gc", 1], ["cpu", 1], ["thread", 0], ["lock", 0]], "kinds, and the thread that it is about is first"
    for (_, _, left, right), (start, length, *_) in zip(shown, api["samples"]):
        assert abs(left - (start - first) / (last - first)) < 0.005 and abs(right - min(1, (start + length - first) / (last - first))) < 0.01, "times are the API's"
    assert page.js("document.querySelectorAll('#lanes .pause').length") == 1 and page.js("!!document.querySelector('#lanes .trigger')"), "the pause, the trigger"
    assert page.js("[...document.querySelectorAll('#lanes text')].slice(0, 2).map((t) => t.lastChild.textContent)") == ["worker 100", "collector 101"], "threads"
    assert page.text("incident-sentence") == "Thread worker 100 waited for a lock for 300 ms in app+0x4. The garbage collector stopped all threads for 59.97 ms.", "what happened"

    def stack():
        return page.js("[...document.querySelectorAll('#incident-stack li')].map((li) => li.textContent)")
    assert stack() == ["[lock]", "app+0x4"], "what took longest until the trigger is shown first"
    assert page.rows("incident-doings", 0)[0] == "[lock]\nin app+0x4" and page.rows("incident-doings", 2)[0].startswith("300"), "the part of the wait before the trigger"
    x, y, width, height = page.box("#lanes .moment.gc")
    page.drag(x + width / 2, x + width / 2, y + height / 2)
    assert stack() == ["[gc gen2]", "app+0xcc"] and "gc 59." in page.text("incident-sample"), f"a click: {stack()}"
    page.js("document.querySelector('#lanes svg').focus()")
    page.key("ArrowRight")
    assert stack() == ["app+0xcc"] and "cpu 39." in page.text("incident-sample"), "the next of the thread by the keyboard"
    page.key("ArrowUp")
    assert stack() != ["app+0xcc"] and "worker" in page.text("incident-sample"), "the thread above"
    x, y, width, height = page.box("#lanes svg")
    gutter = page.js("Number(document.querySelector('#lanes svg').dataset.gutter)")
    page.drag(x + gutter + 1, x + gutter + (width - gutter) / 10, y + height / 2)
    assert 0 < len(lanes()) < len(shown), "dragging shows a part"
    page.click("#lanes-all")
    x, y, width, height = page.box("#lanes .moment.cpu")
    page.mouse("mouseMoved", x + width / 2, y + height / 2)
    assert "kind\tcpu" in page.js("document.querySelector('.tip').innerText") and "worker 100" in page.js("document.querySelector('.tip').innerText")
    page.mouse("mouseWheel", x + width / 2, y + height / 2, deltaX=0, deltaY=-500, modifiers=2)
    page.wait(f"document.querySelector('#lanes .moment.cpu').getBoundingClientRect().width > {width}", 30)
    page.after(lambda: page.click("#incidents tr:nth-child(2) td.name button"))
    assert page.address("incident") == "0000000000000002" and "A part has not arrived" in page.text("incident") and "<b>login</b>" in page.text("incident"), "another one"
    assert page.js("[...document.querySelectorAll('#incidents tr')].map((r) => r.getAttribute('aria-current'))") == [None, None, "true"], "the list says which one is shown"
    assert page.js("document.getElementById('incident-file').getAttribute('href')") == "api/incident?id=0000000000000002&format=firefox", "the file"
    page.open({"view": "incidents", "incident": "0000000000000002"})
    assert "login" in page.text("incident"), "the address has the incident"
    page.open({"view": "incidents", "incident": "0000000000000009"})
    assert "is not there" in page.text("incident") and len(page.rows("incidents", 0)) == 2 and page.hidden("lanes"), "an old link does not hide the list"
    assert page.hidden("problem")
    page.expected.append("404")
    page.open({"view": "incidents", "incident": "0000000000000002"})
    page.type_into("incident-filter", "checkout")
    assert len(page.rows("incidents", 0)) == 1, "filtered"
    page.shot("incidents")


def test_parts_of_other_senders(start_server):
    """Two devices chose the same random id: each has its own incident, and no part goes to the other."""
    server = start_server()

    def part(segment, device, number, more, samples):
        body = message(segment, 0, origin("shop", [("device", device)], host=device), [module(4096, 4096, 0, b"", "/opt/app")], nodes([0], [4100]), last=True,
                       timeline=timeline(77, samples, part=number, more=more, tid=100, time=10 * SECOND, value=300 * MS))
        assert server.push(body) == 200, "a part"
    part(1, "a", 0, True, [(9_000 * MS, CPU, 0, 1, 10 * MS)])
    part(2, "b", 0, False, [(9_100 * MS, CPU, 0, 1, 20 * MS), (9_200 * MS, CPU, 0, 1, 20 * MS)])
    listed = server.get("/api/incidents")[1]["incidents"]
    assert sorted(one["tags"]["device"] for one in listed) == ["a", "b"], f"both are listed: {listed}"
    incident = server.get("/api/incident", id="000000000000004d")[1]
    lengths = {sample[1] for sample in incident["samples"]}
    assert len(lengths) == 1, "samples of one sender only"
    part(3, "a", 1, False, [(9_300 * MS, CPU, 0, 1, 10 * MS)])
    answers = [server.get("/api/incident", id="000000000000004d", service='shop{device="%s"}' % device)[1] for device in "ab"]
    assert [(one["tags"]["device"], len(one["samples"]), one["complete"]) for one in answers] == [("a", 2, True), ("b", 2, True)], "each has all of its parts"


# ---- verdict and leaks ----

def release(server, version, begin, shares, devices=6):
    """An hour of each device with two functions; each device differs a little."""
    for i in range(devices):
        counts = {node: 2000 * share + 7 * (i * node % 5) for node, share in zip((2, 3), shares)}
        body = message(int(1000 * float(version)) + i, 0, origin("gateway", [("device", f"d{i}"), ("version", version)], arch="arm64"), [module(4096, 4096, 0, b"", "/opt/app")],
                       nodes([0, 1, 2], [4100, 4200, 4300]), [profile(counts, start=SECOND, duration=600 * SECOND)], unix_minus_uptime=begin * SECOND, last=True)
        assert server.push(body) == 200, "a version"


def signed_part(part):
    return f"{'+' if part > 0 else '−' if part < 0 else ''}{format_share(abs(part), 1)}"


def test_verdict(page_of, start_server):
    server = start_server()
    page = page_of(server)
    release(server, "1.2", NOW - 9000, (3, 1))
    page.open({"service": "gateway", "view": "verdict"})
    assert page.text("verdict-figures").split("\n")[:2] == ["no baseline", "no earlier version in this time"] and page.hidden("verdict"), "one version"
    release(server, "1.3", NOW - 5000, (3, 2))
    page.after(lambda: page.click("#refresh"))
    api = server.get("/api/verdict", service="gateway", **{"from": "now-7d"})[1]
    assert page.address("range") == "7d" and page.hidden("timeline"), "a week of versions"
    figures = dict(zip(*[iter(reversed(page.text("verdict-figures").split("\n")))] * 2))
    assert figures == {"uses more": "regression", "version": "1.3", "before": "1.2", "detectable": signed_part(api["detectable"])}, figures
    found = {(row["name"] or "(the service in all)", row["figure"]): row for row in [api["all"], *api["rows"]]}
    shown = [name.split("\n") for name in page.rows("verdict", 0)]
    assert len(shown) == len(found) == api["functions"] + 1, "each function that was tested, and all together"
    for name, share, load in zip(shown, page.rows("verdict", 2), page.rows("verdict", 3)):
        row = found[name[0], "self" if name[-1] == "its own" else "total"]
        for text, key in ((share, "share"), (load, "load")):
            estimate = row.get(key)
            assert text.split() == (f"{signed_part(estimate['change'])} {signed_part(estimate['low'])} to {signed_part(estimate['high'])}".split() if estimate else ["–"]), (name, key)
    assert page.rows("verdict", 1)[0].startswith("more"), "what uses more is first"
    assert page.text("cohorts") == "arm64: 6 and 6 devices, 6 with both"
    page.type_into("verdict-filter", "app+0x1")
    assert page.address("find") == "app+0x1" and all("app+0x1" in name for name in page.rows("verdict", 0)), "a part of them"
    page.type_into("verdict-filter", "")
    name = page.js("document.querySelector('#verdict td.name button').textContent")
    page.click("#verdict td.name button", refreshes=True)
    assert (page.address("view"), page.address("fn")) == ("", name), "a function's callers, where the page has them"
    assert f"Callers and callees of {name}" in page.text("sandwich")


def test_leaks(page_of, start_server):
    server = start_server()
    page = page_of(server)
    begin = NOW // 3600 * 3600 - 30 * 3600
    page.open({"service": "shop", "view": "leaks"})
    for hour in range(30):
        for process in (1, 2):
            path = f"/ingest?name=shop.inuse_space%7Bhost=h,process={process}%7D&format=groups&from={begin + hour * 3600 + 60}&until={begin + hour * 3600 + 70}"
            text = f"main;Cache.Add;System.Byte[] {5_000_000 + hour * 1_000_000}\nmain;Prices.Get;System.String {90_000_000 + hour * 7 % 5 * 1_000_000}\n"
            assert server.request("POST", path, text.encode())[0] == 200
    page.after(lambda: page.click("#refresh"))
    api = server.get("/api/leaks", service="shop", **{"from": "now-7d"})[1]
    figures = dict(zip(*[iter(reversed(page.text("leak-figures").split("\n")))] * 2))
    assert figures == {"leak": "1", "places": "2", "processes": "2", "hours": str(api["hours"])}, figures
    assert page.rows("leaks", 0) == [site["site"] for site in api["sites"]] == ["System.Byte[] at Cache.Add", "System.String at Prices.Get"], "leaks first"
    assert page.rows("leaks", 1) == ["leak", "–"]
    leak = api["sites"][0]
    assert page.rows("leaks", 2)[0].split() == f"+{format_value(leak['bytes_per_hour'], 'bytes')} +{format_value(leak['low'], 'bytes')} to +{format_value(leak['high'], 'bytes')}".split()
    assert page.rows("leaks", 4) == [format_value(site["bytes"], "bytes") for site in api["sites"]]
    assert page.hidden("timeline") and page.hidden("kind-label"), "of the live heap, over days"


def test_leaks_too_short_for_a_slope(page_of, start_server):
    server = start_server()
    page = page_of(server)
    text = b"main;Cache.Add;System.Byte[] 5000000\n"
    for process in (1, 2, 3):
        assert server.request("POST", f"/ingest?name=shop.inuse_space%7Bhost=h,process={process}%7D&format=groups&from={NOW - 70}&until={NOW - 60}", text)[0] == 200
    page.open({"service": "shop", "view": "leaks"})
    assert page.rows("leaks", 0) == ["System.Byte[] at Cache.Add"] and page.rows("leaks", 5) == ["3"], "the places are there, without a slope"
    assert page.rows("leaks", 2) == page.rows("leaks", 3) == ["–"], "and say so"
    assert page.text("leak-figures").split("\n")[4:6] == ["3", "processes"]


# ---- the server below a path of a reverse proxy ----

NGINX = """daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; events {{}}
http {{ access_log {folder}/access.log; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
uwsgi_temp_path {folder}; scgi_temp_path {folder};
server {{ listen 127.0.0.1:{port}; location /tools/edgeprof/ {{ proxy_pass {target}; }} location / {{ return 404; }} }} }}
"""


@pytest.fixture(params=["taken away", "passed on"])
def behind(request, start_server, tmp_path):
    """A server that nginx has below /tools/edgeprof/, as an address of a Page: nginx takes the prefix away, or passes it on."""
    passed = request.param == "passed on"
    server = start_server(*(["--prefix", "/tools/edgeprof/"] if passed else []))
    fill(server, "shop", SHOP)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "nginx.conf").write_text(NGINX.format(folder=tmp_path, port=port, target=server.url + ("" if passed else "/")))
    with subprocess.Popen(["/usr/sbin/nginx", "-c", tmp_path / "nginx.conf", "-e", tmp_path / "error.log"]) as nginx:
        assert wait_until(lambda: not socket.socket().connect_ex(("127.0.0.1", port)))
        yield types.SimpleNamespace(url=f"http://127.0.0.1:{port}/tools/edgeprof", log=tmp_path / "access.log", server=server, name=request.param.split()[0])
        nginx.terminate()


def test_page_below_a_prefix(page_of, behind):
    page = page_of(behind)
    page.open({"service": "shop"})
    api = behind.server.get("/api/profile", service="shop")[1]
    assert page.js(ROWS) == [row["name"] for row in api["top"]], "the table's functions are the API's"
    page.open({"service": "shop", "view": "devices"})
    outside = [line for line in behind.log.read_text().splitlines() if " /tools/edgeprof/" not in line and " /favicon.ico" not in line]
    assert outside == [], "requests that leave the prefix"
    page.shot("below-a-prefix-" + behind.name)


# ---- lists longer than a call may have arguments (some 120,000): the page's scripts, run by node without a browser ----

@pytest.mark.parametrize("count", [1000, 200000])
def test_many_samples(tmp_path, count):
    for script in WEB.glob("*.js"):
        (tmp_path / script.name).write_text(script.read_text())
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(HERE / "many_samples.js", tmp_path)
    run = subprocess.run(["node", "many_samples.js", str(count)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == {"whole": {"from": -count, "to": 1}, "shown": count, "options": count}
