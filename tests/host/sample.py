"""What is known of the program `sample`, by binutils. Standard library only."""
import os
import re
import subprocess

from generate import module


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def contents(path):
    with open(path, "rb") as file:
        return file.read()


class Sample:
    def __init__(self, path):
        self.path, self.stripped = path, path + "-stripped"
        self.debug = os.path.join(os.path.dirname(path), "debug", "sample.dbg")
        self.build_id = re.search(r"Build ID: (\w+)", output("readelf", "-n", path))[1]
        self.functions = {line.split()[2]: int(line.split()[0], 16) for line in output("nm", path).splitlines() if line.split()[-2] in "tT"}
        self.hot = self.functions["hot"]
        self.frame = 4096 + (self.hot & 0xfff)  # of hot in module()

    def module(self, path=None):
        """In a message."""
        return module(4096, 1 << 20, self.hot & ~0xfff, bytes.fromhex(self.build_id), path or self.path)
