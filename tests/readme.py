#!/usr/bin/env python3
"""Writes tests/README.md from tests/tests.txt, or checks that it is what would be written and that each test has a rule.

    readme.py LIST SECONDS README
    make -npq help | readme.py --check LIST SECONDS README      the rules are those of make's database
"""
import pathlib
import re
import sys

import run

# They have the name of a test, but run others or test a board.
NO_TESTS = {"test-all", "test-long", "test-arm-exact", "check-board", "check-install"}

HEAD = """# Tests

`make tests-readme` generates this page from `tests/tests.txt` and `tests/seconds.txt`. `make check-tests-readme` fails
when the page is stale, when a test of the list has no rule, and when a test has a rule and is not in the list.

| command | runs |
|---|---|
| `make test` | the quick tier: checks, C unit tests, the host tool, replay of fuzz inputs, one real .NET service |
| `make test-all` | every claim at its smallest honest size; what the build server runs |
| `make test-long` | long sweeps of the same claims: more kernels, seeds, kills, versions |
| `make TARGET` | one target, without timeout and log |

The runner, `tests/run.py`, first builds what the targets need. It runs targets marked `shared` beside each other and then the
others one by one. The shared ones together have work for all processors: one that mostly waits, by the last record,
counts for a part of a processor. A target over its timeout is killed and reported as TIMEOUT. A target is skipped, with
the reason, when something that it needs is missing, and when it prints `SKIPPED: reason`. `.ci/run` fails when a target
is skipped that has all it needs. Logs are in `build/host/logs`. `RECORD=1` writes the measured seconds to
`tests/seconds.txt`.

Seconds are of the last recorded run on two cores, which other work may have shared: CPU seconds compare better.
A `-` means not recorded.
"""
TIERS = (("quick", "Quick tier: `make test`"), ("all", "The rest of `make test-all`"), ("long", "Sweeps: `make test-long`"),
         ("own", "Only by name: `make TARGET`"))


def page(tests, seconds):
    parts = [HEAD]
    for tier, title in TIERS:
        parts.append(f"\n## {title}\n\n| target | claim | seconds | CPU seconds | timeout | runs | needs |\n|---|---|---:|---:|---:|---|---|\n")
        for test in sorted(test for test in tests if test.tier == tier):
            measured = " | ".join(f"{figure:.0f}" for figure in seconds[test.name]) if test.name in seconds else "- | -"
            parts.append(f"| `{test.name}` | {test.claim} | {measured} | {test.timeout} | {test.mode} | {'' if test.needs == '-' else test.needs} |\n")
    return "".join(parts)


def without_rule(tests, database):
    """Tests of the list without a rule in make's database, and tests with a rule that are not in the list."""
    ruled, recipes = set(), set()
    for block in database.split("\n\n"):
        head = next((line for line in block.splitlines() if not line.startswith("#")), "")
        found = re.match(r"([a-z][a-z0-9_-]*):(?!=) ?(.*)", head)
        if found and "recipe to execute" in block:
            recipes.add(found[1])
        if found and (found[2] or "recipe to execute" in block):
            ruled.add(found[1])
    here = {test.name for test in tests if not run.missing(test)}
    listed = {test.name for test in tests} | NO_TESTS
    return sorted(here - ruled), sorted(name for name in recipes if name.startswith(("test-", "check-")) and name not in listed)


def main():
    check = sys.argv[1] == "--check"
    listed, seconds, readme = (pathlib.Path(word) for word in sys.argv[-3:])
    tests = run.read_list(listed)
    text = page(tests, run.read_seconds(seconds))
    if not check:
        readme.write_text(text)
        return
    absent, unlisted = without_rule(tests, sys.stdin.read())
    problems = [f"{listed} has {name}, which no rule makes" for name in absent] + [f"{name} is not in {listed}" for name in unlisted]
    if not readme.exists() or readme.read_text() != text:
        problems.append(f"{readme} is stale: run `make tests-readme` and commit the page")
    for problem in problems:
        print(f"check-tests-readme: {problem}", file=sys.stderr)
    if problems:
        sys.exit(1)
    print(f"check-tests-readme: {len(tests)} targets")


if __name__ == "__main__":
    main()
