"""What the tests of the page have in common: profiles with names, a page to act on, and figures as the page writes them."""
import json
import os
import time
import urllib.parse

from pprof import encode

FRAMES = "(document.getElementById('chart')?.graph.frames() ?? [])"  # what is painted on the canvas
TEXTS = f"{FRAMES}.map((frame) => frame.name)"
ROWS = "[...document.querySelectorAll('#top tbody tr')].map((row) => row.querySelector('td.name button').textContent)"
MAIN = ("Program.Main", "Orders.Worker.ExecuteAsync(async)")
SHOP = {
    (*MAIN, "Orders.Pricing.Calculate(async)", "Orders.Pricing.Round"): 3_000_000_000,
    (*MAIN, "Orders.Pricing.Calculate(async)"): 500_000_000,
    (*MAIN, "System.Text.Json.JsonSerializer.Serialize<__Canon>"): 1_000_000_000,
    ("Program.Main", "[thread exit]"): 100_000_000,
}
EVIL = "<img src=x onerror=\"window.injected=1\"><script>window.injected=1</script>'\\\"\n&amp;"

# Runs before anything of the page: what the policy forbids is noted.
WATCH = """if (!window.violations) {
  window.violations = [];
  document.addEventListener('securitypolicyviolation', (event) => violations.push(`${event.violatedDirective} ${event.blockedURI}`));
}"""

# window.makeBig(): a flame graph of 100,000 frames at the top of the page.
BIG_GRAPH = """window.makeBig = async () => {
  const { FlameGraph } = await import('./page.js');
  const place = document.createElement('div');
  document.getElementById('main').prepend(place);
  const graph = new FlameGraph(place, { id: 'big', title: 'Big', describe: (node) => node.data.name });
  let left = 100000;
  const grow = (depth, value, name) => {
    left--;
    const node = { name, value, self: 1, children: [] };
    for (let i = 0, rest = value - 1; i < 10 && depth < 60 && rest > 0 && left > 0; i++) {
      const part = Math.ceil(rest * (i % 3 ? 0.3 : 0.6));
      node.children.push(grow(depth + 1, part, `function ${(i * 7 + depth) % 97}`));
      rest -= part;
    }
    return node;
  };
  const tree = { name: 'all', value: 0, self: 0, children: [] };
  while (left > 0) { tree.children.push(grow(1, 3000, `root ${tree.children.length}`)); }
  tree.value = tree.children.reduce((sum, one) => sum + one.value, 0);
  graph.show(tree);
  return { place, graph };
}"""


def pprof(stacks, kind="cpu"):
    """{("root", ..., "leaf"): nanoseconds} with names."""
    return encode([(kind, "nanoseconds")], [(stack, [value], {}) for stack, value in stacks.items()], line=7)


def fill(server, service, stacks, tags="", at=None, seconds=10):
    """A profile of the ten seconds from `at` on, a minute ago when nothing is said."""
    at = int(time.time()) - 60 if at is None else at
    name = urllib.parse.quote(f"{service}{{{tags}}}")
    status = server.request("POST", f"/ingest?name={name}&from={at}&until={at + seconds}", pprof(stacks))[0]
    assert status == 200, status


def digits(number):
    """Three that count."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.{1 if number >= 9.995 else 2}f}"


def format_value(value, unit):
    units = {"nanoseconds": ((1e9, "s"), (1e6, "ms"), (1e3, "µs")),
             "bytes": ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))}.get(unit, ())
    for size, name in units:
        if value >= size:
            return f"{digits(value / size)} {name}"
    return f"{value}{ {'nanoseconds': ' ns', 'bytes': ' B'}.get(unit, '')}"


def format_share(part, whole):
    return f"{digits(100 * part / whole) if whole and part else 0} %"


class Page:
    """The page of a server in a browser, and what people do with it. expected: words of errors that the console may have."""

    def __init__(self, browser, server, shots):
        self.browser, self.server, self.shots, self.expected = browser, server, shots, []
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        browser.call("Page.resetNavigationHistory")  # when it has 50 entries, one of them is left out, and not the oldest
        os.makedirs(shots, exist_ok=True)

    def js(self, expression):
        return self.browser.js(expression)

    def wait(self, expression, seconds=300):
        return self.browser.wait(expression, seconds)

    def open(self, address=""):
        """address: a dictionary of what stands behind '#', or text behind the server's name."""
        text = address if isinstance(address, str) else "#" + urllib.parse.urlencode(address)
        self.browser.go(self.server.url + "/" + text)
        self.wait("!!document.body && !!document.body.dataset.ready")

    def after(self, act):
        """Does it, and waits until the page has shown what came of it."""
        before = self.js("document.body.dataset.ready")
        act()
        self.wait(f"document.body.dataset.ready !== {json.dumps(before)}")

    def text(self, ident):
        return self.js(f"document.getElementById({json.dumps(ident)}).innerText")

    def hidden(self, ident):
        return self.js(f"!document.getElementById({json.dumps(ident)}).checkVisibility()")

    def click(self, selector, refreshes=False):
        def act():
            self.js(f"document.querySelector({json.dumps(selector)}).click()")
        if refreshes:
            self.after(act)
        else:
            act()

    def type_into(self, ident, text, event="input"):
        self.js(f"(() => {{ const e = document.getElementById({json.dumps(ident)}); e.value = {json.dumps(text)};"
                f" e.dispatchEvent(new Event('{event}', {{bubbles: true}})); }})()")

    def choose(self, ident, value):
        self.after(lambda: self.type_into(ident, value, "change"))

    def address(self, key):
        return self.js(f"new URLSearchParams(location.hash.slice(1)).get({json.dumps(key)}) ?? ''")

    def rows(self, ident, column):
        """A column's cells of a table, from 0."""
        return self.js(f"[...document.querySelectorAll('#{ident} tbody tr')].map((row) => row.cells[{column}].innerText)")

    def key(self, key, code=None):
        """A key as pressed by a person, wherever the focus is."""
        codes = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13, "Escape": 27, "Tab": 9}
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        values = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key.upper()[0]))}
        self.browser.call("Input.dispatchKeyEvent", type="keyDown", **values, **text)
        self.browser.call("Input.dispatchKeyEvent", type="keyUp", **values)

    def frame_at(self, name, chart="chart"):
        """The middle of a frame's painted part, in the window."""
        x, y, *_ = self.box(f"#{chart} canvas")
        left, top, width = self.js(f"(() => {{ const f = document.getElementById('{chart}').graph.frames().find((f) => f.name === {json.dumps(name)}); return [f.x, f.y, f.width]; }})()")
        return x + left + width / 2, y + top + 10

    def mouse(self, kind, x, y, **more):
        self.browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click_frame(self, name, chart="chart", button="left"):
        x, y = self.frame_at(name, chart)
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button=button, clickCount=1)

    def box(self, selector):
        return self.js(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
                       " const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()")

    def drag(self, start, end, y):
        """With the mouse."""
        def mouse(kind, x, buttons):
            self.browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=buttons, clickCount=1)
        mouse("mouseMoved", start, 0)
        mouse("mousePressed", start, 1)
        for i in range(1, 5):
            mouse("mouseMoved", start + (end - start) * i / 4, 1)
        mouse("mouseReleased", end, 0)

    def swipe(self, start, end, y):
        """With a finger."""
        def touch(kind, points):
            self.browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y} for x in points])
        touch("touchStart", [start])
        for i in range(1, 9):
            touch("touchMove", [start + (end - start) * i / 8])
        touch("touchEnd", [])

    def look(self, width, theme):
        self.browser.resize(width, 900)
        self.browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def shot(self, name):
        self.browser.screenshot(os.path.join(self.shots, name + ".png"))

    def violations(self):
        return self.js("window.violations")
