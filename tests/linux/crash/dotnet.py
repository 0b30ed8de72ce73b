#!/usr/bin/python3
"""Ends of a .NET program under the preload library: what it handles itself records nothing.

    dotnet.py EDGEPROF PROGRAM [PRELOAD [MANY]]

RUNNER in the environment starts the program, such as on_machine.py. Without PRELOAD the program has the package, with EdgeProfCrash=true. With MANY: so many null references in ten processes instead, each beside as many without edgeprof, and their CPU time.
"""
import json
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

edgeprof, program = sys.argv[1:3]
preload = sys.argv[3] if len(sys.argv) > 3 else None
PROCESSES = 10


def check(good, what):
    if not good:
        raise SystemExit(f'test-crash-dotnet: {what}')


def run(folder, how, profiled=True, count=2000):
    environment = {k: v for k, v in os.environ.items() if not k.startswith('EDGEPROF_')}
    if profiled:
        environment |= {'EDGEPROF_ENDPOINT': f'file://{folder}/out', 'EDGEPROF_CRASH': f'{folder}/spool/'}
        environment |= {'LD_PRELOAD': preload} if preload else {}
    done = subprocess.run([*os.environ.get('RUNNER', '').split(), program, how, *([] if count == 2000 else [str(count)])], env=environment, capture_output=True, text=True,
                          timeout=60 + count / 1000)
    check(f'caught {count}\n' in done.stdout, f'{how}: {done.stdout} {done.stderr}')
    return done.returncode


def end(how, reason, message, function):
    folder = pathlib.Path(tempfile.mkdtemp(prefix='crash-dotnet-'))
    try:
        plain, profiled = run(folder, how, False), run(folder, how)
        check(plain == profiled, f'{how}: exit status {profiled} instead of {plain}')
        run(folder, 'regular')
        done = subprocess.run([edgeprof, 'crashes', '--json', '--symbols', str(pathlib.Path(program).parent), f'{folder}/out'],
                              capture_output=True, text=True)
        groups = json.loads(done.stdout)['groups'] if (folder / 'out').exists() else []
    finally:
        shutil.rmtree(folder)
    if reason is None:
        check(not groups, f'{how}: {groups} was recorded')
        return
    check([group['reason'] for group in groups] == [reason], f'{how}: {[group["reason"] for group in groups]}')
    crash = groups[0]['crashes'][0]
    names = [frame['function'] for thread in crash['threads'][:1] for frame in thread['frames']]
    check(message is None or crash['message'].startswith(message), f'{how}: the message is {crash["message"]!r}')
    check(function is None or any(re.search(function, name) for name in names), f'{how}: the stack is {names}')


def many(count):
    """Nothing is recorded, and it costs what it costs without."""
    def cpu():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    ratios = []
    for i in range(PROCESSES):
        took = {}
        for profiled in (i % 2 == 0, i % 2 != 0):
            folder = pathlib.Path(tempfile.mkdtemp(prefix='crash-dotnet-'))
            try:
                before = cpu()
                check(run(folder, 'regular', profiled, count // PROCESSES) == 0, 'it did not end well')
                took[profiled] = cpu() - before
                if profiled:
                    run(folder, 'regular')
                    check((folder / 'spool' / 'edgeprof-crash').exists(), 'crash records are off')
                    done = subprocess.run([edgeprof, 'crashes', f'{folder}/out'], capture_output=True, text=True)
                    check(not (folder / 'out').exists() or done.returncode == 3, f'it recorded: {done.stdout}{done.stderr}')
            finally:
                shutil.rmtree(folder)
        ratios.append(took[True] / took[False])
        print(f'  {count // PROCESSES} null references: {took[True]:.2f} s of CPU time with edgeprof, {took[False]:.2f} s without', flush=True)
    half = 2.26 * statistics.stdev(ratios) / PROCESSES ** 0.5
    print(f'test-crash-dotnet-many: {count} handled, nothing recorded, CPU time {100 * (statistics.mean(ratios) - 1):+.2f} +- {100 * half:.2f} %')
    check(statistics.mean(ratios) - half < 1.02, 'it costs more than 2 %')


if len(sys.argv) > 4:
    many(int(sys.argv[4]))
    sys.exit(0)
end('regular', None, '', '')
ENDS = (('unhandled', 'System.InvalidOperationException', 'the valve is stuck', 'Throw'),
        ('async', 'System.InvalidOperationException', 'the valve is stuck', None),  # its stack is in the message only
        ('thread', 'System.InvalidOperationException', 'the valve is stuck', 'Throw'),
        ('failfast', '.NET FailFast', 'no more oil', 'Fail'),
        ('access', '.NET FailFast', 'Access Violation', 'ReadByte'),
        ('native', 'SIGSEGV', None, r'Program\.Main\(lambda#\d+\)\(async\)$'),  # named as in profiles
        ('overflow', 'killed, out of memory or stack overflow', None, None))
for one in ENDS:
    end(*one)
print(f'test-crash-dotnet: {len(ENDS) + 1} ends, with 2000 null references handled before each')
