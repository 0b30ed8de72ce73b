#!/usr/bin/python3
"""Each form of `kinds` ends as without edgeprof, and writes the same: linked in, and preloaded.

usage: kinds.py FOLDER PRELOAD [FORM...]"""
import concurrent.futures
import http.server
import os
import subprocess
import sys
import tempfile
import threading

FOLDER, PRELOAD = (os.path.abspath(argument) for argument in sys.argv[1:3])
ONLY = sys.argv[3:]
CANNOT = 77  # the form's status where the machine lacks what it needs
PATIENCE = 60  # s; a program that hangs never ends
TRIES = 2  # a form that differs runs again: the machine is shared
EARLY = ["thread", "fork", "works", "ends", "exits", "signals", "last"]


SPOOLS = tempfile.TemporaryDirectory(prefix="kinds")  # all that keeps descriptors


class Server(http.server.BaseHTTPRequestHandler):
    """Takes all that is sent, and keeps connections open."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def run(command, **more):
    """The status and what the program wrote on standard output."""
    env = {**os.environ, "KINDS_PLUGIN": f"{FOLDER}/plugin.so", **more}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, start_new_session=True) as process:
        try:
            out, error = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return "still there", process.communicate()[0], b""
        return process.returncode, out, error


def ways(form, endpoint):
    """How each form runs: its name, the command, and the environment."""
    program, early, linked = (f"{FOLDER}/{name}" for name in ("kinds", "kinds_early", "kinds_linked"))
    preload = {"LD_PRELOAD": PRELOAD, "EDGEPROF_ENDPOINT": endpoint, "EDGEPROF_LEVEL": "high", "EDGEPROF_INTERVAL": "250"}
    if form.startswith("early/"):
        begin = {"KINDS_CONSTRUCTOR": form.split("/")[1]}
        return {"": ([early, "signals/keeps-errno"], begin), "preloaded": ([early, "signals/keeps-errno"], {**preload, **begin})}
    if form.startswith("audited/"):
        audit = {"LD_AUDIT": f"{FOLDER}/plugin.so"}
        name = form.split("/", 1)[1]
        return {"": ([program, name], audit), "preloaded": ([program, name], {**preload, **audit})}
    if form.startswith("descriptors/"):
        folder = tempfile.mkdtemp(dir=SPOOLS.name)
        preload |= {"EDGEPROF_SPOOL": folder, "EDGEPROF_CRASH": "1", "EDGEPROF_CONTROL": f"{folder}/socket"}
    return {"": ([program, form], {}), "preloaded": ([program, form], preload), "linked": ([linked, form], {"KINDS_ENDPOINT": endpoint})}


def differs(form, endpoint):
    """Lines that say how the form differs; None: the machine cannot run it."""
    lines = []
    bare, *others = ((name, run(command, **env)) for name, (command, env) in ways(form, endpoint).items())
    if bare[1][0] == CANNOT:
        return None
    for name, got in others:
        if got[:2] != bare[1][:2] or (b"edgeprof: not profiling" in got[2] and "limits/" not in form):
            lines.append(f"{form}: {name}: {got[0]} {got[1].decode(errors='replace')!r}, without edgeprof {bare[1][0]} {bare[1][1].decode(errors='replace')!r}\n    {got[2][-300:].decode(errors='replace')}")
    return lines


def judge(form, endpoint):
    for _ in range(TRIES):
        lines = differs(form, endpoint)
        if not lines:
            return lines
    for line in lines:
        print(f"kinds: {line}", file=sys.stderr, flush=True)
    return lines


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    listed = subprocess.run([f"{FOLDER}/kinds", "--list"], capture_output=True, text=True, check=True).stdout.split()
    listed += [f"early/{what}" for what in EARLY] + ["audited/loader/comes-and-goes", "audited/processes/fork-in-threads", "audited/threads/cancelled-in-read"]
    forms = [form for form in listed if not ONLY or any(form.startswith(only) for only in ONLY)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = dict(zip(forms, pool.map(lambda form: judge(form, endpoint), forms)))
    wrong = any(results.values())
    cannot = [form for form, lines in results.items() if lines is None]
    if cannot:
        print(f"kinds: this machine cannot run {', '.join(cannot)}")
    if not wrong:
        print(f"kinds: {len(forms) - len(cannot)} forms end as without edgeprof")
    sys.exit(1 if wrong or not forms else 0)


main()
