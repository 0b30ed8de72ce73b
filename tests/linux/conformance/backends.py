"""Receivers that behave as the real servers were seen to: Pyroscope 2.0.6, Parca 0.28.0 and an OpenTelemetry collector 0.159. Each stores what
the server stores, so a test can ask what became of the profiles, not only what was sent.

seconds: the time from a request to its answer. Those of Pyroscope take half a second, its flush.
lose(number): True for a request (from 1) that is stored, but whose answer never comes."""
import ctypes
import ctypes.util
import gzip
import json
import re
import struct
import threading
import time
import zlib

from proto import Malformed, decode, fields
from receiver import Receiver
from rules import inflated

LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
SECOND = 10**9


def pair(data):
    found = {number: value for number, _, value in fields(data)}
    return found.get(1, b"").decode(), found.get(2, b"").decode()


class Pprof:
    """What the servers look at, read in one pass over the fields."""

    def __init__(self, data):
        self.size, self.time, self.duration, self.samples, self.total, self.types, self.strings = len(data), 0, 0, 0, 0, [], []
        named, stacks = {}, []
        for number, wire, value in fields(data):
            if number == 6:
                self.strings.append(value)
            elif number == 1:
                type_ = {field: text for field, _, text in fields(value)}
                self.types.append((type_.get(1, 0), type_.get(2, 0)))
            elif number == 2:
                stacks.append(value)
            elif number == 4:
                location = list(fields(value))
                named[next(text for field, _, text in location if field == 1)] = any(field == 4 for field, _, _ in location)
            elif number == 9:
                self.time = value
            elif number == 10:
                self.duration = value
        self.nameless = 0
        for stack in stacks:
            self.add_sample(stack, named)

    def add_sample(self, stack, named):
        locations, values = [], []
        for number, wire, value in fields(stack):
            if number in (1, 2):
                (locations if number == 1 else values).extend(packed(value) if wire == 2 else [value])
        self.samples += 1
        self.total += values[-1]
        self.nameless += not any(named[location] for location in locations)

    def type_names(self):
        return [tuple(self.strings[text].decode() for text in type_) for type_ in self.types]


def packed(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0


class Backend:
    """A receiver with an answer of its own for each request, after `seconds`. busy: seconds from requests to their answers."""

    def __init__(self, seconds=0, lose=None, server=Receiver):
        self.seconds, self.lose, self.numbers, self.busy, self.guard = seconds, lose, 0, 0, threading.Lock()
        self.receiver = server(decide=self.decide)
        self.url = self.receiver.url

    def decide(self, head, body):
        started = time.monotonic()
        with self.guard:
            self.numbers += 1
            number = self.numbers
            answer = self.answer(head, body)
        time.sleep(max(0, started + self.seconds - time.monotonic()))
        with self.guard:
            self.busy += time.monotonic() - started
        return "close" if answer.startswith("200") and self.lose and self.lose(number) else answer

    def close(self):
        self.receiver.close()


def quoted(text):
    """As Go's strconv.Quote() for what labels contain."""
    return json.dumps(text, ensure_ascii=False).replace("\\u007f", "\\x7f")


def go_time(nanoseconds):
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(nanoseconds // SECOND))
    return text + f".{nanoseconds // 10**6 % 1000:03d}".rstrip("0").rstrip(".") + " +0000 UTC"


class Pyroscope(Backend):
    """Push, with the default limits. A series is limited, checked and stored by itself. Of a refused request the answer is the
    first failure of a series in words that say its labels, as an error of Connect hides the errors around it; only failures
    that are none of Connect's come as the whole list, with indexes and ids."""
    RATE, BURST = 4 << 20, 2 << 20  # inflated bytes
    HOUR, AHEAD = 3600 * SECOND, 600 * SECOND
    SAMPLES = 16000

    def __init__(self, seconds=0.5, lose=None):
        self.stored, self.tokens, self.filled, self.inflated, self.refused = [], self.BURST, time.monotonic(), 0, 0
        super().__init__(seconds, lose)

    def allow(self, size):
        now = time.monotonic()
        self.tokens, self.filled = min(self.BURST, self.tokens + (now - self.filled) * self.RATE), now
        if size > self.tokens:
            return False
        self.tokens -= size
        return True

    def push(self, series):
        """(status, id, what is wrong) of one."""
        labels = [pair(value) for number, _, value in fields(series) if number == 1]
        sample = {number: value for _, _, sample in (one for one in fields(series) if one[0] == 2) for number, _, value in fields(sample)}
        data, name = inflated(sample[1]), sample.get(2, b"").decode()
        if not self.allow(len(data) + sum(len(name) + len(value) for name, value in labels)):
            return 429, name, "push rate limit (4.0 MiB) exceeded"
        try:
            profile = Pprof(data)
        except Malformed:
            return 500, name, "no pprof"
        wrong = self.wrong(labels, profile, data)
        if wrong:
            return 400, name, wrong
        self.inflated += len(data)
        self.stored.append((tuple(sorted(labels)), profile))
        return 200, name, ""

    def wrong(self, labels, profile, data):
        now, names = time.time() * SECOND, [name for name, _ in labels]
        keys = {string.decode() for string in sample_keys(data, profile.strings)} - {"span_id", "trace_id"}
        text = "{" + ", ".join(f"{name}={quoted(value)}" for name, value in sorted(labels)) + "}"
        window = f"profile with labels '{text}' is outside of ingestion window (profile timestamp: {go_time(profile.time)}, the ingestion window "
        rules = {
            window + f"starts at {go_time(int(now - self.HOUR))})": profile.time and profile.time < now - self.HOUR,
            window + f"ends at {go_time(int(now + self.AHEAD))})": profile.time > now + self.AHEAD,
            f"profile series '{text}' has {len(set(names) | keys)} label names; limit 30": len(set(names) | keys) > 30,
            f"profile with labels '{text}' has duplicate label name: 'x'": len(set(names)) < len(names),
            f"profile with labels '{text}' has label name too long: 'x'": not all(0 < len(name) <= 1024 for name in names),
            f"profile with labels '{text}' has label value too long: 'x'": any(len(value) > 2048 for _, value in labels),
            f"the profile with labels '{text}' exceeds the samples count limit (max_profile_stacktrace_samples, actual: {profile.samples}, limit: {self.SAMPLES})":
                profile.samples > self.SAMPLES,
            f"the profile with labels '{text}' exceeds the size limit (max_profile_size_byte, actual: {profile.size}, limit: {4 << 20})": profile.size > 4 << 20,
            "sample type contains -": any("-" in type_ for type_, _ in profile.type_names()),
            f"invalid labels '{text}' with error: invalid metric name": not LABEL.fullmatch(dict(labels).get("__name__", "")),
        }
        return next((rule for rule, broken in rules.items() if broken), "")

    def answer(self, head, body):
        results = [self.push(value) for number, _, value in fields(body) if number == 1]
        bad = [(index, *result) for index, result in enumerate(results) if result[0] != 200]
        if not bad:
            return "200 OK"
        self.refused += 1
        index, status, name, text = next((one for one in bad if one[1] != 500), bad[0])
        if status == 500:
            text = "; ".join(f"push series with index {index} and id {name} failed: {text}" for index, _, name, text in bad)
            text = f"{len(bad)} errors: {text}" if len(bad) > 1 else text
        return f"{status} No\nContent-Type: application/json\n\n" + json.dumps({"code": "x", "message": text})

    def compacted(self):
        """What is left after compaction: of two with the same labels and time one, and no stack without a name."""
        return list({(labels, profile.time, tuple(profile.type_names())): profile for labels, profile in self.stored}.values())


def sample_keys(data, strings):
    for number, _, value in fields(data):
        if number == 2:
            for field, _, label in fields(value):
                if field == 3:
                    yield strings[next(text for key, _, text in fields(label) if key == 1)]


class Collector(Backend):
    """OTLP over HTTP: a request is taken whole or not at all. Pyroscope's limits for what it would pass on."""
    BODY, SAMPLES, PROFILE = 20 << 20, 16000, 4 << 20

    def __init__(self, seconds=0, lose=None):
        self.profiles, self.samples, self.largest, self.most = [], 0, 0, 0
        super().__init__(seconds, lose)

    def answer(self, head, body):
        if dict((name.lower(), value) for name, value in head[1]).get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.largest = max(self.largest, len(body))
        request = decode("Export", body)
        found = [profile for resource in request["resource_profiles"] for scope in resource["scope_profiles"] for profile in scope["profiles"]]
        self.most = max([self.most, *(len(profile["samples"]) for profile in found)])
        if len(body) > self.PROFILE or self.most > self.SAMPLES:
            return "500 Internal Server Error"  # what Pyroscope's endpoint says of a conversion that fails
        self.profiles += [(profile["time_unix_nano"], sum(row["values"][0] for row in profile["samples"])) for profile in found]
        self.samples += sum(len(profile["samples"]) for profile in found)
        return "200 OK"


class Parca(Backend):
    """WriteRaw: one bad type fails the request with 500; labels of stacks are dropped. With server=Grpc, OTLP: labels are kept."""

    def __init__(self, seconds=0, lose=None, server=Receiver):
        self.types, self.labels = {}, set()
        super().__init__(seconds, lose, server)

    def add(self, name, type_, unit, period, duration, total):
        for text in (name, type_, unit, *period):
            if not LABEL.fullmatch(text):
                raise ValueError(f"parse error: unexpected <op:/> in {text!r}")
        key = ":".join((name, type_, unit, *period)) + (":delta" if duration else "")
        self.types[key] = self.types.get(key, 0) + total

    def answer(self, head, body):
        try:
            if head[0].startswith("POST /opentelemetry"):
                self.export(body)
            else:
                self.write_raw(json.loads(body))
        except ValueError as error:
            return f"500 Internal Server Error\n\n{error}"
        return "200 OK"

    def write_raw(self, request):
        rows = []
        for series in request["series"]:
            labels = {label["name"]: label["value"] for label in series["labels"]["labels"]}
            profile = decode("Profile", inflated(__import__("base64").b64decode(series["samples"][0]["rawProfile"])))
            text = [string.decode() for string in profile["string_table"]]
            period = profile["period_type"]
            rows += [(labels["__name__"], text[type_["type"]], text[type_["unit"]], (text[period["type"]], text[period["unit"]]),
                      profile.get("duration_nanos", 0), sum(sample["value"][index] for sample in profile["sample"]))
                     for index, type_ in enumerate(profile["sample_type"])]
        for row in rows:
            self.add(*row)

    def export(self, message):
        request = decode("Export", message)
        dictionary = request["dictionary"]
        text = [string.decode() for string in dictionary["string_table"]]
        for scope in (scope for resource in request["resource_profiles"] for scope in resource["scope_profiles"]):
            for profile in scope["profiles"]:
                names = [text[profile[field][f"{part}_strindex"]] for field in ("sample_type", "period_type") for part in ("type", "unit")]
                self.add(scope["scope"]["name"].decode(), names[0], names[1], tuple(names[2:]), profile.get("duration_nano", 0),
                         sum(row["values"][0] for row in profile["samples"]))
                for row in profile["samples"]:
                    for index in row.get("attribute_indices", []):
                        attribute = dictionary["attribute_table"][index]
                        self.labels.add((text[attribute["key_strindex"]], attribute["value"]["string_value"].decode()))


class Heads:
    """Decodes the heads of one HTTP/2 connection with the library that libcurl has."""

    class Pair(ctypes.Structure):
        _fields_ = [("name", ctypes.c_void_p), ("value", ctypes.c_void_p), ("name_size", ctypes.c_size_t), ("value_size", ctypes.c_size_t), ("flags", ctypes.c_uint8)]

    def __init__(self):
        self.library, self.inflater = ctypes.CDLL(ctypes.util.find_library("nghttp2")), ctypes.c_void_p()
        self.library.nghttp2_hd_inflate_new(ctypes.byref(self.inflater))
        self.library.nghttp2_hd_inflate_hd2.restype = ctypes.c_ssize_t
        self.library.nghttp2_hd_inflate_hd2.argtypes = [ctypes.c_void_p, ctypes.POINTER(self.Pair), ctypes.POINTER(ctypes.c_int), ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]

    def decode(self, block):
        """[(name, value)]"""
        found, at = [], 0
        while True:
            one, flags = self.Pair(), ctypes.c_int()
            used = self.library.nghttp2_hd_inflate_hd2(self.inflater, ctypes.byref(one), ctypes.byref(flags), block[at:], len(block) - at, 1)
            if used < 0:
                raise Malformed(f"HPACK: {used}")
            at += used
            if flags.value & 2:
                found.append((ctypes.string_at(one.name, one.name_size).decode(), ctypes.string_at(one.value, one.value_size).decode()))
            if flags.value & 1 or (not used and not flags.value & 2):
                break
        self.library.nghttp2_hd_inflate_end_headers(self.inflater)
        return found


class Grpc(Receiver):
    """A gRPC server as small as it can be: HTTP/2 in clear, unary calls. The same face as Receiver; a body is the message."""
    STATUS = {"200": 0, "400": 3, "429": 8, "500": 2, "503": 14}

    def serve(self, connection):
        with connection, connection.makefile("rb") as stream:
            try:
                if stream.read(24) != b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":
                    self.wrong.append("no HTTP/2")
                    return
                self.send(connection, 4, 0, 0, struct.pack(">HI", 4, 1 << 30))  # a window for everything
                self.send(connection, 8, 0, 0, struct.pack(">I", 1 << 30))
                self.calls(connection, stream)
            except (OSError, struct.error, Malformed) as error:
                if not isinstance(error, OSError):
                    self.wrong.append(repr(error))

    def send(self, connection, type_, flags, stream, payload=b""):
        connection.sendall(struct.pack(">I", len(payload))[1:] + bytes([type_, flags]) + struct.pack(">I", stream) + payload)

    def calls(self, connection, stream):
        heads, bodies, decoder = {}, {}, Heads()
        while len(frame := stream.read(9)) == 9:
            size, type_, flags, number = int.from_bytes(frame[:3], "big"), frame[3], frame[4], int.from_bytes(frame[5:], "big")
            payload = stream.read(size)
            if type_ == 1:
                payload = payload[5 if flags & 0x20 else 0:]
                heads[number] = decoder.decode(payload)
            elif type_ == 0:
                bodies[number] = bodies.get(number, b"") + payload
                if size:
                    self.send(connection, 8, 0, 0, struct.pack(">I", size))
            elif type_ == 4 and not flags & 1:
                self.send(connection, 4, 1, 0)
            elif type_ == 6 and not flags & 1:
                self.send(connection, 6, 1, 0, payload)
            if type_ in (0, 1) and flags & 1 and not self.call(connection, number, heads.pop(number), bodies.pop(number, b"")):
                return

    def call(self, connection, number, headers, body):
        values = dict(headers)
        head = (f"{values[':method']} {values[':path']} HTTP/2", headers)
        if values.get("content-type") != "application/grpc" or values.get("te") != "trailers" or body[:1] != b"\0" or int.from_bytes(body[1:5], "big") != len(body) - 5:
            self.wrong.append(f"no call of gRPC: {headers} {body[:5]}")
        with self.lock:
            self.requests.append((head, body[5:]))
        answer = (self.decide and self.decide(head, body[5:])) or "200 OK"
        if answer == "close":
            return False
        status, _, text = answer.partition("\n\n")
        if status.startswith("200"):
            with self.lock:
                self.taken.append((head, body[5:]))
        def literal(name, value):
            return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        self.send(connection, 1, 4, number, b"\x88" + literal("content-type", "application/grpc"))
        if status.startswith("200"):
            self.send(connection, 0, 0, number, bytes(5))
        self.send(connection, 1, 5, number, literal("grpc-status", str(self.STATUS[status[:3]])) + literal("grpc-message", text[:100]))
        return True
