"""How long it takes until the flame graph of a large profile is painted, from the start of the navigation: the median of
several loads, each in a fresh page. Prints a figure. Usage: first_paint.py EDGEPROF"""
import os
import random
import statistics
import sys
import tempfile
import time

from browser import Browser
from generate import message, module, nodes, origin, profile
from harness import Server

NODES, LOADS = 50_000, 7

# The first frame of the browser after the one in which the flame graph is there.
WATCH = """(() => {
  const look = () => ((document.getElementById('chart')?.graph.frames().length ?? 0) > 50 ? requestAnimationFrame(() => { window.painted = performance.now(); }) : requestAnimationFrame(look));
  look();
})()"""


def large():
    """A tree as programs have them: a few deep paths that share their beginnings, many leaves; 1,000 functions of names as in C#."""
    random.seed(7)
    depth, back, frames, values = [0], [], [], {}
    for node in range(1, NODES + 1):
        parent = node - 1 if node > 1 and depth[-1] < 40 and random.random() < 0.7 else random.randrange(max(0, node - 400), node)
        back.append(node - parent if parent else 0)
        depth.append(depth[parent] + 1)
        frames.append(4096 + random.randrange(1000) * 16)
        values[node] = random.randrange(1, 50)
    return message(5, 0, origin("large"), [module(4096, 65536, 0, b"\7" * 20, "/opt/large")], nodes(back, frames), [profile(values)],
                   unix_minus_uptime=time.time_ns() - 60 * 10**9)


def main():
    with tempfile.TemporaryDirectory(prefix="edgeprof-bench-") as folder, Browser() as browser:
        server = Server(os.path.abspath(sys.argv[1]), os.path.join(folder, "paint.db"))
        assert server.push(large()) == 200
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        times = []
        for _ in range(LOADS):
            browser.go(server.url + "/#service=large")
            times.append(browser.wait("window.painted"))
        shown = browser.js("document.getElementById('chart').graph.frames().length")
        server.stop()
    print(f"{shown} frames wide enough to be drawn; loads: {' '.join(f'{t:.0f}' for t in times)} ms", file=sys.stderr)
    print(f"figure first_paint_ms {statistics.median(times):.0f} ms")


main()
