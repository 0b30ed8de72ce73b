#!/usr/bin/python3
"""Runs a program over https against s_server, with a CA, a client certificate, and a connection for each message.

    tls_more.py FOLDER PROGRAM [ARGUMENT...]        the endpoint is put before the arguments
"""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys

from tls_servers import Authority, SServer


def main():
    folder, program, *arguments = sys.argv[1:]
    shutil.rmtree(folder, ignore_errors=True)
    pathlib.Path(folder).mkdir(parents=True)
    ca = Authority(pathlib.Path(folder).resolve(), 'ca')
    cert, key = ca.sign('device')
    trusted = ['-Verify', '1', '-CAfile', ca.cert]
    with contextlib.closing(SServer(ca.sign('server'), *trusted, keep=False)) as server:
        environment = os.environ | {'EDGEPROF_TLS_CA': str(ca.cert), 'EDGEPROF_TLS_CERT': str(cert), 'EDGEPROF_TLS_KEY': str(key)}
        return subprocess.run([program, f'https://127.0.0.1:{server.port}', *arguments], env=environment, timeout=300).returncode


if __name__ == '__main__':
    sys.exit(main())
