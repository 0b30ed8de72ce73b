#!/usr/bin/env python3
"""Tests what publisher.c publishes, by reader.py and by bytes that are made here from the specification's layout.

    otel.py PUBLISHER [EMULATOR...]

Under an emulator, which has no ptrace() and no fork inheritance of its own, only the bytes are compared.
"""
import pathlib
import re
import struct
import subprocess
import sys
import time

import reader

SCHEMA = 'tlsdesc_v1_dev'
SPAN, HIGH, LOW = 0xabcdef0102030405, 0x1112131415161718, 0x2122232425262728
TRACE = '11121314151617182122232425262728'
# As protoc decodes and encodes them with the definitions of opentelemetry-proto 1.11.0.
KNOWN_RESOURCE = '0a170a150a0c736572766963652e6e616d6512050a03737663'
KNOWN_KEYS = ('122e0a1a7468726561646c6f63616c2e736368656d615f76657273696f6e12100a0e746c73646573635f76315f646576'
              '122f0a1d7468726561646c6f63616c2e6174747269627574655f6b65795f6d6170120e2a0c0a040a026b300a040a026b31')


# ---- the layout, once more ----

def field(number, content):
    size, length = len(content), b''
    while size > 0x7f:
        length += bytes([size & 0x7f | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def value_of(value):
    if isinstance(value, list):
        return field(5, b''.join(field(1, value_of(v)) for v in value))
    if isinstance(value, int):
        number = b''
        while value > 0x7f:
            number += bytes([value & 0x7f | 0x80])
            value >>= 7
        return b'\x18' + number + bytes([value])
    return field(1, value.encode())


def pair(key, value):
    return field(1, key.encode()) + field(2, value_of(value))


def payload_of(resource, keys=None):
    schema = {} if keys is None else {'threadlocal.schema_version': SCHEMA, 'threadlocal.attribute_key_map': keys}
    return field(1, b''.join(field(1, pair(*p)) for p in resource.items())) + b''.join(field(2, pair(*p)) for p in schema.items())


def record_of(span, trace, labels=(), valid=1):
    attributes = b''.join(bytes([key, len(value)]) + value.encode() for key, value in labels)
    return bytes.fromhex(trace) + span.to_bytes(8, 'big') + bytes([valid, 0]) + struct.pack('<H', len(attributes)) + attributes


# ---- the program ----

class Program:
    def __init__(self, command, environment=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.pid = int(self.answer().split()[1])

    def answer(self):
        line = self.process.stdout.readline()
        assert line, 'the program has ended'
        return line.rstrip('\n')

    def send(self, line):
        self.process.stdin.write(line + '\n')
        self.process.stdin.flush()

    def do(self, line, wanted='ok'):
        self.send(line)
        got = self.answer()
        assert wanted is None or got.strip() == wanted, f'{line}: {got!r} is not {wanted!r}'
        return got

    def fails(self, line, code, words):
        got = self.do(line, None)
        assert got.startswith(f'{code} ') and words in got, f'{line}: {got!r}'

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def defaults(pid, **more):
    """What a program of publisher.c publishes without attributes, in its order."""
    base = {'service.name': 'publisher', 'service.version': '1.2', 'zone': 'a b', 'service.instance.id': None,
            'deployment.environment.name': '', 'telemetry.sdk.name': 'edgeprof', 'telemetry.sdk.language': 'cpp',
            'telemetry.sdk.version': None, 'host.name': None, 'process.pid': pid, 'process.executable.name': 'publisher'}
    return base | more


def check_payload(payload, keys, pid):
    """Values that only the process knows are taken from the payload; everything else is compared byte by byte."""
    resource, _ = reader.decode(payload)
    wanted = {key: resource[key] if value is None else value for key, value in defaults(pid).items()}
    assert payload == payload_of(wanted, keys), f'{payload.hex()}\nis not\n{payload_of(wanted, keys).hex()}'
    assert re.fullmatch('[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}', resource['service.instance.id'])
    return resource


# ---- tests ----

def test_layout(_):
    assert payload_of({'service.name': 'svc'}).hex() == KNOWN_RESOURCE
    assert payload_of({'service.name': 'svc'}, ['k0', 'k1']).hex() == KNOWN_RESOURCE + KNOWN_KEYS
    assert record_of(SPAN, TRACE, [(0, 'ab')]).hex() == TRACE + 'abcdef0102030405' + '01000400' + '00026162'


def test_process(command):
    with Program(command) as program:
        before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        assert not reader.contexts(program.pid), 'off by default'
        program.do('publish -', '0')
        (start, end), = reader.contexts(program.pid)
        stamp, payload = reader.process_context(program.pid)
        assert before <= stamp <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        resource = check_payload(payload, None, program.pid)
        head = reader.memory(program.pid, start, 32)
        assert head == b'OTEL_CTX' + struct.pack('<IIQQ', 2, len(payload), stamp, start + 32)
        program.do('publish service.name=other,more=%c3%a9%2C,service_version=7', '0')
        again, changed = reader.process_context(program.pid)
        assert again > stamp and reader.contexts(program.pid) == [(start, end)], 'the same mapping, later'
        other, _ = reader.decode(changed)
        assert (other['service.name'], other['more'], other['service_version']) == ('other', 'é,', '7')
        assert 'service.version' not in other and other['service.instance.id'] == resource['service.instance.id']
        program.fails('publish nonsense', -22, 'must be key=value')
        program.fails('publish ' + ','.join(f'k{i}={"x" * 120}' for i in range(3)) + ',x=%zz', -22, '%-encoded')
        assert reader.process_context(program.pid)[1] == changed, 'what is refused changes nothing'
        program.do('withdraw')
        assert not reader.contexts(program.pid)


def test_environment(command):
    environment = {'OTEL_SERVICE_NAME': 'unused', 'OTEL_RESOURCE_ATTRIBUTES': 'deployment.environment.name=test, zone=eu,service.version=9'}
    with Program(command, environment) as program:
        program.do('publish -', '0')
        resource, _ = reader.decode(reader.process_context(program.pid)[1])
        assert resource['service.name'] == 'publisher', 'code counts before the environment'
        assert (resource['deployment.environment.name'], resource['zone'], resource['service.version']) == ('test', 'eu', '9')


def test_others(command):
    with Program(command) as program:
        program.do('squat')
        program.fails('publish -', -17, 'another library')
        assert len(reader.maps(program.pid)) and not reader.contexts(program.pid), 'only the other one, read-only'


def without_file(command, before):
    """Publishes if the kernel can name memory; if not, nothing is left."""
    with Program(command) as program:
        program.do(before)
        code = int(program.do('publish -', None).split()[0])
        assert code in (0, -95)
        assert bool(reader.contexts(program.pid)) == (code == 0)


def test_refused(command):
    """No file may be made."""
    without_file(command, 'deny')


def test_limit(command):
    """Files may have no bytes."""
    without_file(command, 'limit')


def test_namespace(command):
    """A child that has its parent's number, in a PID namespace of its own, publishes its own context."""
    first = ['unshare', '--pid', '--fork']
    if subprocess.run(first + ['true'], capture_output=True).returncode != 0:
        print('no namespace is permitted here')
        return
    with Program(first + command) as program:
        assert program.pid == 1
        program.do('publish -', '0')
        program.do('inner', 'child 1')
        program.do('publish -', '0')


def test_many(command):
    """Keys for which there is no room do not publish the context again and again."""
    with Program(command) as program:
        program.do('publish -', '0')
        program.do('threads', '0')
        program.do('many 70')
        stamp, payload = reader.process_context(program.pid)
        assert len(reader.decode(payload)[1]['threadlocal.attribute_key_map']) == 64
        program.do('many 70')
        assert reader.process_context(program.pid) == (stamp, payload)


def test_threads(command):
    with Program(command) as program:
        program.fails('threads', -22, 'ep_otel_publish')
        program.do('publish -', '0')
        program.do('threads', '0')
        program.fails('threads', -114, '')
        variable = reader.find_variable(program.pid)
        assert variable[2][1] & 15 == reader.STT_TLS and variable[2][1] >> 4 == 1 and variable[2][3] == 8
        check_payload(reader.process_context(program.pid)[1], [], program.pid)
        tids = sorted(int(p.name) for p in pathlib.Path(f'/proc/{program.pid}/task').iterdir())
        program.do(f'span 0 {SPAN:x} {HIGH:x} {LOW:x}')
        found = [reader.thread_record(program.pid, tid, variable) for tid in tids]
        assert found == [record_of(SPAN, TRACE)] + [None] * (len(tids) - 1), 'main() alone has a span'
        program.do('push 0 step one', '0')
        program.do('push 0 path /a', '0')
        program.do('push 0 step two', '0')
        keys = ['step', 'path']
        check_payload(reader.process_context(program.pid)[1], keys, program.pid)
        record = reader.thread_record(program.pid, program.pid, variable)
        assert record == record_of(SPAN, TRACE, [(0, 'two'), (1, '/a')]), record.hex()
        assert reader.thread_context(record, keys) == (TRACE, f'{SPAN:x}', {'step': 'two', 'path': '/a'})
        program.do('pop 0')
        program.do('pop 0')
        program.do('span 0 5 0 0')
        assert reader.thread_record(program.pid, program.pid, variable) == record_of(0, '0' * 32, [(0, 'one')]), 'half a span is none'
        program.do('pop 0')
        assert reader.thread_record(program.pid, program.pid, variable) is None
        for thread in (1, 2, 3):
            program.do(f'span {thread} {thread:x} 1 {thread:x}')
        spans = sorted(r[23] for r in (reader.thread_record(program.pid, tid, variable) for tid in tids) if r)
        assert spans == [1, 2, 3]
        long = 'x' * 90
        for i in range(4):
            program.do(f'push 1 long{i} {long}', '0')
        assert program.do('dump 1', None) == record_of(1, f'{1:016x}{1:016x}', [(5, long), (4, long)]).hex(), 'what fits'


def test_keys(command):
    """Threads that bring keys at the same time lose none and double none; a label from before is known."""
    for _ in range(5):
        with Program(command) as program:
            program.do('publish -', '0')
            program.do('push 0 before x', '0')
            program.do('threads', '0')
            program.do('storm')
            keys = reader.decode(reader.process_context(program.pid)[1])[1]['threadlocal.attribute_key_map']
            assert keys[0] == 'before' and len(keys) == len(set(keys)) == 36, keys


def test_fork(command):
    with Program(command) as program:
        program.do('publish -', '0')
        program.do('threads', '0')
        program.do(f'span 0 {SPAN:x} {HIGH:x} {LOW:x}')
        mine = reader.decode(reader.process_context(program.pid)[1])[0]['service.instance.id']
        program.send('fork')
        # The child answers from here on, until it is told to end by the end of its input; commands go to both in turn.
        child = int(re.search(r'\d+', program.answer())[0])
        assert not reader.contexts(child), 'nothing of the parent'
        program.do('dump 0', 'none')
        program.do('publish -', '0')
        other = reader.decode(reader.process_context(child)[1])
        assert other[0]['service.instance.id'] != mine and other[0]['process.pid'] == child
        assert other[1]['threadlocal.schema_version'] == SCHEMA
        program.do(f'span 0 7 {HIGH:x} {LOW:x}')
        assert reader.thread_record(child, child) == record_of(7, TRACE)
        assert reader.decode(reader.process_context(program.pid)[1])[0]['service.instance.id'] == mine
        assert reader.thread_record(program.pid, program.pid) == record_of(SPAN, TRACE), 'the parent has its own still'


def test_steps(command):
    """After each instruction of a change a reader sees what was before, what comes then, or that it is being written."""
    with Program(command) as program:
        program.do('publish k=1', '0')
        address = reader.contexts(program.pid)[0][0]
        program.do('threads', '0')
        program.do(f'span 0 {SPAN:x} {HIGH:x} {LOW:x}')
        variable = reader.find_variable(program.pid)
        slot = reader.slot(program.pid, reader.thread_pointer(program.pid), variable)
        record = struct.unpack('<Q', reader.memory(program.pid, slot, 8))[0]
        states = {'payload': [], 'record': []}

        def look():
            try:
                payload = reader.process_context(program.pid, address)[1]
            except reader.Torn:
                payload = None
            now = reader.memory(program.pid, record, 28)
            for name, state in (('payload', payload), ('record', now if now[24] == 1 else None)):
                if not states[name] or states[name][-1] != state:
                    states[name].append(state)

        for line in ('publish k=2', f'span 0 9 {HIGH:x} {LOW:x}'):
            program.send(line)
            steps = reader.step(program.pid, program.process.stdout, look)
            assert steps > 1000 and program.answer().strip() in ('0', 'ok')
        reader.LIBC.ptrace(reader.PTRACE_DETACH, program.pid, None, None)
        before, torn, after = states['payload']
        numbers = [reader.decode(payload)[0]['k'] for payload in (before, after)]
        assert torn is None and numbers == ['1', '2'], numbers
        assert states['record'] == [record_of(SPAN, TRACE), None, record_of(9, TRACE)], states['record']


def test_torn(command):
    """While a context is written again and again, a reader sees whole ones or none; and so for a thread's record."""
    with Program(command) as program:
        program.do('publish -', '0')
        address = reader.contexts(program.pid)[0][0]
        program.send('loop 40000')
        whole = torn = last = 0
        seen = set()
        while len(seen) < 200 and whole + torn < 20000:
            try:
                stamp, payload = reader.process_context(program.pid, address)
            except reader.Torn:
                torn += 1
                continue
            resource = reader.decode(payload)[0]
            numbers = {resource.get(f'k{i}') for i in range(16)}
            assert len(numbers) == 1, f'a torn payload: {resource}'
            assert stamp >= last, 'time runs backwards'
            whole, last = whole + 1, stamp
            seen |= numbers
        program.answer()
        assert whole and len(seen) >= 20, f'{whole} whole, {torn} torn, {len(seen)} different'
        program.do('threads', '0')
        variable = reader.find_variable(program.pid)
        program.send('spin 1 300000000')
        tids = [int(p.name) for p in pathlib.Path(f'/proc/{program.pid}/task').iterdir()]
        spans = valid = 0
        for _ in range(300):
            for record in (reader.thread_record(program.pid, tid, variable) for tid in tids):
                spans += 1
                if record:
                    valid += 1
                    assert record[:8] == record[8:16] == record[16:24], f'a torn record: {record.hex()}'
        assert valid >= 50, f'{valid} of {spans}'
        program.process.kill()
        print(f'torn reads: {torn} of {whole + torn} rejected, {len(seen)} different payloads; records: {valid} valid, none torn')


def test_bytes(command):
    """Of an emulated program: its mapping is one of the emulator's, and it shows its thread's record itself."""
    with Program(command) as program:
        program.do('publish -', '0')
        program.do('threads', '0')
        program.do('push 0 step one', '0')
        program.do(f'span 0 {SPAN:x} {HIGH:x} {LOW:x}')
        assert program.do('dump 0', None) == record_of(SPAN, TRACE, [(0, 'one')]).hex()
        start = next(start for start, _, access, _, path in reader.maps(program.process.pid) if reader.NAMES.match(path))
        head = reader.memory(program.process.pid, start, 32)
        signature, version, size, stamp, payload = struct.unpack('<8sIIQQ', head)
        assert (signature, version) == (b'OTEL_CTX', 2) and stamp
        place = start + (32 if payload % 4096 == 32 else 32 + (8192 - 32) // 2)
        check_payload(reader.memory(program.process.pid, place, size), ['step'], program.pid)


def main():
    command = sys.argv[2:] + [sys.argv[1]]
    tests = [test_layout, test_bytes] if len(command) > 1 else \
        [test_layout, test_process, test_environment, test_others, test_refused, test_limit, test_namespace, test_many, test_threads, test_keys, test_fork, test_steps, test_torn]
    for test in tests:
        test(command)
    if len(command) == 1:
        with Program(command) as program:
            off = float(program.do('cost 2000000', None))
            program.do('publish -', '0')
            program.do('threads', '0')
            print(f'a span that begins and ends takes {float(program.do("cost 2000000", None)):.1f} ns, {off:.1f} without contexts')
    print(f'otel: {len(tests)} tests passed with {" ".join(command[:-1]) or "this processor"}')


if __name__ == '__main__':
    main()
