#!/usr/bin/python3
"""The server goes away while the service runs: everything measured is in the database at the end, or counted as lost.

usage: server_gone.py EDGEPROF WORKER WORK
Twice: killed and started again with its database, and with an empty one. That one does not know the segment: the device
starts another, and its queue continues there. Nothing is lost either way.

The server is killed after it has stored a message and before the device has its answer, so the device sends that
message again. The database that has it answers that it is known. The empty one stores it: that message is in both."""
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time

edgeprof, worker, work = (os.path.abspath(argument) for argument in sys.argv[1:4])
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)


class Way:
    """Passes connections on to the server. Once `answers` is False, it keeps the answers to itself."""

    def __init__(self, server_port):
        self.server_port, self.answers, self.kept_one = server_port, True, threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            device = self.listener.accept()[0]
            try:
                server = socket.create_connection(("127.0.0.1", self.server_port))
            except OSError:
                device.close()
                continue
            threading.Thread(target=self.pump, args=(device, server, False), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, device, True), daemon=True).start()

    def pump(self, source, sink, answering):
        try:
            while data := source.recv(65536):
                if answering and not self.answers:
                    self.kept_one.set()
                else:
                    sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def serve(port, db):
    log = open(os.path.join(work, "serve.log"), "w+", encoding="utf-8")
    server = subprocess.Popen([edgeprof, "serve", "--listen", f"127.0.0.1:{port}", "--db", db], stdout=log, stderr=log)
    for _ in range(100):
        found = re.search(r"http://127\.0\.0\.1:(\d+)", open(log.name, encoding="utf-8").read())
        if found:
            return server, int(found.group(1))
        time.sleep(0.1)
    sys.exit("server_gone: the server did not start: " + open(log.name, encoding="utf-8").read())


def total_ns(db):
    done = subprocess.run([edgeprof, "top", "--db", db, "--service", "worker", "-n", "100000", "--json"],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["total"]


def profiles(db):
    """Start and nanoseconds of each CPU profile as it was received."""
    with sqlite3.connect(db) as connection:
        return connection.execute("SELECT start_ns, value_sum FROM profile JOIN series ON series.id = series WHERE level = 0 AND kind = 'cpu'").fetchall()


def in_both_ns(first, second):
    """What both databases have. The device may know the time better when it sends again."""
    again = profiles(second)
    return sum(value for start, value in profiles(first) if any(value == other and abs(start - at) < 1e6 for at, other in again))


def run(name, forget):
    first = second = os.path.join(work, name + ".db")
    server, port = serve(0, first)
    way = Way(port)
    device = subprocess.Popen([worker, f"http://127.0.0.1:{way.port}", "9"], stdout=subprocess.PIPE, text=True)
    time.sleep(3)
    way.answers = False
    if not way.kept_one.wait(20):
        sys.exit(f"server_gone: {name}: the device sent nothing for 20 s")
    server.kill()
    server.wait()
    way.answers = True
    time.sleep(2)
    if forget:
        second = os.path.join(work, name + "-second.db")
    server, _ = serve(port, second)
    said = json.loads(device.communicate(timeout=60)[0])
    server.terminate()
    server.wait(20)
    twice = in_both_ns(first, second) if forget else 0
    kept = total_ns(second) + (total_ns(first) if forget else 0) - twice
    share = kept / said["measured_ns"]
    print(f"server_gone: {name}: {said}, in the database {kept} ns, {100 * share:.2f} %, and twice {twice} ns")
    if said["stop"] != 0 or said["failures"] == 0:
        sys.exit(f"server_gone: {name}: the server's absence was not noticed, or stop failed")
    if kept != said["measured_ns"]:
        sys.exit(f"server_gone: {name}: {said['measured_ns']} ns were measured, {kept} ns are in the database")
    if said["lost_ns"]:
        sys.exit(f"server_gone: {name}: {said['lost_ns']} ns were lost")


run("restarted", False)
run("forgetful", True)
