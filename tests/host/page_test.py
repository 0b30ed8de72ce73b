"""The page shows the profile, selection, timeline and address correctly in Chromium.

The page in headless Chromium: the profile, what is selected, the timeline, the keyboard, the address; and the page
that `edgeprof flame` writes. Pictures are left in build/*/tests/tools/shots to be looked at."""
import json
import os
import re
import subprocess
import time

import pytest

from generate import context, message, module, nodes, origin, profile, tag_set
from harness import REPOSITORY, clean_environment
from page_kit import FRAMES, MAIN, ROWS, SHOP, TEXTS, fill, format_share, format_value
from pprof import encode
from sample import SOURCE, marked

NOW = 0  # set by conftest.py when the first test begins
START = int(time.time()) // 60 * 60 - 600  # of the service that is busy
BUSY = {"service": "busy", "from": START, "to": START + 600}
MARKED = f"{FRAMES}.filter((f) => f.marked)"


@pytest.fixture(scope="module")
def server(shared_server):
    """A shop, one of two versions, and ten minutes of a service whose n-th minute has n seconds of CPU time."""
    fill(shared_server, "shop", SHOP, "version=1")
    fill(shared_server, "versions", SHOP, "version=1")
    fill(shared_server, "versions", {("Program.Main", "Second.Version"): 1_400_000_000}, "version=2")
    for minute in range(10):
        fill(shared_server, "busy", {("Main", f"Minute{minute}"): (minute + 1) * 10**9}, at=START + 60 * minute + 20)
    yield shared_server
    assert shared_server.stop() == 0
    assert shared_server.stderr() == ""


def test_empty(page_of, start_server, shipped, sample):
    page = page_of(start_server())
    page.open()
    text = page.text("empty")
    assert "No profiles yet" in text and f"EDGEPROF_ENDPOINT={page.server.url} ./your-service" in text, f"empty state: {text}"
    assert page.hidden("view") and page.hidden("timeline"), "nothing else is shown"
    page.shot("empty")
    page.open({"view": "devices"})
    assert "No profiles yet" in page.text("empty"), "the same for devices"
    advised = next(line for line in text.splitlines() if line.startswith("edgeprof run"))
    command = [shipped, *advised.replace("./any-program", f"{sample} 500").split()[1:]]
    subprocess.run(command, check=True, env=clean_environment(), timeout=60)
    page.open()
    page.after(lambda: page.click("#services td.name button"))
    assert "hot" in page.js(ROWS), "the advised command fills this page"


def test_shown(page):
    page.open({"service": "shop"})
    api = page.server.get("/api/profile", service="shop")[1]
    assert page.js(ROWS) == [row["name"] for row in api["top"]], "functions of the table are the API's"
    assert page.rows("top", 0) == [format_share(row["self"], api["total"]) for row in api["top"]], "flat % is the API's"
    assert page.rows("top", 1) == [format_value(row["self"], "nanoseconds") for row in api["top"]], "flat is the API's"
    assert page.rows("top", 2) == [format_share(row["total"], api["total"]) for row in api["top"]], "cum % is the API's"
    assert format_value(api["total"], "nanoseconds") in page.text("figures") and "CPU time" in page.text("figures"), "total"
    assert page.js("document.getElementById('service').value") == "shop", "service that is chosen"
    assert page.js("document.title") == "shop – edgeprof", "title"


def test_search(page):
    page.open({"service": "shop"})
    page.type_into("search", "PRICING")
    marked = page.js(f"{MARKED}.map((f) => f.name)")
    assert sorted(marked) == ["Orders.Pricing.Calculate(async)", "Orders.Pricing.Round"], "frames that are found"
    assert "2 frames, 76.1 %" in page.text("detail"), "what was found is said"
    assert page.address("search") == "PRICING", "the search is in the address"
    page.shot("search")
    page.open({"service": "shop", "search": "PRICING"})
    assert page.js(f"{MARKED}.length") == 2, "and is done from there"
    page.type_into("search", "[nothing like that(")
    assert "Not found" in page.text("detail"), "nothing found, and no broken pattern"
    page.type_into("search", "")
    assert page.js(f"{MARKED}.length") == 0, "an empty search marks nothing"


def frame(name):
    return f"{FRAMES}.find((f) => f.name === {json.dumps(name)})"


def width_of(page, name):
    return page.js(f"{frame(name)}?.width ?? 0")


def top_of(page, name):
    return page.js(f"{frame(name)}.y")


def test_zoom(page):
    page.open({"service": "shop"})
    whole, part = width_of(page, "Program.Main"), width_of(page, "Orders.Pricing.Round")
    assert 0 < part < 0.7 * whole, f"a part is narrower: {part} of {whole}"
    assert page.js("document.getElementById('reset').disabled && document.getElementById('copy').disabled"), "nothing to reset or copy"
    page.click_frame("Orders.Pricing.Round")
    assert abs(width_of(page, "Orders.Pricing.Round") - whole) < 2, "zoomed"
    assert "3.00 s, 65.2 %" in page.text("detail"), "the frame's figures are said"
    assert page.address("zoom") == "4:Orders.Pricing.Round", "the zoom is in the address"
    page.js("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    page.click("#copy")
    page.wait("window.copied === 'Orders.Pricing.Round'")
    page.open({"service": "shop", "zoom": "4:Orders.Pricing.Round"})
    assert abs(width_of(page, "Orders.Pricing.Round") - whole) < 2, "and comes from there"
    page.shot("zoom")
    page.click("#reset")
    assert abs(width_of(page, "Orders.Pricing.Round") - part) < 2, "and back"
    assert top_of(page, "Program.Main") < top_of(page, "Orders.Pricing.Round"), "the root is on top"
    page.click("#turn")
    assert top_of(page, "Program.Main") > top_of(page, "Orders.Pricing.Round"), "or at the bottom"
    assert page.address("shape") == "flame", "which is in the address"
    page.shot("flame-up")
    page.click("#turn")


def test_frame_keys(page):
    page.open({"service": "shop"})
    page.js("document.getElementById('chart').focus()")
    current = f"{FRAMES}.find((f) => f.current)?.name"
    whole = width_of(page, "Program.Main")
    for key, wanted in (("ArrowDown", "all"), ("ArrowDown", "Program.Main"), ("ArrowDown", MAIN[1]), ("ArrowRight", "[thread exit]"),
                        ("ArrowLeft", MAIN[1]), ("ArrowDown", "Orders.Pricing.Calculate(async)"), ("ArrowUp", MAIN[1])):
        page.key(key)
        assert page.js(current) == wanted, f"{key} in the flame graph"
    page.key("ArrowDown")
    page.key("Enter")
    assert abs(width_of(page, "Orders.Pricing.Calculate(async)") - whole) < 2, "Enter zooms"
    page.key("Escape")
    assert width_of(page, "Orders.Pricing.Calculate(async)") < 0.9 * whole, "Escape zooms out"


def test_table(page):
    page.open({"service": "shop"})
    heading = "[...document.querySelectorAll('#top th button')]"
    page.js(f"{heading}.find((b) => b.textContent.startsWith('function')).click()")
    assert page.js(ROWS) == sorted(page.js(ROWS)), "sorted by name"
    assert page.address("sort") == "name", "the order is in the address"
    page.js(f"{heading}.find((b) => b.textContent.startsWith('cum %')).click()")
    assert page.js(ROWS)[0] == "Program.Main", "sorted by cum"
    page.js(f"{heading}.find((b) => b.textContent.startsWith('cum %')).click()")
    assert page.js(ROWS)[-1] == "Program.Main", "and the other way round"
    page.open({"service": "shop", "sort": "total", "find": "o"})
    assert page.js(ROWS)[-1] == "Program.Main", "and so from the address"
    page.type_into("filter", "json")
    assert page.js(ROWS) == ["System.Text.Json.JsonSerializer.Serialize<__Canon>"], "filtered"
    assert page.address("find") == "json", "the filter is in the address"
    page.click("#top tbody td.name button")
    assert page.js("document.getElementById('search').value") == "System.Text.Json.JsonSerializer.Serialize<__Canon>", \
        "a function of the table is found in the graph"


def lines_shown(page, name):
    """The place below a function's name, and the lines that it opens."""
    row = f"[...document.querySelectorAll('#top tbody tr')].find((r) => r.querySelector('td.name button').textContent === {json.dumps(name)})"
    page.js(f"{row}.querySelector('summary').click()")
    page.wait(f"!!{row}.querySelector('li')")
    return page.js(f"{row}.querySelector('summary').textContent"), page.js(f"[...{row}.querySelectorAll('li')].map((line) => line.innerText)")


def test_lines(page, known):
    assert page.server.push(known.lines_of_hot(71, "lines", 2, 30)) == 200
    page.open({"service": "lines", "range": "all"})
    line = marked("hot")
    place, lines = lines_shown(page, "hot")
    assert place == f"{SOURCE}:{line}", "the hottest line, not that of the first address"
    assert lines == [f"sample.c:{line} flat 93.8 %, cum 93.8 %", f"sample.c:{line - 1} flat 6.25 %, cum 6.25 %"]
    page.click_frame("hot")
    assert f"{SOURCE}:{line}" in page.text("detail"), "the frame's, too"
    page.shot("lines-of-a-function")
    page.after(lambda: page.click("#refresh"))
    page.wait("!!document.querySelector('#top li')")  # the list stays open


def test_line_of_a_real_loop(page_of, start_server, sampled):
    """The program is optimized (-O2)."""
    page = page_of(start_server(db=sampled))
    page.open({"service": "sample", "range": "all"})
    place, lines = lines_shown(page, "hot")
    assert place == f"{SOURCE}:{marked('hot')}" and lines[0].startswith(f"sample.c:{marked('hot')} "), lines
    api = next(row for row in page.server.get("/api/profile", service="sample")[1]["top"] if row["name"] == "hot")
    assert api["line"] == marked("hot") and sum(line["self"] for line in api["lines"]) == api["self"], api


def test_source_of_a_function(page_of, start_server, known, folder):
    """The lines of a function with their values, and with the text of the file below the folder of --source."""
    line = marked("hot")
    text = (REPOSITORY / SOURCE).read_text().splitlines()
    page = page_of(start_server("--source", str(REPOSITORY / "tests/unit")))
    assert page.server.push(known.lines_of_hot(71, "lines", 2, 30)) == 200
    page.open({"service": "lines", "range": "all", "fn": "hot"})
    page.wait("!document.getElementById('fn-source').hidden")
    row = page.js(f"[...document.querySelectorAll('#fn-source tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText)).find((row) => row[3] === '{line}')")
    assert row[0] == "93.8 %" and row[4].strip() == text[line - 1].strip(), row
    page.shot("source")
    lines = page.server.get("/api/source", service="lines", function="hot")[1]["files"][0]["lines"]
    assert [row["line"] for row in lines] == list(range(line - 6, line + 6)) and [row["text"].split() for row in lines] == [text[row["line"] - 1].split() for row in lines]
    without = start_server(db=os.path.join(folder, "without.db"))
    assert without.push(known.lines_of_hot(71, "lines", 2, 30)) == 200
    file = without.get("/api/source", service="lines", function="hot")[1]["files"][0]
    assert (file["found"], [row["line"] for row in file["lines"]], {"text"} & set(file["lines"][0])) == (False, [line - 1, line], set())


def test_source_stays_below_its_folder(start_server, tmp_path):
    """A device names the files: neither dots nor links lead out of the folder, and a pipe is not read."""
    (tmp_path / "secret.c").write_text("secret\n")
    folder = tmp_path / "source"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner/right.c").write_text("right\n")
    (folder / "out.c").symlink_to(tmp_path / "secret.c")
    os.mkfifo(folder / "pipe.c")
    server = start_server("--source", str(folder))
    names = [str(tmp_path / "secret.c"), "../secret.c", "x/../../secret.c", "out.c", "pipe.c", "inner", "/build/inner/right.c"]
    for i, name in enumerate(names):
        body = encode([("cpu", "nanoseconds")], [((f"f{i}",), [10**9], {})], line=1, file=name)
        assert server.request("POST", f"/ingest?name=shop&from={NOW - 60}&until={NOW - 50}", body)[0] == 200
    found = [server.get("/api/source", service="shop", function=f"f{i}")[1]["files"][0] for i in range(len(names))]
    assert [file["found"] for file in found] == [False] * 6 + [True], found
    assert [line.get("text") for line in found[-1]["lines"]] == ["right"]


def test_labels(page):
    page.expected = ["400 (Bad Request)"]  # a broken pattern
    page.open({"service": "versions"})
    chip = "[...document.querySelectorAll('#chips .chip')].find((c) => c.textContent === '2')"
    assert "6.00 s" in page.text("figures"), "both versions together"
    page.after(lambda: page.js(f"{chip}.click()"))
    assert "1.40 s" in page.text("figures"), "one version"
    assert page.js(f"{chip}.getAttribute('aria-pressed')") == "true", "the label is shown as chosen"
    assert page.address("filter") == 'version="2"', "the address has the filter"
    assert page.js("document.getElementById('filter-text').value") == 'version="2"', "and so has the form"
    page.after(lambda: page.js(f"{chip}.click()"))
    assert "6.00 s" in page.text("figures"), "and both again"
    page.choose("filter-text", 'version=~"[13]"')
    assert "4.60 s" in page.text("figures"), "a pattern"
    page.choose("filter-text", 'version!="1",version!="2"')
    assert "Nothing matches" in page.text("empty"), "nothing matches"
    page.shot("nothing-matches")
    page.click("#empty button", refreshes=True)
    assert "6.00 s" in page.text("figures"), "the button there takes the filter away"
    page.type_into("filter-text", "version", "change")
    assert page.js("!document.getElementById('filter-text').checkValidity()"), "what is no filter is not sent"
    page.choose("filter-text", 'version=~"("')
    assert not page.hidden("problem") and "regular expression" in page.text("problem").lower(), f"a broken pattern: {page.text('problem')}"
    page.shot("problem")
    page.choose("filter-text", "")
    assert page.hidden("problem"), "the problem goes away"
    page.open("#service=versions&tag=version%3D2")
    assert "1.40 s" in page.text("figures"), "addresses of older versions"


def test_share_and_trend_of_labels(page):
    page.open({"service": "versions"})
    page.js("document.getElementById('labels').open = true; document.querySelector('.label-values[data-key=version]').open = true")
    page.wait("document.querySelectorAll('.label-values tbody tr').length === 2")
    rows = page.js("[...document.querySelectorAll('.label-values tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))")
    assert [row[:3] for row in rows] == [["1", "76.7 %", "4.60 s"], ["2", "23.3 %", "1.40 s"]] and page.js("document.querySelectorAll('.label-values .spark').length") == 2, rows
    page.after(lambda: page.js("document.querySelector('.label-values tbody tr:nth-child(2) button').click()"))
    assert page.address("filter") == 'version="2"' and page.js("document.querySelector('.label-values').open"), "a value is a filter; the list stays open"
    page.shot("labels")


def test_groups(page):
    page.open({"service": "versions"})
    page.choose("group", "version")
    assert {"version=1", "version=2"} <= set(page.js(TEXTS)), "the graph is split"
    api = page.server.get("/api/timeline", service="versions", group="version", **{"from": "now-3600s"})[1]
    legend = page.js("[...document.querySelectorAll('#legend .chip')].map((c) => c.textContent)")
    assert legend == [f"{one['name']} {format_value(one['total'], 'nanoseconds')}" for one in api["series"]], "legend"
    assert page.js("document.querySelectorAll('#plot path.bars').length") == 2, "two series, stacked"
    page.click("#lines", refreshes=True)
    assert page.js("document.querySelectorAll('#plot path.line').length") == 2, "or lines"
    page.shot("lines")
    page.after(lambda: page.js("[...document.querySelectorAll('#legend .chip')].find((c) => c.textContent.startsWith('2')).click()"))
    assert page.address("filter") == 'version="2"', "a series of the legend is a filter"


def test_groups_of_several_labels(page_of, start_server, cli):
    server = start_server()
    for version, device in (("1", "a"), ("1", "b"), ("2", "a")):
        fill(server, "grid", SHOP, f"version={version},device={device}")
    page = page_of(server)
    page.open({"service": "grid", "group": "version"})
    page.choose("group-2", "device")
    assert {"version=1, device=a", "version=1, device=b", "version=2, device=a"} <= set(page.js(TEXTS)), "each combination is a part of the graph"
    legend = page.js("[...document.querySelectorAll('#legend .chip')].map((c) => c.firstChild.nextSibling.data.trim())")
    assert sorted(legend) == ["1, a", "1, b", "2, a"]
    page.after(lambda: page.js("[...document.querySelectorAll('#legend .chip')].find((c) => c.textContent.startsWith('1, b')).click()"))
    assert page.address("filter") == 'version="1",device="b"', "a series of the legend is a filter of both"
    page.open({"service": "grid", "group": "version"})
    page.choose("group", "")
    assert page.address("group") == "", "none again"
    folded = cli.run("export", "--url", server.url, "--folded", "--group-by", "version", "--group-by", "none").out
    assert {line.split(";")[0] for line in folded.splitlines()} == {"version=1, [no none]", "version=2, [no none]"}




def test_kinds(page):
    """Each kind with its own unit."""
    rows = [(1, 1, 3, 1 << 20), (1, 2, 5, 2 << 20)]
    body = message(77, 0, origin("kinds"), [module(4096, 4096, 0, b"", "[app]")], nodes([0], [4100]),
                   [profile(rows, kind=4, quantum=1), profile([(1, 0, 2, 3_000_000_000)], kind=3, quantum=1)],
                   unix_minus_uptime=time.time_ns() - 30 * 10**9, tag_sets=[tag_set(1, step="a"), tag_set(2, step="b")],
                   contexts=[context(1), context(2)])
    page.open({"service": "shop"})
    assert page.server.push(body) == 200, "message with kinds"
    page.click("#refresh", refreshes=True)
    page.choose("service", "kinds")
    for kind, wanted in (("alloc", "3.00 MiB"), ("alloc:count", "Allocation, objects"), ("lock", "3.00 s"), ("alloc", "3.00 MiB")):
        page.choose("kind", kind)
        assert wanted in page.text("figures"), f"{kind}: {page.text('figures')!r}"
    page.choose("group", "step")
    assert {"step=a", "step=b"} <= set(page.js(TEXTS)), "split by a label of stacks"
    page.after(lambda: page.js("[...document.querySelectorAll('#chips .chip')].find((c) => c.textContent === 'b').click()"))
    assert "2.00 MiB" in page.text("figures"), "one value of it"


def test_times(page):
    fill(page.server, "past", {("Old.Function",): 5_000_000_000}, at=NOW - 7200)
    page.open({"service": "past"})
    assert "No profiles in this range" in page.text("empty"), "an hour is too short"
    page.click("#empty button", refreshes=True)
    assert "Old.Function" in page.js(TEXTS) and page.address("range") == "custom", "the button there goes to the data"
    page.choose("range", "all")
    assert "Old.Function" in page.js(TEXTS), "all there is"
    page.open({"service": "past", "from": NOW - 7260, "to": NOW - 7100})
    assert "Old.Function" in page.js(TEXTS), "times in the address"
    assert page.js("document.getElementById('range').value") == "custom", "are shown as such"
    page.type_into("to", page.js(f"(() => {{ const d = new Date({NOW - 7230} * 1000); return new Date(d - d.getTimezoneOffset() * 60000).toISOString().slice(0, 19); }})()"))
    page.after(lambda: page.js("document.getElementById('to').dispatchEvent(new Event('change', {bubbles: true}))"))
    assert "No profiles in this range" in page.text("empty"), "an end of one's own"


def test_buckets(page):
    """The timeline's own figures, and that it shows them."""
    data = page.server.get("/api/timeline", **BUSY, buckets=10)[1]
    assert (data["from"], data["step"], data["buckets"]) == (START, 60, 10), "buckets of a minute"
    assert data["series"][0]["values"] == [(i + 1) * 10**9 for i in range(10)], "sums by bucket"
    page.open(BUSY)
    assert "55.0 s" in page.text("readout"), f"sum of the timeline: {page.text('readout')}"
    x, y, width, height = page.box("#plot svg")
    page.browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + width * 0.75, y=y + 40)
    api = page.server.get("/api/timeline", **BUSY, buckets=240)[1]
    bucket = int(0.75 * api["buckets"])
    value = api["series"][0]["values"][bucket]
    assert (format_value(value, "nanoseconds") if value else "nothing") in page.text("readout"), f"one bucket: {page.text('readout')}"


def chosen(page):
    parts = page.address("at").split("-")
    return [float(part) for part in parts] if len(parts) == 2 else None


def profile_is_of(page, what):
    """The flame graph has the total that the API has for the time chosen."""
    start, end = chosen(page)
    api = page.server.get("/api/profile", service="busy", **{"from": start, "to": end})[1]
    assert api["total"] > 0 and format_value(api["total"], "nanoseconds") in page.text("figures"), f"{what}: {page.text('figures')!r}"


def test_brush(page):
    page.open(BUSY)
    x, y, width, height = page.box("#plot svg")
    at = lambda minute: x + width * minute / 10
    page.after(lambda: page.drag(at(2), at(5), y + 40))
    assert chosen(page) == [START + 120, START + 300], "chosen with the mouse"
    assert "12.0 s" in page.text("figures") and "12.0 s" in page.text("readout"), "of it are minutes 3, 4 and 5"
    profile_is_of(page, "the mouse")
    page.shot("brush")
    page.after(lambda: page.drag(at(5), at(6), y + 40))
    assert chosen(page) == [START + 120, START + 360], "its end was moved"
    page.after(lambda: page.drag(at(8), at(8), y + 40))
    assert chosen(page) is None, "a click chooses nothing"
    page.browser.call("Emulation.setTouchEmulationEnabled", enabled=True)
    page.after(lambda: page.swipe(at(7), at(9), y + 40))
    page.browser.call("Emulation.setTouchEmulationEnabled", enabled=False)
    assert chosen(page) == [START + 420, START + 540], "chosen with a finger"
    profile_is_of(page, "the finger")


def test_brush_keys(page):
    page.open({**BUSY, "at": f"{START + 420}-{START + 540}"})
    step = page.server.get("/api/timeline", **BUSY)[1]["step"]
    page.js("document.querySelector('#plot .edge.at[data-edge=from]').focus()")
    page.after(lambda: page.key("ArrowRight"))
    assert chosen(page) == [START + 420 + step, START + 540], "the start moved by key"
    assert page.js("document.activeElement.dataset.edge") == "from", "the handle has kept the focus"
    page.after(lambda: page.key("Home"))
    assert chosen(page) == [START, START + 540], "to the very start"
    profile_is_of(page, "the keyboard")
    assert "18.0 s" not in page.text("figures"), "figures are of the new time"
    page.after(lambda: page.click("#zoom-in"))
    assert [page.address("from"), page.address("to"), page.address("at")] == [str(START), str(START + 540), ""], "zoomed in"
    page.after(lambda: page.click("#zoom-out"))
    assert float(page.address("to")) - float(page.address("from")) >= 1070, "zoomed out"


def test_link_has_the_service(page):
    page.open({"view": "flame"})
    chosen = page.js("document.getElementById('service').value")
    assert chosen and page.address("service") == chosen, "a shared link shows the same one"
    names = page.js("[...document.getElementById('service').options].map((o) => o.value)")
    assert names == sorted(names) and len(names) > 2, "in the order of their names"


def test_gaps_are_not_covered(page_of, start_server):
    server = start_server()
    for at in (900, 300):
        fill(server, "gaps", SHOP, at=int(time.time()) - at)
    fill(server, "gaps", SHOP, "device=b", at=int(time.time()) - 305)
    profile = server.get("/api/profile", service="gaps")[1]
    assert 24 <= profile["covered"] <= 26 and profile["to"] - profile["from"] > 600, "two stretches, one of two devices"
    page = page_of(server)
    page.open({"service": "gaps"})
    figures = page.text("figures").split("\n")
    assert figures[figures.index("data covers") - 1] in ("24 s", "25 s", "26 s"), figures


def test_svg_has_the_colours_of_the_page(page_of, start_server, cli, folder):
    server = start_server()
    body = message(1, 0, origin("colours"), [module(4096, 4096, 0, b"", "/usr/lib/libz.so.1"), module(8192, 4096, 0, b"", "/opt/lib.so.d/app")],
                   nodes([0, 1], [8292, 4100]), [profile({2: 100})], unix_minus_uptime=(NOW - 60) * 10**9)
    assert server.push(body) == 200
    page = page_of(server)
    page.open({"service": "colours"})
    shown = dict(page.js(f"{FRAMES}.map((f) => [f.name, f.fill])"))
    path = os.path.join(folder, "colours.svg")
    assert cli.run("flame", "--db", server.db, "-o", path).returncode == 0
    with open(path) as file:
        drawn = dict(re.findall(r"<title>(.*?) [0-9.]+%</title><rect [^>]*fill=\"(.*?)\"", file.read()))
    numbers = lambda fills: {name: re.findall(r"[0-9]+", fill) for name, fill in fills.items()}
    assert numbers(drawn) == numbers(shown) and len(drawn) == 3, (drawn, shown)


def test_history(page):
    page.open({"service": "versions"})
    page.choose("range", "15m")
    page.choose("filter-text", 'version="2"')
    page.after(lambda: page.js("history.back()"))
    assert [page.address("filter"), page.js("document.getElementById('filter-text').value")] == ["", ""], "back takes the filter away"
    assert "6.00 s" in page.text("figures"), "and shows what was there"
    page.after(lambda: page.js("history.back()"))
    assert page.js("document.getElementById('range').value") == "1h", "back once more"
    page.after(lambda: page.js("history.forward()"))
    page.after(lambda: page.js("history.forward()"))
    assert "1.40 s" in page.text("figures") and page.address("filter") == 'version="2"', "forward twice"


def test_keyboard(page):
    page.open({"service": "shop"})
    page.js("document.activeElement.blur()")
    page.key("?")
    assert page.js("document.getElementById('keys').open"), "? lists the keys"
    listed = page.js("[...document.querySelectorAll('#keys kbd')].map((k) => k.textContent)")
    assert {"1", "5", "/", "F", "T", "R", "L", "D", "Enter"} <= set(listed), f"keys that are listed: {listed}"
    page.shot("keys")
    page.key("Escape")
    assert not page.js("document.getElementById('keys').open"), "Escape closes the list"
    page.key("/")
    assert page.js("document.activeElement.id") == "search", "/ goes to the search"
    page.key("r")
    assert page.js("document.activeElement.id") == "search", "letters are text there"
    page.key("Escape")
    page.key("f")
    assert page.js("document.activeElement.id") == "filter-text", "F goes to the filter"
    page.key("Escape")
    page.key("t")
    assert page.js("document.activeElement.dataset.edge") == "from", "T goes to the timeline"
    page.key("g")
    assert page.js("document.activeElement.id") == "chart", "G goes to the flame graph"
    page.after(lambda: page.key("r"))
    for number, view in enumerate(("start", "flame", "diff", "span", "devices", "crashes", "incidents", "verdict", "leaks"), 1):
        page.after(lambda: page.key(str(number)))
        assert page.js("document.querySelector('#views [aria-current]').dataset.view") == view, f"{number} is a view"
    before = page.js("getComputedStyle(document.body).backgroundColor")
    page.key("d")
    dark = page.js("getComputedStyle(document.body).backgroundColor")
    page.key("d")
    assert page.js("getComputedStyle(document.body).backgroundColor") != dark and page.text("theme") == "Light", "D is dark, then light"
    page.open({"service": "shop"})
    assert page.js("document.documentElement.dataset.theme") == "light", "the choice is kept"
    page.key("d")
    assert page.js("getComputedStyle(document.body).backgroundColor") == before, "and as the system is again"


def test_live(page):
    fill(page.server, "live", SHOP)
    page.open({"service": "live"})
    page.click("#live", refreshes=True)
    assert page.address("live") == "1", "live is in the address"
    fill(page.server, "live", {("Program.Main", "Came.Later"): 2_000_000_000})
    page.wait(f"{TEXTS}.includes('Came.Later')", 30)
    page.click("#live", refreshes=True)
    assert not page.js("document.getElementById('live').checked") and page.address("live") == "", "live is off again"


def test_server_away(page_of, start_server):
    """What is shown when the server does not answer, and when it is there again."""
    server = start_server()
    fill(server, "shop", SHOP)
    page = page_of(server)
    page.expected = ["net::ERR_"]  # the browser's own words on the connection
    page.open({"service": "shop"})
    assert server.stop() == 0, "the server has ended"
    page.after(lambda: page.click("#refresh"))
    assert "cannot be reached" in page.text("problem") and "edgeprof serve" in page.text("problem"), f"unreachable: {page.text('problem')}"
    assert len(page.js(ROWS)) == 6, "what was shown stays"
    start_server("--listen", f"127.0.0.1:{server.port}")
    page.after(lambda: page.click("#refresh"))
    assert page.hidden("problem"), "and it goes on"


def test_alone(page, edgeprof, folder):
    """The file that `edgeprof flame` writes needs no server."""
    out = os.path.join(folder, "flame.html")
    subprocess.run([edgeprof, "flame", "--url", page.server.url, "--service", "shop", "-o", out], check=True)
    page.browser.go("file://" + out)
    page.wait(f"{TEXTS}.includes('Orders.Pricing.Round')")
    page.wait(f"({ROWS}).includes('Orders.Pricing.Round')")  # the table in the file
    page.type_into("search", "pricing")
    assert "Found in" in page.text("detail"), "search in the file"
    page.shot("file")
