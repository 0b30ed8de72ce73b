"""Tiers and fixtures of the host tests. `make test-host`, `test-host-all` and `test-host-long` build what the tests need and
run one tier each; `make test-host ONLY=keep` runs one file. By hand:

    /usr/bin/python3 -m pytest tests/host/keep_test.py [--build=build/host] [-n 2]

A test is in the quick tier unless a marker says something else; the marker of a test counts more than that of its file.
The first line of a file is what holds when its tests pass; each run prints it."""
import ast
import collections
import os
import pathlib
import random
import re
import shutil
import sys
import time

import pytest

from browser import Browser
from cli import Cli, message_of
from harness import REPOSITORY, Server
from page_kit import Page
from sample import Sample, run

sys.path.append(str(REPOSITORY / "tests/linux/conformance"))
from receiver import Receiver


TIERS = ("quick", "all", "long", "apart")


def pytest_addoption(parser):
    parser.addoption("--tier", choices=TIERS[:3], help="only the tests of this tier; without it all but those that are long")
    parser.addoption("--build", type=pathlib.Path, default=pathlib.Path("build/host"), help="what make has built")
    parser.addoption("--rounds", type=int, default=0, help="how often a test that repeats itself does so; 0: its own choice")
    parser.addoption("--seed", type=int, default=0, help="repeats a run; 0: a new one")


def tier_of(item):
    return next((mark.name for mark in item.iter_markers() if mark.name in TIERS), "quick")


def pytest_collection_modifyitems(config, items):
    wanted = config.getoption("--tier")
    kept, others = [], []
    for item in items:
        tier = tier_of(item)
        (kept if tier == wanted or (not wanted and tier != "long") else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = kept


def pytest_terminal_summary(terminalreporter):
    """A line for each file: tests, seconds and the claim."""
    files = collections.defaultdict(lambda: [0, 0, 0.0])
    for word in ("passed", "failed", "error", ""):  # "": of setups and teardowns
        for report in terminalreporter.stats.get(word, ()):
            row = files[report.nodeid.split("::")[0]]
            row[0] += bool(word)
            row[1] += word in ("failed", "error")
            row[2] += getattr(report, "duration", 0)  # a file that cannot be imported has none
    for name, (tests, bad, seconds) in sorted(files.items()):
        claim = ast.get_docstring(ast.parse((terminalreporter.config.rootpath / name).read_text())).splitlines()[0]
        terminalreporter.write_line(f"{'FAILED' if bad else 'ok':6} {name.removesuffix('_test.py'):18} {tests:4} tests {seconds:6.1f} s  {claim}")


@pytest.fixture(scope="session")
def build(request, tmp_path_factory):
    """What make has built, by a name that shells and LD_PRELOAD need not quote, wherever the clone is."""
    built = request.config.getoption("--build").absolute()
    if re.search(r"[\s:]", str(built)):
        link = tmp_path_factory.mktemp("built") / "build"
        link.symlink_to(built)
        return link
    return built


@pytest.fixture(scope="session")
def edgeprof(build):
    """The host tool with ASan and UBSan."""
    return str(build / "tests/tools/edgeprof")


@pytest.fixture(scope="session")
def shipped(build, preload_library, tmp_path_factory):
    """The host tool as users have it, beside the library of `run`."""
    if preload_library.parent == build:
        return str(build / "edgeprof")
    return shutil.copy(build / "edgeprof", preload_library.parent)


@pytest.fixture(scope="session")
def preload_library(build, tmp_path_factory):
    """Its real path is what LD_PRELOAD names, so a clone in a folder with a space needs a copy."""
    if not build.is_symlink():
        return build / "libedgeprof-preload.so"
    return pathlib.Path(shutil.copy(build / "libedgeprof-preload.so", tmp_path_factory.mktemp("shipped")))


@pytest.fixture(scope="session")
def sample(build):
    """A program whose functions and lines are known. Beside it: sample-stripped and debug/sample.dbg."""
    return str(build / "tests/tools/sample")


@pytest.fixture(scope="session")
def rounds(request):
    return request.config.getoption("--rounds")


@pytest.fixture
def rng(request):
    """Random numbers; a failure shows the seed."""
    seed = request.config.getoption("--seed") or int.from_bytes(os.urandom(4), "little")
    print(f"--seed {seed}")
    return random.Random(seed)


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path)


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory):
    """One folder for all tests of a file."""
    return str(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def start_server(edgeprof, folder):
    """start_server(*arguments, db=PATH, program=PATH, prefix=(), config=TEXT): a Server. Those that still run when the test ends
    are stopped, and have to end with 0."""
    servers = []

    def start(*arguments, db=None, program=None, **options):
        servers.append(Server(program or edgeprof, db or os.path.join(folder, "edgeprof.db"), *arguments, **options))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.returncode is None:
            assert server.stop() == 0


@pytest.fixture
def receive():
    """receive(...): a Receiver, which is closed in the end."""
    receivers = []

    def start(*arguments, **options):
        receivers.append(Receiver(*arguments, **options))
        return receivers[-1]

    yield start
    for receiver in receivers:
        receiver.close()


@pytest.fixture
def server(start_server):
    """A server with a new database."""
    return start_server()


@pytest.fixture(scope="session")
def cli(edgeprof):
    return Cli(edgeprof)


@pytest.fixture(scope="module", autouse=True)
def now(request):
    """The page shows ranges that end now: a page file's NOW is when its first test begins. When it was read may be minutes ago."""
    if request.module.__name__.startswith("page"):
        request.module.NOW = int(time.time()) // 10 * 10


@pytest.fixture(scope="module")
def browser():
    with Browser() as found:
        yield found


@pytest.fixture(scope="session")
def shots(build):
    """Where pictures of the page go."""
    return str(build / "tests/tools/shots")


@pytest.fixture(scope="module")
def shared_server(edgeprof, shared_folder):
    """A server with a new database for all tests of a file."""
    with Server(edgeprof, os.path.join(shared_folder, "edgeprof.db")) as started:
        yield started


@pytest.fixture(scope="session")
def figure(request):
    """figure(NAME, VALUE, UNIT): a measured value, in a line of its own."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def show(name, value, unit):
        with capture.global_and_fixture_disabled():
            print(f"\nfigure {name} {value} {unit}", flush=True)
    return show


@pytest.fixture
def page_of(browser, shots, start_server):
    """page_of(SERVER): its Page. In the end it has tried nothing that its policy forbids, and has no errors but `expected`.
    The servers of the test end after the page has been left: an answer that is on its way is no error."""
    pages = []

    def show(server):
        pages.append(Page(browser, server, shots))
        return pages[-1]

    yield show
    violations, problems = browser.js("window.violations"), browser.problems[:]
    browser.call("Page.navigate", url="about:blank")
    browser.problems.clear()
    assert not violations, "the page's policy"
    assert [text for text in problems if not any(word in text for page in pages for word in page.expected)] == [], "the browser's console"


@pytest.fixture
def page(page_of, server):
    return page_of(server)


@pytest.fixture(scope="session")
def known(sample):
    """What is known of the sample."""
    return Sample(sample)


@pytest.fixture(scope="module")
def sampled(shipped, sample, shared_folder):
    """A database with a profile of a run of the sample."""
    path = os.path.join(shared_folder, "sampled.db")
    run(shipped, sample, path)
    return path


@pytest.fixture(scope="module")
def filled(edgeprof, shared_folder):
    """A server with one profile. A file may have its own."""
    with Server(edgeprof, os.path.join(shared_folder, "one.db")) as server:
        assert server.push(message_of(1, "one", {2: 5, 3: 30, 6: 11})) == 200
        yield server


@pytest.fixture(params=["db", "url"])
def source(request, filled):
    """Where a command reads `filled`: its database, and from itself."""
    return ["--db", filled.db] if request.param == "db" else ["--url", filled.url]
