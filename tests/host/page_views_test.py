"""The page's other views in headless Chromium: callers and callees, comparing, spans, devices. What each shows is
compared with the API's figures, and these with figures that are known. Usage: page_views_test.py EDGEPROF FOLDER"""
import json
import os
import socket
import sys
import tempfile
import time

from browser import Browser
from generate import context, message, module, nodes, number, origin, profile, stats, tag_set, unsampled
from harness import Checks, Server
from page_kit import SHOP, Page, fill, format_share, format_value

PROGRAM = os.path.abspath(sys.argv[1])
check = Checks()
NOW = int(time.time()) // 10 * 10
SECOND = 10**9

# f calls itself, and g on the way; h is called by f and by others.
RECURSIVE = {
    ("main", "f", "g", "f", "h"): 1 * SECOND, ("main", "f", "h"): 2 * SECOND, ("main", "f"): 4 * SECOND,
    ("other", "f", "g"): 8 * SECOND, ("other", "h"): 16 * SECOND, ("f",): 32 * SECOND,
}
SPAN, TRACE = 0x00f067aa0ba902b7, (0x4bf92f3577b34da6, 0xa3ce929d0e0e4736)


# ---- callers and callees ----

def callers_figures(page):
    status, api = page.server.get("/api/callers", service="calls", function="f")
    check.equal(status, 200, "callers")
    check.equal([api["all"] // SECOND, api["total"] // SECOND, api["self"] // SECOND], [63, 47, 36], "sums of the function")
    check.equal([(row["name"], row["value"] // SECOND) for row in api["callers"]], [("other", 8), ("main", 7)], "callers")
    check.equal([(row["name"], row["value"] // SECOND) for row in api["callees"]], [("g", 9), ("h", 2)], "callees: the outermost call counts")
    inner = [child for child in api["callees_tree"]["children"] if child["name"] == "g"][0]["children"][0]
    check.equal([inner["name"], inner["value"] // SECOND], ["f", 1], "the inner call lies below")
    check.equal([api["callers_tree"]["name"], api["callers_tree"]["value"]], ["f", api["total"]], "the function is the root")
    check.equal(page.server.get("/api/callers", service="calls")[0], 400, "without a function")
    check.equal(page.server.get("/api/callers", service="calls", function="F")[1]["total"], 0, "names are compared whole")


def odd_questions(page):
    """Answers are JSON, whatever is asked for."""
    for query in ({"to": "0.1"}, {"from": 9_223_372_036}, {"from": "now", "to": 1}, {"from": 1, "buckets": 10**30}, {"buckets": -1}, {"kind": "nope"}):
        for path in ("timeline", "callers", "diff", "devices"):
            check.equal(page.server.get(f"/api/{path}", service="calls", base_service="calls", function="f", **query)[0], 200, f"{path} {query}")
    same = page.server.get("/api/diff", service="calls", base_service="calls", base_kind="alloc")[1]
    check.equal(same["sides"][0]["total"], same["sides"][1]["total"], "both sides are of one kind")


def callers(page):
    page.open({"service": "calls"})
    page.after(lambda: page.js("[...document.querySelectorAll('#top tbody tr')].find((r) => r.querySelector('td.name button').textContent === 'f')"
                               ".querySelector('.quiet').click()"))
    check.equal([page.address("view"), page.address("fn")], ["callers", "f"], "a function's callers by the table")
    api = page.server.get("/api/callers", service="calls", function="f")[1]
    for side, rest in (("callers", "(nobody: the stack begins here)"), ("callees", "(the function itself)")):
        left = api["total"] - sum(row["value"] for row in api[side])
        wanted = [(format_share(row["value"], api["total"]), format_value(row["value"], "nanoseconds"), row["name"]) for row in api[side]]
        wanted.append((format_share(left, api["total"]), format_value(left, "nanoseconds"), rest))
        shown = list(zip(*(page.rows(f"{side}-table", i) for i in range(3))))
        check.equal(sorted(shown), sorted(wanted), f"{side} are the API's")
    check(format_value(api["total"], "nanoseconds") in page.text("fn-figures") and format_share(api["self"], api["all"]) in page.text("fn-figures"), "figures")
    for chart, wanted in (("callers", {"f", "main", "other"}), ("callees", {"f", "g", "h"})):
        texts = page.js(f"[...document.querySelectorAll('#chart-{chart} .frame div')].map((d) => d.textContent)")
        check.equal(set(texts), wanted, f"graph of {chart}")
    tops = page.js("['main', 'f'].map((name) => [...document.querySelectorAll('#chart-callers .frame')]"
                   ".find((g) => g.getAttribute('name') === name).getBoundingClientRect().top)")
    check(tops[0] < tops[1], "callers stand above the function")
    page.after(lambda: page.js("[...document.querySelectorAll('#callees-table button')].find((b) => b.textContent === 'h').click()"))
    check.equal(page.address("fn"), "h", "on to a callee")
    page.after(lambda: page.js("history.back()"))
    check.equal(page.js("document.getElementById('fn').value"), "f", "and back")
    page.type_into("fn", "nothing")
    page.after(lambda: page.js("document.getElementById('fn').form.requestSubmit()"))
    check("in no stack" in page.text("fn-hint"), "a function that is not there")
    page.open({"service": "calls", "view": "callers"})
    check("Type a function" in page.text("fn-hint"), "none is chosen yet")
    check.equal(page.js("document.querySelectorAll('#fn-list option').length"), 5, "what is offered")


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
    check.equal(sorted(names), sorted(shares), f"{what}: functions")
    for column, wanted in ((0, lambda a, b: f"{100 * a:.2f} %"), (1, lambda a, b: f"{100 * b:.2f} %"), (2, lambda a, b: signed(100 * (b - a)))):
        check.equal(page.rows("diff-table", column), [wanted(*shares[name]) for name in names], f"{what}: column {column}")
    changes = [abs(shares[name][1] - shares[name][0]) for name in names]
    check.equal(changes, sorted(changes, reverse=True), f"{what}: largest change first")
    check(format_value(left, "nanoseconds") in page.text("diff-figures") and format_value(right, "nanoseconds") in page.text("diff-figures"), f"{what}: totals")


def hue_of(page, name):
    """Of a frame of the difference's graph, as red, green, blue."""
    text = page.js(f"getComputedStyle([...document.querySelectorAll('[data-of=diff] .frame')].find((g) => g.getAttribute('name') === {json.dumps(name)})"
                   ".querySelector('rect')).fill")
    return [int(part) for part in text[text.index("(") + 1:-1].split(",")[:3]]


def diff(page):
    page.open({"service": "diff", "view": "diff", "range": "15m"})
    api = page.server.get("/api/diff", service="diff", **{"from": NOW - 900, "base_service": "diff", "base_from": NOW - 1800, "base_to": NOW - 900})[1]
    check.equal([side["total"] // SECOND for side in api["sides"]], [4, 5], "sides")
    check.equal({row["name"]: [f // SECOND for f in row["self"]] for row in api["rows"]},
                {"Same": [2, 2], "Round": [1, 2], "Gone": [1, 0], "New": [0, 1], "Program.Main": [0, 0]}, "rows of the API")
    check(all(row["verdict"] == "unsure" for row in api["rows"]), "nobody knows how many samples these are")
    diff_is_shown(page, api, "the time before")
    red, blue, grey = hue_of(page, "New"), hue_of(page, "Gone"), hue_of(page, "Program.Main")
    check(red[0] > red[2] + 40 and blue[2] > blue[0] + 40 and max(grey) - min(grey) < 12, f"colours: {red} {blue} {grey}")
    check("Baseline" in page.text("sides") and "Compared" in page.text("readout"), "what is compared is said")
    page.open({"service": "diff", "view": "diff", "range": "1h", "base": "same", "filter": 'version="2"', "basefilter": 'version="1"'})
    diff_is_shown(page, api, "two versions")
    page.after(lambda: page.click("#swap"))
    check.equal([page.address("filter"), page.address("basefilter")], ['version="1"', 'version="2"'], "swapped")
    names = page.js("[...document.querySelectorAll('#diff-table td.name button')].map((b) => b.textContent)")
    check.equal(page.rows("diff-table", 2)[names.index("New")], "−20.00", "the other way round")


def diff_form(page):
    page.open({"service": "diff", "view": "diff", "range": "1h"})
    check("has nothing in its time" in page.text("sides"), "an hour before there is nothing")
    page.choose("base", "same")
    check.equal(set(page.rows("diff-table", 2)), {"0.00"}, "the same with itself: no difference")
    page.choose("basefilter", 'version="1"')
    check.equal(page.address("basefilter"), 'version="1"', "the baseline's filter")
    check("+" in page.rows("diff-table", 2)[0] or "−" in page.rows("diff-table", 2)[0], "now there is one")
    x, y, width, height = page.box("#plot svg")
    page.after(lambda: page.drag(x + width * 0.5, x + width * 0.7, y + 40))
    check("-" in page.address("at"), "what is compared is chosen on the timeline")
    page.type_into("which", "base", "change")
    x, y, width, height = page.box("#plot svg")
    page.after(lambda: page.drag(x + width * 0.2, x + width * 0.4, y + 40))
    check("-" in page.address("base"), "and so is the baseline")
    check.equal(page.js("document.getElementById('base').value"), "chosen", "which the form says")
    page.open({"service": "diff", "view": "diff", "range": "all"})
    check("no time before" in page.text("sides"), "before all there is nothing")


# ---- spans ----

def spans_fill(server):
    contexts = [context(1, SPAN + i, TRACE) for i in range(3)]
    body = message(91, 0, origin("gateway", host="gw-9"), [module(4096, 4096, 0, b"", "/opt/app")], nodes([0, 0], [4100, 4200]),
                   [profile([(1, 1, 0, 10), (1, 2, 0, 20), (1, 3, 0, 30), (2, 1, 0, 5)], quantum=1_000_000)],
                   unix_minus_uptime=(NOW - 120) * SECOND, tag_sets=[tag_set(1, step="pricing")], contexts=contexts)
    check.equal(server.push(body), 200, "message with spans")


def spans(page):
    page.open({"service": "gateway", "view": "span"})
    shown = list(zip(page.rows("span-table", 3), page.rows("span-table", 1), page.rows("span-table", 0)))
    wanted = [(f"{SPAN + i:016x}", format_value(ms * 10**6, "nanoseconds"), format_share(ms, 65)) for i, ms in ((2, 30), (1, 20), (0, 15))]
    check.equal([row for row in shown if len(row[0]) == 16], wanted, "spans, the largest first")
    check.equal([row[0] for row in shown if len(row[0]) == 32], [f"{TRACE[0]:016x}{TRACE[1]:016x}"], "and their trace")
    page.after(lambda: page.js(f"[...document.querySelectorAll('#span-table button')].find((b) => b.textContent === '{SPAN:016x}').click()"))
    check.equal(page.address("span_id"), f"{SPAN:016x}", "a span of the list")
    check("15.00 ms" in page.text("one-span") and "covers" not in page.text("one-span"), "its figures")
    check.equal(sorted(page.js("[...document.querySelectorAll('#one-span #chart .frame div')].map((d) => d.textContent)")),
                ["all", "app+0x4", "app+0x68"], "its flame graph")


def span_links(page):
    """As a tracing tool makes them: nothing but an id, other services here or not."""
    page.open(f"?span_id={SPAN + 1:016x}")
    check("20.00 ms" in page.text("one-span"), "a span by its id alone")
    check.equal([page.address("view"), page.js("location.search")], ["span", ""], "the address is the page's own now")
    page.open(f"?view=span&trace_id={TRACE[0]:016X}{TRACE[1]:016X}&from={NOW - 600}&to={NOW}")
    check("65.00 ms" in page.text("one-span"), "a trace by its id, in capitals, with times")
    page.open("?span_id=00000000000000aa")
    check("Nothing of this span" in page.text("empty"), "an id that nobody has")


# ---- devices ----

def device(segment, name, version, ago, told=b"", pid=7, start=1):
    return message(segment, 0, origin("gateway", [("version", version), ("device", name)], host="host-" + name, pid=pid, start=start,
                                      agent="edgeprof/0.1.0", executable="gatewayd", arch="aarch64"),
                   [module(4096, 4096, 0, b"", "/opt/app")], nodes([0], [4100]), [profile({1: 100})],
                   stats(1000, 990, 5, 5, [(0, 3, 5_000_000), (4, 7, 0)] if name == "b" else []) + told, unix_minus_uptime=(NOW - ago) * SECOND)


def unsampled_line(page):
    page.open({"service": "shop"})
    check(page.hidden("unsampled"), "nothing is said where all threads are sampled")
    told = stats(100, 90, 5, 5) + unsampled(1, 3, ["<b>worker</b>"], 11, 10, 300, 1000)
    body = message(110, 0, origin("limited", host="h"), [module(4096, 4096, 0, b"", "/opt/app")], nodes([0], [4100]),
                   [profile({1: 100})], told, unix_minus_uptime=(NOW - 60) * SECOND)
    check.equal(page.server.push(body), 200, "a message of a service with threads that are not sampled")
    page.open({"service": "limited"})
    check.equal(page.text("unsampled"), page.server.get("/api/stats", service="limited")[1]["unsampled"], "the line is the API's")
    check("3 threads were not sampled (<b>worker</b>, ...), 30 % of the CPU time" in page.text("unsampled"), page.text("unsampled"))


def devices_fill(server):
    """A server of its own: the list is of all there are."""
    for body in (device(101, "a", "1.1", 3000, number(10, 200), pid=1), device(102, "a", "1.2", 60, number(10, 340), pid=2, start=2),
                 device(103, "b", "1.2", 70), device(104, "c", "1.1", 1000, number(11, 41) + number(12, 167_000)),
                 device(105, "d", "1.1", 80, number(13, 28))):
        check.equal(server.push(body), 200, "device's message")


def devices(page):
    page.open({"view": "devices"})
    check.equal(page.address("range"), "1d", "a day of devices")
    api = {row["device"]: row for row in page.server.get("/api/devices", **{"from": "now-86400s"})[1]["devices"]}
    check.equal([api["a"][key] for key in ("versions", "processes", "cost_ppm", "samples")], [["1.2", "1.1"], 2, 340, 2000], "two processes of one device")
    check.equal([(loss["reason"], loss["count"]) for loss in api["b"]["losses"]], [("ring full", 3), ("entries full", 7)], "losses by reason")
    check.equal([api["c"][key] for key in ("spool_messages", "spool_bytes")], [41, 167_000], "spool")
    check.equal([api["d"][key] for key in ("spool_error", "spool_error_text")], [28, os.strerror(28)], "a spool that does not work")
    names = page.js("[...document.querySelectorAll('#devices td.name button')].map((b) => b.textContent)")
    check.equal(sorted(names), sorted(api), "devices are the API's")
    cell = lambda name, column: page.rows("devices", column)[names.index(name)]
    check.equal(cell("c", 2), "41 (163.09 KiB)", "spool's depth")
    check.equal(cell("d", 2), os.strerror(28), "spool's error")
    check(cell("b", 3).startswith("10") and "3 ring full (5.00 ms), 7 entries full" in cell("b", 3), f"losses: {cell('b', 3)!r}")
    check.equal([cell("a", 4), cell("a", 5), cell("a", 6), cell("a", 7)], ["1.2, 1.1", "340 ppm", "edgeprof/0.1.0", "2"], "version, cost, agent, processes")
    late = page.js("[...document.querySelectorAll('#devices tbody tr')].filter((r) => r.cells[1].classList.contains('bad')).map((r) => r.querySelector('button').textContent)")
    check.equal(late, ["c"], "who is late")
    figures = dict(zip(*[iter(reversed(page.text("device-figures").split("\n")))] * 2))
    check.equal(figures, {"devices": str(len(api)), "late": "1", "waiting in spools": "41", "lost": "10"}, "figures of all")
    page.js("[...document.querySelectorAll('#devices th button')].find((b) => b.textContent === 'spool').click()")
    check.equal([page.rows("devices", 2)[0], page.address("sort")], ["41 (163.09 KiB)", "-spool"], "sorted by spool")
    page.type_into("filter", "no space")
    check.equal(len(page.rows("devices", 0)), 1, "filtered")
    page.after(lambda: page.click("#devices td.name button"))
    check.equal([page.address("service"), page.address("filter")], ["gateway", 'device="d"'], "a device's profiles")


def targets(page, folder):
    """What the server scrapes is told with the devices, even when there are none yet."""
    path = os.path.join(folder, "targets.conf")
    with socket.socket() as taken, open(path, "w", encoding="utf-8") as file:
        taken.bind(("127.0.0.1", 0))  # and does not listen: who asks there is refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        file.write(f"[scrape away]\nurl = {url}\nprofiles = allocs, heap\ninterval = 1s\ntags = zone=<b>a</b>\n")
        file.flush()
        server = Server(PROGRAM, os.path.join(folder, "targets.db"), "--config", path)
        own = Page(page.browser, server, page.shots)
        end = time.monotonic() + 30
        while time.monotonic() < end and {one["state"] for one in server.get("/api/targets")[1]["targets"][0]["profiles"]} != {"down"}:
            time.sleep(0.1)
        own.open({"view": "devices"})
        api = server.get("/api/targets")[1]["targets"][0]
        check(url in own.rows("target-table", 0)[0] and "away" in own.rows("target-table", 0)[0], "the target's address and service")
        state = own.rows("target-table", 1)[0]
        check(state.startswith("down") and all(one["name"] in state and one["error"] in state for one in api["profiles"]), f"its state: {state!r}")
        check.equal([own.rows("target-table", 3), own.hidden("devices")], [["0"], False], "nothing was taken yet; the list of devices is empty")
        own.shot("targets")
        server.stop()
    page.open({"view": "devices"})
    check(page.hidden("targets"), "without targets nothing is said of them")


def main():
    with tempfile.TemporaryDirectory(prefix="edgeprof-test-") as folder, Browser() as browser:
        server = Server(PROGRAM, os.path.join(folder, "views.db"))
        page = Page(browser, server, sys.argv[2])
        fill(server, "shop", SHOP, "version=1")
        fill(server, "calls", RECURSIVE)
        diff_fill(server)
        for part in (callers_figures, odd_questions, callers, diff, diff_form):
            part(page)
        unsampled_line(page)
        spans_fill(server)
        spans(page)
        span_links(page)
        own = Server(PROGRAM, os.path.join(folder, "devices.db"))
        devices_fill(own)
        devices(Page(browser, own, sys.argv[2]))
        targets(Page(browser, own, sys.argv[2]), folder)
        check.equal(page.violations(), [], "nothing that the page's policy forbids")
        check.equal(browser.problems, [], "nothing red in the browser's console")
        own.stop()
        server.stop()
    check.done("test-tools-page-views")


main()
