#!/usr/bin/python3
"""Crashes of a device at its server: each arrives once, whatever happens on the way, and is shown in groups.

    server.py EDGEPROF CRASHER
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / 'host'))
from generate import crash, message, nodes, origin  # noqa: E402

edgeprof, crasher = sys.argv[1:3]
folder = pathlib.Path(tempfile.mkdtemp(prefix='crash-server-'))
db, spool = folder / 'crashes.db', folder / 'spool'


def check(good, what):
    if not good:
        raise SystemExit(f'test-crash-server: {what}')


def serve(port=0, *more):
    process = subprocess.Popen([edgeprof, 'serve', '--listen', f'127.0.0.1:{port}', '--db', str(db), '--symbols',
                                str(pathlib.Path(crasher).parent), *more], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = re.search(r'http://127\.0\.0\.1:(\d+)', process.stdout.readline())
    check(found, 'the server did not start')
    return process, int(found[1])


def stop(process):
    process.terminate()
    check(process.wait(30) == 0, 'the server ended with an error')


def run(port, how, **more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith('EDGEPROF_')}
    environment |= {'EDGEPROF_ENDPOINT': f'http://127.0.0.1:{port}', 'EDGEPROF_CRASH': f'{spool}/', 'EDGEPROF_TAGS': 'version=7', **more}
    return subprocess.run([crasher, how], env=environment, capture_output=True, timeout=60).returncode


def groups(port, **query):
    with urllib.request.urlopen(f'http://127.0.0.1:{port}/api/crashes?{urllib.parse.urlencode(query)}') as answer:
        return {group['reason']: group for group in json.load(answer)['groups']}


def named(port):
    """The server reads symbol files in another process: an answer can have addresses until it has read them."""
    for _ in range(200):
        found = groups(port)
        if 'do_null' in str(found):
            break
        time.sleep(0.1)
    return found


def said(*arguments):
    done = subprocess.run([edgeprof, 'crashes', *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout


def crash_message(segment, threads, depth):
    """A crash whose stacks share their nodes."""
    return message(segment, 0, origin('deep'), nodes=nodes([0] + [1] * (depth - 1), [3] * depth), last=True,
                   crash=crash([(i + 1, '', depth) for i in range(threads)]))


def push(port, body):
    try:
        with urllib.request.urlopen(f'http://127.0.0.1:{port}/edgeprof/v1/push', body) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def many_frames():
    """Few bytes can name many frames: more than a device can record are refused, what it can is shown, and counts."""
    limits = folder / 'limits.conf'
    limits.write_text('[limits]\nquery-memory = 8M\n')
    server, port = serve()
    check(push(port, crash_message(1, 256, 1000)) == 400, 'a crash with 256,000 frames is accepted')
    file = folder / 'many'
    file.write_bytes(crash_message(1, 256, 1000))
    check(said(str(file))[0] == 1, 'a file with 256,000 frames is accepted')
    for segment in range(2, 62):
        check(push(port, crash_message(segment, 33, 100)) == 200, 'a crash with 3,300 frames is refused')
    code, text = said('--url', f'http://127.0.0.1:{port}', '--service', 'deep')
    check(code == 0 and text.startswith('60 x deep'), f'60 crashes with 3,300 frames: {code} {text[:200]}')
    stop(server)
    server, port = serve(0, '--config', str(limits))
    try:
        groups(port)
        check(False, 'more frames than memory are read')
    except urllib.error.HTTPError as error:
        check(error.code == 413, f'status {error.code}')
    stop(server)


def main():
    server, port = serve()
    check(said('--url', f'http://127.0.0.1:{port}')[0] == 3, 'a new server has crashes')
    for how in ('null', 'idle', 'null', 'idle', 'kill', 'idle'):
        run(port, how)
    found = named(port)
    check(sorted(found) == ['SIGSEGV', 'killed, out of memory or stack overflow'], f'reasons {sorted(found)}')
    fault = found['SIGSEGV']
    check(fault['count'] == 2 and len(fault['crashes']) == 2, f'{fault["count"]} equal crashes')
    frames = [frame['function'] for frame in fault['crashes'][0]['threads'][0]['frames']]
    check('do_null' in frames, f'the stack is {frames}')
    check(fault['crashes'][0]['tags'] == {'version': '7'} and fault['service'] == 'linked', f'tags {fault["crashes"][0]["tags"]}')

    # the answer was lost: the device sends the same record again
    run(port, 'abort')
    record = (spool / 'edgeprof-crash').read_bytes()
    run(port, 'idle')
    (spool / 'edgeprof-crash').write_bytes(record)
    run(port, 'idle')
    check(groups(port)['SIGABRT']['count'] == 1, 'a crash that was sent twice counts twice')

    # the server is away at the next start, with and without a spool
    for settings in ({}, {'EDGEPROF_SPOOL': str(folder / 'profiles')}):
        stop(server)
        run(port, 'fpe', **settings)
        for _ in range(2):
            run(port, 'idle', **settings)
        server, port = serve(port)
        for _ in range(2):
            run(port, 'idle', **settings)
    check(groups(port)['SIGFPE']['count'] == 2, f'{groups(port)["SIGFPE"]["count"]} crashes of 2 while the server was away')
    check(len(groups(port)) == 4, f'{list(groups(port))}')

    # selection, and the same from a database
    check(not groups(port, service='another'), 'another service has crashes')
    check(len(groups(port, service='linked', tag='version=7')) == 4 and not groups(port, tag='version=8'), 'tags do not select')
    check(not groups(port, to='2020-01-01'), 'times do not select')
    stop(server)
    code, local = said('--db', str(db), '--symbols', str(pathlib.Path(crasher).parent))
    check(code == 0 and local.count(' x linked ') == 4, local)
    server, port = serve()
    for _ in range(200):
        code, remote = said('--url', f'http://127.0.0.1:{port}', '--service', 'linked')
        if remote == local:
            break
        time.sleep(0.1)
    check(code == 0 and local == remote, f'the database says\n{local}\nthe server said\n{remote}')
    stop(server)
    code, others = said('--db', str(db), '--per-thread')
    check(code == 0 and '(crashed)' in others, others)
    many_frames()


try:
    main()
finally:
    shutil.rmtree(folder)
print('test-crash-server: each crash arrived once')
