#!/usr/bin/python3
"""Crash records, row by row: a program ends in some way, and what its next start delivers is compared.

    crash.py --edgeprof PROGRAM --plain CRASHER --linked CRASHER --preload LIBRARY [ROW...]

Each row runs the program without edgeprof first: the exit status must be the same with it.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

RECORD_AT, BODY_AT = 4096, 4608
STEPS = {'fault': 0, 'stack': 1, 'modules': 2, 'text': 3, 'write': 4, 'others': 5, 'write_others': 6}


class Failed(Exception):
    pass


def check(good, what):
    if not good:
        raise Failed(what)


class Device:
    """A directory with the spool and what was delivered, and the program in one of two ways."""

    def __init__(self, options, way):
        self.options, self.way = options, way
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='crash-test-'))
        self.spool, self.out = self.folder / 'spool', self.folder / 'out'

    def __enter__(self):
        return self

    def __exit__(self, *error):
        shutil.rmtree(self.folder)

    def run(self, *arguments, **more):
        """Returns the exit status, standard error, and the seconds that it took."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith('EDGEPROF_')}
        environment |= {'EDGEPROF_ENDPOINT': f'file://{self.out}', 'EDGEPROF_CRASH': f'{self.spool}/', **more}
        program = self.options.linked if self.way == 'linked' else self.options.plain
        if self.way == 'preload':
            environment['LD_PRELOAD'] = self.options.preload
        if self.way == 'without':
            environment = dict(os.environ)
        start = time.monotonic()
        done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr, time.monotonic() - start

    def groups(self):
        """What was delivered so far."""
        if not self.out.exists():
            return []
        done = subprocess.run([self.options.edgeprof, 'crashes', '--json', str(self.out)], capture_output=True, text=True)
        check(done.returncode in (0, 3), f'edgeprof crashes: {done.returncode} {done.stderr}')
        return json.loads(done.stdout)['groups']

    def next(self):
        """What the next start of the program delivers, as one list of crashes with their group's reason."""
        status, error, _ = self.run('idle')
        check(status == 0, f'the next start ended with {status}: {error}')
        return [crash | {'reason': group['reason']} for group in self.groups() for crash in group['crashes']]

    def file(self):
        return self.spool / 'edgeprof-crash'


def functions(crash, thread=0):
    return [frame['function'] for frame in crash['threads'][thread]['frames']]


def one(crashes, reason):
    check(len(crashes) == 1, f'{len(crashes)} crashes instead of one: {[c["reason"] for c in crashes]}')
    check(crashes[0]['reason'] == reason, f'{crashes[0]["reason"]} instead of {reason}')
    return crashes[0]


def same_status(device, *arguments):
    """Runs it with and without edgeprof. Returns what it said with it."""
    without = Device(device.options, 'without')
    with without:
        plain, said_plain, took_plain = without.run(*arguments)
    status, said, took = device.run(*arguments)
    check(status == plain, f'exit status {status} instead of {plain}: {said}')
    check(said == said_plain, f'it said {said!r} instead of {said_plain!r}')
    check(took < took_plain + 5, f'it took {took:.2f} s instead of {took_plain:.2f} s')
    return said


def ends(how, number, *more, trace=None):
    """A row: an end that leaves a record with this signal."""
    def row(device):
        same_status(device, how, *more)
        crash = one(device.next(), signal.Signals(number).name)
        names = functions(crash)
        check(crash['signal'] == number, f'signal {crash["signal"]}')
        at = names.index('middle') if 'middle' in names else -1
        check(at >= 0 and names[at + 1] == 'outer', f'the stack is {names}')
        check(names[at - 1] == (trace or f'do_{how}'), f'the stack is {names}')
        check(crash['faults'] == 0, 'parts of the record failed')
        again = [c['id'] for c in device.next()]
        check(len(again) == 1, f'it was delivered again: {again}')
    return row


def unclean(how):
    def row(device):
        same_status(device, how)
        crash = one(device.next(), 'killed, out of memory or stack overflow')
        check(crash['missed'] == 1, f'{crash["missed"]} ends')
        check(len(device.next()) == 1, 'it was delivered again')
    return row


def regular(device):
    status, error, _ = device.run('idle')
    check(status == 0, f'exit status {status}: {error}')
    check(device.next() == [], 'a regular end was reported')


def address(device):
    device.run('null')
    crash = one(device.next(), 'SIGSEGV')
    check(crash['address'] == '0x10', f'address {crash["address"]}')


def threads(device):
    device.run('null', 'thread')
    crash = one(device.next(), 'SIGSEGV')
    check(len(crash['threads']) == 3, f'{len(crash["threads"])} threads')
    check('worker' in functions(crash), f'the crashed thread is {functions(crash)}')
    rest = sum([functions(crash, 1), functions(crash, 2)], [])
    check('sleeper' in rest and 'main' in rest, f'the other threads are {rest}')


def kept(device):
    """The first record of a loop of crashes stays, and the others are counted."""
    for how in ('null', 'abort', 'fpe'):
        device.run(how, EDGEPROF_ENDPOINT='http://127.0.0.1:1')
    crashes = device.next()
    check(sorted(c['reason'] for c in crashes) == ['SIGFPE', 'SIGSEGV'], f'{[c["reason"] for c in crashes]}')
    first = [c for c in crashes if c['missed'] == 0][0]
    later = [c for c in crashes if c['missed']][0]
    check(first['reason'] == 'SIGSEGV' and 'do_null' in functions(first), f'the record is of {first["reason"]}')
    check(later['missed'] == 2, f'{later["missed"]} ends are counted')
    device.run('abort')
    check(len(device.next()) == 3, 'after the delivery a crash is not recorded')


def early(device):
    """A program that crashes 20 ms after each start delivers the crash before."""
    device.run('null')
    device.run('abort')
    crashes = [crash for group in device.groups() for crash in group['crashes']]
    check(len(crashes) == 1, f'{len(crashes)} crashes')


def fault_in(step, faults, found):
    """A fault in the handler: the status stays, and the record has the rest."""
    def row(device):
        status, error, _ = device.run('null', CRASH_FAULTS='0' * STEPS[step] + faults)
        check(status == -signal.SIGSEGV, f'exit status {status}: {error}')
        crash = one(device.next(), 'SIGSEGV')
        check(bool(crash['threads']) == found, f'{len(crash["threads"])} stacks')
        if found:
            check('do_null' in functions(crash), f'the stack is {functions(crash)}')
        check(crash['faults'] == 1 and crash['missed'] == 0, f'{crash["faults"]} faults')
    return row


def fault_twice(device):
    """A second fault in the handler ends it. The mark of the run has the signal."""
    status, error, _ = device.run('fpe', CRASH_FAULTS='0110000')
    check(status == -signal.SIGFPE, f'exit status {status}: {error}')
    crash = one(device.next(), 'SIGFPE')
    check(crash['missed'] == 1 and not crash['threads'], 'there is a record')


def hang_in(step, stack):
    """A handler that hangs ends after its limit, by the same signal."""
    def row(device):
        status, error, took = device.run('abort', CRASH_FAULTS='0' * STEPS[step] + '2')
        check(status == -signal.SIGABRT, f'exit status {status}: {error}')
        check(took < 8, f'it took {took:.1f} s')
        crash = one(device.next(), 'SIGABRT')
        check(bool(crash['threads']) == stack, f'{len(crash["threads"])} stacks')
    return row


def reporter(when):
    """Another handler: it has its say as without edgeprof, and the record is there."""
    def row(device):
        for how, number in (('null', signal.SIGSEGV), ('abort', signal.SIGABRT)):
            said = same_status(device, how, when)
            check('reporter was here' in said, f'the other handler said {said!r}')
            crashes = [c for c in device.next() if c['signal'] == number]
            check(len(crashes) == 1 and f'do_{how}' in functions(crashes[0]), f'{how}: {len(crashes)} records')
    return row


def torn(device):
    """A power cut while the record is written: what is damaged is refused, and nothing crashes. tests/linux/linux_crash.c
    damages each byte."""
    device.run('null')
    whole = device.file().read_bytes()
    size = struct.unpack_from('<I', whole, RECORD_AT + 12)[0]
    check(size > 200, f'the record has {size} bytes')
    for place in [0, 5, 9, 300, *range(RECORD_AT, RECORD_AT + 16, 3), BODY_AT, BODY_AT + size // 2]:
        for damage in ('cut', 'flip'):
            broken = bytearray(whole[:place]) if damage == 'cut' else bytearray(whole)
            if damage == 'flip':
                broken[place] ^= 0x10
            device.file().write_bytes(broken)
            device.out.unlink(missing_ok=True)
            status, error, _ = device.run('early')
            check(status == 7, f'{damage} at {place}: {status} {error}')
            crashes = [c for g in device.groups() for c in g['crashes'] if c['missed'] == 0]
            if place >= RECORD_AT or damage == 'cut':
                check(not crashes, f'{damage} at {place}: a damaged record was delivered')
    device.file().write_bytes(whole)
    device.out.unlink(missing_ok=True)
    one(device.next(), 'SIGSEGV')


def registers(device):
    device.run('null', EDGEPROF_CRASH_REGISTERS='1')
    device.next()
    text = subprocess.run([device.options.edgeprof, 'crashes', str(device.out)], capture_output=True, text=True).stdout
    check('  registers ' in text, text)
    device.out.unlink()
    device.run('null')
    device.next()
    text = subprocess.run([device.options.edgeprof, 'crashes', str(device.out)], capture_output=True, text=True).stdout
    check('registers' not in text, 'registers that nobody asked for')


def off(device):
    """Without EDGEPROF_CRASH there is no file."""
    status, error, _ = device.run('null', EDGEPROF_CRASH='')
    check(status == -signal.SIGSEGV and not device.spool.exists(), f'{status} {error}')


def text(device):
    """As people read it."""
    for _ in range(2):
        device.run('null')
        device.next()
    said = subprocess.run([device.options.edgeprof, 'crashes', str(device.out)], capture_output=True, text=True).stdout
    check(said.startswith('2 x '), f'two equal crashes are no group: {said}')
    check('SIGSEGV' in said and '#0  do_null' in said and 'crasher.c:' in said, said)
    shown = subprocess.run([device.options.edgeprof, 'cat', str(device.out)], capture_output=True, text=True).stdout
    check('crash cause=1 signal=11' in shown, shown)
    check(subprocess.run([device.options.edgeprof, 'crashes', '--service', 'another', str(device.out)],
                         capture_output=True).returncode == 3, 'another service has crashes')


BOTH = {
    'null': ends('null', signal.SIGSEGV), 'jump': ends('jump', signal.SIGSEGV), 'abort': ends('abort', signal.SIGABRT),
    'fpe': ends('fpe', signal.SIGFPE), 'ill': ends('ill', signal.SIGILL), 'trap': ends('trap', signal.SIGTRAP),
    'bus': ends('bus', signal.SIGBUS), 'sent': ends('sent', signal.SIGSEGV), 'kill': unclean('kill'),
    'overflow': unclean('overflow'), 'regular': regular, 'address': address, 'threads': threads, 'kept': kept,
    'early': early, 'reporter_after': reporter('after'), 'off': off,
}
LINKED = {
    'reporter_before': reporter('before'), 'torn': torn, 'registers': registers, 'text': text,
    'fault_stack': fault_in('stack', '1', False), 'fault_modules': fault_in('modules', '1', True),
    'fault_text': fault_in('text', '1', True), 'fault_others': fault_in('others', '1', True),
    'fault_write': fault_in('write', '1', True), 'abort_text': fault_in('text', '3', True),
    'fault_twice': fault_twice, 'hang_others': hang_in('others', True), 'hang_stack': hang_in('stack', False),
}


def main():
    parser = argparse.ArgumentParser()
    for name in ('edgeprof', 'plain', 'linked', 'preload'):
        parser.add_argument(f'--{name}', required=True)
    parser.add_argument('rows', nargs='*')
    options = parser.parse_args()
    failed = count = 0
    for way, rows in (('linked', BOTH | LINKED), ('preload', BOTH)):
        for name, row in rows.items():
            if options.rows and name not in options.rows:
                continue
            count += 1
            with Device(options, way) as device:
                try:
                    row(device)
                except Failed as error:
                    failed += 1
                    print(f'{way} {name}: {error}', file=sys.stderr)
    print(f'test-crash: {count - failed} of {count} rows')
    sys.exit(1 if failed else 0)


main()
