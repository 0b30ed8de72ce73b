"""Figures of the page. Usage: page_figures.py EDGEPROF STORE_DAY

first_paint_*    The database has a day of 100 devices that run one service. How long it takes until the flame graph of that
                 day is painted, from the start of the navigation: the median of several loads, each in a fresh page; its
                 parts; and the CPU time of server and browser until then, which other work on the machine does not change.
zoom_*           How long a frame and its repaint take while a graph of 100,000 frames is zoomed, a turn of the wheel a frame."""
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile

from browser import Browser
from harness import Server
from page_kit import BIG_GRAPH

LOADS = 7

# The first frame of the browser after the one in which the flame graph is there.
WATCH = """(() => {
  const look = () => ((document.getElementById('chart')?.graph.frames().length ?? 0) > 50 ? requestAnimationFrame(() => { window.painted = performance.now(); }) : requestAnimationFrame(look));
  look();
})()"""

PARTS = """(() => {
  const answer = performance.getEntriesByType('resource').find((entry) => entry.name.includes('/api/profile'));
  return { scripts: answer.requestStart, server: answer.responseStart - answer.requestStart,
    transfer: answer.responseEnd - answer.responseStart, drawing: window.painted - answer.responseEnd };
})()"""

# A turn of the wheel in each frame: in until a frame fills the width, and out again.
ZOOM = """(async () => {
  const { place, graph } = await makeBig();
  const box = graph.chart.getBoundingClientRect();
  const intervals = [];
  const repaints = [];
  const frame = () => new Promise((done) => { requestAnimationFrame(done); });
  let before = await frame();
  for (let i = 0; i < 120; i++) {
    const began = performance.now();
    graph.chart.dispatchEvent(new WheelEvent('wheel', { ctrlKey: true, deltaY: i % 80 < 40 ? -100 : 100, clientX: box.x + 0.4 * box.width, clientY: box.y + 50, bubbles: true, cancelable: true }));
    repaints.push(performance.now() - began);
    const now = await frame();
    intervals.push(now - before);
    before = now;
  }
  const frames = graph.layout.rows.reduce((sum, row) => sum + row.length, 0);
  place.remove();
  return { frames, intervals, repaints };
})()"""


def cpu_times(roots):
    """{process: milliseconds of CPU time} of these processes and of what descends from them."""
    rows = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
            rows[int(name)] = (int(fields[1]), 1000 / os.sysconf("SC_CLK_TCK") * (int(fields[11]) + int(fields[12])))

    def belongs(process):
        return process in roots or process in rows and belongs(rows[process][0])
    return {process: ms for process, (_, ms) in rows.items() if belongs(process)}


def first_paint(browser, server):
    roots, times, work, parts = {browser.process.pid, server.process.pid}, [], [], []
    for _ in range(LOADS):
        before = cpu_times(roots)
        browser.go(f"{server.url}/#service=service0&range=1d")
        times.append(browser.wait("window.painted"))
        work.append(sum(ms - before.get(process, 0) for process, ms in cpu_times(roots).items()))
        parts.append(browser.js(PARTS))
    devices = len(json.loads(server.request("GET", f"/api/devices?from=now-1d")[1])["devices"])
    shown = browser.js("document.getElementById('chart').graph.frames().length")
    print(f"{devices} devices, {shown} frames wide enough to be drawn; loads: {' '.join(f'{t:.0f}' for t in times)} ms", file=sys.stderr)
    print(f"figure first_paint_ms {statistics.median(times):.0f} ms")
    print(f"figure first_paint_cpu_ms {statistics.median(work):.0f} ms")
    for part in parts[0]:
        print(f"figure first_paint_{part}_ms {statistics.median(one[part] for one in parts):.0f} ms")


def zoom(browser):
    found = browser.js(f"{BIG_GRAPH}, {ZOOM}")
    print(f"{found['frames']} frames", file=sys.stderr)
    for name, key in (("frame", "intervals"), ("repaint", "repaints")):
        times = sorted(found[key])
        print(f"figure zoom_{name}_median_ms {statistics.median(times):.1f} ms")
        print(f"figure zoom_{name}_p95_ms {times[len(times) * 95 // 100]:.1f} ms")


def main():
    with tempfile.TemporaryDirectory(prefix="edgeprof-bench-") as folder, Browser() as browser:
        db = os.path.join(folder, "day.db")
        subprocess.run([os.path.abspath(sys.argv[2]), "fill", db, "one"], check=True)
        server = Server(os.path.abspath(sys.argv[1]), db)
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        first_paint(browser, server)
        zoom(browser)
        server.stop()


main()
