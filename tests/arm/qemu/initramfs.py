#!/usr/bin/env python3
"""Writes an initramfs: a cpio archive (newc) in gzip.

    initramfs.py OUT [--arm64] [PATH=FILE...]      each FILE of this machine becomes PATH, with its folders; keeps the mode

--arm64: init.sh beside this file, with BusyBox and the libraries that .NET programs for arm64 load: `setup.sh arm64` fetches them.
The format is Documentation/driver-api/early-userspace/buffer-format.rst of Linux.
"""
import gzip
import pathlib
import stat
import sys

TREE = pathlib.Path(__file__).resolve().parents[3]
DEPS, SYSROOT = TREE / 'build/deps/arm64', pathlib.Path('/usr/aarch64-linux-gnu/lib')
LIBRARIES = 'ld-linux-aarch64.so.1 libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2 libgcc_s.so.1'.split()


class Archive:
    def __init__(self):
        self.parts, self.number, self.folders = [], 0, set()

    def entry(self, name, mode, data=b'', device=(0, 0)):
        self.number += 1
        words = [self.number, mode, 0, 0, 1, 0, len(data), 0, 0, device[0], device[1], len(name) + 1, 0]
        head = b'070701' + b''.join(b'%08x' % word for word in words) + name.encode() + b'\0'
        self.parts += [head, bytes(-len(head) % 4), data, bytes(-len(data) % 4)]

    def folder(self, path):
        for parent in [*reversed(path.parents), path]:
            if str(parent) not in ('.', '/') and parent not in self.folders:
                self.folders.add(parent)
                self.entry(str(parent), stat.S_IFDIR | 0o755)

    def file(self, path, source):
        self.folder(path.parent)
        self.entry(str(path), stat.S_IFREG | (source.stat().st_mode & 0o777), source.read_bytes())

    def finished(self):
        self.entry('TRAILER!!!', 0)
        return b''.join(self.parts)


def arm64():
    openssl = (DEPS / 'usr/lib/aarch64-linux-gnu').glob('lib*.so.*')
    libraries = {f'lib/{path.name}': path for path in (*map(SYSROOT.joinpath, LIBRARIES), *openssl)}
    return {'init': TREE / 'tests/arm/qemu/init.sh', 'bin/busybox': DEPS / 'bin/busybox', **libraries}


def main():
    archive, arguments = Archive(), sys.argv[2:]
    archive.folder(pathlib.PurePosixPath('dev'))
    archive.entry('dev/console', stat.S_IFCHR | 0o600, device=(5, 1))
    files = arm64() if arguments[:1] == ['--arm64'] else {}
    for argument in arguments[bool(files):]:
        path, _, source = argument.partition('=')
        files[path.lstrip('/')] = pathlib.Path(source)
    for path, source in files.items():
        archive.file(pathlib.PurePosixPath(path), source)
    with gzip.GzipFile(sys.argv[1], 'wb', compresslevel=1, mtime=0) as out:
        out.write(archive.finished())


if __name__ == '__main__':
    main()
