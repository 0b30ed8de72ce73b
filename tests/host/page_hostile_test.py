"""The page shows hostile names as text and is usable without a mouse, on small screens and in the dark.

The page with hostile names, for people who cannot see well or use no mouse, on small screens and in the dark.
build/*/tests/tools/shots gets a picture of each view, wide and narrow, light and dark."""
import json
import os
import pathlib
import time
import urllib.parse

import pytest

from generate import (context, crash, data, function_of, message, module, nested, nodes, number, origin, pprof_profile, profile, push_request,
                      stats, tag_set, timeline, varint)
from harness import Server
from page_kit import EVIL, MAIN, SHOP, TEXTS, fill

pytestmark = pytest.mark.all

NOW = 0  # set by conftest.py when the first test begins
SEEN = EVIL.replace("\n", "?")  # a line is a line: control characters are not kept

# Text whose contrast with what is behind it is below 4.5, but for what cannot be used.
CONTRAST = """(() => {
  const context = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const parts = (color) => { context.clearRect(0, 0, 1, 1); context.fillStyle = color; context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data]; };
  const light = (color) => { const [r, g, b] = color.map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const bar = parts(getComputedStyle(document.documentElement).getPropertyValue('--bar') ? (() => { const probe = document.createElement('i');
    probe.className = 'probe'; document.body.append(probe); probe.style.color = 'var(--bar)'; const color = getComputedStyle(probe).color; probe.remove(); return color; })() : 'white');
  const grounds = (element) => {
    const found = [];
    for (let at = element; at; at = at.parentElement) {
      if (at.matches('td.share')) found.push(bar);
      const color = parts(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return [...found, color];
    }
    return [...found, [255, 255, 255, 255]];
  };
  const bad = [];
  let seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility({visibilityProperty: true}) || element.closest(':disabled, option, noscript, script, .skip')) continue;
    const style = getComputedStyle(element);
    const color = parts(element instanceof SVGElement ? style.fill : style.color);
    seen++;
    for (const ground of grounds(element)) {
      if (ratio(color, ground) < 4.5) bad.push([node.data.trim().slice(0, 40), element.className.baseVal ?? element.className, ratio(color, ground).toFixed(2)]);
    }
  }
  return {seen, bad};
})()"""

AXE = pathlib.Path(__file__).parents[2] / "tools/web/node_modules/axe-core/axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def axe_violations(page):
    """What axe-core finds: roles, names, contrast, order of headings, regions that the keyboard cannot reach."""
    page.js(AXE.read_text() + "; true")
    return page.js(f"axe.run(document, {{runOnly: {json.dumps(RULES)}}}).then((r) => r.violations.flatMap((v) => v.nodes.map((n) => [v.id, n.html.slice(0, 120), n.any[0]?.message ?? ''])))")


def versions_fill(server, service, versions, function):
    """Three devices with each version; the later ones use more in the function."""
    for i, version in enumerate(versions):
        for device in range(3):
            strings = ["", "cpu", "nanoseconds", "main", function]
            samples = [data(1, varint(1)) + data(2, varint(3_000_000_000 + device)), data(1, varint(2) + varint(1)) + data(2, varint(10**9 * (1 + i) + device))]
            body = pprof_profile([text.encode() for text in strings], samples, ((1, 2),), [nested(4, number(1, k) + nested(4, number(1, k))) for k in (1, 2)],
                                 [function_of(1, 3), function_of(2, 4)], number(9, (NOW - 9000 + 3000 * i) * 10**9) + number(10, 600 * 10**9))
            labels = [("__name__", "process_cpu"), ("service_name", service), ("version", version), ("device", f"d{device}")]
            status, answer = server.request("POST", "/push.v1.PusherService/Push", push_request([labels], body), {"Content-Type": "application/proto"})
            assert status == 200, answer


def heap_fill(server, service, kind, hours=12):
    """A live heap of one process that grows by 1 MB an hour."""
    for hour in range(hours):
        at = NOW // 3600 * 3600 - (hours - hour) * 3600 + 60
        text = f"main;Add;{kind} {5_000_000 + hour * 1_000_000}\nmain;Get;System.String {9_000_000 + hour * 7 % 5 * 100_000}\n"
        path = f"/ingest?name={urllib.parse.quote(service)}.inuse_space%7Bprocess=1%7D&format=groups&from={at}&until={at + 10}"
        assert server.request("POST", path, text.encode())[0] == 200


def hostile_fill(server):
    fill(server, "hostile", {("Program.Main", EVIL): 2_000_000_000, ("Program.Main", "other"): 1}, "k=\"" + "<b>x</b>" + "\"")
    body = message(1, 0, origin(EVIL, [(EVIL, EVIL), ("version", EVIL), ("device", EVIL)], host=EVIL, executable=EVIL, agent=EVIL, arch=EVIL),
                   [module(4096, 4096, 0, b"", "/x/" + EVIL)], nodes([0], [4100]), [profile([(1, 1, 0, 100), (1, 2, 0, 50)], start=10**9)],
                   stats(10, 9, 1, 0, [(0, 3, 5)]) + number(11, 5) + number(13, 4095), unix_minus_uptime=time.time_ns() - 30 * 10**9,
                   tag_sets=[tag_set(1, **{EVIL: EVIL, "step": EVIL}), tag_set(2, step="<i>")], contexts=[context(1, thread=EVIL), context(2)])
    assert server.push(body) == 200, "hostile message"
    told = json.dumps({"exception": {"type": EVIL, "message": EVIL}})
    body = message(2, 0, origin(EVIL, [(EVIL, EVIL), ("version", EVIL), ("device", EVIL)], host=EVIL), [module(4096, 4096, 0, b"", "/x/" + EVIL)],
                   nodes([0], [4100]), last=True, crash=crash([(1, EVIL, 1)], executable=EVIL, runtime=told))
    assert server.push(body) == 200, "hostile crash"
    versions_fill(server, "hostile", ("1", EVIL), EVIL)
    heap_fill(server, "hostile", EVIL.replace("\n", " ").replace(";", ":"))


@pytest.fixture(scope="module")
def server(shared_server):
    fill(shared_server, "shop", SHOP)
    hostile_fill(shared_server)
    return shared_server


def not_markup(page, what):
    assert page.js("window.injected === undefined && document.querySelectorAll('main img, main script, main b > img, main i > *').length") == 0, \
        f"{what}: names are not markup"
    assert page.violations() == [], f"{what}: nothing was tried that the policy forbids"


@pytest.mark.parametrize("view", ["start", "flame", "diff", "span", "devices", "crashes", "verdict", "leaks"])
def test_hostile_names(page, view):
    for service in ("hostile", SEEN):
        for more in ({}, {"group": "step", "fn": SEEN, "base": "same", "search": EVIL, "find": EVIL[:5]}):
            page.open({"service": service, "view": view, **more})
            page.js("for (const part of document.querySelectorAll('details')) part.open = true")
            not_markup(page, f"{service[:8]}, {view}, {sorted(more)}")


def test_hostile_names_are_shown(page):
    page.open({"service": SEEN})
    page.js("for (const part of document.querySelectorAll('details')) part.open = true")
    assert page.js("document.body.innerText").count(SEEN[:30]) > 5, "names are shown as they are"
    assert "3 ring full" in page.text("process-list"), "losses by reason"
    page.shot("hostile")
    page.open({"service": "hostile"})
    assert SEEN in page.js(TEXTS), "a function's name as it is"
    page.open({"service": SEEN, "view": "devices"})
    assert SEEN in page.js("document.querySelector('#devices').innerText"), "a device's name as it is"
    page.shot("hostile-devices")


def test_hostile_addresses(page):
    """What an address can say is text, or nothing."""
    page.expected = ["400 (Bad Request)"]
    keys = ("kind", "value", "filter", "group", "range", "from", "to", "at", "base", "basefilter", "fn", "span_id", "trace_id", "search",
            "zoom", "shape", "sort", "find", "chart", "live", "tag", "label")
    for view in ("start", "flame", "diff", "span", "devices", "crashes", "verdict", "leaks", EVIL, "__proto__"):
        for value in (EVIL, "__proto__"):
            page.open({"service": "shop", "view": view, **dict.fromkeys(keys, value)})
            not_markup(page, f"{view[:8]}, {value[:9]}")
    for key in ("at", "base", "from", "zoom", "service", "fn"):
        for value in ("1-0", "9" * 400):
            page.open({"service": "shop", "view": "diff", key: value})
            not_markup(page, f"{key}={value[:5]}")
    for text in ("#%", "#service=%ff&view=%", "?service=shop&service=shop#service=shop", "#" + "a" * 5000):
        page.open(text)
        not_markup(page, text[:20])


def test_many_values(page):
    """Five thousand values of a label, the most that a server takes: the page shows some and says how many more."""
    for part in range(5):
        contexts = [context(i + 1) for i in range(1000)]
        body = message(500 + part, 0, origin("many", pid=part + 1), [module(4096, 4096, 0, b"", "/x")], nodes([0], [4100]),
                       [profile([(1, i + 1, 0, 1 + i) for i in range(1000)])], unix_minus_uptime=time.time_ns() - 30 * 10**9,
                       tag_sets=[tag_set(i + 1, request=f"r{part * 1000 + i}") for i in range(1000)], contexts=contexts)
        assert page.server.push(body) == 200, "message with many values"
    page.open({"service": "many", "group": "request"})
    chips = page.js("document.querySelectorAll('#chips .chip').length")
    assert 0 < chips <= 40, f"{chips} values can be clicked"
    assert page.js("document.querySelectorAll('#legend .chip').length") == 9, "series of the timeline: eight and the others"
    assert "more" in page.js("document.getElementById('chips').textContent"), "that there are more is said"


# ---- layout and access ----

def scene_fill(server):
    for minute in range(0, 120, 3):
        for device in ("pi-1", "pi-2", "pi-3"):
            version = "1.4.1" if minute > 30 else "1.4.2"
            factor = 1.8 if version == "1.4.2" else 1 + (minute // 10 % 3) / 2
            stacks = {stack: int(value * factor / 30) for stack, value in SHOP.items()}
            stacks[(*MAIN, "System.Net.Sockets.Socket.Send", "libc.so.6!send")] = 60_000_000
            fill(server, "shop", stacks, f"version={version},device={device}", at=NOW - 60 * minute - 60)
    contexts = [context(1, 0x00f067aa0ba902b7 + i, (0x4bf92f3577b34da6, 0xa3ce929d0e0e4736)) for i in range(5)]
    for i in range(3):
        told = number(10, 340 + i) + (number(11, 41) + number(12, 167_000) if i == 2 else b"")
        body = message(77 + i, 0, origin("gateway", [("version", f"1.{i}")], host=f"gw-{i}", executable="gatewayd", agent="edgeprof/0.1.0", arch="aarch64"),
                       [module(4096, 4096, 0, b"", "/opt/app")], nodes([0], [4100]),
                       [profile([(1, 1 + k, 3, (k + 1) << 20) for k in range(5)], kind=4, quantum=1),
                        profile([(1, 1 + k, 0, 3_000_000 * (k + 1)) for k in range(5)], quantum=1)],
                       stats(1000, 990, 5, 5, [(0, 3, 5_000_000)] if i == 1 else []) + told, tag_sets=[tag_set(1, step="pricing")],
                       contexts=contexts, unix_minus_uptime=time.time_ns() - (40 + i * 100) * 10**9)
        assert server.push(body) == 200, "scene"
    for i in range(3):
        body = message(90 + i, 0, origin("gateway", [("version", f"1.{i}")], host=f"gw-{i}"), [module(4096, 4096, 0, b"", "/opt/app")],
                       nodes([0, 1], [4100, 4200 + i // 2]), last=True, crash=crash([(1, "worker", 2)], address=16, unix=time.time_ns()))
        assert server.push(body) == 200, "scene of crashes"
    long = "/opt/" + "a_name_without_a_space_" * 4
    body = message(95, 0, origin("gateway", host="gw-0"), [module(4096, 4096, 0, b"", long)], nodes([0], [4100]), last=True, unix_minus_uptime=time.time_ns() - 20 * 10**9,
                   timeline=timeline(95, [(10**10, 2, 0, 1, 3 * 10**8)], name="login", tid=100, time=10**10, value=3 * 10**8, limit=10**8))
    assert server.push(body) == 200, "scene of an incident"
    versions_fill(server, "sensor", ("2.0", "2.1"), "Sensor.Read")
    heap_fill(server, "sensor", "System.Byte[]")


@pytest.fixture(scope="module")
def scene_server(edgeprof, shared_folder):
    with Server(edgeprof, os.path.join(shared_folder, "scenes.db")) as server:
        scene_fill(server)
        yield server


@pytest.fixture
def scene_page(page_of, scene_server):
    page = page_of(scene_server)
    yield page
    page.look(1280, "light")


SCENES = {
    "start": {"view": "start"},
    "flame": {"service": "shop"},
    "split": {"service": "shop", "group": "device", "at": "{0}-{1}".format(*(int(time.time()) // 60 * 60 - ago for ago in (2400, 1200)))},
    "callers": {"service": "shop", "fn": "Orders.Pricing.Calculate(async)"},
    "diff": {"service": "shop", "view": "diff", "range": "1d", "base": "same", "filter": 'version="1.4.2"', "basefilter": 'version="1.4.1"'},
    "spans": {"service": "gateway", "view": "span"},
    "span": {"span_id": "00f067aa0ba902b8"},
    "devices": {"view": "devices"},
    "crashes": {"view": "crashes"},
    "incident": {"view": "incidents", "incident": f"{95:016x}"},
    "verdict": {"service": "sensor", "view": "verdict"},
    "leaks": {"service": "sensor", "view": "leaks"},
    "nothing": {"service": "shop", "filter": 'version="9"'},
}


# Hints of search fields and labels of axes that their place cuts off. Of a filter the hint is an example, and may be cut.
CUT = """(() => { const pen = document.createElement('canvas').getContext('2d');
  const width = (field) => { pen.font = getComputedStyle(field).font; return pen.measureText(field.placeholder).width; };
  const room = (field) => field.clientWidth - parseFloat(getComputedStyle(field).paddingLeft) - parseFloat(getComputedStyle(field).paddingRight);
  const fields = [...document.querySelectorAll('input[type="search"]')].filter((field) => field.clientWidth && width(field) > room(field)).map((field) => field.placeholder);
  const labels = [...document.querySelectorAll('svg text.tick')].filter((text) => { const box = text.getBoundingClientRect(), all = text.ownerSVGElement.getBoundingClientRect();
    return box.width && (box.left < all.left - 1 || box.right > all.right + 1); }).map((text) => text.textContent);
  return [...fields, ...labels]; })()"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", SCENES)
def test_scene(scene_page, name, width, theme):
    page = scene_page
    page.look(width, theme)
    page.open(SCENES[name])
    page.shot(f"{name}-{width}-{theme}")
    page.js("for (const part of document.querySelectorAll('details')) part.open = true")
    scroll, inner = page.js("[document.documentElement.scrollWidth, innerWidth]")
    assert scroll <= inner, f"{scroll} pixels wide"
    assert page.js(CUT) == []
    found = page.js(CONTRAST)
    assert found["seen"] > 15 and found["bad"] == [], f"contrast of {found['seen']} texts: {found['bad'][:6]}"
    assert axe_violations(page) == []


def test_focus_order(scene_page):
    """Tab goes through the page as it is read, and nothing is left out or visited twice."""
    page = scene_page
    page.open({"service": "shop"})
    page.js("document.activeElement.blur(); window.order = []; document.addEventListener('focusin', (e) => order.push(e.target))")
    for _ in range(40):
        page.key("Tab")
    found = page.js("({count: order.length, unlike: order.slice(1).filter((e, i) => !(order[i].compareDocumentPosition(e) & 4)).map((e) => e.outerHTML.slice(0, 80)),"
                    " first: order[0].id, ids: order.map((e) => e.id).filter(Boolean)})")
    assert [found["count"], found["unlike"], found["first"]] == [40, [], "skip"], "order of the focus"
    for ident in ("live", "theme", "help", "service", "filter-text", "range", "refresh", "search", "turn", "chart", "filter"):
        assert ident in found["ids"], f"{ident} can be reached by Tab: {found['ids']}"
    assert page.js("document.querySelectorAll('[tabindex]:not([tabindex=\"0\"]):not([tabindex=\"-1\"])').length === 0"), "nothing jumps the queue"
