"""A server that takes whatever is POSTed to it and keeps it as it came from the socket. It reads HTTP strictly, by itself: what it does
not understand is an error of the client's."""
import re
import socket
import threading
import time


class Wrong(Exception):
    pass


def read_request(stream):
    """((first line, [(name, value)]), body), or None at the end of the connection."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = stream.read(1)
        if not byte:
            if head:
                raise Wrong(f"the connection ends in the middle of a head: {head!r}")
            return None
        head += byte
    first, *lines = head[:-4].decode("ascii").split("\r\n")
    headers = []
    for line in lines:
        found = re.fullmatch(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([ -~\t]*?)[ \t]*", line)
        if not found:
            raise Wrong(f"no header: {line!r}")
        headers.append((found[1], found[2]))
    length = [value for name, value in headers if name.lower() == "content-length"]
    if len(length) != 1 or not length[0].isdigit():
        raise Wrong(f"Content-Length: {length}")
    body = stream.read(int(length[0]))
    if len(body) != int(length[0]):
        raise Wrong(f"{len(body)} bytes of {length[0]}")
    return (first, headers), body


class Receiver:
    """Answers each request with the next of `answers`, or with what decide(head, body) says, and with 200 when neither says anything.
    "close" is no answer; headers follow the status line by line, and a body after an empty line. `taken` are the requests that were answered with 200."""

    def __init__(self, answers=(), decide=None, port=0, context=None):
        self.requests, self.times, self.wrong, self.answers, self.taken = [], [], [], list(answers), []
        self.decide, self.context = decide, context
        self.lock = threading.Lock()
        self.socket = socket.create_server(("127.0.0.1", port))
        self.port = self.socket.getsockname()[1]
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self.port}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            connection = self.context.wrap_socket(connection, server_side=True) if self.context else connection
        except OSError:
            return
        with connection, connection.makefile("rb") as stream:
            try:
                while request := read_request(stream):
                    with self.lock:
                        self.requests.append(request)
                        self.times.append(time.monotonic())
                        answer = self.answers.pop(0) if self.answers else None
                    answer = answer or (self.decide and self.decide(*request)) or "200 OK"
                    if answer == "close":
                        return
                    if answer.startswith("200"):
                        with self.lock:
                            self.taken.append(request)
                    head, _, body = answer.partition("\n\n")
                    status, *headers = head.split("\n")
                    lines = "".join(f"{header}\r\n" for header in headers)
                    connection.sendall(f"HTTP/1.1 {status}\r\n{lines}Content-Length: {len(body.encode())}\r\n\r\n{body}".encode())
            except (Wrong, UnicodeDecodeError) as error:
                self.wrong.append(str(error))
            except OSError:
                pass

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)  # accept() holds on to a socket that is only closed
        except OSError:
            pass
        self.socket.close()
