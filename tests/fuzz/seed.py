#!/usr/bin/env python3
"""Makes seeds for fuzz_unwind out of a small shared object: code and tables as they lie in memory, a stack on top.

    seed.py OBJECT FOLDER

One file a function of the table, with the pc inside it: three places in each, stacks with chains of both kinds.
"""
import pathlib
import struct
import sys

PT_LOAD, PT_GNU_EH_FRAME = 1, 0x6474e550


def segments(elf):
    offset, = struct.unpack_from('<Q', elf, 32)
    size, count = struct.unpack_from('<HH', elf, 54)
    for i in range(count):
        kind, flags, start, address, _, in_file, in_memory, _ = struct.unpack_from('<IIQQQQQQ', elf, offset + i * size)
        yield kind, flags, start, address, in_file, in_memory


def image_of(elf):
    """All of the executable segment, which holds the tables as well (linked with -z noseparate-code)."""
    parts = list(segments(elf))
    table = next(s for s in parts if s[0] == PT_GNU_EH_FRAME)
    load = next(s for s in parts if s[0] == PT_LOAD and s[3] <= table[3] < s[3] + s[4] and s[1] & 1)
    return elf[load[2]:load[2] + load[4]], table[3] - load[3], table[5]


def functions(image, table):
    count, = struct.unpack_from('<I', image, table + 8)
    for i in range(count):
        start, entry = struct.unpack_from('<ii', image, table + 12 + 8 * i)
        size, = struct.unpack_from('<I', image, table + entry + 12)
        yield table + start, size


def trim(image, table, first):
    """Without what lies before the first function: seeds are to be small."""
    return image[first:], table - first


def main():
    elf, folder = pathlib.Path(sys.argv[1]).read_bytes(), pathlib.Path(sys.argv[2])
    image, table, table_size = image_of(elf)
    found = list(functions(image, table))
    first = min(start for start, _ in found)
    image, table = trim(image, table, first)
    code_size = max(start + size for start, size in found) - first
    for number, (start, size) in enumerate(found):
        for place in (0, size // 2, size - 1):
            stack = b''.join(struct.pack('<Q', (((i * 5 + 1) * 8) << 2 | 1) if i % 3 == 0 else (number * 16 + i * 3) << 2 | 2)
                             for i in range(24))
            head = struct.pack('<9H2B', table, table_size, 0, code_size, start - first + place, 8 * (number % 4),
                               24, 40, len(stack), 1, 0)
            (folder / f'f{number:02}-{place:03}').write_bytes(head + stack + image)


if __name__ == '__main__':
    main()
