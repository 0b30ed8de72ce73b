#!/usr/bin/env python3
"""Makes inputs for fuzz_unwind.c out of a small shared object: code and tables as they lie in memory, a stack on top.

    seed.py OBJECT FOLDER

One file a place: three in each function that the table names, stacks with chains of both kinds; and two where a signal
handler returns to, with the kernel's frame of an interrupted function and with one that leads to itself. OBJECT is linked with
-shared -z noseparate-code; its architecture says how wide words are and whether the table is .eh_frame_hdr or
.ARM.exidx.
"""
import pathlib
import struct
import sys

PT_LOAD, PT_GNU_EH_FRAME, PT_ARM_EXIDX = 1, 0x6474e550, 0x70000001
EM_ARM, EM_X86_64, EM_AARCH64 = 40, 62, 183
# Code that returns from a signal handler.
RETURNS = {
    EM_ARM: (b'\xad\x27\x00\xdf', b'\xad\x70\xa0\xe3\x00\x00\x00\xef'),
    EM_X86_64: (b'\xb8\x0f\x00\x00\x00\x0f\x05',),
    EM_AARCH64: (b'\x68\x11\x80\xd2\x01\x00\x00\xd4',),
}
# Bytes into the kernel's frame where fp, lr, sp and pc are, and the size of all.
FRAMES = {
    EM_ARM: (128 + 32 + 44, 128 + 32 + 56, 128 + 32 + 52, 128 + 32 + 60, 128 + 32 + 68),
    EM_X86_64: (120, 0, 160, 168, 176),
    EM_AARCH64: (544, 552, 560, 568, 576),
}
AARCH64_FRAME = 4560
ARM_CPSR, ARM_CPSR_T = 128 + 32 + 64, 1 << 5


def segments(elf):
    wide = elf[4] == 2
    offset, = struct.unpack_from('<Q', elf, 32) if wide else struct.unpack_from('<I', elf, 28)
    size, count = struct.unpack_from('<HH', elf, 54 if wide else 42)
    for i in range(count):
        at = offset + i * size
        if wide:
            kind, flags, start, address, _, in_file = struct.unpack_from('<IIQQQQ', elf, at)
        else:
            kind, start, address, _, in_file, _, flags = struct.unpack_from('<IIIIIII', elf, at)
        yield kind, flags, start, address, in_file


def image_of(elf):
    """All of the executable segment, which holds the tables as well."""
    kind = PT_ARM_EXIDX if machine(elf) == EM_ARM else PT_GNU_EH_FRAME
    parts = list(segments(elf))
    table = next(s for s in parts if s[0] == kind)
    load = next(s for s in parts if s[0] == PT_LOAD and s[3] <= table[3] < s[3] + s[4] and s[1] & 1)
    return elf[load[2]:load[2] + load[4]], table[3] - load[3], table[4]


def machine(elf):
    return struct.unpack_from('<H', elf, 18)[0]


def functions_of_eh_frame(image, table):
    count, = struct.unpack_from('<I', image, table + 8)
    for i in range(count):
        start, entry = struct.unpack_from('<ii', image, table + 12 + 8 * i)
        size, = struct.unpack_from('<I', image, table + entry + 12)
        yield table + start, size


def functions_of_exidx(image, table, table_size):
    starts = []
    for at in range(table, table + table_size, 8):
        word, = struct.unpack_from('<I', image, at)
        starts.append(at + (word & 0x7fffffff) - (word << 1 & 0x80000000))
    starts = [start & ~1 for start in starts]
    return [(start, end - start) for start, end in zip(starts, starts[1:]) if end > start]


def stack_of(word, number):
    return b''.join(struct.pack('<Q' if word == 8 else '<I',
                                (((i * 5 + 1) * word) << 2 | 1) if i % 3 == 0 else (number * 16 + i * 3) << 2 | 2)
                    for i in range(24))


def signal_stack(kind, word, pc, loops, back, thumb):
    """The kernel's frame at the stack's start; head's gap and gap_at, fp."""
    places, size = FRAMES[kind][:4], FRAMES[kind][4]
    to_stack, to_code = lambda value: value << 2 | 1, lambda value: value << 2 | 2
    fp = AARCH64_FRAME if kind == EM_AARCH64 else size + 4 * word
    record = [to_stack(fp + 8 * word), to_code(pc)]
    sp = 0 if loops else fp + 2 * word
    values = record + [to_stack(sp), to_code(back if loops and kind != EM_ARM else pc)]
    if loops and kind == EM_ARM:  # a leaf that was called from there
        values[1] = to_code(back)
    if loops and kind == EM_AARCH64:
        values[0] = record[0] = to_stack(fp)
    data = bytearray(size)
    for at, value in zip(places, values):
        data[at:at + word] = value.to_bytes(word, 'little')
    if thumb:
        data[ARM_CPSR] = ARM_CPSR_T
    tail = [] if kind == EM_AARCH64 else [0] * 4
    tail += record + [to_code(pc), to_stack(fp + 6 * word), to_code(pc)] * 5
    data += b''.join(value.to_bytes(word, 'little') for value in tail)
    return bytes(data), (AARCH64_FRAME - size, size, fp) if kind == EM_AARCH64 else (0, 0, fp)


def main():
    elf, folder = pathlib.Path(sys.argv[1]).read_bytes(), pathlib.Path(sys.argv[2])
    image, table, table_size = image_of(elf)
    arm, word = machine(elf) == EM_ARM, 8 if elf[4] == 2 else 4
    found = list(functions_of_exidx(image, table, table_size) if arm else functions_of_eh_frame(image, table))
    first = min(start for start, _ in found)
    image, table = image[first:], table - first  # seeds are to be small
    code_size = max(start + size for start, size in found) - first
    folder.mkdir(parents=True, exist_ok=True)
    name = pathlib.Path(sys.argv[1]).stem
    for number, (start, size) in enumerate(found):
        for place in (0, size // 2 & ~3, size - 4 & ~1):
            pc = start - first + max(place, 0)
            stack = stack_of(word, number)
            head = struct.pack('<9H2B6H', table, table_size, 0, code_size, pc + arm, word * (number % 4),
                               3 * word, 5 * word, len(stack), 1, 0, pc, 0, 0, 0, 0, 0)
            (folder / f'{name}-{number:02}-{place:03}').write_bytes(head + stack + image)
    back = next(at for code in RETURNS[machine(elf)] if (at := image.find(code)) >= 0)
    thumb = arm and image.find(RETURNS[EM_ARM][0]) >= 0
    leaf = next(start - first for start, size in found if not start - first <= back < start - first + size)
    inside = leaf if arm else found[1][0] - first + 8
    for loops in (False, True):
        stack, (gap, gap_at, fp) = signal_stack(machine(elf), word, inside, loops, back, thumb)
        for pc in (back, inside):
            head = struct.pack('<9H2B6H', table, table_size, 0, code_size, pc + thumb, 0, fp, 0, len(stack), 1, 0, back, 0, 0, 0,
                               gap, gap_at)
            (folder / f'{name}-signal-{int(loops)}-{pc:03}').write_bytes(head + stack + image)


if __name__ == '__main__':
    main()
