#!/usr/bin/env python3
"""Reads OpenTelemetry's process context (OTEP 4719) and thread contexts (OTEP 4947) of a running process, as another
program does: /proc/PID/maps, process_vm_readv() and, for the thread pointer, ptrace(). It shares no code with the
writer. As a program it prints what it finds:

    reader.py PID
"""
import ctypes
import os
import pathlib
import re
import select
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
NAMES = re.compile(r'(/memfd:OTEL_CTX( \(deleted\))?|\[anon(_shmem)?:OTEL_CTX\])$')
PTRACE_SINGLESTEP, PTRACE_DETACH, PTRACE_GETREGSET, PTRACE_SEIZE, PTRACE_INTERRUPT = 9, 17, 0x4204, 0x4206, 0x4207
NT_PRSTATUS, WALL = 1, 0x40000000
FS_BASE = 21  # in struct user_regs_struct
TPOFF64, DTPMOD64, TLSDESC = 18, 16, 36
PT_DYNAMIC, PT_TLS, SHT_DYNSYM, STT_TLS = 2, 7, 11, 6


class Iovec(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('size', ctypes.c_size_t)]


class Torn(Exception):
    """The writer was writing."""


def memory(pid, address, size):
    buffer = ctypes.create_string_buffer(size)
    local, remote = Iovec(ctypes.addressof(buffer), size), Iovec(address, size)
    got = LIBC.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
    if got != size:
        raise OSError(ctypes.get_errno(), f'{got} of {size} bytes at {address:#x}')
    return buffer.raw


def maps(pid):
    """[(start, end, permissions, offset, path)]"""
    found = []
    for line in pathlib.Path(f'/proc/{pid}/maps').read_text().splitlines():
        words = line.split(None, 5)
        start, end = (int(part, 16) for part in words[0].split('-'))
        found.append((start, end, words[1], int(words[2], 16), words[5] if len(words) > 5 else ''))
    return found


def contexts(pid):
    """Where the process has contexts, by name."""
    return [(start, end) for start, end, access, _, path in maps(pid) if NAMES.match(path) and access.startswith('rw')]


# ---- protobuf ----

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """[(number, value)]: an int or bytes. Anything else is refused, as are bytes beyond the end."""
    at, found = 0, []
    while at < len(data):
        tag, at = varint(data, at)
        value, at = varint(data, at)
        if tag & 7 == 2:
            size, value = value, data[at:at + value]
            if len(value) != size:
                raise ValueError('a field ends beyond its message')
            at += size
        elif tag & 7:
            raise ValueError(f'wire type {tag & 7}')
        found.append((tag >> 3, value))
    return found


def any_value(data):
    (number, value), = fields(data)
    if number == 1:
        return value.decode()
    if number == 3:
        return value
    if number == 5:
        return [any_value(element) for _, element in fields(value)]
    raise ValueError(f'AnyValue {number}')


def pairs(messages):
    found = {}
    for message in messages:
        parts = dict(fields(message))
        key = parts[1].decode()
        if key in found:
            raise ValueError(f'{key} twice')
        found[key] = any_value(parts[2])
    return found


def decode(payload):
    """(resource attributes, process context attributes)"""
    top = fields(payload)
    resources = [value for number, value in top if number == 1]
    assert len(resources) == 1, 'one resource'
    return pairs(v for n, v in fields(resources[0]) if n == 1), pairs(v for n, v in top if n == 2)


# ---- process context ----

def header_of(pid, address):
    """(size, timestamp, payload's address)"""
    signature, version, size, stamp, payload = struct.unpack('<8sIIQQ', memory(pid, address, 32))
    if signature != b'OTEL_CTX' or version != 2:
        raise ValueError(f'{signature!r} {version}')
    if not stamp:
        raise Torn
    if not 0 < size <= 65536 or not payload:
        raise ValueError(f'size {size}, payload {payload:#x}')
    return size, stamp, payload


def process_context(pid, address=None):
    """(timestamp, payload). Raises Torn if it is being written, and LookupError if there is none."""
    if address is None:
        found = contexts(pid)
        if len(found) != 1:
            raise LookupError(f'{len(found)} contexts')
        address = found[0][0]
    size, stamp, payload = header_of(pid, address)
    data = memory(pid, payload, size)
    if header_of(pid, address)[1] != stamp:
        raise Torn
    return stamp, data


def process_context_again(pid, address=None):
    for _ in range(1000):
        try:
            return process_context(pid, address)
        except Torn:
            pass
    raise Torn


# ---- thread context ----

class Module:
    """An ELF file of 64 bits."""

    def __init__(self, path):
        self.data = pathlib.Path(path).read_bytes()
        phoff, shoff, = struct.unpack_from('<QQ', self.data, 32)
        phnum, = struct.unpack_from('<H', self.data, 56)
        shnum, = struct.unpack_from('<H', self.data, 60)
        self.segments = [struct.unpack_from('<IIQQQQQQ', self.data, phoff + 56 * i) for i in range(phnum)]
        self.sections = [struct.unpack_from('<IIQQQQIIQQ', self.data, shoff + 64 * i) for i in range(shnum)]
        self.executable = struct.unpack_from('<H', self.data, 16)[0] == 2 or any(s[0] == 3 for s in self.segments)

    def symbol(self, name):
        """(index, st_info, st_value, st_size) in .dynsym."""
        for section in self.sections:
            if section[1] != SHT_DYNSYM:
                continue
            strings = self.sections[section[6]][4]
            for i in range(section[5] // 24):
                at, info, other, index, value, size = struct.unpack_from('<IBBHQQ', self.data, section[4] + 24 * i)
                end = self.data.index(b'\0', strings + at)
                if index and self.data[strings + at:end] == name:
                    assert other & 3 == 0, 'default visibility'
                    return i, info, value, size
        return None

    def relocation(self, symbol):
        """(type, address of its word, addend) or None."""
        for section in self.sections:
            for i in range(section[5] // 24 if section[1] == 4 else 0):
                address, info, addend = struct.unpack_from('<QQq', self.data, section[4] + 24 * i)
                if info >> 32 == symbol:
                    return info & 0xffffffff, address, addend
        return None

    def tls_offset(self, value):
        """Of a variable of an executable, from the thread pointer."""
        segment, = [s for s in self.segments if s[0] == PT_TLS]
        size, align = segment[6], segment[7]
        return value - (size + align - 1) // align * align


def find_variable(pid, name=b'otel_thread_ctx_v1'):
    """(module, load address, symbol) of the first module that has it."""
    seen = set()
    for start, _, _, offset, path in maps(pid):
        if offset or not path.startswith('/') or path in seen or not os.path.exists(path):
            continue
        seen.add(path)
        if pathlib.Path(path).open('rb').read(5) != b'\x7fELF\x02':
            continue
        module = Module(path)
        symbol = module.symbol(name)
        if symbol:
            first = min(s[3] for s in module.segments if s[0] == 1)
            return module, start - first, symbol
    raise LookupError('no module has the variable')


def thread_pointer(tid):
    """Stops the thread; the caller lets it go on."""
    if LIBC.ptrace(PTRACE_SEIZE, tid, None, None) or LIBC.ptrace(PTRACE_INTERRUPT, tid, None, None):
        raise OSError(ctypes.get_errno(), 'ptrace')
    os.waitpid(tid, WALL)
    buffer = ctypes.create_string_buffer(27 * 8)
    iovec = Iovec(ctypes.addressof(buffer), len(buffer))
    if LIBC.ptrace(PTRACE_GETREGSET, tid, ctypes.c_void_p(NT_PRSTATUS), ctypes.byref(iovec)):
        raise OSError(ctypes.get_errno(), 'ptrace')
    return struct.unpack_from('<Q', buffer.raw, 8 * FS_BASE)[0]


def step(tid, output, look):
    """Lets a stopped thread go on, instruction by instruction with a look after each, until the program says something.
    Returns their number."""
    for steps in range(1, 1000000):
        if LIBC.ptrace(PTRACE_SINGLESTEP, tid, None, None):
            raise OSError(ctypes.get_errno(), 'ptrace')
        os.waitpid(tid, WALL)
        look()
        if steps % 64 == 0 and select.select([output], [], [], 0)[0]:
            return steps
    raise TimeoutError('a million instructions')


def slot(pid, pointer, variable):
    """The address of the thread's variable."""
    module, load, (index, _, value, _) = variable
    relocation = module.relocation(index)
    if relocation is None:
        assert module.executable
        return pointer + module.tls_offset(value)
    kind, address, _ = relocation
    first, second = struct.unpack('<QQ', memory(pid, load + address, 16))
    if kind == TPOFF64:
        return (pointer + first) % 2**64
    if kind == TLSDESC and second >= 2**63:
        return (pointer + second) % 2**64
    number, offset = struct.unpack('<QQ', memory(pid, second, 16)) if kind == TLSDESC else (first, second)
    vector, = struct.unpack('<Q', memory(pid, pointer + 8, 8))
    block, = struct.unpack('<Q', memory(pid, vector + 16 * number, 8))
    return block + offset


def thread_record(pid, tid, variable=None):
    """The bytes of the thread's record; None: it has none, or it is not valid."""
    variable = variable or find_variable(pid)
    pointer = thread_pointer(tid)
    try:
        record, = struct.unpack('<Q', memory(pid, slot(pid, pointer, variable), 8))
        if not record:
            return None
        head = memory(pid, record, 28)
        size, = struct.unpack_from('<H', head, 26)
        return head + (memory(pid, record + 28, size) if size else b'') if head[24] == 1 else None
    finally:
        LIBC.ptrace(PTRACE_DETACH, tid, None, None)


def thread_context(record, keys):
    """(trace id, span id, {key: value}) as text."""
    at, found = 28, {}
    while at + 2 <= len(record) and at + 2 + record[at + 1] <= len(record):
        if record[at] < len(keys):
            found[keys[record[at]]] = record[at + 2:at + 2 + record[at + 1]].decode()
        at += 2 + record[at + 1]
    return record[:16].hex(), record[16:24].hex(), found


def main():
    pid = int(sys.argv[1])
    resource, attributes = decode(process_context_again(pid)[1])
    for key, value in resource.items():
        print(f'{key} = {value}')
    keys = attributes.get('threadlocal.attribute_key_map', [])
    for task in sorted(pathlib.Path(f'/proc/{pid}/task').iterdir()):
        record = thread_record(pid, int(task.name))
        if record:
            trace, span, labels = thread_context(record, keys)
            print(f'thread {task.name}: trace {trace} span {span} {labels}')


if __name__ == '__main__':
    main()
