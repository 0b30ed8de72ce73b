"""Commands from outside: run one, and look at its code, its output and its one line of complaint."""
import subprocess

import pytest

from generate import message, module, nodes, origin, profile
from harness import clean_environment


class Cli:
    """Runs `program`; whatever it does, a sanitizer's report is a failure."""

    def __init__(self, program):
        self.program = program

    def run(self, *arguments, program=None, cwd=None, data=None, env=None):
        done = subprocess.run([program or self.program, *arguments], capture_output=True, cwd=cwd, input=data, timeout=600, check=False,
                              env=env or clean_environment())
        done.out, done.err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        print(f"{arguments}: {done.returncode} {done.err}")  # seen when the test fails
        assert "Sanitizer" not in done.err and "runtime error" not in done.err, f"{arguments}: {done.err}"
        return done

    def fails(self, code, word, *arguments, **options):
        """With this code and one line, in which `word` is."""
        done = self.run(*arguments, **options)
        lines = done.err.splitlines()
        assert done.returncode == code, f"{arguments}: {lines}"
        assert len(lines) == 1 and lines[0].startswith("edgeprof: ") and word in lines[0], f"{arguments}: {word!r} in one line: {lines}"
        return done


def command_lines(*rows):
    """Runs a test for each (word, argument ...); the test takes `word` and `arguments`."""
    return pytest.mark.parametrize("word, arguments", [pytest.param(word, arguments, id=" ".join(arguments)[:60]) for word, *arguments in rows])


def folded(text):
    """{stack: value}"""
    return {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in text.splitlines()}


def message_of(segment, service, stacks, sequence=0, tags=(), **options):
    """Six functions without symbols, [app]+0x4 and 0x64 on each: 1 calls 2, 3, 4 and 5, and 4 calls 6."""
    if sequence:
        return message(segment, sequence, profiles=[profile(stacks, **options)])
    return message(segment, 0, origin(service, tags=tags), [module(4096, 65536, 0, b"\7" * 20, "[app]")],
                   nodes([0, 1, 2, 3, 4, 2], [4100, 4200, 4300, 4400, 4500, 4600]), [profile(stacks, **options)])
