#!/usr/bin/env python3
"""Runs a program on a whole 64-bit ARM machine in QEMU, as if it ran here: arguments, environment, output, exit code, files.

    on_machine.py PROGRAM ARGUMENT...

An argument that is an absolute path, and a file:// endpoint, is a file that the program writes: it is copied back. Variables of
edgeprof and .NET are passed on. The machine is tests/arm/qemu/init.sh with BusyBox; MACHINE_SECONDS (900) is the most that it may
take. With -icount the machine's time is the number of executed instructions, 4 ns each, whatever load this one has.
"""
import base64
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parents[3]
QEMU = 'qemu-system-aarch64 -M virt -cpu cortex-a53 -icount shift=2 -m 512 -nographic -no-reboot -nic none'.split()


def job(program, arguments, files):
    """What the machine does: a shell script. Files come back on the console, in base64."""
    variables = {k: v for k, v in os.environ.items() if k.startswith(('EDGEPROF_', 'DOTNET_', 'PYROSCOPE_', 'OTEL_')) and not k.startswith('DOTNET_CLI')}
    lines = [f'export {name}={shlex.quote(value)}' for name, value in variables.items()]
    lines += [f'mkdir -p {shlex.quote(os.path.dirname(path))}' for path in files]
    lines.append(f'/bin/{program.name} {shlex.join(arguments)} >/tmp/.stdout 2>/tmp/.stderr; code=$?')
    for path in ['/tmp/.stdout', '/tmp/.stderr', *files]:
        lines.append(f'echo; echo "@file {path}"; [ ! -f {shlex.quote(path)} ] || base64 {shlex.quote(path)}; echo "@end"')
    return '\n'.join(lines) + '\necho "@code $code"\ntrue\n'


def initrd(folder, program, script):
    (folder / 'job').write_text(script)
    subprocess.run([sys.executable, TREE / 'tests/arm/qemu/initramfs.py', folder / 'initrd.gz', '--arm64', f'job={folder / "job"}',
                    f'bin/{program.name}={program}'], check=True)


def main():
    program, arguments = pathlib.Path(sys.argv[1]), sys.argv[2:]
    endpoint = os.environ.get('EDGEPROF_ENDPOINT', '')
    files = [a for a in arguments if a.startswith('/')] + [endpoint[7:]] * endpoint.startswith('file://')
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        initrd(folder, program, job(program, arguments, files))
        command = [*QEMU, '-kernel', TREE / 'build/deps/arm64/vmlinuz', '-initrd', folder / 'initrd.gz', '-append', 'console=ttyAMA0 quiet panic=-1']
        console = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 timeout=float(os.environ.get('MACHINE_SECONDS', 900))).stdout.decode(errors='replace').replace('\r', '')
    code = re.search(r'^@code (\d+)$', console, re.M)
    if not code:
        sys.exit(f'on_machine: the program did not end; the console:\n{console[-3000:]}')
    for path, text in re.findall(r'^@file (\S+)\n(.*?)^@end$', console, re.M | re.S):
        data = base64.b64decode(''.join(line for line in text.split('\n') if re.fullmatch(r'[A-Za-z0-9+/=]+', line)))
        if path == '/tmp/.stdout':
            sys.stdout.buffer.write(data)
        elif path == '/tmp/.stderr':
            sys.stderr.buffer.write(data)
        elif data:
            pathlib.Path(path).write_bytes(data)
    return int(code[1])


if __name__ == '__main__':
    sys.exit(main())
