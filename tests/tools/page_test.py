"""The page in headless Chromium, and the page that `edgeprof flame` writes. Usage: page_test.py EDGEPROF [FOLDER]
With FOLDER, screenshots are left there to be looked at."""
import json
import os
import subprocess
import sys
import tempfile
import time

from browser import Browser
from generate import context, data, message, module, nodes, number, origin, profile, stats, tag_set, varint
from generate import nested
from harness import Checks, Server

PROGRAM = os.path.abspath(sys.argv[1])
SHOTS = sys.argv[2] if len(sys.argv) > 2 else None
EVIL = "<img src=x onerror=\"window.injected=1\"><script>window.injected=1</script>"
check = Checks()


def pprof(stacks, kind="cpu"):
    """{("root", ..., "leaf"): nanoseconds} with names."""
    names = sorted({name for stack in stacks for name in stack})
    strings = ["", kind, "nanoseconds", *names]
    ident = {name: i + 1 for i, name in enumerate(names)}
    samples = [data(1, b"".join(varint(ident[name]) for name in reversed(stack))) + data(2, varint(value))
               for stack, value in stacks.items()]
    return (nested(1, number(1, 1) + number(2, 2)) + b"".join(nested(2, sample) for sample in samples) +
            b"".join(nested(4, number(1, i) + nested(4, number(1, i) + number(2, 7))) for i in ident.values()) +
            b"".join(nested(5, number(1, i) + number(2, strings.index(name))) for name, i in ident.items()) +
            b"".join(varint(6 << 3 | 2) + varint(len(text.encode())) + text.encode() for text in strings))


def fill(server, service, stacks, tags="", ago=60):
    now = int(time.time())
    status = server.request("POST", f"/ingest?name={service}%7B{tags}%7D&from={now - ago}&until={now - ago + 10}", pprof(stacks))[0]
    check.equal(status, 200, f"profile of {service}")


MAIN = ("Program.Main", "Orders.Worker.ExecuteAsync(async)")
SHOP = {
    (*MAIN, "Orders.Pricing.Calculate(async)", "Orders.Pricing.Round"): 3_000_000_000,
    (*MAIN, "Orders.Pricing.Calculate(async)"): 500_000_000,
    (*MAIN, "System.Text.Json.JsonSerializer.Serialize<__Canon>"): 1_000_000_000,
    ("Program.Main", "[thread exit]"): 100_000_000,
}
FRAMES = "[...document.querySelectorAll('#chart .frame')]"
TEXTS = f"{FRAMES}.map((g) => g.querySelector('div').textContent)"
ROWS = "[...document.querySelectorAll('#top tbody tr')].map((row) => row.querySelector('td.name button').textContent)"
READY = "!!document.body && !!document.body.dataset.ready"


def type_into(browser, ident, text):
    browser.js(f"(() => {{ const e = document.getElementById({json.dumps(ident)}); e.value = {json.dumps(text)};"
               " e.dispatchEvent(new Event('input', {bubbles: true})); })()")


def choose(browser, ident, value):
    before = browser.js("document.body.dataset.ready")
    browser.js(f"(() => {{ const e = document.getElementById({json.dumps(ident)}); e.value = {json.dumps(value)};"
               " e.dispatchEvent(new Event('change', {bubbles: true})); })()")
    browser.wait(f"document.body.dataset.ready !== {json.dumps(before)}")


def shot(browser, name):
    if SHOTS:
        browser.screenshot(os.path.join(SHOTS, name + ".png"))


def no_overflow(browser, what):
    width, inner = browser.js("[document.documentElement.scrollWidth, innerWidth]")
    check(width <= inner, f"{what}: {width} pixels in a window of {inner}")


def empty(browser, server):
    browser.go(server.url + "/")
    browser.wait(READY)
    text = browser.js("document.getElementById('empty').innerText")
    check("No profiles yet" in text and "edgeprof run" in text and server.url in text, f"empty state: {text}")
    check(browser.js("document.getElementById('data').hidden"), "nothing else is shown")
    shot(browser, "empty")


def shown(browser, server):
    browser.go(f"{server.url}/#service=shop")
    browser.wait(f"{TEXTS}.includes('Orders.Pricing.Round')")
    check.equal(browser.js(ROWS)[0], "Orders.Pricing.Round", "first function of the table")
    check.equal(len(browser.js(ROWS)), 6, "functions of the table")
    figures = browser.js("document.getElementById('figures').innerText")
    check("4.60 s" in figures and "CPU time" in figures, f"figures: {figures}")
    check.equal(browser.js("document.getElementById('service').value"), "shop", "service that is chosen")
    shot(browser, "page-1280")


def search(browser):
    type_into(browser, "search", "PRICING")
    marked = browser.js(f"{FRAMES}.filter((g) => g.querySelector('rect').getAttribute('fill') === 'var(--mark)')"
                        ".map((g) => g.querySelector('div').textContent)")
    check.equal(sorted(marked), ["Orders.Pricing.Calculate(async)", "Orders.Pricing.Round"], "frames that are found")
    check("2 frames, 76.09 %" in browser.js("document.getElementById('detail').textContent"), "what was found is said")
    shot(browser, "search")
    type_into(browser, "search", "[nothing like that(")
    check("Not found" in browser.js("document.getElementById('detail').textContent"), "nothing found, and no broken pattern")
    type_into(browser, "search", "")
    check.equal(browser.js(f"{FRAMES}.filter((g) => g.querySelector('rect').getAttribute('fill') === 'var(--mark)').length"), 0,
                "an empty search marks nothing")


def width_of(browser, name):
    return browser.js(f"(() => {{ const g = {FRAMES}.find((g) => g.querySelector('div').textContent === {json.dumps(name)});"
                      " return g ? Number(g.querySelector('rect').getAttribute('width')) : 0; })()")


def zoom(browser):
    whole, part = width_of(browser, "Program.Main"), width_of(browser, "Orders.Pricing.Round")
    check(0 < part < 0.7 * whole, f"a part is narrower: {part} of {whole}")
    check(browser.js("document.getElementById('reset').disabled"), "there is nothing to reset")
    browser.js(f"{FRAMES}.find((g) => g.querySelector('div').textContent === 'Orders.Pricing.Round')"
               ".dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    browser.wait(f"Math.abs(({FRAMES}.find((g) => g.querySelector('div').textContent === 'Orders.Pricing.Round')"
                 f"?.querySelector('rect').getAttribute('width') ?? 0) - {whole}) < 2")
    check("3.00 s, 65.22 %" in browser.js("document.getElementById('detail').textContent"), "the frame's figures are said")
    shot(browser, "zoom")
    browser.js("document.getElementById('reset').click()")
    browser.wait(f"Math.abs(({FRAMES}.find((g) => g.querySelector('div').textContent === 'Orders.Pricing.Round')"
                 f"?.querySelector('rect').getAttribute('width') ?? 0) - {part}) < 2")
    check(True, "zoom and reset")


def table(browser):
    heading = "[...document.querySelectorAll('#top th button')]"
    browser.js(f"{heading}.find((b) => b.textContent.startsWith('function')).click()")
    rows = browser.js(ROWS)
    check.equal(rows, sorted(rows), "sorted by name")
    browser.js(f"{heading}.find((b) => b.textContent.startsWith('cum %')).click()")
    check.equal(browser.js(ROWS)[0], "Program.Main", "sorted by cum")
    browser.js(f"{heading}.find((b) => b.textContent.startsWith('cum %')).click()")
    check.equal(browser.js(ROWS)[-1], "Program.Main", "and the other way round")
    type_into(browser, "filter", "json")
    check.equal(browser.js(ROWS), ["System.Text.Json.JsonSerializer.Serialize<__Canon>"], "filtered")
    browser.js("document.querySelector('#top tbody td.name button').click()")
    check.equal(browser.js("document.getElementById('search').value"), "System.Text.Json.JsonSerializer.Serialize<__Canon>",
                "a function of the table is found in the graph")
    type_into(browser, "filter", "")
    type_into(browser, "search", "")


def tags(browser, server):
    fill(server, "shop", {("Program.Main", "Second.Version"): 1_400_000_000}, "version%3D2")
    browser.js("document.getElementById('refresh').click()")
    browser.wait(f"{TEXTS}.includes('Second.Version')")
    check("6.00 s" in browser.js("document.getElementById('figures').innerText"), "both versions together")
    chip = "[...document.querySelectorAll('.chip')].find((c) => c.textContent === '2')"
    browser.js(f"{chip}.click()")
    browser.wait(f"!{TEXTS}.includes('Orders.Pricing.Round')")
    check("1.40 s" in browser.js("document.getElementById('figures').innerText"), "one version")
    check.equal(browser.js(f"{chip}.getAttribute('aria-pressed')"), "true", "the tag is shown as chosen")
    check("tag=version%3D2" in browser.js("location.hash"), "the address has the tag")
    browser.js(f"{chip}.click()")
    browser.wait(f"{TEXTS}.includes('Orders.Pricing.Round')")


def times(browser, server):
    fill(server, "past", {("Old.Function",): 5_000_000_000}, ago=7200)
    choose(browser, "service", "shop")
    choose(browser, "service", "past")
    check("Nothing in this time" in browser.js("document.getElementById('empty').innerText"), "an hour is too short")
    choose(browser, "range", "all")
    browser.wait(f"{TEXTS}.includes('Old.Function')")
    choose(browser, "range", "1h")
    choose(browser, "service", "shop")
    browser.wait(f"{TEXTS}.includes('Program.Main')")


def kinds(browser, server):
    """Each kind with its own unit, and split by a label."""
    rows = [(1, 1, 3, 1 << 20), (1, 2, 5, 2 << 20)]
    body = message(77, 0, origin("kinds"), [module(4096, 4096, 0, b"", "[app]")], nodes([0], [4100]),
                   [profile(rows, kind=4, quantum=1), profile([(1, 0, 2, 3_000_000_000)], kind=3, quantum=1)],
                   unix_minus_uptime=time.time_ns() - 30 * 10**9, tag_sets=[tag_set(1, step="a"), tag_set(2, step=EVIL)],
                   contexts=[context(1), context(2)])
    check.equal(server.push(body), 200, "message with kinds")
    browser.js("document.getElementById('refresh').click()")
    browser.wait("[...document.getElementById('service').options].some((o) => o.value === 'kinds')")
    choose(browser, "service", "kinds")
    figures = "document.getElementById('figures').innerText"
    for kind, wanted in (("alloc", "3.00 MiB"), ("alloc:count", "Allocation, objects"), ("lock", "3.00 s"), ("alloc", "3.00 MiB")):
        choose(browser, "kind", kind)
        check(wanted in browser.js(figures), f"{kind}: {browser.js(figures)}")
    choose(browser, "group", "step")
    check({"step=a", f"step={EVIL}"} <= set(browser.js(TEXTS)), f"split by a label: {browser.js(TEXTS)}")
    choose(browser, "group", "")
    browser.js("[...document.querySelectorAll('#labels .chip')].find((c) => c.textContent === 'a').click()")
    browser.wait(f"{figures}.includes('1.00 MiB')")
    shot(browser, "kinds")
    browser.js("[...document.querySelectorAll('#labels .chip')].find((c) => c.textContent === 'a').click()")
    browser.wait(f"{figures}.includes('3.00 MiB')")
    choose(browser, "service", "shop")


def live(browser, server):
    browser.js("document.getElementById('live').click()")
    fill(server, "shop", {("Program.Main", "Came.Later"): 2_000_000_000})
    browser.wait(f"{TEXTS}.includes('Came.Later')", 30)
    browser.js("document.getElementById('live').click()")
    check(not browser.js("document.getElementById('live').checked"), "live is off again")


def hostile_names(browser, server):
    fill(server, "hostile", {("Program.Main", EVIL): 2_000_000_000}, "k%3D%3Cb%3Ex")
    body = message(1, 0, origin(EVIL, [(EVIL, EVIL)], host=EVIL, executable=EVIL, agent=EVIL),
                   [module(4096, 4096, 0, b"", "/x/" + EVIL)], nodes([0], [4100]), [profile({1: 100}, start=10**9)],
                   stats(10, 9, 1, 0, [(0, 3, 5)]), unix_minus_uptime=time.time_ns() - 30 * 10**9)
    check.equal(server.push(body), 200, "hostile message")
    for service in ("hostile", EVIL):
        browser.go("about:blank")
        browser.go(server.url + "/")
        browser.wait(READY)
        choose(browser, "service", service)
        browser.wait(f"{TEXTS}.some((text) => text.includes('<img src=x') || text.endsWith('+0x4'))")
        browser.js("document.getElementById('processes').open = true")
        check(EVIL.split("\"")[0] in browser.js("document.body.innerText"), "names are shown as they are")
    check("3 ring full" in browser.js("document.getElementById('process-list').innerText"), "losses by reason")
    check.equal(browser.js("window.injected === undefined && document.querySelectorAll('main img, body script').length"), 0,
                "names are not markup")
    shot(browser, "hostile")


def narrow(browser, server):
    browser.resize(400, 800)
    for part in ("#service=shop", "#service=hostile&range=all", "#service=past"):
        browser.go("about:blank")
        browser.go(server.url + "/" + part)
        browser.wait(READY)
        time.sleep(0.3)
        no_overflow(browser, f"400 pixels, {part}")
    browser.go("about:blank")
    browser.go(server.url + "/#service=shop")
    browser.wait(f"{TEXTS}.includes('Program.Main')")
    shot(browser, "page-400")
    browser.resize(1280, 900)


def alone(browser, server, folder):
    """The file that `edgeprof flame` writes needs no server."""
    out = os.path.join(folder, "flame.html")
    subprocess.run([PROGRAM, "flame", "--url", server.url, "--service", "shop", "-o", out], check=True)
    browser.go("file://" + out)
    browser.wait(f"{TEXTS}.includes('Orders.Pricing.Round')")
    check("Orders.Pricing.Round" in browser.js(ROWS), "table in the file")
    type_into(browser, "search", "pricing")
    check("Found in" in browser.js("document.getElementById('detail').textContent"), "search in the file")
    shot(browser, "file")


def main():
    with tempfile.TemporaryDirectory(prefix="edgeprof-test-") as folder, Browser() as browser:
        server = Server(PROGRAM, os.path.join(folder, "page.db"))
        empty(browser, server)
        fill(server, "shop", SHOP, "version%3D1")
        shown(browser, server)
        no_overflow(browser, "1280 pixels")
        search(browser)
        zoom(browser)
        table(browser)
        tags(browser, server)
        times(browser, server)
        kinds(browser, server)
        live(browser, server)
        hostile_names(browser, server)
        narrow(browser, server)
        alone(browser, server, folder)
        check.equal(browser.problems, [], "nothing red in the browser's console")
        server.stop()
        lines = server.stderr().splitlines()
        check(len(lines) == 1 and "no symbol file found" in lines[0], f"standard error of the server: {lines}")
    check.done("test-tools-page")


main()
