#!/usr/bin/python3
"""Https against OpenSSL's s_server, nginx and servers that are none, as a table: each case is refused or accepted as it
should be, with the line that people get.

    tls_test.py CLIENT FOLDER [--figure NAME] [--only REGEX]

CLIENT is tls_client.c; the variable EXEC is what starts it here, if anything is needed (qemu-aarch64 ...). --figure
prints the most memory that any case has used.
"""
import argparse
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import tls_servers
from tls_servers import Authority, Cutter, Nginx, Pretender, SServer, new_key, pin_of, run

GOOD, OLD, LONG_AGO = ['ok'], '20250101000000Z', '20200101000000Z'
WEAK = ['-cipher', 'DEFAULT@SECLEVEL=0']
REFUSED, DATES, PROTOCOL = 'EKEYREJECTED', 'EKEYEXPIRED', 'EPROTO'
NO_CLOCK, BUNDLE = '86400', '/etc/ssl/certs/ca-certificates.crt'


class Bench:
    """Certificates, the client, and what it said."""

    def __init__(self, args):
        self.client, self.exec, self.work = args.client, os.environ.get('EXEC', '').split(), pathlib.Path(args.folder).resolve()
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.ca = Authority(self.work, 'ca')
        self.other = Authority(self.work, 'other')
        self.good = self.ca.sign('good')
        self.trust = {'EDGEPROF_TLS_CA': str(self.ca.cert)}
        self.only, self.failed, self.passed, self.peak, self.step = args.only, 0, 0, 0, 0

    def run(self, port, count=1, size=100, ms=10000, host='localhost', **env):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(('EDGEPROF_', 'SSL_CERT', 'TEST_'))}
        command = [*self.exec, self.client, f'https://{host}:{port}', str(count), str(size), str(ms)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean | {k: str(v) for k, v in env.items()})
        lines = done.stdout.splitlines() or [f'the client died: {done.returncode} {done.stderr}']
        figures = dict(re.findall(r'(\w+)=(\d+)', lines[-1]))
        self.peak = max(self.peak, int(figures.get('peak', 0)))
        self.step = max(self.step, int(figures.get('step_us', 0)))
        return lines[:-1] if figures else lines, {k: int(v) for k, v in figures.items()}

    def say(self, name, good, what):
        self.passed += good
        self.failed += not good
        print(f'  {"ok    " if good else "FAILED"} {name:44} {what}')

    def expect(self, name, got, lines, **figures):
        """lines: what each line of the client must begin with, and behind a | what must be in it."""
        said, numbers = got
        good = len(said) == len(lines) and all(
            f'{s} '.startswith(begin + ' ') and text in s for s, (begin, _, text) in zip(said, (line.partition('|') for line in lines)))
        good = good and all(numbers.get(k) == v for k, v in figures.items())
        what = said[-1] if said else 'nothing'
        self.say(name, good, what if good else f'{said} {numbers}, expected {lines} {figures}')

    def case(self, name, server, lines, run=None, figures=None, **env):
        if self.only and not re.search(self.only, name):
            server.close()
            return
        with contextlib.closing(server):
            self.expect(name, self.run(server.port, **(run or {}), **env), lines, **(figures or {}))


# ---- certificates ----

def certificates(b):
    sign, trust = b.ca.sign, b.trust
    middle = Authority(b.work, 'middle', 'rsa:4096', b.ca)
    large = middle.sign('large', kind='rsa:4096')
    b.case('TLS 1.3', SServer(b.good), GOOD, figures={'version': 13, 'handshakes': 1, 'resumed': 0}, **trust)
    b.case('TLS 1.2', SServer(b.good, '-tls1_2'), GOOD, figures={'version': 12}, **trust)
    for version in '-tls1_3', '-tls1_2':
        b.case(f'RSA 4096, intermediate, {version}', SServer(large, version, chain=middle.cert), GOOD, **trust)
        b.case(f'RSA, the server chooses, {version}', SServer(large, version, '-serverpref', chain=middle.cert), GOOD, **trust)
    chain = b.work / 'long-chain.pem'
    names = ','.join(f'DNS:a-rather-long-host-name-{i}.example.org' for i in range(80))
    chain.write_text(middle.cert.read_text() + ''.join(middle.sign(f'more{i}', names, key=large[1])[0].read_text() for i in range(3)))
    b.case('the longest chain', SServer(large, chain=chain), GOOD, **trust)
    b.case('P-384', SServer(sign('p384', kind='ec:P-384')), GOOD, **trust)
    b.case('address in the certificate', SServer(b.good), GOOD, run={'host': '127.0.0.1'}, **trust)
    b.case('expired', SServer(sign('expired', start=LONG_AGO, end=OLD)), [f'{DATES}|has expired'], **trust)
    b.case('not yet valid', SServer(sign('future', start='20900101000000Z')), [f'{DATES}|not yet valid'], **trust)
    b.case('wrong host', SServer(sign('host', 'DNS:example.org')), [f'{REFUSED}|host name does not match'], **trust)
    b.case('wrong address', SServer(sign('address', 'DNS:localhost,IP:127.0.0.2')), [f'{REFUSED}|host name does not match'],
           run={'host': '127.0.0.1'}, **trust)
    b.case('unknown CA', SServer(b.other.sign('stranger')), [f'{REFUSED}|unknown CA'], **trust)
    b.case('unknown CA, by the system\'s bundle', SServer(b.good), [f'{REFUSED}|unknown CA'])
    b.case('intermediate is missing', SServer(large), [f'{REFUSED}|unknown CA'], **trust)
    b.case('not for servers', SServer(sign('usage', usage='clientAuth')), [f'{REFUSED}|not meant for servers'], **trust)
    b.case('weak key: RSA 1024', SServer(sign('weak', kind='rsa:1024'), *WEAK), [f'{REFUSED}|key too weak'], **trust)
    b.case('weak hash: SHA-1', SServer(sign('sha1', md='sha1'), *WEAK), [f'{REFUSED}|weak hash'], **trust)
    b.case('signed by no authority', SServer(Authority.sign(leaf_as_authority(b), 'child'), chain=b.good[0]), [f'{REFUSED}|unknown CA'], **trust)


def chains(b):
    """Chains as servers have them: any order, several issuers of one name, algorithms that are not there."""
    middles, signer = [], b.ca
    for i in range(9):
        signer = Authority(b.work, f'link{i}', signer=signer)
        middles.append(signer)

    def join(name, *files):
        path = b.work / name
        path.write_text(''.join(pathlib.Path(f).read_text() for f in files))
        return path

    def reaches(name, server, lines, **env):
        for version in '-tls1_3', '-tls1_2':
            b.case(f'{name}, {version}', server(version), lines, **env)

    four = middles[3].sign('four')
    ordered = [m.cert for m in reversed(middles[:4])]
    for name, files in (('in order', ordered), ('turned round', ordered[::-1]), ('root first', [b.ca.cert, *ordered]),
                        ('mixed', [ordered[2], b.other.cert, ordered[0], b.ca.cert, ordered[3], ordered[1]])):
        path = join(f'{name}.pem', *files)
        reaches(f'four intermediates, {name}', lambda v, c=path: SServer(four, v, chain=c), GOOD, **b.trust)
    eight, nine = (join(f'{n}.pem', *[m.cert for m in reversed(middles[:n])]) for n in (8, 9))
    b.case('eight intermediates', SServer(middles[7].sign('eight'), chain=eight), GOOD, **b.trust)
    b.case('nine intermediates', SServer(middles[8].sign('nine'), chain=nine), [f'{REFUSED}|more than 8 intermediates'], **b.trust)
    twins = [Authority(b.work, f'twin{i}', signer=b.ca, subject='twin') for i in range(4)]
    twin = join('twins.pem', *[t.cert for t in twins])
    reaches('four intermediates of one name', lambda v: SServer(twins[3].sign('of-twin'), v, chain=twin), GOOD, **b.trust)
    others = [Authority(b.work, f'root{i}', subject='ca').cert for i in range(20)]
    for name, files in (('last', [*others, b.ca.cert]), ('first', [b.ca.cert, *others])):
        b.case(f'the {name} of 21 roots of one name', SServer(b.good), GOOD, EDGEPROF_TLS_CA=join(f'{name}-root.pem', *files))
    b.case('20 other roots of one name', SServer(b.good), [f'{REFUSED}|unknown CA'], EDGEPROF_TLS_CA=join('others.pem', *others))
    own = b.work / 'trusted.pem', new_key(b.work / 'trusted.key', 'ec:P-256')
    run('openssl', 'req', '-x509', '-new', '-key', own[1], '-out', own[0], '-days', '100', '-subj', '/CN=box', '-addext', 'basicConstraints=CA:FALSE',
        '-addext', 'subjectAltName=DNS:localhost')
    b.case('a self-signed certificate is the CA', SServer(own), GOOD, EDGEPROF_TLS_CA=own[0])
    unsupported(b, reaches, join)


def unsupported(b, reaches, join):
    for name, kind, text in (('ed25519', 'ed25519', 'Ed25519'), ('ed448', 'ed448', 'Ed448'), ('k1', 'ec:secp256k1', 'secp256k1'),
                             ('brainpool', 'ec:brainpoolP256r1', 'brainpool'), ('pss', 'rsa-pss:2048', 'RSA-PSS')):
        odd = Authority(b.work, name, kind)
        leaf = odd.sign(f'by-{name}')
        reaches(f'a CA of {kind}', lambda v, c=leaf: SServer(c, v), [f'{REFUSED}|{text}'], EDGEPROF_TLS_CA=odd.cert)
        middle = Authority(b.work, f'{name}-middle', kind, b.ca)
        chain = middle.sign(f'behind-{name}')
        reaches(f'an intermediate of {kind}', lambda v, c=chain, m=middle: SServer(c, v, chain=m.cert), [f'{REFUSED}|{text}'], **b.trust)
        needless = join(f'needless-{name}.pem', odd.cert)
        reaches(f'a needless certificate of {kind}', lambda v, c=needless: SServer(b.good, v, chain=c), GOOD, **b.trust)
    b.case('a server key of Ed25519', SServer(b.ca.sign('ed-leaf', kind='ed25519')), [f'{PROTOCOL}|its key must be RSA'], **b.trust)


def limits(b):
    """Sizes that are too large are named with the figure and the limit."""
    many = b.work / 'many.pem'
    middle = Authority(b.work, 'large-middle', 'rsa:4096', b.ca)
    leaf = middle.sign('large-leaf', ','.join(f'DNS:a-rather-long-host-name-{i}.example.org' for i in range(120)) + ',DNS:localhost')
    many.write_text(middle.cert.read_text() + leaf[0].read_text() * 4)
    for version in '-tls1_3', '-tls1_2':
        b.case(f'a chain of more than 16 KiB, {version}', SServer(leaf, version, chain=many), [f'{PROTOCOL}|bytes, the limit is 16384'], **b.trust)
    wanted = ['-Verify', '1', '-verify_return_error', '-CAfile', b.ca.cert]
    client = b.ca.sign('fits', ','.join(f'DNS:device-{i}.factory.example.org' for i in range(115)), usage='clientAuth')
    size = len(subprocess.run(['openssl', 'x509', '-in', client[0], '-outform', 'DER'], capture_output=True, check=True).stdout)
    b.say('a client certificate near the limit', 3900 < size <= 4096 - 13, size)
    over = b.work / 'over.pem'
    over.write_text(client[0].read_text() + b.ca.cert.read_text())
    for version in '-tls1_3', '-tls1_2':
        b.case(f'a client certificate below the limit, {version}', SServer(b.good, version, *wanted), GOOD,
               EDGEPROF_TLS_CERT=client[0], EDGEPROF_TLS_KEY=client[1], **b.trust)
    large = b.work / 'commented.pem'
    large.write_text('# a comment\n' * 2000 + client[0].read_text())
    for memory in {}, {'TEST_FROM_MEMORY': 1}:
        for name, file, line in ('chain', over, 'bytes, the limit is 4096'), ('file', large, 'bytes, the limit is 16384'):
            b.case(f'a client {name} above the limit{", from memory" if memory else ""}', SServer(b.good), [f'setup EFBIG|{line}'],
                   EDGEPROF_TLS_CERT=file, EDGEPROF_TLS_KEY=client[1], **memory, **b.trust)


def leaf_as_authority(b):
    """Our own server's certificate, used to sign: what it is not meant for."""
    fake = Authority(b.work, 'leaf')
    fake.cert, fake.key = b.good
    return fake


def authorities(b):
    everything = b.work / 'bundle.pem'
    everything.write_text(pathlib.Path(BUNDLE).read_text() + '0 is how DER begins, and this line\n' + b.ca.cert.read_text())
    der = b.work / 'ca.der'
    run('openssl', 'x509', '-in', b.ca.cert, '-outform', 'DER', '-out', der)
    b.case('CA in a bundle of hundreds', SServer(b.good), GOOD, EDGEPROF_TLS_CA=everything)
    b.case('CA by SSL_CERT_FILE', SServer(b.good), GOOD, SSL_CERT_FILE=b.ca.cert)
    b.case('CA in DER', SServer(b.good), GOOD, EDGEPROF_TLS_CA=der)
    for file in b.ca.cert, der:
        b.case(f'CA in memory, {file.suffix}', SServer(b.good), GOOD, EDGEPROF_TLS_CA=file, TEST_FROM_MEMORY=1)
    b.case('name that is asked for', SServer(b.other.sign('default'), '-servername', 'device.test', '-cert2', b.ca.sign('sni', 'DNS:device.test')[0],
                                             '-key2', b.work / 'sni.key'), GOOD, EDGEPROF_TLS_NAME='device.test', **b.trust)


def pins(b):
    own = b.work / 'self.pem', new_key(b.work / 'self.key', 'ec:P-256')
    run('openssl', 'req', '-x509', '-new', '-key', own[1], '-out', own[0], '-days', '100', '-subj', '/CN=anything')
    right, wrong = pin_of(b.good[0]), pin_of(b.other.cert)
    b.case('right pin', SServer(b.good), GOOD, EDGEPROF_TLS_PIN=right)
    b.case('right pin, self-signed', SServer(own), GOOD, EDGEPROF_TLS_PIN=pin_of(own[0]))
    b.case('right pin, second of two', SServer(b.good), GOOD, EDGEPROF_TLS_PIN=f'{wrong};{right}')
    b.case('wrong pin', SServer(b.good), [f'{REFUSED}|not the pinned one'], EDGEPROF_TLS_PIN=wrong)
    b.case('wrong pin, right CA', SServer(b.good), [f'{REFUSED}|not the pinned one'], EDGEPROF_TLS_PIN=wrong, **b.trust)
    b.case('right pin, right CA', SServer(b.good), GOOD, EDGEPROF_TLS_PIN=right, **b.trust)
    b.case('right pin, wrong CA', SServer(b.good), [f'{REFUSED}|unknown CA'], EDGEPROF_TLS_PIN=right, EDGEPROF_TLS_CA=b.other.cert)
    expired = b.work / 'expired.pem', b.work / 'expired.key'
    b.case('right pin, expired', SServer(expired), [f'{DATES}|has expired'], EDGEPROF_TLS_PIN=pin_of(expired[0]))
    weak = b.work / 'weak.pem', b.work / 'weak.key'
    b.case('right pin, weak key', SServer(weak, *WEAK), [f'{REFUSED}|key too weak'], EDGEPROF_TLS_PIN=pin_of(weak[0]))


# ---- the device's side ----

def clocks(b):
    expired, pin = (b.work / 'expired.pem', b.work / 'expired.key'), pin_of(b.good[0])
    b.case('no clock', SServer(b.good), ['ETIME|the clock is not set'], TEST_UNIX=NO_CLOCK, **b.trust)
    b.case('no clock, allowed, CA', SServer(b.good), GOOD, TEST_UNIX=NO_CLOCK, EDGEPROF_TLS_NO_CLOCK=1, **b.trust)
    b.case('no clock, allowed, pin', SServer(b.good), GOOD, TEST_UNIX=NO_CLOCK, EDGEPROF_TLS_NO_CLOCK=1, EDGEPROF_TLS_PIN=pin)
    b.case('no clock, allowed, unknown CA', SServer(b.good), [f'{REFUSED}|unknown CA'], TEST_UNIX=NO_CLOCK, EDGEPROF_TLS_NO_CLOCK=1,
           EDGEPROF_TLS_CA=b.other.cert)
    b.case('clock is set, allowed without, expired', SServer(expired), [f'{DATES}|has expired'], EDGEPROF_TLS_NO_CLOCK=1, **b.trust)
    b.case('no clock, allowed, system\'s bundle', SServer(b.good), ['setup EINVAL|requires pin, ca or ca_file'], EDGEPROF_TLS_NO_CLOCK=1)
    b.case('year 2040', SServer(b.good), GOOD, TEST_UNIX=2208988800, **b.trust)
    b.case('after its end', SServer(b.ca.sign('short', end='20380119031407Z')), [f'{DATES}|has expired'], TEST_UNIX=2147483648, **b.trust)


def identities(b):
    cert, key = b.ca.sign('device', None, usage='clientAuth')
    rsa, rsa_key = b.ca.sign('device-rsa', None, 'rsa:2048', usage='clientAuth')
    stranger = b.other.sign('other-device', None, usage='clientAuth')
    wanted = ['-Verify', '1', '-verify_return_error', '-CAfile', b.ca.cert]
    own, own_rsa = ({'EDGEPROF_TLS_CERT': c, 'EDGEPROF_TLS_KEY': k, **b.trust} for c, k in ((cert, key), (rsa, rsa_key)))
    for version in '-tls1_3', '-tls1_2':
        b.case(f'client certificate, {version}', SServer(b.good, version, *wanted), GOOD, **own)
        b.case(f'client certificate, RSA, {version}', SServer(b.good, version, *wanted), GOOD, **own_rsa)
        b.case(f'client certificate, from memory, {version}', SServer(b.good, version, *wanted), GOOD, TEST_FROM_MEMORY=1, **own)
        b.case(f'client certificate of another CA, {version}', SServer(b.good, version, *wanted), ['EACCES|refused our client certificate'],
               EDGEPROF_TLS_CERT=stranger[0], EDGEPROF_TLS_KEY=stranger[1], **b.trust)
    b.case('no client certificate, -tls1_3', SServer(b.good, '-tls1_3', *wanted), ['EACCES|requires a client certificate'], **b.trust)
    b.case('no client certificate, -tls1_2', SServer(b.good, '-tls1_2', *wanted), [f'{PROTOCOL}|requires a client certificate'], **b.trust)


def mistakes(b):
    server = Pretender(None)
    cert, key = b.work / 'device.pem', b.work / 'device.key'
    locked, empty = b.work / 'locked.key', b.work / 'empty'
    run('openssl', 'ec', '-in', key, '-aes256', '-passout', 'pass:secret', '-out', locked)
    empty.write_text('nothing\n')
    os.mkfifo(b.work / 'pipe')
    table = [
        ('setup ENOENT|cannot read certificate authorities: /nowhere', {'EDGEPROF_TLS_CA': '/nowhere'}),
        ('setup EINVAL|no certificate (PEM or DER) in', {'EDGEPROF_TLS_CA': empty}),
        ('setup EINVAL|no certificate (PEM or DER) in', {'EDGEPROF_TLS_CA': b.work / 'pipe'}),
        ('setup EINVAL|cannot read a client certificate', {'EDGEPROF_TLS_CERT': b.work / 'pipe', 'EDGEPROF_TLS_KEY': key, **b.trust}),
        ('setup EINVAL|pin: must be sha256//', {'EDGEPROF_TLS_PIN': 'sha256//AAAA'}),
        ('setup EINVAL|client certificate and key require each other', {'EDGEPROF_TLS_CERT': cert, **b.trust}),
        ('setup EINVAL|client certificate and key do not match', {'EDGEPROF_TLS_CERT': cert, 'EDGEPROF_TLS_KEY': b.work / 'good.key', **b.trust}),
        ('setup EINVAL|cannot read an unencrypted private key', {'EDGEPROF_TLS_CERT': cert, 'EDGEPROF_TLS_KEY': locked, **b.trust}),
        ('setup EINVAL|cannot read a client certificate (PEM or DER; RSA', {'EDGEPROF_TLS_CERT': b.work / 'ed-leaf.pem',
                                                                            'EDGEPROF_TLS_KEY': b.work / 'ed-leaf.key', **b.trust}),
        ('setup EINVAL|cannot read a client certificate', {'EDGEPROF_TLS_CERT': empty, 'EDGEPROF_TLS_KEY': key, **b.trust}),
        ('setup ENOENT|cannot read an unencrypted private key', {'EDGEPROF_TLS_CERT': cert, 'EDGEPROF_TLS_KEY': '/nowhere', **b.trust}),
        ('setup EINVAL|EDGEPROF_TLS_NO_CLOCK: must be 1 or 0', {'EDGEPROF_TLS_NO_CLOCK': 'yes', **b.trust}),
        ('setup ENOMEM|TLS memory is too small', {'TEST_MEMORY': 100, **b.trust}),
        ('ENOMEM|TLS memory is too small', {'TEST_MEMORY': 16384, **b.trust}),
    ]
    for line, env in table if not b.only else []:
        b.expect(line[:44], b.run(server.port, **env), [line])
    server.close()


# ---- what a connection can do ----

def connections(b):
    trust = b.trust
    b.case('TLS 1.1 only', SServer(b.good, '-tls1_1', *WEAK), ['EPROTONOSUPPORT|neither TLS 1.3 nor 1.2'], **trust)
    hello = bytes([22, 3, 2, 0, 42, 2, 0, 0, 38, 3, 2]) + bytes(32) + bytes([0, 0xc0, 0x13, 0])
    b.case('TLS 1.1 in the answer', Pretender(hello), ['EPROTONOSUPPORT|neither TLS 1.3 nor 1.2'], **trust)
    b.case('plaintext answer', Pretender(b'HTTP/1.1 400 Bad Request\r\n\r\n'), [f'{PROTOCOL}|answer is not TLS'], **trust)
    b.case('garbage in records', Pretender(bytes([22, 3, 3, 0, 40, 2, 0, 0, 36]) + bytes(range(36))), [f'{PROTOCOL}'], **trust)
    b.case('closed at once', Pretender(b''), ['ECONNRESET|closed the connection'], **trust)
    b.case('silence', Pretender(None), ['ETIMEDOUT|did not answer in time'], run={'ms': 300}, **trust)
    b.case('records of 16 KiB, s_server', SServer(b.good, body=60000), GOOD, **trust)
    b.case('large message', SServer(b.good), GOOD, run={'size': 200000}, **trust)
    b.case('closed after the status', SServer(b.good, answer=tls_servers.ANSWER.format(5000, 'close'), kill=True), GOOD, **trust)
    b.case('closed within the status', SServer(b.good, answer='HTTP/1.1 20', kill=True), ['ECONNRESET|without a TLS close_notify'], **trust)
    for version in '-tls1_3', '-tls1_2':
        truncated(b, version)
        b.case(f'kept connection, {version}', SServer(b.good, version), GOOD * 3, run={'count': 3}, figures={'handshakes': 1}, **trust)
        b.case(f'resumed, {version}', SServer(b.good, version, keep=False), GOOD * 3, run={'count': 3},
               figures={'handshakes': 3, 'resumed': 2}, **trust)
    b.case('no tickets, no resumption', SServer(b.good, '-num_tickets', '0', keep=False), GOOD * 2, run={'count': 2},
           figures={'handshakes': 2, 'resumed': 0}, **trust)


def truncated(b, version):
    """A handshake that ends after each of some numbers of bytes; what is whole must be accepted."""
    with contextlib.closing(SServer(b.good, version)) as server:
        for limit in 1, 5, 60, 127, 128, 300, 600, 700:
            b.case(f'handshake cut after {limit}, {version}', Cutter(server.port, limit), ['ECONNRESET|closed the connection'], **b.trust)
        b.case(f'cut after a million, {version}', Cutter(server.port, 10**6), GOOD, **b.trust)


def nginx(b):
    with tls_servers.upstream() as port:
        def server(name, extra, cert=b.good):
            return Nginx(b.work / f'nginx-{name}', cert, port, extra)
        b.case('nginx, records of 16 KiB', server('plain', 'ssl_protocols TLSv1.2 TLSv1.3;'), GOOD * 3, run={'count': 3, 'size': 20000},
               figures={'handshakes': 1, 'version': 13}, **b.trust)
        for version in 'TLSv1.3', 'TLSv1.2':
            closing = server(version, f'ssl_protocols {version}; keepalive_timeout 0;')
            b.case(f'nginx, resumed, {version}', closing, GOOD * 3, run={'count': 3}, figures={'handshakes': 3, 'resumed': 2}, **b.trust)
            log = closing.log() if not b.only else None
            if log is not None:
                b.say(f'nginx says so, {version}', log == [f'{version} . localhost NONE 200'] + [f'{version} r localhost NONE 200'] * 2, log)
        b.case('nginx, TLS 1.1', server('old', 'ssl_protocols TLSv1.1; ssl_ciphers DEFAULT@SECLEVEL=0;'), ['EPROTONOSUPPORT|neither'], **b.trust)
        wanted = f'ssl_verify_client on; ssl_client_certificate {b.ca.cert};'
        b.case('nginx, client certificate', server('client', wanted), GOOD, EDGEPROF_TLS_CERT=b.work / 'device.pem',
               EDGEPROF_TLS_KEY=b.work / 'device.key', **b.trust)
        b.case('nginx, no client certificate', server('none', wanted), ['EBADMSG'], **b.trust)
        b.case('nginx, expired', server('expired', '', (b.work / 'expired.pem', b.work / 'expired.key')), [f'{DATES}|has expired'], **b.trust)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('client')
    parser.add_argument('folder')
    parser.add_argument('--figure')
    parser.add_argument('--only')
    args = parser.parse_args()
    bench = Bench(args)
    for group in certificates, chains, limits, authorities, pins, clocks, identities, mistakes, connections, nginx:
        print(group.__name__)
        group(bench)
    if args.figure:
        print(f'figure {args.figure} {bench.peak} bytes')
    print(f'tls_test: {bench.passed} cases as they should be, {bench.failed} not; at most {bench.peak} bytes of memory, '
          f'{bench.step / 1000} ms a step')
    return 1 if bench.failed or bench.passed == 0 else 0


if __name__ == '__main__':
    sys.exit(main())
