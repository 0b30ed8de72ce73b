"""Servers under load from outside, and a clean stop."""
import os
import re
import shutil
import signal
import time

from kit import Differs, connects, free_port, user, wait_until

TRIES = 3  # somebody else may take the port between its choice and its use


# ---- PostgreSQL ----

def postgres_tools():
    folders = sorted(f"/usr/lib/postgresql/{version}/bin" for version in os.listdir("/usr/lib/postgresql"))
    return folders[-1]


def invariants(psql):
    sums = "select (select sum(abalance) from pgbench_accounts) = (select sum(tbalance) from pgbench_tellers)," \
           " (select sum(tbalance) from pgbench_tellers) = (select sum(bbalance) from pgbench_branches)," \
           " (select coalesce(sum(bbalance), 0) from pgbench_branches) = (select coalesce(sum(delta), 0) from pgbench_history)," \
           " (select count(*) from pgbench_history)"
    return psql(sums)


def postgres_starts(run, settings):
    """The server, and a function that asks it."""
    tools, data, sockets = postgres_tools(), run.work / "data", run.work
    be = user("postgres")
    if be:
        shutil.chown(run.work, "postgres", "postgres")
    run.outside([*be, f"{tools}/initdb", "-D", data, "-A", "trust", "-U", "bench", "--no-sync"], cwd=run.work)
    settings = {"listen_addresses": "", "unix_socket_directories": sockets, "fsync": "off", "max_connections": 30, "log_min_messages": "warning",
                **settings}
    server = run.start([f"{tools}/postgres", "-D", data, *(f"--{name}={value}" for name, value in settings.items())], before=be)
    at = ["-h", sockets, "-U", "bench"]
    wait_until("postgres", server, lambda: run.outside([f"{tools}/pg_isready", *at, "-d", "postgres"], check=False).returncode == 0)
    return server, lambda text: run.outside([f"{tools}/psql", *at, "-Atc", text, "postgres"]).stdout.strip()


def postgres_stops(run, server):
    """Exit status, and what is wrong in the log."""
    server.send_signal(signal.SIGINT)  # fast shutdown
    status, _, log = run.end(server)
    return status, [line for line in re.findall(r"(?:ERROR|FATAL|PANIC|WARNING): .*|.*terminated by signal.*", log)
                    if "administrator command" not in line and "starting up" not in line]  # what pg_isready and the stop cause


def postgres(run, arguments):
    server, psql = postgres_starts(run, {"jit": "off"})
    pgbench = [f"{postgres_tools()}/pgbench", "-h", run.work, "-U", "bench"]
    run.outside([*pgbench, "-i", "-q", "-s", "2", "postgres"])
    load = run.outside([*pgbench, *arguments, "postgres"], check=False)
    figures = re.findall(r"^number of (?:transactions actually processed|failed transactions): .*", load.stdout, re.M)
    sums = invariants(psql)
    backends = psql("select count(*) from generate_series(1, 300000) a")
    status, wrong = postgres_stops(run, server)
    return {"exit status": status, "pgbench": load.returncode, "transactions": figures, "complaints": load.stderr.count("error"), "sums": sums,
            "count": backends, "log": wrong, "summary": f"{status}: {' '.join(re.findall(r'[0-9]+/[0-9]+', str(figures))) or 'failed'}, sums {sums}"}


def pgbench(run):
    return postgres(run, ["-c", "6", "-j", "2", "-t", "400"])


def pgbench_connect(run):
    return postgres(run, ["-C", "-c", "4", "-j", "2", "-t", "60"])


# ---- nginx ----

CONFIG = """worker_processes 2; {master} pid {work}/nginx.pid; error_log {work}/error.log notice; daemon off; {user}
events {{ worker_connections 256; }}
http {{ access_log off; client_body_temp_path {work}/body; proxy_temp_path {work}/proxy; fastcgi_temp_path {work}/fastcgi; uwsgi_temp_path {work}/uwsgi;
scgi_temp_path {work}/scgi; types {{ text/html html; }}
server {{ listen 127.0.0.1:{port}; root {work}/pages; gzip on; gzip_min_length 1; gzip_comp_level 6; location /hello {{ return 200 "hello\\n"; }} }} }}
"""


def nginx_starts(run, master):
    for left in reversed(range(TRIES)):
        port = free_port()
        text = CONFIG.format(master=master, work=run.work, port=port, user="user root;" if os.getuid() == 0 else "")
        (run.work / "nginx.conf").write_text(text)
        server = run.start(["/usr/sbin/nginx", "-c", run.work / "nginx.conf", "-p", run.work])
        try:
            wait_until("nginx", server, lambda: connects(port))
            return server, port
        except Differs:
            log = run.work / "error.log"
            if not left or "Address already in use" not in (log.read_text() if log.exists() else ""):
                raise
    raise Differs("no port")


def nginx(run, master=""):
    (run.work / "pages").mkdir()
    (run.work / "pages" / "index.html").write_text("<p>" + "some words to compress; " * 400)
    server, port = nginx_starts(run, master)
    place = f"http://127.0.0.1:{port}"
    loads = [run.outside(["wrk", "-t1", "-c16", "-d2s", *extra, place + path], check=False).stdout
             for path, *extra in (("/hello",), ("/", "-H", "Accept-Encoding: gzip"))]
    requests = [int(number) for load in loads for number in re.findall(r"(\d+) requests in", load)]
    errors = [line.strip() for load in loads for line in re.findall(r"Socket errors:.*|Non-2xx.*", load)]
    page = run.outside(["curl", "-s", "--max-time", "5", place + "/"]).stdout
    server.send_signal(signal.SIGQUIT)  # the graceful stop
    status, _, err = run.end(server)
    log = re.findall(r"\[(?:alert|crit|emerg|error)\].*|exited on signal.*", (run.work / "error.log").read_text())
    return {"exit status": status, "errors": errors, "answers": [number > 100 for number in requests], "page": len(page), "log": log, "messages": err,
            "summary": f"{status}: {sum(requests)} requests, {len(errors)} errors"}


def nginx_alone(run):
    return nginx(run, "master_process off;")


# ---- Redis ----

def redis_starts(run):
    for _ in range(TRIES):
        port = free_port()
        server = run.start(["/usr/bin/redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", run.work])
        try:
            wait_until("redis-server", server, lambda: connects(port))
            return server, port
        except Differs:
            if "Address already in use" not in (run.work / "output").read_text():
                raise
    raise Differs("no port")


def redis(run):
    server, port = redis_starts(run)
    ask = lambda *words: run.outside(["redis-cli", "-p", port, *words]).stdout.strip()
    load = run.outside(["redis-benchmark", "-p", port, "-n", "15000", "-c", "20", "-q", "--csv", "-t", "set,get,incr,lpush,sadd,lrange_100"], check=False)
    counts = [ask("GET", "counter:__rand_int__"), ask("LLEN", "mylist"), ask("DBSIZE")]
    saved = ask("BGSAVE")
    until = time.monotonic() + 10
    while "rdb_bgsave_in_progress:0" not in ask("INFO", "persistence") and time.monotonic() < until:
        time.sleep(0.05)
    ended = re.findall(r"rdb_last_bgsave_status:(\w+)", ask("INFO", "persistence"))
    server.send_signal(signal.SIGTERM)
    status, out, _ = run.end(server)
    bad = [line for line in re.findall(r" # (.*)", out) if re.search(r"error|crash|signal (?!handler)|fail", line, re.I) and "SIGTERM" not in line]
    return {"exit status": status, "redis-benchmark": load.returncode, "errors": load.stderr.count("rror"), "counts": counts, "saved": (saved, ended),
            "goodbye": "bye bye" in out, "log": bad,
            "summary": f"{status}: counts {' '.join(counts)}, saved {' '.join(ended)}"}


for each in (pgbench, pgbench_connect, nginx, nginx_alone, redis):
    each.seconds = 60
# Workers that are forked without exec are not profiled: what is asked of the share is nothing, what the program does counts.
pgbench.least = pgbench_connect.least = nginx.least = 0
ROWS = {"postgres": pgbench, "postgres-connect": pgbench_connect, "nginx": nginx, "nginx-one-process": nginx_alone, "redis": redis}
