#!/usr/bin/python3
"""The transports' contract on https: ends TLS in front of the far end that tls_contract.c has, and passes on bytes.

    tls_contract.py PROGRAM FOLDER
"""
import contextlib
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import threading

from tls_servers import Authority


def pump(source, target):
    """Until either ends; then both do."""
    with contextlib.suppress(OSError):
        while data := source.recv(16384):
            target.sendall(data)
    for each in source, target:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def connection(client, context, far):
    with contextlib.suppress(OSError):
        server = socket.create_connection(('127.0.0.1', far))  # first: who is not there is not reached
        secure = context.wrap_socket(client, server_side=True)
        threading.Thread(target=pump, args=(secure, server), daemon=True).start()
        pump(server, secure)
    client.close()


def serve(listener, context, far):
    while True:
        client, _ = listener.accept()
        threading.Thread(target=connection, args=(client, context, far), daemon=True).start()


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ca = Authority(folder, 'ca')
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*ca.sign('server'))
    test = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env=os.environ | {'EDGEPROF_TLS_CA': str(ca.cert)})
    far = int(test.stdout.readline())
    with socket.create_server(('127.0.0.1', 0)) as listener:
        threading.Thread(target=serve, args=(listener, context, far), daemon=True).start()
        test.stdin.write(f'{listener.getsockname()[1]}\n')
        test.stdin.close()
        print(test.stdout.read(), end='')
        return test.wait(100)


if __name__ == '__main__':
    sys.exit(main())
