#!/usr/bin/env python3
"""Reads what the encoders wrote with other people's programs and compares it with what was sampled.

    encode_check.py compact|pprof FOLDER PROTO [PPROF]

Compact: each message through `protoc --decode` and core/proto/compact.proto. pprof: through `protoc --decode` and the
original profile.proto, and through PPROF (`go tool pprof`). The text that these print is read here; nothing of
edgeprof's own decoders is used. FOLDER is what encode_dump filled.
"""
import collections
import gzip
import pathlib
import re
import subprocess
import sys

TOKEN = re.compile(r'\s*(?:(\w+)\s*(\{)|(\w+):\s*("(?:[^"\\]|\\.)*"|\S+)|(\}))')


class Wrong(Exception):
    pass


def want(condition, text):
    if not condition:
        raise Wrong(text)


def special_frames():
    """Names by number, of every frame that core/proto/compact.proto declares: FRAME_X = 1;  // [name]"""
    proto = (pathlib.Path(__file__).parents[3] / 'core/proto/compact.proto').read_text()
    body = re.search(r'^enum SpecialFrame \{(.*?)^\}', proto, re.M | re.S)[1]
    rows = re.findall(r'^  FRAME_\w+ = (\d+);(?: *// (\[[^\]]+\]))?', body, re.M)
    want([int(number) for number, _ in rows] == list(range(body.count('FRAME_'))), 'numbers of the special frames')
    want(all(name for number, name in rows if number != '0'), 'a special frame without a name')
    return ['[none]'] + [name for _, name in rows[1:]]


SPECIAL = special_frames()


def unescape(text):
    """protoc's text form of bytes: octal escapes and quotes."""
    data = re.sub(rb'\\([0-7]{3}|.)', lambda m: bytes([int(m[1], 8)]) if len(m[1]) == 3 else
                  {b'n': b'\n', b't': b'\t', b'r': b'\r'}.get(m[1], m[1]), text[1:-1].encode())
    return data


def scalar(text):
    if text.startswith('"'):
        return unescape(text)
    return int(text, 0) if re.fullmatch(r'-?(0x)?[0-9a-f]+', text) else {'true': 1, 'false': 0}.get(text, text)


def parse(text):
    """protoc's text format: {field: [values]}."""
    stack = [collections.defaultdict(list)]
    at = 0
    while match := TOKEN.match(text, at):
        at = match.end()
        if match[2]:
            inner = collections.defaultdict(list)
            stack[-1][match[1]].append(inner)
            stack.append(inner)
        elif match[3]:
            stack[-1][match[3]].append(scalar(match[4]))
        else:
            stack.pop()
    want(not text[at:].strip() and len(stack) == 1, f'protoc printed something else at {text[at:at + 60]!r}')
    return stack[0]


def one(message, field, default=0):
    want(len(message[field]) <= 1, f'{field} is there {len(message[field])} times')
    return message[field][0] if message[field] else default


def decode(proto, type_, path):
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b'\x1f\x8b' else data
    done = subprocess.run(['protoc', f'--proto_path={pathlib.Path(proto).parent}', f'--decode={type_}',
                           pathlib.Path(proto).name], input=data, capture_output=True)
    want(done.returncode == 0, f'{path}: {done.stderr.decode().strip()}')
    text = done.stdout.decode()
    want(not re.search(r'^\s*\d+[:\s{]', text, re.M), f'{path}: fields that the schema does not know')
    return parse(text)


def truth(folder):
    stacks = collections.Counter()
    samples = 0
    for line in (folder / 'truth').read_text().splitlines():
        numbers, *frames = line.split('\t')
        ns, count = map(int, numbers.split())
        stacks[tuple(frames)] += ns
        samples += count
    return stacks, samples


def compare(got, expected, what):
    for stack in got.keys() | expected.keys():
        want(got[stack] == expected[stack], f'{what}: {got[stack]} ns instead of {expected[stack]} for {stack}')


# ---- compact ----

class Segment:
    def __init__(self):
        self.next = 0
        self.modules = []
        self.nodes = [(0, 0)]
        self.last = False

    def name(self, frame):
        if frame < 256:
            want(0 < frame < len(SPECIAL), f'special frame {frame}')
            return SPECIAL[frame]
        for base, size, address, path in self.modules:
            if base <= frame < base + size:
                return f'{path}:{frame - base + address:#x}'
        raise Wrong(f'linear address {frame} is of no module')

    def stack(self, node):
        frames = []
        while node:
            parent, frame = self.nodes[node]
            want(parent < node, 'a parent behind its child')
            frames.append(self.name(frame))
            node = parent
        return tuple(frames)


def file_of(path):
    """Functions of the vdso are modules of their own."""
    return path.split(':')[0]


def take_dictionary(segment, message):
    kernel = [m for m in message['modules'] if one(m, 'path', b'').startswith(b'[vdso]')]
    if kernel:  # its functions, and what lies between them
        starts = [one(m, 'address') - 0x3000 for m in kernel]
        want([one(m, 'path') for m in kernel] == [b'[vdso]', b'[vdso]:first', b'[vdso]', b'[vdso]:second'], 'names in the vdso')
        want(starts[:3] == [0, 64, 96] and one(kernel[1], 'size') == 32 and one(kernel[3], 'size') == 64 and
             all(one(m, 'base') - one(kernel[0], 'base') == start for m, start in zip(kernel, starts)), 'ranges in the vdso')
    for module in message['modules']:
        segment.modules.append((one(module, 'base'), one(module, 'size'), one(module, 'address'),
                                file_of(one(module, 'path', b'').decode())))
        path, size = file_of(one(module, 'path', b'').decode()).encode(), len(one(module, 'build_id', b''))
        want(size == {b'/usr/bin/service': 20, b'[vdso]': 0}.get(path, 2), f'build id of {path}: {size} bytes')
    frame = 0
    for nodes in message['nodes']:
        want(len(nodes['back']) == len(nodes['frame']), 'columns of nodes')
        for back, delta in zip(nodes['back'], nodes['frame']):
            frame += delta
            own = len(segment.nodes)
            want(0 <= back < own, 'back')
            segment.nodes.append((own - back if back else 0, frame))


def take_profiles(segment, message, stacks):
    samples = 0
    for profile in message['profiles']:
        want(one(profile, 'kind') == 'KIND_CPU' and one(profile, 'quantum') == one(profile, 'period_ns') > 0, 'profile')
        want(len(profile['node']) == len(profile['value']), 'columns of a profile')
        node = 0
        for step, value in zip(profile['node'], profile['value']):
            want(step > 0 and value > 0, 'a column has a zero')
            node += step
            stacks[segment.stack(node)] += value * one(profile, 'quantum')
        samples += one(profile, 'samples')
    return samples


def check_compact(folder, proto):
    segments, stacks, samples = {}, collections.Counter(), 0
    files = sorted(folder.glob('*.msg'))
    for path in files:
        message = decode(proto, 'edgeprof.v1.Message', path)
        segment = segments.setdefault(one(message, 'segment'), Segment())
        want(one(message, 'segment') != 0 and one(message, 'sequence') == segment.next and not segment.last, 'sequence')
        want(len(message['origin']) == (segment.next == 0), 'origin')
        for origin in message['origin']:
            want(one(origin, 'service') == b'dump' and one(origin, 'format') == 1 and one(origin, 'pid') == 42, 'origin')
            tags = [(one(t, 'key', b''), one(t, 'value', b'')) for t in origin['tags']]
            want(tags == [(b'version', b'1.2'), (b'empty', b''), (b'path', b'/a=b')], f'tags {tags}')
        segment.next += 1
        segment.last = bool(one(message, 'last'))
        take_dictionary(segment, message)
        samples += take_profiles(segment, message, stacks)
    expected, expected_samples = truth(folder)
    compare(stacks, expected, 'compact')
    want(samples == expected_samples, f'{samples} samples instead of {expected_samples}')
    want(all(s.last for s in segments.values()), 'a segment without its end')
    return f'{len(files)} messages, {len(segments)} segments, {len(stacks)} stacks'


# ---- pprof ----

def ids(rows, what):
    want([one(row, 'id') for row in rows] == list(range(1, len(rows) + 1)), f'{what} ids are not 1..n in order')


def frame_of(profile, location, text):
    lines, address, mapping = location['line'], one(location, 'address'), one(location, 'mapping_id')
    want(bool(lines) != bool(address), 'a location has an address or a line, and not both')
    if lines:
        want(mapping == 0, 'named frames are in no mapping')
        function = profile['function'][one(lines[0], 'function_id') - 1]
        return text(one(function, 'name'))
    mapping = profile['mapping'][mapping - 1]
    return f'{file_of(text(one(mapping, "filename")))}:{address:#x}'


def check_tables(profile, text):
    want(profile['string_table'][0] == b'', 'string_table[0] is not empty')
    for number in ('mapping', 'location', 'function'):
        ids(profile[number], number)
    types = [(text(one(t, 'type')), text(one(t, 'unit'))) for t in profile['sample_type']]
    want(types == [('samples', 'count'), ('cpu', 'nanoseconds')], f'sample types {types}')
    period = one(profile, 'period_type', None)
    want(period and text(one(period, 'type')) == 'cpu' and one(profile, 'period') == 1000000000 // 19, 'period')
    for mapping in profile['mapping']:
        want(not any(one(mapping, f) for f in ('memory_start', 'memory_limit', 'file_offset', 'has_functions')),
             'a mapping is not at 0')
        path, build_id = file_of(text(one(mapping, 'filename'))), text(one(mapping, 'build_id'))
        want(re.fullmatch('[0-9a-f]*', build_id) and len(build_id) == {'/usr/bin/service': 40, '[vdso]': 0}.get(path, 4),
             f'build id {build_id} of {path}')


def check_profile(profile, stacks):
    strings = profile['string_table']

    def text(index):
        want(0 <= index < len(strings), f'string {index} of {len(strings)}')
        return strings[index].decode()  # valid UTF-8

    check_tables(profile, text)
    samples, used = 0, set()
    for sample in profile['sample']:
        want(len(sample['value']) == 2 and sample['value'][1] > 0, 'values of a sample')
        want(all(1 <= i <= len(profile['location']) for i in sample['location_id']), 'location id')
        used |= set(sample['location_id'])
        frames = [frame_of(profile, profile['location'][i - 1], text) for i in sample['location_id']]
        stacks[tuple(frames)] += sample['value'][1]
        samples += sample['value'][0]
    want(len(used) == len(profile['location']), 'locations that no sample uses')
    return samples


def pprof_raw(tool, path):
    """Sums of both sample types, as `go tool pprof -raw` prints the samples."""
    done = subprocess.run([*tool.split(), '-raw', str(path)], capture_output=True, text=True)
    want(done.returncode == 0, f'{path}: {done.stderr.strip()}')
    body = done.stdout.split('Samples:')[1].split('Locations')[0].splitlines()[2:]
    rows = [re.match(r'\s*(\d+)\s+(\d+):', line) for line in body]
    return sum(int(r[1]) for r in rows if r), sum(int(r[2]) for r in rows if r)


def check_comment(tool, path):
    """The only comment says that threads have another clock than the one asked for."""
    done = subprocess.run([*tool.split(), '-comments', str(path)], capture_output=True, text=True)
    want(done.returncode == 0 and done.stdout.strip() == 'edgeprof clock: not perf in every thread, errno 24',
         f'{path}: {done.stderr.strip()} {done.stdout}')


def check_threads(path, proto, tool):
    """The dump of nine threads, each with its name as a label; a family of its own."""
    profile = decode(proto, 'perftools.profiles.Profile', path)
    strings = [s.decode() for s in profile['string_table']]
    types = [(strings[one(t, 'type')], strings[one(t, 'unit')]) for t in profile['sample_type']]
    want(types == [('goroutine', 'count')], f'sample types of threads {types}')
    labels = sorted(strings[one(label, 'str')] for sample in profile['sample'] for label in sample['label']
                    if strings[one(label, 'key')] == 'thread')
    want(labels == [f'thread-{i}' for i in range(1, 10)], f'labels of threads {labels}')
    done = subprocess.run([*tool.split(), '-top', str(path)], capture_output=True, text=True)
    want(done.returncode == 0 and 'Type: goroutine' in done.stdout and re.search(r'of 9 total', done.stdout),
         f'threads: {done.stderr.strip()} {done.stdout}')


def check_pprof(folder, proto, tool):
    stacks, samples, raw = collections.Counter(), 0, [0, 0]
    files = sorted(folder.glob('*.msg'))
    for path in files:
        samples += check_profile(decode(proto, 'perftools.profiles.Profile', path), stacks)
        check_comment(tool, path)
        count, ns = pprof_raw(tool, path)
        raw[0] += count
        raw[1] += ns
    check_threads(folder / 'threads', proto, tool)
    expected, expected_samples = truth(folder)
    compare(stacks, expected, 'pprof')
    want(samples == expected_samples == raw[0], f'{samples} samples, pprof says {raw[0]}, not {expected_samples}')
    want(raw[1] == sum(expected.values()), f'pprof says {raw[1]} ns, not {sum(expected.values())}')
    return f'{len(files)} profiles, {len(stacks)} stacks'


def main():
    if len(sys.argv) not in (4, 5) or sys.argv[1] not in ('compact', 'pprof'):
        print(__doc__, file=sys.stderr)
        return 2
    kind, folder, proto = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    try:
        result = check_compact(folder, proto) if kind == 'compact' else check_pprof(folder, proto, sys.argv[4])
    except Wrong as wrong:
        print(f'encode_check: {kind}: {wrong}', file=sys.stderr)
        return 1
    print(f'encode_check: {kind}: {result} as sampled')
    return 0


if __name__ == '__main__':
    sys.exit(main())
