#!/usr/bin/python3
"""nginx with two workers under load: the CPU time of all its processes is in the profile, by /proc/PID/stat, although
nginx clears the workers' environment. Without nginx this tests nothing and says so.

usage: nginx.py EDGEPROF WORK"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

edgeprof, work = (os.path.abspath(argument) for argument in sys.argv[1:3])
nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
SECONDS = 6
if not nginx:
    sys.exit("nginx.py: skipped: there is no nginx (Debian: nginx-light)")
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
with open(f"{work}/page.html", "w") as page:
    page.write("edgeprof profiles nginx. " * 400)
paths = "".join(f"{name}_temp_path {work}/{name}; " for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
with open(f"{work}/nginx.conf", "w") as settings:
    settings.write(f"""daemon off; worker_processes 2; pid {work}/pid; error_log {work}/errors; {"user root;" if os.getuid() == 0 else ""}
events {{}}
http {{ access_log off; {paths} server {{ listen 127.0.0.1:{port} reuseport; root {work}; gzip on; gzip_types *; gzip_comp_level 6; }} }}
""")


def load(end):
    request = b"GET /page.html HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n"
    while time.monotonic() < end:
        try:
            with socket.create_connection(("127.0.0.1", port)) as server:
                for _ in range(200):
                    server.sendall(request)
                    if not server.recv(65536):
                        break
        except OSError:
            time.sleep(0.05)


def children(parent):
    with open(f"/proc/{parent}/task/{parent}/children") as list_of_pids:
        return [int(pid) for pid in list_of_pids.read().split()]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


run = subprocess.Popen([edgeprof, "run", "-n", "5", "--", nginx, "-p", work, "-c", f"{work}/nginx.conf", "-e", f"{work}/errors"],
                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "WITNESS": "3"})
end = time.monotonic() + SECONDS
loaders = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        load(end)
        os._exit(0)
    loaders.append(pid)
for pid in loaders:
    os.waitpid(pid, 0)
with open(f"{work}/pid") as file:
    master = int(file.read())
used = {pid: cpu_seconds(pid) for pid in (master, *children(master))}
os.kill(master, signal.SIGQUIT)
out, _ = run.communicate(timeout=30)
found = re.search(r"cpu: (\S+?)(m?s) in", out)
total = float(found.group(1)) / (1000 if found.group(2) == "ms" else 1) if found else 0
rest = re.search(r"^ *([\d.]+)(m?s)  short processes$", out, re.M)  # of these processes all CPU time is profiled
total -= float(rest.group(1)) / (1000 if rest.group(2) == "ms" else 1) if rest else 0
print(f"nginx.py: kernel: {sum(used.values()):.2f} s in {len(used)} processes {used}; profile: {total:.2f} s")
print(f"figure forked_nginx_accounted {total / sum(used.values()):.4f} x")
# /proc/PID/stat has the exact sum of CPU time in units of 10 ms; nginx uses some more until it ends.
slack = 0.02 * sum(used.values()) + 0.02 * len(used)
if run.returncode != 0 or len(used) != 3 or abs(total - sum(used.values())) > slack:
    sys.exit(f"nginx.py: run ended with {run.returncode}:\n{out}")
