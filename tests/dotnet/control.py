#!/usr/bin/python3
"""The control endpoint of the sample service, and the budget under load.

usage: control.py SERVICE WORK [governor]
control    levels and kinds change over a unix socket; a port wants its token; what is wrong is one line and no start
governor   level high with a budget that is a fraction of what profiling costs without one, both measured in this run:
           after the governor has settled, the cost (time in handlers and of the profiler's threads, by /status) over the
           CPU time of the process (by the kernel) is the budget, up to 20 %"""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import gateway  # noqa: E402

LIMIT, SETTLE, MEASURE, FREE = 20, 70, 60, 40

service, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
os.makedirs(work, exist_ok=True)
path, log_path = os.path.join(work, "control.sock"), os.path.join(work, "service.log")
if len(path) > 100:
    path = f"/tmp/edgeprof-control-{os.getpid()}.sock"
TOKEN = "a token that is long enough"


def fail(text):
    sys.exit(f"control.py: {text}")


def start(control, **more):
    return gateway.start(service, log_path, EDGEPROF_ENDPOINT="file://" + os.path.join(work, "control.ep"),
                         EDGEPROF_CONTROL=control, **more)


def stop(process):
    process.send_signal(signal.SIGTERM)
    process.wait(30)


def ask(address, line, headers=""):
    family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(20)
        s.connect(address)
        s.sendall(f"{line} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
        data = b""
        while part := s.recv(4096):
            data += part
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def expect(got, wanted, what):
    if got != wanted:
        fail(f"{what}: {got}, not {wanted}")
    print(f"ok   {what}")


def kinds_on(status):
    return sorted(name for name, kind in status["kinds"].items() if kind["on"])


def control():
    process, _ = start(path)
    status = ask(path, "GET /status")[1]
    expect((status["running"], status["level"], kinds_on(status)), (True, "low", ["cpu"]), "starts low, CPU alone")
    expect(ask(path, "POST /level?high")[0], 200, "high by the endpoint")
    expect(len(kinds_on(ask(path, "GET /status")[1])), len(status["kinds"]), "high is every kind")
    expect(ask(path, "PUT /kinds?cpu,alloc")[0], 200, "two kinds by the endpoint")
    expect(kinds_on(ask(path, "GET /status")[1]), ["alloc", "cpu"], "two kinds are on")
    expect(ask(path, "POST /level?loud")[0], 400, "a level that does not exist")
    expect(subprocess.run(["curl", "-s", "--unix-socket", path, "-X", "POST", "http://x/kinds?on=lock&off=alloc"],
                          capture_output=True).stdout, b'{"done":true}\n', "curl")
    expect(kinds_on(ask(path, "GET /status")[1]), ["cpu", "lock"], "one on, one off")
    stop(process)
    expect(os.path.exists(path), False, "the socket is gone with the service")
    port = gateway.free_port()
    process, _ = start(str(port), EDGEPROF_CONTROL_TOKEN=TOKEN)
    expect(ask(("127.0.0.1", port), "GET /status")[0], 401, "a port wants the token")
    expect(ask(("127.0.0.1", port), "GET /status", f"Authorization: Bearer {TOKEN}\r\n")[0], 200, "and takes it")
    stop(process)
    process, _ = start(str(port))
    said = re.findall(r"edgeprof: .*", open(log_path, encoding="utf-8").read())
    expect(len(said) == 1 and "EDGEPROF_CONTROL" in said[0], True, "a port without a token is one line: " + "".join(said))
    stop(process)


def cost(pid):
    """ns that profiling has cost, ns of CPU that the process has used."""
    status = ask(path, "GET /status")[1]
    fields = open(f"/proc/{pid}/stat", encoding="utf-8").read().rpartition(")")[2].split()
    used = (int(fields[11]) + int(fields[12])) * 1e9 / os.sysconf("SC_CLK_TCK")
    return status["handler_ns"] + status["collect_cpu_ns"] + status["deliver_cpu_ns"], used


def cost_ppm(pid, seconds):
    before = cost(pid)
    time.sleep(seconds)
    after = cost(pid)
    return (after[0] - before[0]) * 1e6 / (after[1] - before[1])


def loaded(budget, settle, measure):
    more = {"EDGEPROF_BUDGET": str(budget)} if budget else {}
    process, url = start(path, EDGEPROF_LEVEL="high", **more)
    load = subprocess.Popen([service, "--load", url, "--seconds", str(settle + measure + 10)], stdout=subprocess.DEVNULL,
                            env={k: v for k, v in os.environ.items() if not k.startswith("EDGEPROF")})
    time.sleep(settle)
    ppm = cost_ppm(process.pid, measure)
    governor = ask(path, "GET /status")[1]["governor"]
    load.terminate()
    load.wait()
    stop(process)
    print(f"     budget {budget}: {ppm:.0f} ppm, {governor}")
    return ppm, governor


def governor():
    free, untouched = loaded(0, 15, FREE)
    expect(untouched["stretches"], 0, "nothing is stretched without a budget")
    budget = round(0.6 * free)
    ppm, governed = loaded(budget, SETTLE, MEASURE)
    if governed["stretch_pct"] <= 100:
        fail("a budget below the cost did not stretch anything")
    error = 100 * (ppm - budget) / budget
    print(f"figure governor_service_error_pct {abs(error):.1f} %")
    if abs(error) > LIMIT:
        fail(f"{ppm:.0f} ppm is {error:+.0f} % off the budget of {budget}")


governor() if "governor" in sys.argv[3:] else control()
