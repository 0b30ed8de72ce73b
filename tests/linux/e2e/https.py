#!/usr/bin/python3
"""Profiles over https to `edgeprof serve` behind a real nginx that wants client certificates: everything measured is in
the database. A C program with the library, openssl itself under the preload library, and a .NET program when there is one.

usage: https.py EDGEPROF WORKER PRELOAD WORK [LIFECYCLE]"""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(root / 'host'), str(root / 'transport')]
from harness import Server  # noqa: E402
from tls_servers import Authority, Nginx  # noqa: E402

edgeprof, worker, preload, work, *dotnet = (os.path.abspath(argument) for argument in sys.argv[1:])
clean = {k: v for k, v in os.environ.items() if not k.startswith(('EDGEPROF_', 'SSL_CERT_'))}


def fail(text):
    sys.exit(f'https: {text}')


def run(*command, code=0, **environment):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=clean | environment)
    if done.returncode != code:
        fail(f'{command}: {done.returncode}\n{done.stdout}{done.stderr}')
    return done.stdout, done.stderr


def total(db, service):
    return json.loads(run(edgeprof, 'top', '--db', db, '--service', service, '-n', '100000', '--json')[0])['total']


def with_library(endpoint, db, trust):
    said = json.loads(run(worker, endpoint, '3', 'tls', **trust)[0])
    kept = total(db, 'worker')
    print(f'https: a C program: {said}, in the database {kept} ns')
    if said['stop'] or said['failures'] or kept != said['measured_ns'] or kept == 0:
        fail('not everything that was measured is in the database')
    line = run(worker, endpoint, '1', code=2)[1]
    if 'with TLS linked and set up' not in line or line.count('\n') != 1:
        fail(f'without ep_tls_setup() the program says {line!r}')
    print(f'https: {line.strip()}')


def preloaded(endpoint, db, trust, stranger):
    command = 'openssl', 'speed', '-seconds', '2', '-bytes', '4096', 'sha256'
    environment = {'LD_PRELOAD': preload, 'EDGEPROF_ENDPOINT': endpoint, 'EDGEPROF_INTERVAL': '500', 'EDGEPROF_SERVICE': 'speed', 'EDGEPROF_LEVEL': 'high'}
    run(*command, **environment, **trust)
    kept = total(db, 'speed')
    print(f'https: openssl, preloaded: in the database {kept} ns')
    if kept == 0:
        fail('the profile of a preloaded program is not there')
    errors = run(*command, **environment, **trust | {'EDGEPROF_TLS_CA': str(stranger)})[1]
    if 'edgeprof: profiles were not delivered: unknown CA' not in errors:
        fail(f'whom nobody trusts is not complained about: {errors}')
    errors = run(*command, **environment, **trust | {'EDGEPROF_TLS_CA': '/nowhere'})[1]
    if 'edgeprof: not profiling: cannot read certificate authorities: /nowhere' not in errors:
        fail(f'a missing file is not complained about: {errors}')


def managed(program, endpoint, db, trust, stranger):
    run(program, 'return', code=3, EDGEPROF_ENDPOINT=endpoint, EDGEPROF_SERVICE='by-environment', **trust)
    said = run(program, 'https', endpoint, trust['EDGEPROF_TLS_CA'], trust['EDGEPROF_TLS_CERT'], trust['EDGEPROF_TLS_KEY'], str(stranger))[0]
    kept = total(db, 'by-environment'), total(db, 'by-options')
    print(f'https: .NET: in the database {kept} ns; {said.strip()}')
    if min(kept) < 10**8 or 'unknown CA' not in said:
        fail('the .NET program has not delivered, or has not said why')


def main():
    shutil.rmtree(work, ignore_errors=True)
    folder = pathlib.Path(work)
    folder.mkdir(parents=True)
    ca, other, db = Authority(folder, 'ca'), Authority(folder, 'other'), str(folder / 'db')
    cert, key = ca.sign('device')
    trust = {'EDGEPROF_TLS_CA': str(ca.cert), 'EDGEPROF_TLS_CERT': str(cert), 'EDGEPROF_TLS_KEY': str(key)}
    server = Server(edgeprof, db)
    wanted = f'ssl_verify_client on; ssl_client_certificate {ca.cert};'
    with contextlib.closing(Nginx(folder / 'nginx', ca.sign('server'), server.port, wanted)) as proxy:
        endpoint = f'https://localhost:{proxy.port}'
        with_library(endpoint, db, trust)
        preloaded(endpoint, db, trust, other.cert)
        for program in dotnet:
            managed(program, endpoint, db, trust, other.cert)
    if server.stop() != 0:
        fail(f'the server: {server.stderr()}')


if __name__ == '__main__':
    main()
