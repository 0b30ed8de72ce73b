#!/usr/bin/env python3
"""Crash records of a whole machine: what it has shown of each crash.

    check_crashes.py EDGEPROF SYMBOLS FOLDER NAME:SIGNAL:FUNCTION:THREADS...

In FOLDER is a file NAME of what was delivered. The stack of the thread that crashed must lead from FUNCTION by middle and outer to
main or worker; THREADS: how many are in the record.
"""
import json
import pathlib
import subprocess
import sys


def wrong(edgeprof, symbols, file, signal, function, threads):
    """What is wrong with a record; None: nothing."""
    if not file.exists():
        return 'nothing was delivered'
    done = subprocess.run([edgeprof, 'crashes', '--json', '--symbols', symbols, str(file)], capture_output=True, text=True)
    crashes = [crash for group in json.loads(done.stdout or '{"groups": []}')['groups'] for crash in group['crashes']]
    if len(crashes) != 1:
        return f'{len(crashes)} crashes: {done.stderr}'
    names = [frame['function'] for frame in crashes[0]['threads'][0]['frames']] if crashes[0]['threads'] else []
    at = names.index(function) if function in names else -1
    if crashes[0]['signal'] != signal or crashes[0]['faults'] != 0:
        return f'signal {crashes[0]["signal"]}, {crashes[0]["faults"]} faults'
    if at < 0 or names[at + 1:at + 3] != ['middle', 'outer'] or names[at + 3] not in ('main', 'worker'):
        return f'the stack is {names}'
    if len(crashes[0]['threads']) != threads:
        return f'{len(crashes[0]["threads"])} threads instead of {threads}'
    return None


def main():
    edgeprof, symbols, folder, *rows = sys.argv[1:]
    failed = 0
    for row in rows:
        name, signal, function, threads = row.split(':')
        if said := wrong(edgeprof, symbols, pathlib.Path(folder) / name, int(signal), function, int(threads)):
            print(f'check_crashes: {name}: {said}')
            failed += 1
    print(f'check_crashes: {len(rows) - failed} of {len(rows)} crashes')
    return 1 if failed or not rows else 0


if __name__ == '__main__':
    sys.exit(main())
