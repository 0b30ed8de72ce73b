"""The page in headless Chromium: the profile, what is selected, the timeline, the keyboard, the address; and the page
that `edgeprof flame` writes. Usage: page_test.py EDGEPROF FOLDER
Screenshots are left in FOLDER to be looked at."""
import json
import os
import subprocess
import sys
import tempfile
import time

from browser import Browser
from generate import context, message, module, nodes, origin, profile, tag_set
from harness import Checks, Server
from page_kit import FRAMES, MAIN, ROWS, SHOP, TEXTS, Page, fill, format_share, format_value

PROGRAM = os.path.abspath(sys.argv[1])
check = Checks()
NOW = int(time.time()) // 10 * 10
MARKED = f"{FRAMES}.filter((g) => g.querySelector('rect').getAttribute('fill') === 'var(--mark)')"


def empty(page):
    page.open()
    text = page.text("empty")
    check("No profiles yet" in text and "edgeprof run" in text and page.server.url in text, f"empty state: {text}")
    check(page.hidden("view") and page.hidden("timeline"), "nothing else is shown")
    page.shot("empty")
    page.open({"view": "devices"})
    check("No profiles yet" in page.text("empty"), "the same for devices")


def shown(page):
    page.open({"service": "shop"})
    api = page.server.get("/api/profile", service="shop")[1]
    check.equal(page.js(ROWS), [row["name"] for row in api["top"]], "functions of the table are the API's")
    check.equal(page.rows("top", 0), [format_share(row["self"], api["total"]) for row in api["top"]], "flat % is the API's")
    check.equal(page.rows("top", 1), [format_value(row["self"], "nanoseconds") for row in api["top"]], "flat is the API's")
    check.equal(page.rows("top", 2), [format_share(row["total"], api["total"]) for row in api["top"]], "cum % is the API's")
    check(format_value(api["total"], "nanoseconds") in page.text("figures") and "CPU time" in page.text("figures"), "total")
    check.equal(page.js("document.getElementById('service').value"), "shop", "service that is chosen")
    check.equal(page.js("document.title"), "shop – edgeprof", "title")


def search(page):
    page.type_into("search", "PRICING")
    marked = page.js(f"{MARKED}.map((g) => g.getAttribute('name'))")
    check.equal(sorted(marked), ["Orders.Pricing.Calculate(async)", "Orders.Pricing.Round"], "frames that are found")
    check("2 frames, 76.09 %" in page.text("detail"), "what was found is said")
    check.equal(page.address("search"), "PRICING", "the search is in the address")
    page.shot("search")
    page.open({"service": "shop", "search": "PRICING"})
    check.equal(page.js(f"{MARKED}.length"), 2, "and is done from there")
    page.type_into("search", "[nothing like that(")
    check("Not found" in page.text("detail"), "nothing found, and no broken pattern")
    page.type_into("search", "")
    check.equal(page.js(f"{MARKED}.length"), 0, "an empty search marks nothing")


def frame(name):
    return f"{FRAMES}.find((g) => g.getAttribute('name') === {json.dumps(name)})"


def width_of(page, name):
    return page.js(f"Number({frame(name)}?.querySelector('rect').getAttribute('width') ?? 0)")


def top_of(page, name):
    return page.js(f"{frame(name)}.getBoundingClientRect().top")


def zoom(page):
    whole, part = width_of(page, "Program.Main"), width_of(page, "Orders.Pricing.Round")
    check(0 < part < 0.7 * whole, f"a part is narrower: {part} of {whole}")
    check(page.js("document.getElementById('reset').disabled && document.getElementById('copy').disabled"), "nothing to reset or copy")
    page.js(f"{frame('Orders.Pricing.Round')}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
    check(abs(width_of(page, "Orders.Pricing.Round") - whole) < 2, "zoomed")
    check("3.00 s, 65.22 %" in page.text("detail"), "the frame's figures are said")
    check.equal(page.address("zoom"), "4:Orders.Pricing.Round", "the zoom is in the address")
    page.js("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    page.click("#copy")
    page.wait("window.copied === 'Orders.Pricing.Round'")
    page.open({"service": "shop", "zoom": "4:Orders.Pricing.Round"})
    check(abs(width_of(page, "Orders.Pricing.Round") - whole) < 2, "and comes from there")
    page.shot("zoom")
    page.click("#reset")
    check(abs(width_of(page, "Orders.Pricing.Round") - part) < 2, "and back")
    check(top_of(page, "Program.Main") < top_of(page, "Orders.Pricing.Round"), "the root is on top")
    page.click("#turn")
    check(top_of(page, "Program.Main") > top_of(page, "Orders.Pricing.Round"), "or at the bottom")
    check.equal(page.address("shape"), "flame", "which is in the address")
    page.shot("flame-up")
    page.click("#turn")


def frame_keys(page):
    page.js("document.getElementById('chart').focus()")
    current = f"{FRAMES}.find((g) => g.classList.contains('current'))?.getAttribute('name')"
    whole = width_of(page, "Program.Main")
    for key, wanted in (("ArrowDown", "all"), ("ArrowDown", "Program.Main"), ("ArrowDown", MAIN[1]), ("ArrowRight", "[thread exit]"),
                        ("ArrowLeft", MAIN[1]), ("ArrowDown", "Orders.Pricing.Calculate(async)"), ("ArrowUp", MAIN[1])):
        page.key(key)
        check.equal(page.js(current), wanted, f"{key} in the flame graph")
    page.key("ArrowDown")
    page.key("Enter")
    check(abs(width_of(page, "Orders.Pricing.Calculate(async)") - whole) < 2, "Enter zooms")
    page.key("Escape")
    check(width_of(page, "Orders.Pricing.Calculate(async)") < 0.9 * whole, "Escape zooms out")


def table(page):
    heading = "[...document.querySelectorAll('#top th button')]"
    page.js(f"{heading}.find((b) => b.textContent.startsWith('function')).click()")
    check.equal(page.js(ROWS), sorted(page.js(ROWS)), "sorted by name")
    check.equal(page.address("sort"), "name", "the order is in the address")
    page.js(f"{heading}.find((b) => b.textContent.startsWith('cum %')).click()")
    check.equal(page.js(ROWS)[0], "Program.Main", "sorted by cum")
    page.js(f"{heading}.find((b) => b.textContent.startsWith('cum %')).click()")
    check.equal(page.js(ROWS)[-1], "Program.Main", "and the other way round")
    page.open({"service": "shop", "sort": "total", "find": "o"})
    check.equal(page.js(ROWS)[-1], "Program.Main", "and so from the address")
    page.type_into("filter", "json")
    check.equal(page.js(ROWS), ["System.Text.Json.JsonSerializer.Serialize<__Canon>"], "filtered")
    check.equal(page.address("find"), "json", "the filter is in the address")
    page.click("#top tbody td.name button")
    check.equal(page.js("document.getElementById('search').value"), "System.Text.Json.JsonSerializer.Serialize<__Canon>",
                "a function of the table is found in the graph")
    page.open({"service": "shop"})


def labels(page):
    chip = "[...document.querySelectorAll('#chips .chip')].find((c) => c.textContent === '2')"
    check("6.00 s" in page.text("figures"), "both versions together")
    page.after(lambda: page.js(f"{chip}.click()"))
    check("1.40 s" in page.text("figures"), "one version")
    check.equal(page.js(f"{chip}.getAttribute('aria-pressed')"), "true", "the label is shown as chosen")
    check.equal(page.address("filter"), 'version="2"', "the address has the filter")
    check.equal(page.js("document.getElementById('filter-text').value"), 'version="2"', "and so has the form")
    page.after(lambda: page.js(f"{chip}.click()"))
    check("6.00 s" in page.text("figures"), "and both again")
    page.choose("filter-text", 'version=~"[13]"')
    check("4.60 s" in page.text("figures"), "a pattern")
    page.choose("filter-text", 'version!="1",version!="2"')
    check("Nothing matches" in page.text("empty"), "nothing matches")
    page.shot("nothing-matches")
    page.click("#empty button", refreshes=True)
    check("6.00 s" in page.text("figures"), "the button there takes the filter away")
    page.type_into("filter-text", "version", "change")
    check(page.js("!document.getElementById('filter-text').checkValidity()"), "what is no filter is not sent")
    page.choose("filter-text", 'version=~"("')
    check(not page.hidden("problem") and "regular expression" in page.text("problem").lower(), f"a broken pattern: {page.text('problem')}")
    page.shot("problem")
    page.choose("filter-text", "")
    check(page.hidden("problem"), "the problem goes away")
    page.open("#service=shop&tag=version%3D2")
    check("1.40 s" in page.text("figures"), "addresses of older versions")


def groups(page):
    page.open({"service": "shop"})
    page.choose("group", "version")
    check({"version=1", "version=2"} <= set(page.js(TEXTS)), "the graph is split")
    api = page.server.get("/api/timeline", service="shop", group="version", **{"from": "now-3600s"})[1]
    legend = page.js("[...document.querySelectorAll('#legend .chip')].map((c) => c.textContent)")
    check.equal(legend, [f"{one['name']} {format_value(one['total'], 'nanoseconds')}" for one in api["series"]], "legend")
    check.equal(page.js("document.querySelectorAll('#plot path.bars').length"), 2, "two series, stacked")
    page.click("#lines", refreshes=True)
    check.equal(page.js("document.querySelectorAll('#plot path.line').length"), 2, "or lines")
    page.shot("lines")
    page.after(lambda: page.js("[...document.querySelectorAll('#legend .chip')].find((c) => c.textContent.startsWith('2')).click()"))
    check.equal(page.address("filter"), 'version="2"', "a series of the legend is a filter")
    page.open({"service": "shop"})


def kinds(page):
    """Each kind with its own unit."""
    rows = [(1, 1, 3, 1 << 20), (1, 2, 5, 2 << 20)]
    body = message(77, 0, origin("kinds"), [module(4096, 4096, 0, b"", "[app]")], nodes([0], [4100]),
                   [profile(rows, kind=4, quantum=1), profile([(1, 0, 2, 3_000_000_000)], kind=3, quantum=1)],
                   unix_minus_uptime=time.time_ns() - 30 * 10**9, tag_sets=[tag_set(1, step="a"), tag_set(2, step="b")],
                   contexts=[context(1), context(2)])
    check.equal(page.server.push(body), 200, "message with kinds")
    page.click("#refresh", refreshes=True)
    page.choose("service", "kinds")
    for kind, wanted in (("alloc", "3.00 MiB"), ("alloc:count", "Allocation, objects"), ("lock", "3.00 s"), ("alloc", "3.00 MiB")):
        page.choose("kind", kind)
        check(wanted in page.text("figures"), f"{kind}: {page.text('figures')!r}")
    page.choose("group", "step")
    check({"step=a", "step=b"} <= set(page.js(TEXTS)), "split by a label of stacks")
    page.after(lambda: page.js("[...document.querySelectorAll('#chips .chip')].find((c) => c.textContent === 'b').click()"))
    check("2.00 MiB" in page.text("figures"), "one value of it")


def times(page):
    fill(page.server, "past", {("Old.Function",): 5_000_000_000}, at=NOW - 7200)
    page.open({"service": "past"})
    check("Nothing in this time" in page.text("empty"), "an hour is too short")
    page.click("#empty button", refreshes=True)
    check("Old.Function" in page.js(TEXTS) and page.address("range") == "custom", "the button there goes to the data")
    page.choose("range", "all")
    check("Old.Function" in page.js(TEXTS), "all there is")
    page.open({"service": "past", "from": NOW - 7260, "to": NOW - 7100})
    check("Old.Function" in page.js(TEXTS), "times in the address")
    check.equal(page.js("document.getElementById('range').value"), "custom", "are shown as such")
    page.type_into("to", page.js(f"(() => {{ const d = new Date({NOW - 7230} * 1000); return new Date(d - d.getTimezoneOffset() * 60000).toISOString().slice(0, 19); }})()"))
    page.after(lambda: page.js("document.getElementById('to').dispatchEvent(new Event('change', {bubbles: true}))"))
    check("Nothing in this time" in page.text("empty"), "an end of one's own")


def busy(server):
    """Ten minutes of a service, a profile in each: its n-th minute has n seconds of CPU time."""
    start = NOW // 60 * 60 - 600
    for minute in range(10):
        fill(server, "busy", {("Main", f"Minute{minute}"): (minute + 1) * 10**9}, at=start + 60 * minute + 20)
    return start


def buckets(page):
    """The timeline's own figures, and that it shows them."""
    data = page.server.get("/api/timeline", service="busy", **{"from": page.start, "to": page.start + 600}, buckets=10)[1]
    check.equal((data["from"], data["step"], data["buckets"]), (page.start, 60, 10), "buckets of a minute")
    check.equal(data["series"][0]["values"], [(i + 1) * 10**9 for i in range(10)], "sums by bucket")
    page.open({"service": "busy", "from": page.start, "to": page.start + 600})
    check("55.00 s" in page.text("readout"), f"sum of the timeline: {page.text('readout')}")
    x, y, width, height = page.box("#plot svg")
    page.browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + width * 0.75, y=y + 40)
    api = page.server.get("/api/timeline", service="busy", **{"from": page.start, "to": page.start + 600}, buckets=240)[1]
    bucket = int(0.75 * api["buckets"])
    value = api["series"][0]["values"][bucket]
    check((format_value(value, "nanoseconds") if value else "nothing") in page.text("readout"), f"one bucket: {page.text('readout')}")


def chosen(page):
    parts = page.address("at").split("-")
    return [float(part) for part in parts] if len(parts) == 2 else None


def profile_is_of(page, what):
    """The flame graph has the total that the API has for the time chosen."""
    start, end = chosen(page)
    api = page.server.get("/api/profile", service="busy", **{"from": start, "to": end})[1]
    check(api["total"] > 0 and format_value(api["total"], "nanoseconds") in page.text("figures"), f"{what}: {page.text('figures')!r}")


def brush(page):
    page.open({"service": "busy", "from": page.start, "to": page.start + 600})
    x, y, width, height = page.box("#plot svg")
    at = lambda minute: x + width * minute / 10
    page.after(lambda: page.drag(at(2), at(5), y + 40))
    check.equal(chosen(page), [page.start + 120, page.start + 300], "chosen with the mouse")
    check("12.00 s" in page.text("figures") and "12.00 s" in page.text("readout"), "of it are minutes 3, 4 and 5")
    profile_is_of(page, "the mouse")
    page.shot("brush")
    page.after(lambda: page.drag(at(5), at(6), y + 40))
    check.equal(chosen(page), [page.start + 120, page.start + 360], "its end was moved")
    page.after(lambda: page.drag(at(8), at(8), y + 40))
    check.equal(chosen(page), None, "a click chooses nothing")
    page.browser.call("Emulation.setTouchEmulationEnabled", enabled=True)
    page.after(lambda: page.swipe(at(7), at(9), y + 40))
    page.browser.call("Emulation.setTouchEmulationEnabled", enabled=False)
    check.equal(chosen(page), [page.start + 420, page.start + 540], "chosen with a finger")
    profile_is_of(page, "the finger")


def brush_keys(page):
    step = page.server.get("/api/timeline", service="busy", **{"from": page.start, "to": page.start + 600})[1]["step"]
    page.js("document.querySelector('#plot .edge.at[data-edge=from]').focus()")
    page.after(lambda: page.key("ArrowRight"))
    check.equal(chosen(page), [page.start + 420 + step, page.start + 540], "the start moved by key")
    check.equal(page.js("document.activeElement.dataset.edge"), "from", "the handle has kept the focus")
    page.after(lambda: page.key("Home"))
    check.equal(chosen(page), [page.start, page.start + 540], "to the very start")
    profile_is_of(page, "the keyboard")
    check("18.00 s" not in page.text("figures"), "figures are of the new time")
    page.after(lambda: page.click("#zoom-in"))
    check.equal([page.address("from"), page.address("to"), page.address("at")], [str(page.start), str(page.start + 540), ""], "zoomed in")
    page.after(lambda: page.click("#zoom-out"))
    check(float(page.address("to")) - float(page.address("from")) >= 1070, "zoomed out")


def history(page):
    page.open({"service": "shop"})
    page.choose("range", "15m")
    page.choose("filter-text", 'version="2"')
    page.after(lambda: page.js("history.back()"))
    check.equal([page.address("filter"), page.js("document.getElementById('filter-text').value")], ["", ""], "back takes the filter away")
    check("6.00 s" in page.text("figures"), "and shows what was there")
    page.after(lambda: page.js("history.back()"))
    check.equal(page.js("document.getElementById('range').value"), "1h", "back once more")
    page.after(lambda: page.js("history.forward()"))
    page.after(lambda: page.js("history.forward()"))
    check("1.40 s" in page.text("figures") and page.address("filter") == 'version="2"', "forward twice")


def keyboard(page):
    page.open({"service": "shop"})
    page.js("document.activeElement.blur()")
    page.key("?")
    check(page.js("document.getElementById('keys').open"), "? lists the keys")
    listed = page.js("[...document.querySelectorAll('#keys kbd')].map((k) => k.textContent)")
    check({"1", "5", "/", "F", "T", "R", "L", "D", "Enter"} <= set(listed), f"keys that are listed: {listed}")
    page.shot("keys")
    page.key("Escape")
    check(not page.js("document.getElementById('keys').open"), "Escape closes the list")
    page.key("/")
    check.equal(page.js("document.activeElement.id"), "search", "/ goes to the search")
    page.key("r")
    check.equal(page.js("document.activeElement.id"), "search", "letters are text there")
    page.key("Escape")
    page.key("f")
    check.equal(page.js("document.activeElement.id"), "filter-text", "F goes to the filter")
    page.key("Escape")
    page.key("t")
    check.equal(page.js("document.activeElement.dataset.edge"), "from", "T goes to the timeline")
    page.key("g")
    check.equal(page.js("document.activeElement.id"), "chart", "G goes to the flame graph")
    page.after(lambda: page.key("r"))
    for number, view in enumerate(("flame", "callers", "diff", "span", "devices"), 1):
        if number > 1:
            page.after(lambda: page.key(str(number)))
        check.equal(page.js("document.querySelector('#views [aria-current]').dataset.view"), view, f"{number} is a view")
    before = page.js("getComputedStyle(document.body).backgroundColor")
    page.key("d")
    dark = page.js("getComputedStyle(document.body).backgroundColor")
    page.key("d")
    check(page.js("getComputedStyle(document.body).backgroundColor") != dark and page.text("theme") == "Light", "D is dark, then light")
    page.open({"service": "shop"})
    check.equal(page.js("document.documentElement.dataset.theme"), "light", "the choice is kept")
    page.key("d")
    check.equal(page.js("getComputedStyle(document.body).backgroundColor"), before, "and as the system is again")


def live(page):
    page.open({"service": "shop"})
    page.click("#live", refreshes=True)
    check.equal(page.address("live"), "1", "live is in the address")
    fill(page.server, "shop", {("Program.Main", "Came.Later"): 2_000_000_000})
    page.wait(f"{TEXTS}.includes('Came.Later')", 30)
    page.click("#live", refreshes=True)
    check(not page.js("document.getElementById('live').checked") and page.address("live") == "", "live is off again")


def server_away(page, folder):
    """What is shown when the server does not answer, and when it is there again."""
    other = Server(PROGRAM, os.path.join(folder, "away.db"))
    fill(other, "shop", SHOP)
    away = Page(page.browser, other, page.shots)
    away.open({"service": "shop"})
    port = other.port
    check.equal(other.stop(), 0, "the server has ended")
    away.after(lambda: away.click("#refresh"))
    check("cannot be reached" in away.text("problem") and "edgeprof serve" in away.text("problem"), f"unreachable: {away.text('problem')}")
    check.equal(len(away.js(ROWS)), 6, "what was shown stays")
    page.browser.problems.clear()  # the browser's own words on the connection
    again = Server(PROGRAM, os.path.join(folder, "away.db"), "--listen", f"127.0.0.1:{port}")
    away.after(lambda: away.click("#refresh"))
    check(away.hidden("problem"), "and it goes on")
    again.stop()


def alone(page, folder):
    """The file that `edgeprof flame` writes needs no server."""
    out = os.path.join(folder, "flame.html")
    subprocess.run([PROGRAM, "flame", "--url", page.server.url, "--service", "shop", "-o", out], check=True)
    page.browser.go("file://" + out)
    page.wait(f"{TEXTS}.includes('Orders.Pricing.Round')")
    check("Orders.Pricing.Round" in page.js(ROWS), "table in the file")
    page.type_into("search", "pricing")
    check("Found in" in page.text("detail"), "search in the file")
    page.shot("file")


def main():
    with tempfile.TemporaryDirectory(prefix="edgeprof-test-") as folder, Browser() as browser:
        server = Server(PROGRAM, os.path.join(folder, "page.db"))
        page = Page(browser, server, sys.argv[2])
        empty(page)
        fill(server, "shop", SHOP, "version=1")
        for part in (shown, search, zoom, frame_keys, table):
            part(page)
        fill(server, "shop", {("Program.Main", "Second.Version"): 1_400_000_000}, "version=2")
        page.start = busy(server)
        page.click("#refresh", refreshes=True)
        for part in (labels, groups, kinds, times, buckets, brush, brush_keys, history, keyboard, live):
            part(page)
        check.equal(page.violations(), [], "nothing that the page's policy forbids")
        server_away(page, folder)
        alone(page, folder)
        expected = [text for text in browser.problems if "400 (Bad Request)" not in text]
        check.equal(expected, [], "nothing red in the browser's console")
        server.stop()
        check.equal(server.stderr(), "", "standard error of the server")
    check.done("test-tools-page")


main()
