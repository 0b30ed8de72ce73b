#!/usr/bin/python3
"""Ends of a .NET program under the preload library: what it handles itself records nothing.

    dotnet.py EDGEPROF PROGRAM PRELOAD
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

edgeprof, program, preload = sys.argv[1:4]


def check(good, what):
    if not good:
        raise SystemExit(f'test-crash-dotnet: {what}')


def run(folder, how, profiled=True):
    environment = {k: v for k, v in os.environ.items() if not k.startswith('EDGEPROF_')}
    if profiled:
        environment |= {'EDGEPROF_ENDPOINT': f'file://{folder}/out', 'EDGEPROF_CRASH': f'{folder}/spool/', 'LD_PRELOAD': preload}
    done = subprocess.run([program, how], env=environment, capture_output=True, text=True, timeout=60)
    check('caught 2000' in done.stdout, f'{how}: {done.stdout} {done.stderr}')
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
    names = [frame['function'] for frame in crash['threads'][0]['frames']]
    check(crash['message'] == message, f'{how}: the message is {crash["message"]!r}')
    check(any(function in name for name in names), f'{how}: the stack is {names}')


end('regular', None, '', '')
end('unhandled', 'System.InvalidOperationException', 'the valve is stuck', 'Throw')
end('failfast', '.NET FailFast', 'no more oil', 'Fail')
print('test-crash-dotnet: 3 ends, with 2000 null references handled before each')
