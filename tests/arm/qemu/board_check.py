#!/usr/bin/env python3
"""What a board's library must be, beyond what symbols_check.py and signal_check.py say, and what it weighs.

    board_check.py --archive FILE --probe FILE --readelf NAME --compiler TEXT --stack BYTES --sizes FILE [--accept]

The probe is the archive, whole, linked as a shared object: it must need no relocation of code, and its thread-local
storage must be in the static block (initial-exec: no call of __tls_get_addr, which may allocate), except
otel_thread_ctx_v1, for which OpenTelemetry wants descriptors. The archive must have no writable data. Then its sizes are compared with the file --sizes: what has grown fails until --accept has
written the file anew. Code, constants and zeroed memory may grow by one thousandth before that, since a changed line
moves alignments. Sizes of another compiler are not compared.
"""
import argparse
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / 'tools' / 'build' / 'checks'))
import symbols_check  # noqa: E402

RELOCATION = re.compile(r'^[0-9a-f]+\s+[0-9a-f]+\s+(R_\w+)')
SECTION = re.compile(r'^\s*\[\s*\d+\]\s+(\S+)\s+\S+\s+[0-9a-f]+\s+[0-9a-f]+\s+([0-9a-f]+)')
CALLING_TLS = re.compile(r'_(TLSGD|TLSLD|TLS_GD|TLS_LDM|TLSDESC|TLS_GOTDESC|TLS_CALL|TLS_DTPMOD|DTPMOD|THM_TLS)')
ALLOWED_GROWTH = {'text': 1000, 'rodata': 1000, 'bss': 1000}  # one part in so many of the file's figure
STATIC_TLS = re.compile(r'_(TLSIE|TLS_IE|GOTTPOFF|TLS_TPREL|TPOFF)')


def readelf(tool, option, path):
    return subprocess.run([tool, option, '-W', path], check=True, capture_output=True, text=True).stdout.splitlines()


def check_probe(tool, probe):
    dynamic = [line for line in readelf(tool, '-d', probe) if 'TEXTREL' in line]
    return ['code must be relocated when it is loaded (TEXTREL)'] if dynamic else []


def check_tls(tool, archive):
    lines = [line for line in readelf(tool, '-r', archive) if ' otel_thread_ctx_v1' not in line]
    types = {m[1] for m in map(RELOCATION.match, lines) if m}
    errors = [f'thread-local storage is not initial-exec: {name}' for name in sorted(types) if CALLING_TLS.search(name)]
    if not any(STATIC_TLS.search(name) for name in types):
        errors.append(f'no thread-local storage was seen among {len(types)} kinds of relocation')
    return errors


def relro_sections(tool, archive):
    """Bytes of what is constant once pointers in it have been relocated, by section."""
    found = {}
    for line in readelf(tool, '-S', archive):
        match = SECTION.match(line)
        if match and symbols_check.kind(match[1]) == 'relro' and int(match[2], 16):
            found[match[1]] = found.get(match[1], 0) + int(match[2], 16)
    return found


def read_sizes(path):
    if not path.exists():
        return None
    lines = [line.split('#')[0].split(None, 1) for line in path.read_text().splitlines()]
    return {words[0]: words[1].strip() for words in lines if len(words) == 2}


def write_sizes(path, now):
    text = '# Bytes of libedgeprof.a on this board; `make BOARD=... sizes-accept` writes this file.\n'
    path.write_text(text + ''.join(f'{name} {value}\n' for name, value in now.items()))


def compare(before, now, path):
    """Errors, and what has shrunk."""
    if before is None:
        return [f'{path} is missing: make BOARD={path.parent.name} sizes-accept'], []
    if before.get('compiler') != now['compiler']:
        return [], [f'not compared, {path} is of gcc {before.get("compiler")} and this is {now["compiler"]}']
    grown, shrunk = [], []
    for name, value in now.items():
        old = before.get(name, '0')
        if name == 'compiler':
            continue
        if int(value) > int(old) + int(old) // ALLOWED_GROWTH.get(name, sys.maxsize):
            grown.append(f'{name} has grown from {old} to {value} bytes: make it smaller, or `make '
                         f'BOARD={path.parent.name} sizes-accept` and say why in the commit')
        if int(value) < int(old):
            shrunk.append(f'{name} {old} -> {value}')
    return grown, shrunk


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--archive', required=True)
    parser.add_argument('--probe', required=True)
    parser.add_argument('--readelf', default='readelf')
    parser.add_argument('--compiler', required=True)
    parser.add_argument('--stack', type=int, required=True)
    parser.add_argument('--sizes', type=pathlib.Path, required=True)
    parser.add_argument('--accept', action='store_true')
    args = parser.parse_args()

    total, data = symbols_check.sizes(args.archive)
    now = {'compiler': args.compiler} | {name: str(total[name]) for name in ('text', 'rodata', 'relro', 'data', 'bss')}
    now['handler_stack'] = str(args.stack)
    relro = relro_sections(args.readelf, args.archive)
    errors = check_probe(args.readelf, args.probe) + check_tls(args.readelf, args.archive)
    if total['data']:
        errors.append(f'{total["data"]} bytes of writable data: {", ".join(data)}')
    if sum(relro.values()) != total['relro']:
        errors.append(f'{sum(relro.values())} of {total["relro"]} bytes of .data.rel.ro found')
    if args.accept and not errors:
        write_sizes(args.sizes, now)
    grown, notes = compare(read_sizes(args.sizes), now, args.sizes)
    for error in errors + grown:
        print(f'board_check: {args.sizes.parent.name}: {error}', file=sys.stderr)
    if not errors + grown:
        print(f'board_check: {args.sizes.parent.name}: ' + ', '.join(f'{k} {v}' for k, v in now.items()))
        print('    .data.rel.ro: ' + ', '.join(f'{k.removeprefix(".data.rel.ro").lstrip(".") or k} {v}' for k, v in sorted(relro.items())))
        if notes:
            print('    ' + '; '.join(notes))
    return 1 if errors + grown else 0


if __name__ == '__main__':
    sys.exit(main())
