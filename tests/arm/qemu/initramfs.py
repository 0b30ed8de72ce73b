#!/usr/bin/env python3
"""Writes an initramfs: a cpio archive (newc) in gzip.

    initramfs.py OUT [PATH=FILE...]      each FILE of this machine becomes PATH, with its folders; keeps the mode

The format is Documentation/driver-api/early-userspace/buffer-format.rst of Linux.
"""
import gzip
import pathlib
import stat
import sys


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


def main():
    archive = Archive()
    archive.folder(pathlib.PurePosixPath('dev'))
    archive.entry('dev/console', stat.S_IFCHR | 0o600, device=(5, 1))
    for argument in sys.argv[2:]:
        path, _, source = argument.partition('=')
        archive.file(pathlib.PurePosixPath(path.lstrip('/')), pathlib.Path(source))
    with gzip.GzipFile(sys.argv[1], 'wb', compresslevel=1, mtime=0) as out:
        out.write(archive.finished())


if __name__ == '__main__':
    main()
