"""Servers that speak TLS, for the tests of https, all on 127.0.0.1 and ports that were free: OpenSSL's s_server, nginx,
and ones that only pretend; and an authority that signs whatever is wanted."""
import contextlib
import http.server
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: {}\r\n\r\n'


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=60, **options)
    if done.returncode:
        raise SystemExit(f'{" ".join(map(str, command))}: {done.stderr}')
    return done.stdout


def free_port():
    with socket.create_server(('127.0.0.1', 0)) as server:
        return server.getsockname()[1]


# ---- certificates ----

CONFIG = '''[ca]
default_ca = d
[d]
database = {0}/index.txt
serial = {0}/serial
new_certs_dir = {0}
unique_subject = no
policy = p
default_md = sha256
[p]
commonName = supplied
'''


class Authority:
    """Signs certificates with `openssl ca`, the only command of it that takes any dates."""

    def __init__(self, folder, name, key='ec:P-256', signer=None, subject=None):
        self.folder, self.name = pathlib.Path(folder), name
        self.cert, self.key = self.folder / f'{name}.pem', self.folder / f'{name}.key'
        (self.folder / f'{name}.db').mkdir(parents=True)
        (self.folder / f'{name}.db/index.txt').touch()
        (self.folder / f'{name}.db/serial').write_text('1000\n')
        (self.folder / f'{name}.cnf').write_text(CONFIG.format(self.folder / f'{name}.db'))
        new_key(self.key, key)
        if signer:
            self.cert, _ = signer.sign(name, key=self.key, ca=True, subject=subject)
        else:
            run('openssl', 'req', '-x509', '-new', '-key', self.key, '-out', self.cert, '-days', '20000', '-subj', f'/CN={subject or name}',
                '-addext', 'keyUsage=critical,keyCertSign')

    def sign(self, name, names='DNS:localhost,IP:127.0.0.1', kind='ec:P-256', start=None, end=None, md='sha256', ca=False,
             key=None, usage='serverAuth,clientAuth', subject=None):
        """A certificate and its key."""
        cert, request, ext = (self.folder / f'{name}.{e}' for e in ('pem', 'csr', 'ext'))
        key = key or new_key(self.folder / f'{name}.key', kind)
        run('openssl', 'req', '-new', '-key', key, '-out', request, '-subj', f'/CN={subject or name}')
        ext.write_text('basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n' if ca else
                       f'basicConstraints=CA:FALSE\nextendedKeyUsage={usage}\n' + (f'subjectAltName={names}\n' if names else ''))
        run('openssl', 'ca', '-batch', '-notext', '-config', self.folder / f'{self.name}.cnf', '-cert', self.cert, '-keyfile', self.key,
            '-in', request, '-out', cert, '-extfile', ext, '-md', md, '-startdate', start or '20260101000000Z',
            '-enddate', end or '20991231235959Z')
        return cert, key


def new_key(path, kind):
    algorithm, _, size = kind.partition(':')
    option = ['-pkeyopt', f'ec_paramgen_curve:{size}' if algorithm == 'ec' else f'rsa_keygen_bits:{size}'] if size else []
    run('openssl', 'genpkey', '-algorithm', algorithm, *option, '-out', path)
    return path


def pin_of(cert):
    """As curl --pinnedpubkey wants it."""
    public = run('openssl', 'x509', '-in', cert, '-noout', '-pubkey')
    der = subprocess.run(['openssl', 'pkey', '-pubin', '-outform', 'DER'], input=public.encode(), capture_output=True, check=True).stdout
    digest = subprocess.run(['openssl', 'dgst', '-sha256', '-binary'], input=der, capture_output=True, check=True).stdout
    return 'sha256//' + subprocess.run(['openssl', 'base64', '-A'], input=digest, capture_output=True, check=True).stdout.decode()


# ---- OpenSSL's s_server ----

class SServer:
    """Answers each POST; `body` bytes of body, `answer` instead of all that, `kill` after it: the connection is cut."""

    def __init__(self, cert, *options, chain=None, body=0, keep=True, answer=None, kill=False):
        self.answer = (answer or ANSWER.format(body, 'keep-alive' if keep else 'close') + 'x' * body).encode()
        self.kill, self.output = kill, b''
        command = ['openssl', 's_server', '-accept', '127.0.0.1:0', '-cert', cert[0], '-key', cert[1], *options]
        if chain:
            command += ['-cert_chain', chain]
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        self.port = None
        self.ready = threading.Event()
        threading.Thread(target=self.serve, daemon=True).start()
        if not self.ready.wait(20):
            raise SystemExit(f's_server did not start: {" ".join(map(str, command))}')

    def serve(self):
        while chunk := os.read(self.process.stdout.fileno(), 65536):
            self.output += chunk
            found = re.search(rb'ACCEPT [0-9.]+:(\d+)', self.output)
            if found and not self.port:
                self.port = int(found[1])
                self.ready.set()
            self.respond()

    def respond(self):
        """One answer for each request that is complete."""
        while (at := self.output.find(b'POST /edgeprof')) >= 0:
            head, end, body = self.output[at:].partition(b'\r\n\r\n')
            size = re.search(rb'Content-Length: (\d+)', head)
            if not end or len(body) < int(size[1]):
                return
            self.output = body[int(size[1]):]
            with contextlib.suppress(OSError):
                self.process.stdin.write(self.answer)
                self.process.stdin.flush()
            if self.kill:
                time.sleep(0.2)
                self.process.kill()

    def close(self):
        self.process.kill()
        self.process.wait()


# ---- servers that are none ----

class Pretender:
    """Sends `data` to whoever connects, and closes; with data None it stays silent."""

    def __init__(self, data):
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port, self.data, self.open = self.listener.getsockname()[1], data, []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.open.append(client)
                if self.data is not None:
                    client.recv(65536)
                    client.sendall(self.data)
                    client.shutdown(socket.SHUT_WR)

    def close(self):
        self.listener.close()
        for client in self.open:
            client.close()


class Cutter:
    """A proxy to another server that ends the connection after `limit` bytes of its answer."""

    def __init__(self, target, limit):
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port, self.target, self.limit = self.listener.getsockname()[1], target, limit
        self.passed = 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.connection, args=(client,), daemon=True).start()

    def connection(self, client):
        server = socket.create_connection(('127.0.0.1', self.target))
        threading.Thread(target=self.up, args=(client, server), daemon=True).start()
        left = self.limit
        with contextlib.suppress(OSError):
            while left > 0 and (data := server.recv(min(left, 65536))):
                client.sendall(data)
                left -= len(data)
                self.passed += len(data)
        for each in client, server:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def up(client, server):
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                server.sendall(data)

    def close(self):
        self.listener.close()


# ---- nginx ----

NGINX = '''daemon off;
pid {dir}/nginx.pid;
error_log {dir}/error.log;
worker_processes 1;
{user}
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3; uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;
    client_max_body_size 8m;
    log_format tls '$ssl_protocol $ssl_session_reused $ssl_server_name $ssl_client_verify $status';
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {cert}; ssl_certificate_key {key};
        ssl_buffer_size 16k;
        ssl_session_cache shared:s:1m;
        access_log {dir}/access.log tls;
        {extra}
        location / {{ proxy_pass http://127.0.0.1:{upstream}; proxy_set_header Host $http_host; }}
    }}
}}
'''


class Nginx:
    def __init__(self, folder, cert, upstream, extra=''):
        folder.mkdir(parents=True, exist_ok=True)
        self.port, self.folder = free_port(), folder
        (folder / 'nginx.conf').write_text(NGINX.format(
            dir=folder, port=self.port, cert=cert[0], key=cert[1], upstream=upstream, extra=extra,
            user='user root;' if os.geteuid() == 0 else ''))
        self.process = subprocess.Popen(['/usr/sbin/nginx', '-p', str(folder), '-c', 'nginx.conf', '-e', 'error.log'],
                                        stderr=subprocess.PIPE, start_new_session=True)
        for _ in range(200):
            if self.process.poll() is not None:
                raise SystemExit(f'nginx: {self.process.stderr.read().decode()}')
            with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', self.port)):
                return
            time.sleep(0.05)
        raise SystemExit('nginx did not start')

    def log(self):
        return (self.folder / 'access.log').read_text().split('\n')[:-1]

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class Upstream(http.server.BaseHTTPRequestHandler):
    """Answers with 50000 bytes, so that nginx makes whole records of it. A path with /close in it: and closes."""

    protocol_version = 'HTTP/1.1'

    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(200)
        self.send_header('Content-Length', '50000')
        self.end_headers()
        self.wfile.write(b'x' * 50000)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def upstream():
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), Upstream) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()
