"""The flame graph of the page: search, menu, tooltip, orders, colours, files, and a hundred thousand frames."""
import gzip
import json
import re
import time

import pytest

from generate import message, module, nodes, origin, profile
from page_kit import BIG_GRAPH, FRAMES, MAIN, SHOP, TEXTS, fill

NOW = 0  # set by conftest.py when the first test begins
ROUND, CALCULATE, JSON = "Orders.Pricing.Round", "Orders.Pricing.Calculate(async)", "System.Text.Json.JsonSerializer.Serialize<__Canon>"
MENU = "[...document.querySelectorAll('.menu [role=menuitem]')].map((i) => i.textContent)"
RECURSIVE = {("main", "f", "g", "f", "h"): 1, ("main", "f", "h"): 2, ("main", "f"): 4, ("other", "f", "g"): 8, ("other", "h"): 16}


@pytest.fixture(scope="module")
def server(shared_server):
    fill(shared_server, "shop", SHOP)
    fill(shared_server, "calls", {stack: value * 10**9 for stack, value in RECURSIVE.items()})
    return shared_server


def names(page):
    return sorted(page.js(TEXTS))


def chosen(page, text):
    page.js(f"[...document.querySelectorAll('.menu [role=menuitem]')].find((i) => i.textContent.startsWith({json.dumps(text)})).click()")


def values(page):
    """{path: value in seconds} of the tree as it is arranged."""
    return page.js("Object.fromEntries(document.getElementById('chart').graph.layout.rows.flat().map((n) => { const path = []; for (let a = n; a; a = a.parent) path.unshift(a.data.name);"
                   " return [path.join(' '), n.data.value / 1e9]; }))")


def test_tooltip(page):
    page.open({"service": "shop"})
    page.mouse("mouseMoved", *page.frame_at(ROUND))
    tip = page.js("document.querySelector('.tip').innerText")
    assert ROUND in tip and "with callees\t3.00 s\t65.2 % of all\t85.7 % of its caller" in tip and "itself\t3.00 s" in tip, tip
    page.shot("tooltip")
    page.mouse("mouseMoved", 5, 5)
    assert page.js("document.querySelector('.tip').hidden")


def test_samples_in_the_tooltip(page_of, start_server):
    """As many as there were, in the graph as it came and inverted."""
    server = start_server()
    body = message(1, 0, origin("counted"), [module(4096, 4096, 0, b"", "/opt/app")], nodes([0, 1, 2], [4100, 4200, 4300]), [profile({1: 2, 2: 7, 3: 4})],
                   unix_minus_uptime=(NOW - 60) * 10**9)
    assert server.push(body) == 200
    page = page_of(server)

    def samples(name):
        page.mouse("mouseMoved", 5, 5)
        page.mouse("mouseMoved", *page.frame_at(name))
        return re.search(r"samples\t(\d+)", page.js("document.querySelector('.tip').innerText")).group(1)
    page.open({"service": "counted"})
    assert [samples("app+0x4"), samples("app+0x68")] == ["13", "7"]
    page.open({"service": "counted", "order": "inverted"})
    assert [samples("app+0x68"), samples("app+0x4")] == ["7", "2"]


def test_regular_expressions(page):
    page.open({"service": "shop"})
    page.type_into("search", "^orders.*(round|async\\))$")
    assert "Not found" in page.text("detail"), "text at first"
    page.click("#regex")
    assert "3 frames, 97.8 %" in page.text("detail") and page.address("regex") == "1", "a frame within another counts once"
    page.type_into("search", "(")
    assert page.js("!document.getElementById('search').checkValidity()") and "no regular expression" in page.text("detail")
    page.open({"service": "shop", "regex": 1, "search": "^Orders"})
    page.js("document.getElementById('search').focus()")
    seen = []
    for _ in range(4):
        page.key("Enter")
        seen.append(page.js(f"{FRAMES}.find((f) => f.current).name"))
    assert seen == [MAIN[1], CALCULATE, ROUND, MAIN[1]] and page.text("detail").startswith("1 of 3"), seen
    page.click("#previous")
    assert page.js(f"{FRAMES}.find((f) => f.current).name") == ROUND


def test_menu(page):
    page.open({"service": "shop"})
    page.click_frame(CALCULATE, button="right")
    assert [item.split(":")[0] for item in page.js(MENU)] == ["Zoom to this frame", "Callers and callees", "Focus", "Hide this function", "Collapse its recursion",
                                                             "Highlight all its frames", "Copy name", "Copy stack"]
    page.shot("menu")
    chosen(page, "Hide")
    assert CALCULATE not in names(page) and values(page)[f"all {MAIN[0]} {MAIN[1]} {ROUND}"] == 3.0 and json.loads(page.address("changes")) == [["hide", CALCULATE]]
    page.click_frame(JSON, button="right")
    chosen(page, "Focus")
    assert names(page) == sorted(["all", *MAIN, JSON]), "only stacks with it"
    changes = page.address("changes")
    page.click("#changes button:nth-child(2)")
    assert ROUND in names(page) and CALCULATE not in names(page), "one is undone"
    page.open({"service": "shop", "changes": changes})
    assert names(page) == sorted(["all", *MAIN, JSON]), "from a link"


def test_menu_by_keyboard(page):
    page.open({"service": "shop"})
    page.js("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }; document.getElementById('chart').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "m"):
        page.key(key)
    assert page.js("document.activeElement.textContent") == "Zoom to this frame", "the menu has the focus"
    page.key("End")
    page.key("Enter")
    page.wait(f"window.copied === {json.dumps(chr(10).join(reversed(MAIN)))}")
    assert page.js("document.activeElement.id") == "chart" and page.js("!document.querySelector('.menu')"), "and gives it back"
    page.key("m")
    page.key("Escape")
    assert page.js("!document.querySelector('.menu') && document.activeElement.id") == "chart"


def test_recursion_and_inverted(page):
    page.open({"service": "calls", "changes": json.dumps([["recursion", "f"]])})
    assert values(page)["all main f h"] == 3 and "all main f g" not in values(page), "what the inner call did is the outer one's"
    page.open({"service": "calls"})
    page.click("#inverted")
    found = values(page)
    assert [found[f"all {path}"] for path in ("h", "h f main", "h f g f main", "g f other", "f main")] == [19, 2, 1, 8, 4], found
    assert page.address("order") == "inverted" and found["all"] == 31
    page.click("#inverted")
    order = lambda: page.js(f"{FRAMES}.filter((f) => f.depth === 1).sort((a, b) => a.x - b.x).map((f) => f.name)")
    assert order() == ["other", "main"], "the largest is on the left"
    page.click("#by-name")
    assert order() == ["main", "other"] and page.address("order") == "name"


def test_meaning_of_special_frames(page):
    page.open({"service": "shop"})
    page.js("[...document.querySelectorAll('#top .quiet')].find((b) => b.textContent === 'what is this?').click()")
    assert "Residual CPU time" in page.js("document.querySelector('dialog.meaning').innerText") and "EDGEPROF_RATE" in page.js("document.querySelector('dialog.meaning').innerText")
    page.key("Escape")
    page.wait("!document.querySelector('dialog.meaning')", 30)
    page.click_frame("[thread exit]", button="right")
    assert page.js(MENU)[0] == "What [thread exit] means"
    page.key("Escape")
    known = page.js("import('./page.js').then(({ meaningOf }) => ['[unsampled]', '[edgeprof]', '[deeper frames]', '[stack cut]', '[gap]', '[lost: ring full]', '[gc gen2]', '[lock]']"
                    ".filter((name) => !(meaningOf(name)?.text.length > 5) || /[`\\]]\\(/.test(meaningOf(name).text)))")
    assert known == [], f"frames of docs/frames.md without a text: {known}"


def test_modules_without_symbols(page, start_server, page_of):
    server = start_server()
    body = message(1, 0, origin("bare"), [module(4096, 4096, 0, b"\x12\x34" * 10, "/opt/app"), module(8192, 4096, 0, b"", "/opt/libx.so")], nodes([0, 1], [4100, 8300]),
                   [profile({1: 30, 2: 70})], unix_minus_uptime=(int(time.time()) - 60) * 10**9)
    assert server.push(body) == 200
    assert server.get("/api/profile", service="bare")[1]["unnamed"] == [{"module": "libx.so", "build_id": "", "self": 700_000_000}, {"module": "app", "build_id": "1234" * 10, "self": 300_000_000}]
    bare = page_of(server)
    bare.open({"service": "bare"})
    bare.wait("!!document.getElementById('unnamed')")
    bare.js("document.getElementById('unnamed').open = true")
    text = bare.text("unnamed")
    assert "2 modules lack symbols: 100 %" in text and "1234" * 10 in text and f"edgeprof symbols add --url {server.url} FILE" in text, text
    page.open({"service": "shop"})
    assert page.js("!document.getElementById('unnamed')"), "every function has a name"


def test_colours(page):
    page.open({"service": "shop"})
    waits = [["special", 5], ["own", 0]]  # each colour, also where no frame of it has a value of its own
    assert page.js("""import('./page.js').then(({ legendOf, COLORINGS }) => legendOf([[{ data: { name: 'all' } }], [{ data: { name: 'main', self: 0 }, parent: {} }],
      [{ data: { name: '[wait]', self: 5 }, parent: {} }]], COLORINGS.code))""") == waits
    assert page.text("colors-legend").split("\n")[0].startswith("own code 76.1 %") and ".NET itself 21.7 %" in page.text("colors-legend")
    fills = page.js(f"{FRAMES}.map((f) => f.fill)")
    page.type_into("colors", "module", "change")
    assert page.address("colors") == "module" and page.js(f"{FRAMES}.map((f) => f.fill)") != fills
    page.open({"service": "shop", "colors": "module"})
    assert page.js("document.getElementById('colors').value") == "module", "from a link"


def test_files(page):
    page.open({"service": "shop", "search": "Round"})
    page.js("const make = URL.createObjectURL; URL.createObjectURL = (blob) => { window.saved = blob; return make.call(URL, blob); }; document.getElementById('export').click()")
    assert [item.split(":")[0] for item in page.js(MENU)] == ["SVG", "pprof", "speedscope", "HTML"]
    hrefs = page.js("[...document.querySelectorAll('.menu a')].map((a) => a.getAttribute('href'))")
    chosen(page, "SVG")
    svg = page.js("window.saved.text()")
    shown = {frame["name"]: frame["fill"] for frame in page.js(FRAMES) if not frame["marked"]}
    for name, fill_of in shown.items():
        assert f"<title>{name.replace('<', '&lt;').replace('>', '&gt;')}: " in svg and f'fill="{fill_of}"' in svg, f"{name} has the page's colour"
    bodies = [page.server.request("GET", f"/{href}")[1] for href in hrefs]
    assert ROUND.encode() in gzip.decompress(bodies[0]) and json.loads(bodies[1])["profiles"][0]["weights"] and b"edgeprof-profile" in bodies[2]
    assert page.server.request("GET", "/api/export?service=shop&format=nope")[0] == 400
    page.js("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    page.click("#link")
    page.wait("!!window.copied")
    link = page.js("window.copied")
    page.open(link[link.index("#"):])
    assert page.address("range") == "custom" and float(page.address("to")) > float(page.address("from")) + 3590 and ROUND in names(page), link


EARLY = """(async () => {
  const { FlameGraph } = await import('./page.js');
  const place = document.createElement('div');
  document.getElementById('main').prepend(place);
  const told = [];
  const graph = new FlameGraph(place, { id: 'early', title: 'Early', describe: (node) => node.data.name, onChange: (patch) => told.push(patch) });
  graph.search.value = 'main';
  graph.search.dispatchEvent(new Event('input'));
  graph.regex.click();
  graph.colors.value = 'module';
  graph.colors.dispatchEvent(new Event('change'));
  graph.show({ name: 'all', value: 3, self: 0, children: [{ name: 'main', value: 2, self: 2 }, { name: 'other', value: 1, self: 1 }] });
  const marked = graph.frames().filter((frame) => frame.marked).map((frame) => frame.name);
  place.remove();
  return { told, marked };
})()"""


def test_search_before_the_profile(page):
    """What is typed while the profile still loads is searched as soon as it is there, and is in the address."""
    page.open({"service": "shop"})
    assert page.js(EARLY) == {"told": [{"search": "main"}, {"regex": "1"}, {"colors": "module"}], "marked": ["main"]}


def test_search_during_a_refresh(page):
    """The answer that comes then leaves what was typed and zoomed meanwhile."""
    page.open({"service": "shop"})
    page.js("const real = window.fetch; window.fetch = async (path) => { if (path.startsWith('api/profile')) await new Promise((done) => { window.release = done; }); return real(path); }; true")
    page.key("r")
    page.wait("!!window.release")
    page.type_into("search", "round")
    page.click_frame(MAIN[1])
    page.after(lambda: page.js("window.release()"))
    assert page.js("document.getElementById('search').value") == page.address("search") == "round"
    assert page.js(f"{FRAMES}.filter((f) => f.marked).map((f) => f.name)") == [ROUND]
    assert page.address("zoom") == f"2:{MAIN[1]}" and not page.js("document.getElementById('reset').disabled")


COUNTS = """(async () => {
  const { place, graph } = await makeBig();
  const frames = graph.layout.rows.reduce((sum, row) => sum + row.length, 0);
  const counts = [];
  for (let i = 0; i < 40; i++) {
    const width = 0.8 ** i;
    graph.zoomView({ x0: 0.4 * (1 - width), x1: 0.4 * (1 - width) + width });
    counts.push([graph.canvas.painted.length, graph.canvas.visited, Math.ceil(graph.canvas.canvas.clientHeight / 20 + 1) * graph.width]);
  }
  place.remove();
  return { frames, counts };
})()"""


def test_a_hundred_thousand_frames(page):
    """A repaint draws what fits on the screen, and looks at no other frame."""
    page.open({"service": "shop"})
    found = page.js(f"{BIG_GRAPH}, {COUNTS}")
    assert found["frames"] >= 100_000, found["frames"]
    assert all(visited == painted <= room / 2 for painted, visited, room in found["counts"]), found["counts"]
    assert max(painted for painted, *_ in found["counts"]) < 7_000, found["counts"]
