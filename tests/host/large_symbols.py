"""Writes an ELF file with symbols and DWARF of any size: compilation units of functions with arguments, and a symbol table.
Nothing in it is sparse or shared. Standard library only."""
import struct

FUNCTIONS = 1000  # of a unit
STEP = 64         # bytes of code of a function
BASE = 0x1000
ABBREVIATIONS = bytes([1, 0x11, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0,                       # unit: name, low_pc, high_pc
                       2, 0x2e, 1, 0x03, 0x08, 0x6e, 0x08, 0x11, 0x01, 0x12, 0x06, 0x3b, 0x06, 0, 0,  # function: and linkage name, line
                       3, 0x05, 0, 0x03, 0x08, 0x3b, 0x0b, 0, 0, 0])                                  # argument: name, line


def name(index):
    return b"_ZN7company7product9subsystem%dE8function%07dERKNS_6detail9parameterIiEERKNS_6detail9parameterIdEE" % (index % 97, index)


def unit(number):
    """A unit of .debug_info, and the start of its code."""
    start = BASE + number * FUNCTIONS * STEP
    dies = [b"\1unit%06d.cpp\0" % number + struct.pack("<QQ", start, FUNCTIONS * STEP)]
    for i in range(FUNCTIONS):
        index = number * FUNCTIONS + i
        dies.append(b"\2function%07d\0" % index + name(index) + b"\0" + struct.pack("<QII", start + i * STEP, STEP, index & 0xffff) +
                    b"".join(b"\3argument_with_a_name_%d\0\7" % k for k in range(8)) + b"\0")
    body = b"".join(dies) + b"\0"
    return struct.pack("<IHIB", len(body) + 7, 4, 0, 8) + body


def write(path, build_id, size):
    """Returns the number of functions; function i begins at BASE + i * STEP."""
    one = len(unit(0)) + FUNCTIONS * (24 + len(name(0)) + 1)
    units = size // one + 1
    count = units * FUNCTIONS
    note = struct.pack("<III", 4, len(build_id), 3) + b"GNU\0" + build_id
    names, sections = b"\0.text\0.note.gnu.build-id\0.debug_abbrev\0.debug_info\0.symtab\0.strtab\0.shstrtab\0", []
    with open(path, "wb") as file:
        file.write(bytes(64))

        def section(label, kind, parts, flags=0, address=0, link=0, info=0, align=8, entry=0, bytes_=None):
            file.write(bytes(-file.tell() % align))
            at = file.tell()
            for part in parts:
                file.write(part)
            sections.append(struct.pack("<IIQQQQIIQQ", names.index(label), kind, flags, address, at, file.tell() - at if bytes_ is None else bytes_, link, info, align, entry))

        sections.append(bytes(64))
        section(b".text\0", 8, (), 6, BASE, align=16, bytes_=count * STEP)
        section(b".note.gnu.build-id\0", 7, (note,), align=4)
        section(b".debug_abbrev\0", 1, (ABBREVIATIONS,))
        section(b".debug_info\0", 1, (unit(i) for i in range(units)), align=1)

        def symbols():
            offset = 1
            yield bytes(24)
            for i in range(count):
                yield struct.pack("<IBBHQQ", offset, 0x12, 0, 1, BASE + i * STEP, STEP)
                offset += len(name(i)) + 1

        section(b".symtab\0", 2, symbols(), link=6, info=1, entry=24)
        section(b".strtab\0", 3, (b"\0", *(name(i) + b"\0" for i in range(count))), align=1)
        section(b".shstrtab\0", 3, (names,), align=1)
        file.write(bytes(-file.tell() % 8))
        table = file.tell()
        file.write(b"".join(sections))
        file.seek(0)
        file.write(b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, len(sections), len(sections) - 1))
    return count
