"""Symbols from debuginfod servers: Debian's own, ours, and one that does what no server should.
Usage: cli_debuginfod_test.py EDGEPROF_WITH_SANITIZERS SAMPLE"""
import atexit
import http.server
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from cli import Cli
from harness import Checks, Server, clean_environment

PROGRAM, SAMPLE = (os.path.abspath(path) for path in sys.argv[1:3])
DEBUG = os.path.join(os.path.dirname(SAMPLE), "debug", "sample.dbg")
check = Checks()
cli = Cli(PROGRAM, check)


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


BUILD_ID = re.search(r"Build ID: (\w+)", output("readelf", "-n", SAMPLE))[1]
HOT = next(line.split()[0] for line in output("nm", SAMPLE).splitlines() if line.endswith(" hot"))


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def ask(folder, *arguments, build_id=BUILD_ID, **variables):
    """What `symbolize` says of an address; the cache is the folder's."""
    done = cli.run("symbolize", *arguments, f"{build_id}+{HOT}", env=clean_environment(EDGEPROF_CACHE=os.path.join(folder, "cache"), **variables))
    done.name = done.out.split("\t")[1] if "\t" in done.out else None
    return done


def kept(folder):
    return sorted(name for _, _, names in os.walk(os.path.join(folder, "cache")) for name in names)


def empty(folder):
    shutil.rmtree(os.path.join(folder, "cache"), ignore_errors=True)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def answers(url):
    """Whether the server has looked through its files."""
    try:
        return urllib.request.urlopen(f"{url}/buildid/{BUILD_ID}/debuginfo", timeout=20).status == 200
    except OSError:
        return False


def debians(folder):
    files, port = os.path.join(folder, "files"), free_port()
    os.mkdir(files)
    shutil.copy(DEBUG, files)
    server = subprocess.Popen(["debuginfod", "-p", str(port), "-d", os.path.join(folder, "index.db"), "-F", files],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_environment())
    atexit.register(server.kill)
    url = f"http://127.0.0.1:{port}"
    for _ in range(200):
        if answers(url):
            break
        time.sleep(0.1)
    check.equal(ask(folder, "--debuginfod", url).name, "hot", "from Debian's debuginfod")
    check.equal(kept(folder), [BUILD_ID[2:] + ".debug"], "kept")
    missing = ask(folder, "--debuginfod", url, build_id="ee" * 20)
    check.equal((missing.returncode, missing.name), (3, f"?+0x{int(HOT, 16):x}"), "one that it does not have")
    check(("ee" * 19) + ".missing" in kept(folder), "is noted")
    server.terminate()
    server.wait(30)
    check.equal(ask(folder, "--debuginfod", url).name, "hot", "when it is gone, what is kept is there")
    empty(folder)


def ours(folder):
    store = os.path.join(folder, "store")
    check.equal(cli.run("symbols", "add", "--symbols-store", store, DEBUG).returncode, 0, "added")
    server = Server(PROGRAM, os.path.join(folder, "x.db"), "--symbols-store", store)
    check.equal(ask(folder, DEBUGINFOD_URLS=server.url + "/").name, "hot", "from ours, by DEBUGINFOD_URLS")
    found = os.path.join(folder, "found")
    theirs = subprocess.run(["debuginfod-find", "debuginfo", BUILD_ID], capture_output=True, text=True, check=False,
                            env=clean_environment(DEBUGINFOD_URLS=server.url, DEBUGINFOD_CACHE_PATH=found, HOME=folder))
    check.equal((theirs.returncode, contents(theirs.stdout.strip()) if theirs.stdout else None), (0, contents(DEBUG)),
                f"debuginfod's own client likes ours: {theirs.stderr}")
    empty(folder)
    check.equal(ask(folder, DEBUGINFOD_URLS="").name, f"?+0x{int(HOT, 16):x}", "nobody is asked when no server is named")
    check.equal(server.stop(), 0, "server")


class Strange(http.server.BaseHTTPRequestHandler):
    seen, answer = [], (404, b"")

    def do_GET(self):
        Strange.seen.append(self.path)
        status, body, *location = Strange.answer
        if self.path == "/elsewhere":
            status, body, location = 200, contents(DEBUG), []
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) + (100 if status == 206 else 0)))
        if location:
            self.send_header("Location", location[0])
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def strange(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Strange)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    for what, answer, word in (("an error", (500, b"no"), "HTTP status 500"), ("text", (200, b"no such file"), "no ELF file"), ("nothing", (200, b""), "no ELF file"),
                               ("another build", (200, contents(DEBUG).replace(bytes.fromhex(BUILD_ID), b"\xab" * 20)), "another build id"),
                               ("half of it", (200, contents(DEBUG)[:4000]), ""), ("a loop", (302, b"", "/loop"), "redirect"),
                               ("elsewhere by another protocol", (302, b"", "file://" + DEBUG), "rotocol")):
        Strange.answer = answer
        done = ask(folder, "--debuginfod", url)
        lines = [line for line in done.err.splitlines() if "debuginfod:" in line]
        check(done.returncode == 3 and len(lines) == 1 and url in lines[0] and word in lines[0], f"{what}: {done.err}")
        check.equal(kept(folder), [], f"{what} is not kept")
    once(folder, url)
    Strange.answer = (302, b"", "/elsewhere")
    check.equal(ask(folder, "--debuginfod", url).name, "hot", "a redirect is followed")
    empty(folder)
    Strange.answer = (404, b"")
    dead = f"http://127.0.0.1:{free_port()}"
    both = ask(folder, "--debuginfod", dead, "--debuginfod", url)
    check(dead in both.err and ".missing" not in "".join(kept(folder)), "what not all could be asked for is not noted as missing")
    Strange.answer = (200, contents(DEBUG))
    check.equal(ask(folder, "--debuginfod", dead, "--debuginfod", url).name, "hot", "the next server is asked")
    path_tricks(folder, url)
    server.shutdown()


def once(folder, url):
    """What a server does not have is not asked for again, until the note is an hour old."""
    Strange.answer, before = (404, b""), len(Strange.seen)
    for _ in range(3):
        ask(folder, "--debuginfod", url)
    check.equal(Strange.seen[before:], [f"/buildid/{BUILD_ID}/debuginfo"], "asked once")
    note = os.path.join(folder, "cache", BUILD_ID[:2], BUILD_ID[2:] + ".missing")
    os.utime(note, (time.time() - 7200,) * 2)
    ask(folder, "--debuginfod", url)
    check.equal(len(Strange.seen) - before, 2, "and again when that is long ago")
    check(time.time() - os.stat(note).st_mtime < 3600, "which is noted anew")
    os.unlink(note)


def path_tricks(folder, url):
    before = len(Strange.seen)
    for build_id in ("../../x", "..", "abc", "%2e%2e"):
        cli.run("symbolize", "--build-id", build_id, "--debuginfod", url, "0x12", env=clean_environment(EDGEPROF_CACHE=os.path.join(folder, "cache")))
    check.equal(len(Strange.seen), before, "no such build id is asked for")


def places(folder):
    """Where files are kept, and that there has to be a place."""
    url = f"http://127.0.0.1:{free_port()}"
    environment = {name: value for name, value in clean_environment().items() if name not in ("HOME", "XDG_CACHE_HOME")}
    done = cli.run("symbolize", "--debuginfod", url, f"{BUILD_ID}+{HOT}", env=environment)
    check("EDGEPROF_CACHE" in done.err and url not in done.err, f"no folder, no question: {done.err}")
    for name, value, where in (("HOME", folder, ".cache/edgeprof/symbols"), ("XDG_CACHE_HOME", folder + "/xdg", "xdg/edgeprof/symbols")):
        cli.run("symbolize", "--debuginfod", url, f"{BUILD_ID}+{HOT}", env={**environment, name: value})
        check(os.path.isdir(os.path.join(folder, where)), f"{name} says where")


with tempfile.TemporaryDirectory(prefix="edgeprof-test-") as folder_:
    debians(folder_)
    ours(folder_)
    strange(folder_)
    places(folder_)
check.done("test-tools-debuginfod")
