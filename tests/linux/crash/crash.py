#!/usr/bin/python3
"""Crash records, row by row: a program ends in some way, and what its next start delivers is compared.

    crash.py --edgeprof PROGRAM --plain CRASHER --linked CRASHER [--preload LIBRARY] [--glog-plain P --glog-linked P]
             [--sentry-plain P --sentry-linked P] [--emulator 'PROGRAM ARGUMENT...'] [ROW...]

--glog-plain, --sentry-plain: only rows with glog, see glog.cpp, or sentry-native, see sentry.c. Without --preload: only the program that
is linked with edgeprof. --emulator: what runs programs of another processor.
Each row runs the program without edgeprof first: the exit status must be the same with it.
"""
import argparse
import ctypes
import json
import multiprocessing
import os
import pathlib
import platform
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

RECORD_AT, BODY_AT = 4096, 4608
PC_IN_CORE = {'x86_64': 16, 'aarch64': 32}
STEPS = {'fault': 0, 'stack': 1, 'modules': 2, 'text': 3, 'write': 4, 'others': 5, 'write_others': 6}


class Failed(Exception):
    pass


class Skipped(Exception):
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

    def run(self, *arguments, program=None, prepare=None, **more):
        """Returns the exit status, standard error, and the seconds that it took. prepare() runs in the child before."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith('EDGEPROF_')}
        environment |= {'EDGEPROF_ENDPOINT': f'file://{self.out}', 'EDGEPROF_CRASH': f'{self.spool}/', **more}
        own = self.options.linked if self.way == 'linked' else self.options.plain
        if self.way == 'preload' and program is None:
            environment['LD_PRELOAD'] = self.options.preload
        environment.setdefault('CRASH_LIMIT', '3000')  # the longest: a busy machine may need more than a second for a record
        if self.way == 'without':
            environment = {k: v for k, v in environment.items() if not k.startswith('EDGEPROF_')}
        start = time.monotonic()
        emulator = self.options.emulator.split() if program is None else []
        done = subprocess.run([*emulator, program or own, *arguments], env=environment, preexec_fn=prepare, cwd=self.folder,
                              capture_output=True, text=True, timeout=60)
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


def functions_all(crash):
    return [frame['function'] for thread in crash['threads'] for frame in thread['frames']]


def unshare_mounts():
    """So that a mount ends with the test."""
    new_mounts = 0x20000
    if ctypes.CDLL(None).unshare(new_mounts) != 0:
        return False
    return subprocess.run(['mount', '--make-rprivate', '/'], stderr=subprocess.DEVNULL).returncode == 0


private_mounts = unshare_mounts()


class small_disk:
    """A file system of 256 KiB at a folder, in a mount namespace of the test's own. Gives what fills it up."""

    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        if not private_mounts:
            raise Skipped('no file system may be mounted')
        self.folder.mkdir()
        subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', self.folder], check=True)
        return self.fill

    def fill(self):
        name = self.folder / 'other'
        with open(name, 'wb', 0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return name

    def __exit__(self, *error):
        subprocess.run(['umount', self.folder], check=True)


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
    check(took < took_plain + 15, f'it took {took:.2f} s instead of {took_plain:.2f} s')
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


def hang_in(step, stack, how='2', with_thread=()):
    """A handler that hangs ends after its limit, by the same signal."""
    def row(device):
        status, error, took = device.run('abort', *with_thread, CRASH_FAULTS='0' * STEPS[step] + how)
        check(status == -signal.SIGABRT, f'exit status {status}: {error}')
        check(took < 20, f'it took {took:.1f} s')
        crash = one(device.next(), 'SIGABRT')
        check(bool(crash['threads']) == stack, f'{len(crash["threads"])} stacks')
    return row


def hang_time(device):
    """However the handler hangs, the process is gone within a second: compared with a pause of a second. One run of
    three must be: a busy machine is late, a timer that is set to more always is."""
    for how in ('2', '4'):
        ratios = []
        for _ in range(3):
            pause = device.run('pause')[2]
            status, error, hung = device.run('null', CRASH_FAULTS='0' * STEPS['others'] + how, CRASH_LIMIT='1000')
            check(status in (-signal.SIGSEGV, -signal.SIGKILL), f'exit status {status}: {error}')
            ratios.append(hung / pause)
            if ratios[-1] < 1.2:
                break
        check(min(ratios) < 1.2, f'a hang takes {min(ratios):.2f} times as long as a second')
        crashes = [c for c in device.next() if c['signal'] == signal.SIGSEGV]
        check(all('do_null' in functions(c) for c in crashes) and crashes, 'what was written before the hang is lost')


def disk_full(device):
    """Spool and record on a file system that is full when the crash comes. What the program needs was written before."""
    with small_disk(device.spool) as fill:
        where = {'EDGEPROF_CRASH': '1', 'EDGEPROF_SPOOL': str(device.spool)}
        check(device.run('idle', **where)[0] == 0, 'it does not start')
        fill()
        status, error, _ = device.run('null', **where)
        check(status == -signal.SIGSEGV, f'exit status {status}: {error}')
        device.run('idle', **where)
        crashes = [crash | {'reason': group['reason']} for group in device.groups() for crash in group['crashes']]
        check('do_null' in functions(one(crashes, 'SIGSEGV')), 'there is no stack')


def disk_full_before(device):
    """There is no room for the record's file: the program runs and ends as ever. With room, crashes are recorded."""
    with small_disk(device.spool) as fill:
        file = fill()
        status, error, _ = device.run('null')
        check(status == -signal.SIGSEGV, f'exit status {status}: {error}')
        check(error.count('\n') == 1 and 'crash records' in error, f'it said {error!r}')
        file.unlink()
        check(device.next() == [], 'a crash without a record')
        device.run('null')
        check('do_null' in functions(one(device.next(), 'SIGSEGV')), 'there is no stack')


def disk_full_in(writes, reason, stack):
    """The disk refuses these writes of the handler, as file systems do that write to another place."""
    def row(device):
        status, error, _ = device.run('null', CRASH_WRITES=writes)
        check(status == -signal.SIGSEGV, f'exit status {status}: {error}')
        crash = one(device.next(), reason)
        check(bool(crash['threads']) == stack, f'{len(crash["threads"])} stacks')
        device.run('fpe')
        check([c['reason'] for c in device.next() if 'do_fpe' in functions_all(c)] == ['SIGFPE'], 'the next crash is not recorded')
    return row


def file_limit(device):
    """A limit on the size of files, from the start on and set later: no SIGXFSZ ends the program in place of its own
    signal. Without a limit the next crash is recorded."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
    for prepare, arguments in ((limit, ['null']), (None, ['null', 'limit'])):
        status, error, _ = device.run(*arguments, prepare=prepare)
        check(status == -signal.SIGSEGV, f'exit status {status}: {error}')
    crashes = device.next()
    check(all(not c['threads'] for c in crashes), 'there is a record')
    device.run('fpe')
    check(len([c for c in device.next() if 'do_fpe' in functions_all(c)]) == 1, 'the next crash is not recorded')


def power_cut(device):
    """The power fails in the middle of each write, and after it: what is delivered is whole, it is one end, and the
    next crash is recorded."""
    for write in range(5):
        for how in '23':
            device.run('null', CRASH_WRITES='0' * write + how)
            crashes = device.next()
            check(len(crashes) == 1, f'write {write}, {how}: {len(crashes)} ends')
            crash = crashes[0]
            if crash['recorded']:
                check('do_null' in functions(crash) and crash['faults'] == 0, f'write {write}, {how}: {functions(crash)}')
            check(crash['recorded'] or not crash['threads'], f'write {write}, {how}: a part of a record')
            check(crash['recorded'] == (write > 2 or write == 2 and how == '3'), f'write {write}, {how}: {crash["reason"]}')
            device.run('fpe')
            check(len([c for c in device.next() if 'do_fpe' in functions_all(c)]) == 1, f'write {write}, {how}: the next one')
            device.out.unlink()


def many(device):
    """More threads than a record has room for."""
    device.run('null', 'many')
    crash = one(device.next(), 'SIGSEGV')
    check(len(crash['threads']) == 33, f'{len(crash["threads"])} threads')
    check('do_null' in functions(crash), f'the stack is {functions(crash)}')
    check(all('sleeper' in functions(crash, i) for i in range(1, 30)), 'a thread that sleeps has no stack')


def running(device):
    """A thread that runs has no stack: nothing stops it. It is there all the same."""
    device.run('null', 'run')
    crash = one(device.next(), 'SIGSEGV')
    check(len(crash['threads']) == 2 and 'do_null' in functions(crash), f'{len(crash["threads"])} threads')
    check(functions(crash, 1) in ([], ['[stack cut]']), f'the stack of a thread that runs is {functions(crash, 1)}')


def both(device):
    """Two threads crash at once: one is recorded, and the status is the same."""
    same_status(device, 'null', 'both')
    crash = one(device.next(), 'SIGSEGV')
    check('do_null' in functions(crash) and 'worker' in functions(crash), f'the stack is {functions(crash)}')


def python_handler(when):
    """Python's faulthandler, on a stack of its own: what it writes, and the status, are the same."""
    def row(device):
        code = 'faulthandler.enable(); '
        enabled = {'after': code, 'before': f'{code}import ctypes; ctypes.CDLL({device.options.preload!r}); '}[when]
        script = f'import faulthandler; {enabled}faulthandler._sigsegv()'

        def run(where, text, **environment):
            status, said, _ = where.run('-c', text, program='/usr/bin/python3', **environment)
            return status, re.sub('0x[0-9a-f]+', '0x', said)
        with Device(device.options, 'without') as without:
            plain = run(without, f'import faulthandler; {code}faulthandler._sigsegv()')
        check('Fatal Python error' in plain[1], f'the handler said {plain[1]!r}')
        profiled = run(device, script, **({'LD_PRELOAD': device.options.preload} if when == 'after' else {}))
        check(profiled == plain, f'{profiled} instead of {plain}')
        names = functions(one(device.next(), 'SIGSEGV'))
        check('Py_RunMain' in names and any('libc_start_main' in name for name in names), f'the stack is {names}')
    return row


def core_of(device, arguments, **environment):
    """What the core dump says of the signal and of the crashed thread: number, code, address or sender, and where it was."""
    def prepare():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for old in device.folder.glob('core*'):
        old.unlink()
    device.run(*arguments, prepare=prepare, **environment)
    cores = list(device.folder.glob('core*'))
    check(len(cores) == 1, f'{len(cores)} core dumps')
    image = cores[0].read_bytes()
    at, = struct.unpack_from('<Q', image, 32)
    notes = next(struct.unpack_from('<IIQQQQ', image, at + 56 * i) for i in range(image[56]) if image[at + 56 * i] == 4)
    at, end, found = notes[2], notes[2] + notes[5], {}
    while at < end:
        name, size, kind = struct.unpack_from('<III', image, at)
        found.setdefault(kind, image[at + 12 + (name + 3 & ~3):][:size])
        at += 12 + (name + 3 & ~3) + (size + 3 & ~3)
    status, info = found[1], found[0x53494749]
    signo, error, code = struct.unpack_from('<iii', info)
    pc_at = 112 + 8 * PC_IN_CORE[platform.machine()]
    own, = struct.unpack_from('<i', status, 32)
    more = struct.unpack_from('<Q', info, 16)[0] if code > 0 else struct.unpack_from('<i', info, 16)[0] == own
    return signo, error, code, more, struct.unpack_from('<Q', status, pc_at)[0] & 0xfff


def core(device):
    """The core dump is that of the crash: the same as without edgeprof."""
    if pathlib.Path('/proc/sys/kernel/core_pattern').read_text().strip() != 'core' or platform.machine() not in PC_IN_CORE:
        raise Skipped('core dumps do not go to the working folder')
    with Device(device.options, 'without') as without:
        if device.way == 'linked':
            without.options = argparse.Namespace(**vars(device.options) | {'plain': device.options.linked})
        for how in ('null', 'abort', 'trap', 'sent'):
            plain, profiled = core_of(without, [how]), core_of(device, [how])
            check(plain == profiled, f'{how}: {profiled} instead of {plain}')
            check(how == 'abort' or plain[0] == {'null': 11, 'trap': 5, 'sent': 11}[how], f'{how}: {plain}')


def reporter(when):
    """Another handler: it has its say as without edgeprof, and the record is there."""
    def row(device):
        for how, number in (('null', signal.SIGSEGV), ('abort', signal.SIGABRT)):
            said = same_status(device, how, when)
            check('reporter was here' in said, f'the other handler said {said!r}')
            crashes = [c for c in device.next() if c['signal'] == number]
            check(len(crashes) == 1, f'{how}: {len(crashes)} records')
            check(f'do_{how}' in functions(crashes[0]), f'{how}: the stack is {functions(crashes[0])}')
    return row


def front_stop(device):
    """A handler that came back when edgeprof's was stopped gets the signal once, though it calls edgeprof's as the one before."""
    for how in ('null', 'abort'):
        said = same_status(device, how, 'front_stop')
        check(said == 'reporter was here\n', f'{how}: the other handler said {said!r}')
    check(not device.next(), 'there is a record')


def default_front(device):
    """A default action that the program has set stays."""
    same_status(device, 'null', 'default')
    crash = one(device.next(), 'killed, out of memory or stack overflow')
    check(not crash['threads'], 'there is a record')


def beside(device, own, arguments, number, seen=True, left=lambda folder: None):
    """An end of a program with another reporter's handlers, which is given a folder: the exit status is the same, and the record is there, or
    an unclean end if edgeprof does not see the signal. What the program said and has left in the folder, with edgeprof and without."""
    how = arguments[1]
    environment = {'LD_PRELOAD': device.options.preload} if device.way == 'preload' else {}
    with Device(device.options, 'without') as without:
        plain, said_plain, _ = without.run(*arguments, without.folder / 'reports', program=own)
        left_plain = left(without.folder / 'reports')
    status, said, _ = device.run(*arguments, device.folder / 'reports', program=own, **environment)
    check(status == plain == -number, f'{how}: exit status {status} instead of {plain}')
    found = (said, left(device.folder / 'reports')), (said_plain, left_plain)
    device.run(arguments[0], 'idle', device.folder / 'again', program=own, **environment)
    crashes = [crash for group in device.groups() for crash in group['crashes']]
    check(len(crashes) == 1 and crashes[0]['signal'] == (number if seen else 0), f'{how}: {[c["signal"] for c in crashes]}')
    names = functions(crashes[0]) if seen else [f'do_{how}']
    check(f'do_{how}()' in names or f'do_{how}' in names, f'{how}: the stack is {names}')
    shutil.rmtree(device.spool)
    shutil.rmtree(device.folder / 'reports', ignore_errors=True)
    device.out.unlink()
    return found


def glog(when):
    """Google's glog, the real one: what it says and the status are the same, and the record is there. In LOG(FATAL) it asks whether
    its own handler is installed; if edgeprof's is in front of it, it says its stack once more. Alone after edgeprof in a linked
    program it keeps the signal for itself."""
    def row(device):
        own = {'linked': device.options.glog_linked, 'preload': device.options.glog_plain}[device.way]
        for how, number in (('null', signal.SIGSEGV), ('fatal', signal.SIGABRT)):
            (said, _), (said_plain, _) = beside(device, own, (when, how), number, device.way == 'preload' or when != 'after')
            texts = [re.sub(r'0x[0-9a-f]+|[0-9]{2,}[0-9:.]*', '#', text) for text in (said, said_plain)]
            again = how == 'fatal' and when != 'after'
            check(texts[0].startswith(texts[1]) if again else texts[0] == texts[1], f'{how}: it said {said!r} instead of {said_plain!r}')
            check('*** SIG' in said or how == 'fatal', f'glog said {said!r}')
    return row


def sentry(when):
    """sentry-native, the real one: its report, what it says and the status are the same, and the record is there. It passes the signal on to
    the handler before it."""
    def row(device):
        own = {'linked': device.options.sentry_linked, 'preload': device.options.sentry_plain}[device.way]
        for how, number in (('null', signal.SIGSEGV), ('abort', signal.SIGABRT)):
            (said, report), (said_plain, report_plain) = beside(device, own, (when, how), number, left=sentry_report)
            check(said == said_plain and 'crash has been captured' in said, f'{how}: it said {said!r} instead of {said_plain!r}')
            check(report == report_plain == signal.Signals(number).name, f'{how}: its report is of {report}, without of {report_plain}')
    return row


def sentry_report(folder):
    """The signal in the one report."""
    found = [json.loads(line) for file in folder.glob('*.run/*.envelope') for line in file.read_text(errors='replace').splitlines()
             if line.startswith('{') and '"exception"' in line]
    check(len(found) == 1, f'sentry-native has {len(found)} reports')
    return found[0]['exception']['values'][0]['type']


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
    'early': early, 'reporter_after': reporter('after'), 'off': off, 'disk_full': disk_full,
    'disk_full_before': disk_full_before, 'file_limit': file_limit, 'many': many, 'running': running,
    'both': both, 'core': core,
}
LINKED = {
    'reporter_before': reporter('before'), 'reporter_front': reporter('front'), 'reporter_front2': reporter('front2'),
    'reporter_again': reporter('front_again'), 'front_stop': front_stop,
    'default_front': default_front, 'torn': torn, 'registers': registers, 'text': text,
    'fault_stack': fault_in('stack', '1', False), 'fault_modules': fault_in('modules', '1', True),
    'fault_text': fault_in('text', '1', True), 'fault_others': fault_in('others', '1', True),
    'fault_write': fault_in('write', '1', True), 'abort_text': fault_in('text', '3', True),
    'fault_twice': fault_twice, 'hang_others': hang_in('others', True), 'hang_stack': hang_in('stack', False),
    'hang_blocked': hang_in('others', True, '4', ['thread']), 'hang_time': hang_time, 'power_cut': power_cut,
    'disk_full_mark': disk_full_in('1', 'SIGSEGV', True), 'disk_full_record': disk_full_in('011111', 'SIGSEGV', False),
    'disk_full_others': disk_full_in('000111', 'SIGSEGV', True),
    'disk_full_all': disk_full_in('111111', 'killed, out of memory or stack overflow', False),
}
PRELOAD = {'python_after': python_handler('after'), 'python_before': python_handler('before')}


GLOG = {'linked': {'glog_before': glog('before'), 'glog_after': glog('after'), 'glog_front': glog('front')}, 'preload': {'glog_after': glog('after')}}
SENTRY = {'linked': {'sentry_before': sentry('before'), 'sentry_after': sentry('after'), 'sentry_front': sentry('front')},
          'preload': {'sentry_after': sentry('after')}}

WAYS = {'linked': BOTH | LINKED, 'preload': BOTH | PRELOAD}
ALONE = ['hang_time']  # it compares times


# What an emulator of one program adds: a thread of its own, lines on standard error, core dumps of itself.
EMULATED = {'threads': 'the emulator has a thread', 'running': 'the emulator has a thread', 'many': 'the emulator has a thread',
            'fault_stack': 'the emulator has a thread', 'disk_full_before': 'the emulator says something', 'core': 'it would be the emulator\'s',
            'hang_time': 'the emulator fails when it is killed in a handler'}


def run_row(task):
    """Returns what is to be said, and whether the row is good."""
    options, way, name = task
    with Device(options, way) as device:
        try:
            WAYS[way][name](device)
        except Skipped as error:
            return f'SKIPPED {way} {name}: {error}', True
        except Failed as error:
            return f'{way} {name}: {error}', False
    return '', True


def main():
    parser = argparse.ArgumentParser()
    for name in ('edgeprof', 'plain', 'linked', 'preload'):
        parser.add_argument(f'--{name}', required=name != 'preload', type=os.path.abspath)
    parser.add_argument('--emulator', default='')
    parser.add_argument('--glog-plain', type=os.path.abspath)
    parser.add_argument('--glog-linked', type=os.path.abspath)
    parser.add_argument('--sentry-plain', type=os.path.abspath)
    parser.add_argument('--sentry-linked', type=os.path.abspath)
    parser.add_argument('rows', nargs='*')
    options = parser.parse_args()
    if options.glog_plain:
        WAYS.update(GLOG)
    if options.sentry_plain:
        WAYS.update(SENTRY)
    tasks = [(options, way, name) for way, rows in WAYS.items() if way != 'preload' or options.preload
             for name in rows if (not options.rows or name in options.rows) and not (options.emulator and name in EMULATED)]
    with multiprocessing.Pool(3) as pool:  # they wait most of the time
        results = pool.map(run_row, [task for task in tasks if task[2] not in ALONE], 1)
    results += [run_row(task) for task in tasks if task[2] in ALONE]
    for said, _ in results:
        if said:
            print(said)
    failed, skipped = sum(not good for _, good in results), sum(said.startswith('SKIPPED') for said, _ in results)
    if options.emulator:
        print(f'  not of the emulator: {", ".join(f"{name} ({why})" for name, why in EMULATED.items())}')
    print(f'test-crash: {len(tasks) - failed - skipped} of {len(tasks)} rows, {skipped} skipped')
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
