"""Symbols come from any debuginfod server, and a hostile one does no harm."""
import contextlib
import http.server
import os
import shutil
import subprocess
import time
import urllib.request

import pytest

from harness import FakeServer, clean_environment, deaf_port, free_port
from sample import contents


@pytest.fixture
def address(known):
    """Of `hot`, as `symbolize` takes it, and what it says when it knows no name."""
    return f"{known.hot:016x}", f"?+0x{known.hot:x}"


@pytest.fixture
def cache(folder):
    return os.path.join(folder, "cache")


@pytest.fixture
def ask(cli, known, cache, address):
    """What `symbolize` says of an address; the cache is the folder's."""
    def run(*arguments, build_id=known.build_id, **variables):
        done = cli.run("symbolize", *arguments, f"{build_id}+{address[0]}", env=clean_environment(EDGEPROF_CACHE=cache, **variables))
        done.name = done.out.split("\t")[1] if "\t" in done.out else None
        return done
    return run


def kept(cache):
    return sorted(name for _, _, names in os.walk(cache) for name in names)


# ---- Debian's ----

def answers(process, url):
    """Whether the server has looked through its files; not when it has ended."""
    end = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError):
            if urllib.request.urlopen(url, timeout=20).status == 200:
                return True
        time.sleep(0.1)
    return False


@pytest.fixture
def debians(folder, known):
    """(process, address) of Debian's debuginfod with the sample's debug file. It cannot choose a port itself."""
    files = os.path.join(folder, "files")
    os.mkdir(files)
    shutil.copy(known.debug, files)
    for _ in range(5):
        port = free_port()
        process = subprocess.Popen(["debuginfod", "-p", str(port), "-d", os.path.join(folder, "index.db"), "-F", files],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_environment())
        try:
            if answers(process, f"http://127.0.0.1:{port}/buildid/{known.build_id}/debuginfo"):
                yield process, f"http://127.0.0.1:{port}"
                return
        finally:
            process.kill()
            process.wait()
    pytest.fail("debuginfod does not answer")


def test_debians(ask, cache, known, address, debians):
    process, url = debians
    assert ask("--debuginfod", url).name == "hot"
    assert kept(cache) == [known.build_id[2:] + ".debug"]
    missing = ask("--debuginfod", url, build_id="ee" * 20)
    assert (missing.returncode, missing.name) == (3, address[1]), "one that it does not have"
    assert ("ee" * 19) + ".missing" in kept(cache), "is noted"
    process.terminate()
    process.wait(30)
    assert ask("--debuginfod", url).name == "hot", "when it is gone, what is kept is there"


# ---- ours ----

@pytest.fixture
def ours(cli, folder, known, start_server):
    store = os.path.join(folder, "store")
    assert cli.run("symbols", "add", "--symbols-store", store, known.debug).returncode == 0
    return start_server("--symbols-store", store)


def test_ours(ask, address, ours):
    assert ask(DEBUGINFOD_URLS=ours.url + "/").name == "hot"


def test_ours_with_debuginfods_own_client(folder, known, ours):
    found = os.path.join(folder, "found")
    theirs = subprocess.run(["debuginfod-find", "debuginfo", known.build_id], capture_output=True, text=True, check=False,
                            env=clean_environment(DEBUGINFOD_URLS=ours.url, DEBUGINFOD_CACHE_PATH=found, HOME=folder))
    assert theirs.returncode == 0, theirs.stderr
    assert contents(theirs.stdout.strip()) == contents(known.debug)


def test_no_server_is_named(ask, address):
    assert ask(DEBUGINFOD_URLS="").name == address[1], "nobody is asked"


# ---- one that does what no server should ----

class Strange(http.server.BaseHTTPRequestHandler):
    """Gives its server's answer to all but /elsewhere."""

    def do_GET(self):
        self.server.seen.append(self.path)
        status, body, *location = (200, self.server.elsewhere) if self.path == "/elsewhere" else self.server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if location:
            self.send_header("Location", location[0])
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def strange(known):
    with FakeServer(Strange) as server:
        server.seen, server.answer, server.elsewhere = [], (404, b""), contents(known.debug)
        yield server


@pytest.mark.parametrize("answer, word", [
    pytest.param(lambda known: (500, b"no"), "HTTP status 500", id="error"),
    pytest.param(lambda known: (200, b"no such file"), "not an ELF file", id="text"),
    pytest.param(lambda known: (200, b""), "not an ELF file", id="nothing"),
    pytest.param(lambda known: (200, contents(known.debug).replace(bytes.fromhex(known.build_id), b"\xab" * 20)), "wrong build id", id="another build"),
    pytest.param(lambda known: (200, contents(known.debug)[:4000]), "", id="half of it"),
    pytest.param(lambda known: (302, b"", "/loop"), "redirect", id="loop"),
    pytest.param(lambda known: (302, b"", "file://" + known.debug), "rotocol", id="elsewhere by another protocol")])
def test_strange_answer(ask, cache, known, strange, answer, word):
    strange.answer = answer(known)
    done = ask("--debuginfod", strange.url)
    lines = [line for line in done.err.splitlines() if "debuginfod:" in line]
    assert done.returncode == 3
    assert len(lines) == 1 and strange.url in lines[0] and word in lines[0]
    assert kept(cache) == []


def test_missing_is_asked_for_once(ask, cache, known, strange):
    """Until the note is an hour old."""
    for _ in range(3):
        ask("--debuginfod", strange.url)
    assert strange.seen == [f"/buildid/{known.build_id}/debuginfo"]
    note = os.path.join(cache, known.build_id[:2], known.build_id[2:] + ".missing")
    os.utime(note, (time.time() - 7200,) * 2)
    ask("--debuginfod", strange.url)
    assert len(strange.seen) == 2, "again when that is long ago"
    assert time.time() - os.stat(note).st_mtime < 3600, "which is noted anew"


def test_redirect_is_followed(ask, strange):
    strange.answer = (302, b"", "/elsewhere")
    assert ask("--debuginfod", strange.url).name == "hot"


def test_next_server_is_asked(ask, cache, known, strange):
    with deaf_port() as port:
        dead = f"http://127.0.0.1:{port}"
        both = ask("--debuginfod", dead, "--debuginfod", strange.url)
        assert dead in both.err and ".missing" not in "".join(kept(cache)), "what not all could be asked for is not noted as missing"
        strange.answer = (200, contents(known.debug))
        assert ask("--debuginfod", dead, "--debuginfod", strange.url).name == "hot"


@pytest.mark.parametrize("build_id", ["../../x", "..", "abc", "%2e%2e"])
def test_no_such_build_id_is_asked_for(cli, cache, strange, build_id):
    cli.run("symbolize", "--build-id", build_id, "--debuginfod", strange.url, "0x12", env=clean_environment(EDGEPROF_CACHE=cache))
    assert strange.seen == []


# ---- where files are kept ----

@pytest.fixture
def homeless():
    return {name: value for name, value in clean_environment().items() if name not in ("HOME", "XDG_CACHE_HOME")}


def test_no_folder_no_question(cli, known, address, homeless):
    with deaf_port() as port:
        done = cli.run("symbolize", "--debuginfod", f"http://127.0.0.1:{port}", f"{known.build_id}+{address[0]}", env=homeless)
        assert "EDGEPROF_CACHE" in done.err and f":{port}" not in done.err


@pytest.mark.parametrize("name, where", [("HOME", ".cache/edgeprof/symbols"), ("XDG_CACHE_HOME", "edgeprof/symbols")])
def test_folder(cli, folder, known, address, homeless, name, where):
    with deaf_port() as port:
        cli.run("symbolize", "--debuginfod", f"http://127.0.0.1:{port}", f"{known.build_id}+{address[0]}", env={**homeless, name: folder})
    assert os.path.isdir(os.path.join(folder, where))
