#!/usr/bin/env python3
"""Checks the tree: fixed top level, no build output, no large files, no broken links, plain text.

    tree_check.py [ROOT]

It checks files that git tracks or would add; without git, every file outside build/.
"""
import pathlib
import re
import subprocess
import sys
import urllib.parse

from report import report

TOP_LEVEL = {'README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'Makefile', 'LICENSE', 'NOTICE', 'CHANGELOG.md', '.ci', '.clang-format', '.gitignore',
             'core', 'port', 'transport', 'boards', 'docs', 'tests', 'tools'}
BUILT = re.compile(r'\.(o|a|so|d|ci|su|gcno|gcda|dbg|nupkg|pyc|db|exe|dll)$|^build/|(^|/)(obj|node_modules|__pycache__)/')
TEXT = {'.c', '.h', '.py', '.sh', '.md', '.mk', '.cs', '.csproj', '.props', '.targets', '.proto', '.js', '.mjs', '.css',
        '.html', '.json', '.txt', '.options', ''}
TABS = {'.mk', ''}   # makefiles need tabs
LARGEST = 1 << 20
SUBJECT = 60
LINK = re.compile(r'\[[^\]]*\]\(([^)\s]+)(?:\s+"[^"]*")?\)')
CODE = re.compile(r'```.*?```|`[^`\n]*`', re.S)
HOME = re.compile(r'(?<![\w.])/(root|home/[a-z]\w*)/')


def git(root, *arguments):
    done = subprocess.run(['git', '-C', str(root), *arguments], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def files(root):
    listed = git(root, 'ls-files', '-co', '--exclude-standard', '-z')
    if listed is None:
        return sorted(p.relative_to(root).as_posix() for p in root.rglob('*')
                      if p.is_file() and p.relative_to(root).parts[0] not in ('build', '.git'))
    return sorted(f for f in listed.split('\0') if f and (root / f).is_file())


def check_top(names):
    top = {name.split('/')[0] for name in names}
    yield from (f'{name}: the top level is fixed, this is not part of it' for name in sorted(top - TOP_LEVEL))
    yield from (f'{name}: is missing' for name in sorted(TOP_LEVEL - top))


def check_text(name, data):
    text = data.decode('utf-8', 'replace')
    suffix = pathlib.PurePosixPath(name).suffix
    if b'\r' in data:
        yield f'{name}: has carriage returns'
    if data and not data.endswith(b'\n'):
        yield f'{name}: does not end with a newline'
    for number, line in enumerate(text.split('\n'), 1):
        if '\t' in line and suffix not in TABS:
            yield f'{name}:{number}: has a tab'
        if line.rstrip() != line:
            yield f'{name}:{number}: ends with blanks'
        if HOME.search(line):
            yield f'{name}:{number}: names a folder of one machine'


def check_links(root, name, text):
    for link in LINK.findall(CODE.sub('', text)):
        target = urllib.parse.unquote(link.split('#')[0])
        if re.match(r'[a-z]+:', link) or not target:
            continue
        if not ((root / name).parent / target).exists():
            yield f'{name}: the link to {link} leads nowhere'


def check_lock(name, text):
    if pathlib.PurePosixPath(name).name == 'package-lock.json' and '"resolved"' in text:
        yield f'{name}: names addresses of a registry (remove the "resolved" fields)'


def check_commits(root):
    for line in (git(root, 'log', '-50', '--format=%h %s') or '').splitlines():
        commit, _, subject = line.partition(' ')
        if len(subject) > SUBJECT:
            yield f'commit {commit}: the subject has {len(subject)} characters, {SUBJECT} are allowed'


def check_file(root, name):
    path = root / name
    if BUILT.search(name):
        yield f'{name}: is a build output'
    if path.stat().st_size > LARGEST:
        yield f'{name}: has {path.stat().st_size} bytes, {LARGEST} are allowed'
        return
    suffix = path.suffix
    if suffix not in TEXT or b'\0' in path.read_bytes() or '/corpus/' in name:
        return
    data = path.read_bytes()
    yield from check_text(name, data)
    yield from check_lock(name, data.decode('utf-8', 'replace'))
    if suffix == '.md':
        yield from check_links(root, name, data.decode('utf-8', 'replace'))


def check(root):
    names = files(root)
    errors = [*check_top(names), *check_commits(root)]
    for name in names:
        errors += check_file(root, name)
    return errors, len(names)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else '.').resolve()
    errors, count = check(root)
    return report(errors, f'{count} files in order')


if __name__ == '__main__':
    sys.exit(main())
