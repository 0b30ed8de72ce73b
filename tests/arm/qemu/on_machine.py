#!/usr/bin/env python3
"""A whole 64-bit ARM machine in QEMU as if it were here: programs run there with their arguments, environment, input, output, files,
signals and exit code.

    on_machine.py boot PROGRAM[,NAME...]... -- COMMAND...    boots a machine with these programs, and runs COMMAND here. Each NAME is a
                                                 link to the program. In COMMAND, MACHINE says where the machine is and RUNNER has:
    on_machine.py run PROGRAM ARGUMENT...        runs PROGRAM there, by its name

What is an absolute path in an argument or a file:// endpoint is a file that the program writes: it is copied back, and
removed there first unless it exists here. Variables of edgeprof and .NET are passed on. A server at 127.0.0.1 here is known there;
a control endpoint there, EDGEPROF_CONTROL=4041, is port $MACHINE_CONTROL here. COMMAND's exit code is that of boot.

The machine is tests/arm/qemu/init.sh with BusyBox: `nc` is its server for shells. With -icount the machine's time is the number of
executed instructions, 4 ns each, whatever load this one has; while it is idle, it is the time here.
"""
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

TREE = pathlib.Path(__file__).resolve().parents[3]
DEPS = TREE / 'build/deps/arm64'
QEMU = 'qemu-system-aarch64 -M virt -cpu cortex-a53 -icount shift=2 -m 512 -nographic -no-reboot'.split()
PASSED = ('EDGEPROF_', 'DOTNET_', 'PYROSCOPE_', 'OTEL_')
HERE, THERE = '127.0.0.1', '10.0.2.2'


def free_port():
    with socket.socket() as s:
        s.bind((HERE, 0))
        return s.getsockname()[1]


# ---- the machine ----

class Machine:
    """Boots; ask() runs a script there. cut() is a power cut: nothing is written that was not."""

    def __init__(self, folder, programs, more=(), prepare=''):
        self.port, self.control, self.console = free_port(), free_port(), folder / 'console'
        (folder / 'job').write_text(f'{prepare}\nnc -ll -p 4043 -e nc 127.0.0.1 4041 &\nnc -ll -p 7000 -e sh &\nread forever </dev/ttyAMA0\n')
        files, links = [f'job={folder / "job"}'], ''
        for program in programs:
            path, *names = program.split(',')
            files.append(f'bin/{pathlib.Path(path).name}={path}')
            links += ''.join(f'ln /bin/{pathlib.Path(path).name} /bin/{name}\n' for name in names)
        files += [f'modules/{module.name}={module}' for module in (DEPS / 'modules').glob('*.ko')]
        subprocess.run([sys.executable, TREE / 'tests/arm/qemu/initramfs.py', folder / 'initrd.gz', '--arm64', *files], check=True)
        forward = ''.join(f',hostfwd=tcp:{HERE}:{port}-:{inside}' for port, inside in ((self.port, 7000), (self.control, 4043)))
        with self.console.open('wb') as console:
            self.qemu = subprocess.Popen([*QEMU, '-netdev', f'user,id=net{forward}', '-device', 'virtio-net-device,netdev=net', *more,
                                          '-kernel', DEPS / 'vmlinuz', '-initrd', folder / 'initrd.gz', '-append', 'console=ttyAMA0 quiet panic=-1'],
                                         stdin=subprocess.PIPE, stdout=console, stderr=subprocess.STDOUT)
        self.wait_until_up()
        ask(self.port, links)

    def wait_until_up(self):
        for _ in range(600):
            time.sleep(0.5)
            if self.qemu.poll() is not None:
                break
            try:
                if ask(self.port, 'echo up') == b'up\n':
                    return
            except OSError:
                pass
        self.cut()
        sys.exit('on_machine: the machine does not answer; its console:\n' + self.console.read_text(errors='replace')[-3000:])

    def cut(self):
        self.qemu.kill()
        self.qemu.wait()


def connect(port, script):
    connection = socket.create_connection((HERE, port), timeout=None)
    connection.sendall(script.encode())
    return connection


def ask(port, script):
    """What a shell there prints."""
    with connect(port, script + '\nexit\n') as connection:
        return b''.join(iter(lambda: connection.recv(1 << 16), b''))


# ---- a program there ----

def variables():
    for name, value in os.environ.items():
        if name.startswith(PASSED) and not name.startswith('DOTNET_CLI'):
            yield f'export {name}={shlex.quote(value.replace(HERE, THERE))}'


def written(arguments):
    """Files that the program writes."""
    endpoint = os.environ.get('EDGEPROF_ENDPOINT', '')
    return [a for a in arguments if a.startswith('/')] + [endpoint[7:]] * endpoint.startswith('file:///')


def feed(connection, program):
    """Its standard input; at the end it has none."""
    while data := os.read(0, 1 << 16):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def run(port, program, arguments):
    name, files = uuid.uuid4().hex, written(arguments)
    folders = {os.path.dirname(path) for path in files} | {os.environ[v] for v in ('EDGEPROF_CRASH', 'EDGEPROF_SPOOL') if v in os.environ}
    script = [*variables(), *(f'mkdir -p {shlex.quote(folder)}' for folder in folders)]
    script += [f'rm -f {shlex.quote(path)}' for path in files if not os.path.exists(path)]
    interactive = bool(os.environ.get('MACHINE_STDIN'))
    script.append(f'exec 3<{"&0" if interactive else "/dev/null"}')
    script.append(f'{{ /bin/{program} {shlex.join(arguments)} 2>/tmp/.{name}.err <&3 & }}; echo $! >/tmp/.{name}.pid; wait $!; echo $? >/tmp/.{name}.code')
    with connect(port, '\n'.join([*script, 'exit', ''])) as connection:
        signal.signal(signal.SIGTERM, lambda *_: ask(port, f'kill $(cat /tmp/.{name}.pid)'))
        if interactive:
            threading.Thread(target=feed, args=(connection, program), daemon=True).start()
        while data := connection.recv(1 << 16):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
    sys.stderr.buffer.write(ask(port, f'cat /tmp/.{name}.err'))
    for path in files:
        data = ask(port, f'[ ! -f {shlex.quote(path)} ] || cat {shlex.quote(path)}')
        if data:
            pathlib.Path(path).write_bytes(data)
    return int(ask(port, f'cat /tmp/.{name}.code; rm /tmp/.{name}.*') or 255)


def boot(arguments):
    at = arguments.index('--')
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(pathlib.Path(folder), arguments[:at])
        try:
            environment = {**os.environ, 'MACHINE': str(machine.port), 'MACHINE_CONTROL': str(machine.control), 'RUNNER': f'{__file__} run'}
            code = subprocess.run(arguments[at + 1:], env=environment).returncode
            complaint = re.search(r'Kernel panic|Internal error|Unable to handle|BUG:|rcu_sched.*stall', machine.console.read_text(errors='replace'))
            if complaint:
                sys.exit(f'on_machine: the kernel there said: {complaint[0]}')
            return code
        finally:
            machine.cut()


if __name__ == '__main__':
    os.environ.setdefault('PYTHONDONTWRITEBYTECODE', '1')
    if sys.argv[1] == 'boot':
        sys.exit(boot(sys.argv[2:]))
    sys.exit(run(int(os.environ['MACHINE']), pathlib.Path(sys.argv[2]).name, sys.argv[3:]))
