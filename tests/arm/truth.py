#!/usr/bin/env python3
"""Checks an unwinder on ARM against the truth, at every instruction of a program that QEMU runs.

    truth.py ARCH PROGRAM MAP [--walker core|fp] [--what all|managed|c] [--piece NAME]
             [--visits N] [--least STEPS] [--need PLACE=PCT] [--honest] [--top N]

PROGRAM (guest.h) is single-stepped through QEMU's gdbstub between its markers step_begin and step_end. The calls and
returns that it executes make a shadow stack: what is on it is true, tables are not asked. After each step the program
is sent through its own function `ask`, which saves all registers, hands them to the unwinder as a signal handler would
and leaves the answer in memory; then it goes on where it was. The answer is compared frame by frame.

MAP, the linker's, tells which file code is from. Standard library only; binutils of the cross toolchain disassemble.
"""
import argparse
import bisect
import collections
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time

# Processors of small devices; newer ones have vector registers that `ask` does not save.
ARCHES = {
    "aarch64": {"qemu": ["qemu-aarch64", "-cpu", "cortex-a53"], "tools": "aarch64-linux-gnu-", "word": 8, "sp": 31, "lr": 30, "pc": 32},
    "armhf": {"qemu": ["qemu-arm", "-cpu", "cortex-a7"], "tools": "arm-linux-gnueabihf-", "word": 4, "sp": 13, "lr": 14, "pc": 15,
              "flags": 25},
}
THUMB, IT_BITS = 1 << 5, 0x0600fc00
READ = 256    # bytes that QEMU's gdbstub reads at once
DEPTH = 1024  # SHADOW_DEPTH of tests/arm/shadow/shadow.h
SETJMPS = ("setjmp", "_setjmp", "__sigsetjmp", "sigsetjmp")
CONDITION = "(eq|ne|cs|cc|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)?"
CALL = re.compile(rf"(bl|blx){CONDITION}(\.n|\.w)?$|blr$")
EXCLUSIVE = re.compile(r"(ldxr|ldaxr|ldxp|ldaxp|ldrex|ldaex)")
EXCLUSIVE_END = re.compile(r"(stxr|stlxr|stxp|stlxp|strex|stlex|clrex)")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Instruction:
    """What stepping over it can mean."""

    def __init__(self, text, size):
        self.text = text
        name, _, rest = text.partition(" ")
        base = re.sub(r"\.[nw]$", "", name)
        self.size = size
        self.call = CALL.match(name) is not None
        self.returns = name == "ret" or rest in ("x30", "lr") and base.startswith(("br", "bx")) and not self.call or \
            base.startswith(("pop", "ldm")) and "pc}" in rest or base.startswith("ldr") and rest.startswith("pc, [sp]")
        self.exclusive = EXCLUSIVE.match(name) is not None
        self.exclusive_end = EXCLUSIVE_END.match(name) is not None


class Program:
    """Symbols, instructions and origin of code by address."""

    def __init__(self, arch, path, map_path):
        self.path, self.tools = path, arch["tools"]
        self.symbols, self.by_name = [], {}
        for line in output(self.tools + "nm", "-n", "--defined-only", path).splitlines():
            address, kind, *name = line.split(maxsplit=2)
            name = name[0] if name else ""
            self.by_name.setdefault(name, int(address, 16) & ~1 if kind in "tTwWiI" else int(address, 16))
            if kind in "tTwWiI" and not name.startswith(("$", "_fram", "_lsda")):
                self.symbols.append((int(address, 16) & ~1, name))
        self.symbols.sort()
        self.instructions = {}
        self.origin, self.bare = [], {}
        self.read_code()
        self.read_map(map_path)

    def read_code(self):
        found = re.compile(r"^ *([0-9a-f]+):\t([0-9a-f ]+?) *\t(.*)$")
        for line in output(self.tools + "objdump", "-d", self.path).splitlines():
            if match := found.match(line):
                size = len(match[2].replace(" ", "")) // 2
                text = re.sub(r"\s*(@|//|;).*", "", match[3])
                self.instructions[int(match[1], 16)] = (" ".join(text.split()), size)

    def read_map(self, path):
        text = re.sub(r"\n {10,}0x", " 0x", open(path, encoding="utf-8").read())
        for match in re.finditer(r"^ (\.text\S*|\.i?plt|__managedcode|__unbox)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+(\S.*)$", text, re.M):
            start, size = int(match[2], 16), int(match[3], 16)
            if size and start:
                self.origin.append((start, start + size, place_of(match[1], match[4])))
        self.origin.sort()

    def place(self, address):
        i = bisect.bisect_right(self.origin, (address, 1 << 64)) - 1
        return self.origin[i][2] if i >= 0 and address < self.origin[i][1] else "other"

    def place_under(self, address, calls):
        """Library code that was called from code without frame records or tables is a case of its own."""
        place = self.place(address)
        if place in ("libc", "libgcc", "plt") and any(self.is_bare(call.to) for call in calls):
            return place + "_over_bare"
        return place

    def is_bare(self, address):
        if address not in self.bare:
            self.bare[address] = self.place(address) == "c_bare"
        return self.bare[address]

    def instruction(self, address):
        known = self.instructions.get(address)
        if known is None:
            return Instruction("?", 4)
        if isinstance(known, tuple):
            known = self.instructions[address] = Instruction(*known)
        return known

    def function(self, address):
        """(start, end, name) of the symbol that holds it."""
        i = bisect.bisect_right(self.symbols, (address, "\uffff")) - 1
        if i < 0:
            return 0, 0, "?"
        end = next((s[0] for s in self.symbols[i + 1:i + 50] if s[0] != self.symbols[i][0]), 1 << 64)
        return self.symbols[i][0], end, self.symbols[i][1]

    def name(self, address):
        start, _, name = self.function(address)
        return f"{name}+{address - start:#x}"

    def code(self, address, count):
        lines = []
        while len(lines) < count and address in self.instructions:
            lines.append(self.instruction(address).text)
            address += self.instruction(address).size
        return lines


def place_of(section, path):
    if section in ("__managedcode", "__unbox"):
        return "managed"
    if section.endswith("plt"):
        return "plt"
    name = os.path.basename(path)
    if name.startswith("variety"):
        return {"variety.o": "c", "variety-arm.o": "c_arm_state", "variety-bare.o": "c_bare"}[name]
    if name in ("native.o", "program.o"):
        return "c"
    if name.startswith("ask-"):
        return "assembly"
    if name.startswith(("libc.a", "libm.a", "libpthread.a")):
        return "libc"
    return "libgcc" if name.startswith(("libgcc", "crt")) else "other"


class Stub:
    """The program in QEMU, at the other end of the remote protocol."""

    def __init__(self, arch, program, arguments, folder):
        self.arch = arch
        path = os.path.join(folder, "gdb")
        self.process = subprocess.Popen([*arch["qemu"], "-g", path, program, *arguments], stdout=subprocess.PIPE)
        self.socket = socket.socket(socket.AF_UNIX)
        for _ in range(600):
            try:
                self.socket.connect(path)
                break
            except OSError:
                if self.process.poll() is not None:
                    sys.exit(f"truth: {arch['qemu'][0]} ended before it listened")
                time.sleep(0.05)
        else:
            sys.exit(f"truth: {arch['qemu'][0]} does not listen at its socket")
        self.buffer = b""
        self.ask(b"qXfer:features:read:target.xml:0,ffb")  # without it QEMU writes no single register

    def reply(self):
        while True:
            start = self.buffer.find(b"$")
            end = self.buffer.find(b"#", start)
            if start >= 0 and 0 < end <= len(self.buffer) - 3:
                reply, self.buffer = self.buffer[start + 1:end], self.buffer[end + 3:]
                return reply
            more = self.socket.recv(65536)
            if not more:
                return None
            self.buffer += more

    @staticmethod
    def framed(*packets):
        """The packets in one go, and the acknowledgements of their replies. QEMU reads packets 256 bytes at once, and an
        acknowledgement as a single byte from behind them: nobody waits. Only the last packet may let the program run."""
        data = b"".join(b"$%s#%02x" % (p, sum(p) & 255) for p in packets)
        assert len(data) <= READ
        return data.rjust(READ, b"+") + b"+" * len(packets)

    def replies(self, *packets):
        replies = []
        for packet in packets:
            replies.append(self.reply())
            if replies[-1] is None:
                break
            if replies[-1] == b"" or replies[-1][:1] == b"E":
                raise RuntimeError(f"QEMU refuses {packet.decode()}: {replies[-1].decode()}")
        return replies

    def ask(self, *packets):
        self.socket.sendall(self.framed(*packets))
        return self.replies(*packets)

    def word(self, value):
        return value.to_bytes(self.arch["word"], "little").hex().encode()

    def run(self, *before, verb=b"c"):
        """Lets the program run, through signals that are none of ours, to the next stop or fault: None when it has ended."""
        replies = self.ask(*before, verb)
        while replies[-1] is None or not replies[-1].startswith((b"T05", b"T0b")):
            if replies[-1] is None or replies[-1][:1] in b"WX":
                return None
            replies = replies[:-1] + self.ask(verb)
        return replies

    def run_to(self, address, verb=b"c"):
        self.breakpoint(address, True)
        if self.run(verb=verb) is None:
            raise RuntimeError(f"the program ended on its way to {address:#x}")
        self.breakpoint(address, False)

    def registers(self):
        """sp, lr, pc and the flags; all that matter of the others is what `ask` saves."""
        return self.state(self.ask(*self.register_packets()))

    def register_packets(self):
        return [b"g", b"p%x" % self.arch["flags"]] if "flags" in self.arch else [b"g"]

    def state(self, replies):
        arch = self.arch
        words = struct.unpack_from("<33Q" if arch["word"] == 8 else "<16I", bytes.fromhex(replies[0].decode()))
        flags = int.from_bytes(bytes.fromhex(replies[1].decode()), "little") if "flags" in arch else 0
        return words[arch["sp"]], words[arch["lr"]], words[arch["pc"]], flags

    def breakpoint(self, address, on):
        kind = 4 if self.arch["word"] == 8 else 2
        self.ask(b"%s0,%x,%x" % (b"Z" if on else b"z", address, kind))


# The return address, and sp when the call was made. A fault's is what was interrupted; walkers show return addresses - 1
# plus 1, which makes it one more.
Call = collections.namedtuple("Call", "to sp fault", defaults=[0])


class Shadow:
    """The calls that are open, from what was executed."""

    def __init__(self, program, setjmps):
        self.program, self.setjmps = program, setjmps
        self.calls = []
        self.landings = set()
        self.resumes = {}  # (pc, sp) behind an instruction at fault: its call
        self.made = self.returned = self.jumped = 0
        self.faults = []

    def follow(self, before, after, instruction):
        """before, after: (sp, lr, pc, flags) around the instruction."""
        sp, _, pc, _ = after
        following = before[2] + instruction.size
        if pc == following and not instruction.call:
            self.drop(sp)
            self.land(pc, sp, after[1] & ~1)
            return
        if instruction.call and pc != following:
            self.push(Call(following, before[0]), pc)
        elif self.calls and self.calls[-1][:2] == (pc, sp):
            self.calls.pop()
            self.returned += 1
        else:
            self.leave(before, pc, sp, instruction)

    def push(self, call, target):
        self.calls.append(call)
        self.made += 1
        if target in self.setjmps:
            self.landings.add(call)

    def fault(self, pc, sp, size):
        """What throws the exception is as good as called by the instruction at fault."""
        self.calls.append(Call(pc, sp, 1))
        self.resumes[pc + size, sp] = self.calls[-1]

    def drop(self, sp):
        while self.calls and self.calls[-1].sp < sp:
            self.calls.pop()

    def land(self, pc, sp, lr):
        """longjmp has taken over sp and return address: what is left is the second return of that setjmp."""
        call = Call(lr, sp)
        if call in self.landings and self.calls[-1:] != [call] and self.program.function(pc)[2].endswith("longjmp"):
            while self.calls and self.calls[-1].sp <= sp:
                self.calls.pop()
            self.calls.append(call)
            self.jumped += 1

    def leave(self, before, pc, sp, instruction):
        """A jump, or a return to where nobody called from."""
        self.drop(sp)
        if self.calls and self.calls[-1][:2] == (pc, sp):
            self.calls.pop()
            self.returned += 1
        elif self.calls and self.resumes.get((pc, sp)) == self.calls[-1]:
            self.calls.pop()
        elif instruction.returns:
            self.faults.append((before[2], pc))


Wrong = collections.namedtuple("Wrong", "place frame depth got_depth pc callee expected got")


class Check:
    """Compares answers with the shadow, and counts."""

    def __init__(self):
        self.steps, self.exact, self.sure = collections.Counter(), collections.Counter(), collections.Counter()
        self.skipped = 0
        self.outer_same = self.outer_steps = 0
        self.outer = None
        self.wrong = {}
        self.count, self.sure_count = collections.Counter(), collections.Counter()

    def compare(self, place, pc, calls, answer):
        count, sure, deep, frames = answer
        self.steps[place] += 1
        true = [pc] + [call.to + call.fault for call in reversed(calls)]
        got = list(frames[:len(true)])
        if got == true or deep and got == true[:len(got)]:
            self.exact[place] += 1
            if sure and not deep:
                self.compare_outer(count - len(true), frames[len(true):])
            return
        self.sure[place] += sure
        frame = next((i for i, (a, b) in enumerate(zip(true, got)) if a != b), min(len(true), len(got)))
        key = (place, frame <= 1, pc if frame <= 1 else true[frame - 1])
        self.count[key] += 1
        self.sure_count[key] += sure
        self.wrong.setdefault(key, Wrong(place, frame, len(true), count, pc, true[max(frame - 1, 0)], true[frame],
                                         got[frame] if frame < len(got) else 0))

    def compare_outer(self, count, frames):
        """Frames below the base are nobody's truth, but they cannot change while the piece runs."""
        if self.outer is None:
            self.outer = (count, frames)
        same = min(len(frames), len(self.outer[1]))
        self.outer_steps += 1
        self.outer_same += count == self.outer[0] and frames[:same] == self.outer[1][:same]


class Stepper:
    def __init__(self, arch, program, stub, check, most):
        self.arch, self.program, self.stub, self.check = arch, program, stub, check
        self.symbol = {n: program.by_name[n] for n in ("step_begin", "step_end", "ask", "asked", "asked_pc",
                                                       "asked_flags", "answer")}
        self.setjmps = {program.by_name[n] for n in SETJMPS if n in program.by_name}
        self.thrower, self.resume = program.by_name.get("RhpThrowHwEx"), program.by_name.get("fault_resume")
        self.calls = self.returns = self.longjmps = self.steps = self.hardware = 0
        self.faults = []
        self.visits, self.most = collections.Counter(), most

    def answer_words(self, depth):
        return min(depth + 8, DEPTH)

    def unwound(self, state, depth):
        """The packets that send the program through `ask`, and those that read its answer and go back."""
        stub, symbol, word = self.stub, self.symbol, self.arch["word"]
        _, _, pc, flags = state
        before = [b"M%x,%x:%s" % (symbol["asked_pc"], word, stub.word(pc))]
        back = [b"P%x=%s" % (self.arch["pc"], stub.word(pc))]
        there = [b"P%x=%s" % (self.arch["pc"], stub.word(symbol["ask"]))]
        if "flags" in self.arch:
            register = self.arch["flags"]
            before.append(b"M%x,%x:%s" % (symbol["asked_flags"], word, stub.word(flags)))
            there.insert(0, b"P%x=%s" % (register, stub.word(flags & ~(THUMB | IT_BITS))))
            back.insert(0, b"P%x=%s" % (register, stub.word(flags)))
        return [*before, *there], [b"m%x,%x" % (symbol["answer"], 8 + word * self.answer_words(depth)), *back]

    def step(self, asked, state, depth):
        """One instruction, after asking the unwinder if so: (the unwinder's answer, how the step ended, what is in the registers)."""
        stub, back = self.stub, []
        if asked:
            there, back = self.unwound(state, depth)
            if stub.run(*there) is None:
                raise RuntimeError("the program ended while the unwinder was asked")
        last = stub.register_packets()
        stub.socket.sendall(stub.framed(*back, b"s") + stub.framed(*last))
        replies = stub.replies(*back, b"s")
        after = stub.state(stub.replies(*last)) if replies[-1] else None
        while replies[-1] and not replies[-1].startswith((b"T05", b"T0b")):  # a signal that is none of ours came first
            replies[-1:] = stub.ask(b"s")
            after = stub.registers() if replies[-1] else None
        if after is None:
            raise RuntimeError("the program ended while it was stepped")
        return replies[0], replies[-1], after

    def answer(self, reply):
        data = bytes.fromhex(reply.decode())
        count, sure, deep = struct.unpack_from("<i??", data)
        frames = struct.unpack_from(f"<{(len(data) - 8) // self.arch['word']}{'Q' if self.arch['word'] == 8 else 'I'}", data, 8)
        return count, sure, deep, frames[:max(count, 0)]

    def is_resuming(self, pc):
        """In what takes a thread back from a fault: .NET never does so."""
        return self.resume is not None and self.program.function(pc)[0] == self.resume

    def round(self):
        """From behind step_begin to step_end."""
        shadow = Shadow(self.program, self.setjmps)
        self.check.outer = None
        state, exclusive = self.stub.registers(), 0
        while state[2] != self.symbol["step_end"]:
            instruction = self.program.instruction(state[2])
            if instruction.exclusive:  # asking would take the reservation away, and the loop would never end
                exclusive = 16
            self.visits[state[2]] += 1
            asked = shadow.calls and exclusive == 0 and self.visits[state[2]] <= self.most and not self.is_resuming(state[2])
            answer, end, after = self.step(asked, state, len(shadow.calls))
            if asked:
                self.check.compare(self.program.place_under(state[2], shadow.calls), state[2], shadow.calls, self.answer(answer))
            self.check.skipped += exclusive > 0
            exclusive = 0 if instruction.exclusive_end else max(exclusive - 1, 0)
            if end.startswith(b"T0b"):
                shadow.fault(state[2], state[0], instruction.size)
                self.stub.run_to(self.thrower, verb=b"C0b")  # through the signal's handler, which is the program's own
                self.hardware += 1
                after = self.stub.registers()
            else:
                shadow.follow(state, after, instruction)
            state = after
            self.steps += 1
        if len(shadow.calls) != 1:
            self.faults.append((state[2], state[1] & ~1))
        self.calls, self.returns = self.calls + shadow.made, self.returns + shadow.returned
        self.longjmps += shadow.jumped
        self.faults += shadow.faults

    def everything(self):
        self.stub.breakpoint(self.symbol["step_begin"], True)
        self.stub.breakpoint(self.symbol["asked"], True)
        rounds = 0
        while self.stub.run() is not None:
            back = self.stub.registers()[1] & ~1
            self.stub.breakpoint(self.symbol["step_begin"], False)
            self.stub.run_to(back)
            self.round()
            self.stub.breakpoint(self.symbol["step_begin"], True)
            rounds += 1
        return rounds


def cause(program, place, at, top):
    code = program.code(at, 4)
    start = program.function(at)[0]
    if not top:
        return f"caller of a frame further down, in {program.place(at)}", code
    if at == start:
        return "first instruction of a function", code
    instructions = [program.instruction(at)] if code else []
    if instructions and instructions[0].returns:
        return "at a return", code
    if re.match(r"(push|stmdb|stp x29|str (x30|lr)|sub(\.w|w|s)? sp|mov (x29|fp|r7|fp,) ?,? ?sp|add(\.w|w)? (x29|fp|r7), sp|vpush)", code[0] if code else ""):
        return "in a prologue", code
    address = at
    for _ in code[:4]:
        if program.instruction(address).returns:
            return "in an epilogue", code
        address += program.instruction(address).size
    return "in a body", code


def report(program, check, top):
    groups = sorted(check.wrong, key=lambda key: (key[0] != "managed", -check.count[key]))
    top += sum(key[0] == "managed" for key in groups) if top else 0  # of these, every one
    causes = collections.Counter()
    for i, key in enumerate(groups):
        wrong = check.wrong[key]
        why, code = cause(program, key[0], key[2], key[1])
        causes[(key[0], why)] += check.count[key]
        if i >= top:
            continue
        sure = f" ({check.sure_count[key]} times sure of it)" if check.sure_count[key] else ""
        print(f"{check.count[key]:8} {key[0]:8} {why}: {program.name(key[2])}{sure}")
        print(f"         code     {' | '.join(code)}")
        got = program.name(wrong.got) if wrong.got else "nothing"
        print(f"         frame {wrong.frame} of {wrong.depth} (got {wrong.got_depth}): expected {program.name(wrong.expected)}, got {got}"
              + ("" if key[1] else f"; first at {program.name(wrong.pc)}"))
    if len(groups) > top:
        print(f"         ... and {len(groups) - top} more places")
    for (place, why), steps in causes.most_common():
        print(f"{steps:8} {place:8} {why}")


def summary(name, walker, check, stepper):
    for place, steps in check.steps.most_common():
        exact = check.exact[place]
        print(f"steps {place}: {steps}, exact {100 * exact / steps:.3f} %, wrong {steps - exact}, wrong and sure of it "
              f"{check.sure[place]}")
    print(f"truth: {stepper.calls} calls, {stepper.returns} returns, {stepper.longjmps} longjmps, {stepper.hardware} hardware faults, {len(stepper.faults)} "
          f"returns not where the shadow says, {check.skipped} steps not asked (exclusive loads)")
    print(f"frames below the base: {check.outer_same} of {check.outer_steps} rooted stacks agree")
    if walker == "core":
        for place, steps in sorted(check.steps.items()):
            suffix = "" if place == "managed" else f"_{place}"
            print(f"figure exact_steps_{name}{suffix}_pct {100 * check.exact[place] / steps:.3f} pct")


def verdict(arguments, check, stepper, program, status):
    good = True
    for before, after in stepper.faults[:5]:
        print(f"truth: {arguments.program}: the shadow is in doubt: {program.name(before)} went to {program.name(after)}",
              file=sys.stderr)
        good = False
    if stepper.steps < arguments.least:
        print(f"truth: {arguments.program}: {stepper.steps} instructions, at least {arguments.least} are wanted", file=sys.stderr)
        good = False
    if status != 0:
        print(f"truth: {arguments.program} ended with status {status}: its own results are wrong", file=sys.stderr)
        good = False
    if arguments.honest and (sure := sum(check.sure.values())):
        print(f"truth: {arguments.program}: {sure} stacks are wrong and call themselves exact", file=sys.stderr)
        good = False
    for need in arguments.need:
        place, least = need.split("=")
        share = 100 * check.exact[place] / check.steps[place] if check.steps[place] else 0
        if share < float(least):
            print(f"truth: {arguments.program}: {place} is exact at {share:.3f} % of instructions, {least} % are wanted", file=sys.stderr)
            good = False
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("arch", choices=ARCHES)
    parser.add_argument("program")
    parser.add_argument("map")
    parser.add_argument("--walker", default="core", choices=["core", "fp"])
    parser.add_argument("--what", default="all", choices=["all", "managed", "c"])
    parser.add_argument("--piece", action="append", default=[], help="that piece alone")
    parser.add_argument("--visits", type=int, default=1 << 30, help="ask so often at each instruction, not each time it runs")
    parser.add_argument("--least", type=int, default=0)
    parser.add_argument("--need", action="append", default=[])
    parser.add_argument("--honest", action="store_true", help="what is wrong must not call itself exact")
    parser.add_argument("--top", type=int, default=20)
    arguments = parser.parse_args()
    arch = ARCHES[arguments.arch]
    program = Program(arch, arguments.program, arguments.map)
    check = Check()
    with tempfile.TemporaryDirectory() as folder:
        stub = Stub(arch, arguments.program, [arguments.walker, arguments.what, *arguments.piece[:1]], folder)
        try:
            stepper = Stepper(arch, program, stub, check, arguments.visits)
            began = time.time()
            stepper.everything()
            took = time.time() - began
            status = stub.process.wait(timeout=60)
        finally:
            if stub.process.poll() is None:
                stub.process.kill()
    print(f"{arguments.arch}, walker {arguments.walker}: {stepper.steps} instructions in {took:.0f} s")
    report(program, check, arguments.top)
    summary(arguments.arch, arguments.walker, check, stepper)
    return 0 if verdict(arguments, check, stepper, program, status) else 1


if __name__ == "__main__":
    sys.exit(main())
