#!/usr/bin/env python3
"""Writes tests/README.md from the registered tests, or checks that it is what would be written.

    make -s print-tests | readme.py [--check] SECONDS README
"""
import pathlib
import sys

import run

HEAD = """# Tests

`make tests-readme` generates this page from the registrations, `$(call test,...)` beside each target, and from
`tests/seconds.txt`. `make check-tests-readme` fails when the page is stale.

| command | runs |
|---|---|
| `make test` | the quick tier: checks, C unit tests, the host tool, replay of fuzz inputs, one real .NET service |
| `make test-all` | both tiers, each target once |
| `make test-rest` | what `make test-all` has and `make test` has not |
| `make TARGET` | one target, without timeout and log |

The runner, `tests/run.py`, first builds what the targets need. It runs targets marked `shared` in parallel and then the
others one by one. A target over its timeout is killed and reported as TIMEOUT. A target that cannot run prints
`SKIPPED: reason` and counts as skipped. Logs are in `build/host/logs`. `RECORD=1` writes the measured seconds to
`tests/seconds.txt`. `.ci/run` fails on a skip that its list does not name.

Seconds are of the last recorded run on two cores, which other work may have shared: CPU seconds compare better.
A `-` means not recorded.
"""
TIERS = (("quick", "Quick tier: `make test`"), ("all", "The rest: `make test-all`"), ("own", "Long runs: only by name"))


def page(tests, seconds):
    parts = [HEAD]
    for tier, title in TIERS:
        parts.append(f"\n## {title}\n\n| target | claim | seconds | CPU seconds | timeout | runs |\n|---|---|---:|---:|---:|---|\n")
        for test in sorted(test for test in tests if test.tier == tier):
            measured = " | ".join(f"{figure:.0f}" for figure in seconds[test.name]) if test.name in seconds else "- | -"
            parts.append(f"| `{test.name}` | {test.claim} | {measured} | {test.timeout} | {test.mode} |\n")
    return "".join(parts)


def main():
    check = sys.argv[1] == "--check"
    seconds, readme = (pathlib.Path(word) for word in sys.argv[-2:])
    tests = [run.Test(*line.rstrip("\n").split("|")) for line in sys.stdin if line.count("|") == 4]
    text = page(tests, run.read_seconds(seconds))
    if not check:
        readme.write_text(text)
    elif not readme.exists() or readme.read_text() != text:
        sys.exit(f"check-tests-readme: {readme} is stale: run `make tests-readme` and commit the page")
    else:
        print(f"check-tests-readme: {len(tests)} targets")


if __name__ == "__main__":
    main()
