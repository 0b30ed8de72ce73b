"""What is known of the program `sample`, by binutils. Standard library only."""
import os
import re
import subprocess

from generate import message, module, nodes, origin, profile
from harness import REPOSITORY, clean_environment

SOURCE = "tests/unit/tools/symbols/sample.c"  # as the compiler was told it


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def marked(mark):
    """The number of a marked line of the program."""
    return next(i for i, line in enumerate((REPOSITORY / SOURCE).read_text().splitlines(), 1) if f"mark: {mark} " in line)


def run(shipped, sample, db):
    """Profiles the program, whose `hot` has three quarters of its time in one line, into a database."""
    done = subprocess.run([shipped, "run", "--level", "high", "--db", db, "--service", "sample", "--", sample, "1500"],
                          capture_output=True, text=True, check=False, env=clean_environment())
    assert done.returncode == 0, done.stderr


class Sample:
    def __init__(self, path):
        self.path, self.stripped = path, path + "-stripped"
        self.debug = os.path.join(os.path.dirname(path), "debug", "sample.dbg")
        self.build_id = re.search(r"Build ID: (\w+)", output("readelf", "-n", path))[1]
        self.functions = {line.split()[2]: int(line.split()[0], 16) for line in output("nm", path).splitlines() if line.split()[-2] in "tT"}
        self.hot = self.functions["hot"]
        self.frame = 4096 + (self.hot & 0xfff)  # of hot in module()

    def place(self, function, line):
        """An address of this line in a function that has no inlined calls, as binutils find it."""
        code = re.findall(r"^ +([0-9a-f]+):", output("objdump", "-d", f"--disassemble={function}", self.path), re.M)
        lines = output("addr2line", "-e", self.path, *code).splitlines()
        return next(int(address, 16) for address, at in zip(code, lines) if re.search(rf"{SOURCE}:{line}\b", at))

    def lines_of_hot(self, segment, service, cold, hot, tags=()):
        """A message with samples of `hot`: `cold` in its first line, which comes first, and `hot` in its marked one."""
        line = marked("hot")
        places = [4096 + self.place("hot", at) - (self.hot & ~0xfff) for at in (line - 1, line)]
        return message(segment, 0, origin(service, tags=tags), [self.module()], nodes([0, 0], places), [profile({1: cold, 2: hot})])

    def module(self, path=None):
        """In a message."""
        return module(4096, 1 << 20, self.hot & ~0xfff, bytes.fromhex(self.build_id), path or self.path)
