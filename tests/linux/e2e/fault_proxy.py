"""A proxy between a device and its server, on loopback, that breaks what can break on the way: one fault a request, by
a schedule. Standard library only.

Proxy(port, schedule)  listens on .port, passes requests on to 127.0.0.1:port; .played lists the faults that were had
FAULTS                 their names: FAILING (the device has to send again), SLOW (likewise, or the answer is known and its
                       end is not: until the device's deadline), HARMLESS, and LOSING (the receiver says no)"""
import collections
import http.client
import random
import re
import socket
import struct
import threading
import time

PUSHED = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Request:
    """One request of the device. Each fault_... decides what is heard, passed on, and said; False: hang up."""

    def __init__(self, proxy, connection):
        self.proxy, self.connection, self.heard = proxy, connection, b""

    # ---- hearing, passing on, saying ----

    def hear(self):
        """The whole request. False: the device has hung up."""
        while b"\r\n\r\n" not in self.heard and self.more():
            pass
        head, _, self.body = self.heard.partition(b"\r\n\r\n")
        length = re.search(rb"Content-Length: (\d+)", head)
        while length and len(self.body) < int(length[1]) and self.more():
            self.body = self.heard.partition(b"\r\n\r\n")[2]
        self.path = head.split(b" ")[1].decode() if head.count(b" ") > 1 else ""
        return bool(length) and len(self.body) == int(length[1])

    def more(self, size=65536):
        got = self.connection.recv(size)
        self.heard += got
        return got

    def forward(self):
        """The server's answer, as bytes."""
        server = http.client.HTTPConnection("127.0.0.1", self.proxy.server_port, timeout=60)
        try:
            server.request("POST", self.path, self.body, {"Content-Type": "application/x-edgeprof"})
            answer = server.getresponse()
            body = answer.read()
            return (f"HTTP/1.1 {answer.status} {answer.reason}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body
        finally:
            server.close()

    def say(self, data):
        self.connection.sendall(data)
        return True

    def drip(self, data, pause):
        for byte in data:
            self.connection.sendall(bytes([byte]))
            time.sleep(pause)
        return True

    def status_line(self, answer):
        return answer.partition(b"\r\n")[0] + b"\r\n"

    # ---- faults ----

    def fault_none(self):
        return self.hear() and self.say(self.forward())

    def fault_delay(self):
        time.sleep(0.7)
        return self.fault_none()

    def fault_pieces(self):
        return self.hear() and self.drip(self.forward(), 0.002)

    def fault_interim(self):
        return self.hear() and self.say(b"HTTP/1.1 100 Continue\r\n\r\n" * 20 + self.forward())

    def fault_headers_1000(self):
        if not self.hear():
            return False
        answer = self.forward()
        first = self.status_line(answer)
        return self.say(first + b"".join(b"X-Filler-%d: %s\r\n" % (i, b"y" * 20) for i in range(1000)) + answer[len(first):])

    def fault_chunked_trickle(self):
        if not self.hear():
            return False
        self.say(self.status_line(self.forward()) + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(8):
            self.say(b"1\r\nx\r\n")
            time.sleep(0.1)
        return self.say(b"0\r\n\r\n")

    def fault_length_short(self):
        """The body goes on behind its end."""
        return self.hear() and self.say(self.status_line(self.forward()) + b"Content-Length: 1\r\n\r\nand more than that")

    def fault_length_nonsense(self):
        return self.hear() and self.say(self.status_line(self.forward()) + b"Content-Length: -5\r\n\r\nok")

    def fault_loss(self):
        reset(self.connection)
        return False

    def fault_reset_request(self):
        self.more(100)
        reset(self.connection)
        return False

    def fault_reset_answer(self):
        """The server has it, and nobody says so."""
        if self.hear():
            self.say(self.forward()[:10])
            time.sleep(0.05)
        reset(self.connection)
        return False

    def fault_drop_answer(self):
        if self.hear():
            self.forward()
        return False

    def fault_garbage(self):
        if self.hear():
            self.say(random.Random(1).randbytes(3000))
        return False

    def fault_garbage_lines(self):
        return self.hear() and self.say(b"220 mail.example.com ESMTP\r\n250 OK\r\n\r\n") and False

    def fault_headers_10000(self):
        """More than anybody reads of a head."""
        if self.hear():
            first = self.status_line(self.forward())
            self.say(first + b"".join(b"X-Filler-%d: y\r\n" % i for i in range(10000)) + b"\r\n")
        return False

    def fault_busy(self):
        return self.hear() and self.say(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")

    def fault_refused(self):
        return self.hear() and self.say(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")

    def fault_stale(self):
        return self.hear() and self.say(b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n")

    def fault_drip_request(self):
        """The way up carries a byte a second, for longer than the device waits."""
        for _ in range(13):
            self.more(1)
            time.sleep(1)
        return False

    def fault_drip_answer(self):
        return self.hear() and self.drip(self.forward(), 1)

    def fault_half_open(self):
        """Nobody is there any more, and nobody says so."""
        self.hear()
        self.proxy.abandoned.append(self.connection)
        return None

    def fault_length_long(self):
        return self.hear() and self.say(self.status_line(self.forward()) + b"Content-Length: 5000\r\n\r\nok") and self.linger()

    def fault_chunked_forever(self):
        if not self.hear():
            return False
        self.say(self.status_line(self.forward()) + b"Transfer-Encoding: chunked\r\n\r\n")
        while self.say(b"1\r\nx\r\n"):
            time.sleep(0.3)
        return True

    def linger(self):
        """Until the device hangs up."""
        while self.connection.recv(100):
            pass
        return False


HARMLESS = ["delay", "pieces", "interim", "headers_1000", "chunked_trickle", "length_short", "length_nonsense"]
FAILING = ["loss", "reset_request", "reset_answer", "drop_answer", "garbage", "garbage_lines", "headers_10000", "busy"]
LOSING = ["refused", "stale"]
SLOW = ["drip_request", "drip_answer", "half_open", "length_long", "chunked_forever"]
FAULTS = HARMLESS + FAILING + LOSING + SLOW


class Proxy:
    def __init__(self, server_port, schedule=()):
        self.server_port, self.schedule, self.lock = server_port, collections.deque(schedule), threading.Lock()
        self.played, self.abandoned, self.under_way = [], [], 0
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listening.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def next_fault(self):
        with self.lock:
            self.under_way += 1
            return self.schedule.popleft() if self.schedule else "none"

    def finished(self):
        """Everything was played, and is over."""
        with self.lock:
            return not self.schedule and self.under_way == 0

    def serve(self, connection):
        go_on = True
        while go_on:
            try:
                go_on = bool(connection.recv(1, socket.MSG_PEEK))
            except OSError:
                go_on = False
            if go_on:
                go_on = self.play(connection)
        if go_on is not None:
            connection.close()

    def play(self, connection):
        fault = self.next_fault()
        try:
            return getattr(Request(self, connection), "fault_" + fault)()
        except OSError:
            return False  # the device has hung up in the middle of it
        finally:
            with self.lock:
                self.under_way -= 1
                self.played.append(fault)
