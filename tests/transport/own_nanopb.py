#!/usr/bin/python3
"""Profiles of programs that have functions of nanopb's names: complete, and about the function that used the CPU.

    own_nanopb.py NM PROGRAM...      EXEC: what starts such a program here, if anything is needed

The programs are tests/transport/own_nanopb.c, not position-independent; protoc reads what they left."""
import gzip
import os
import re
import struct
import subprocess
import sys
import tempfile

PROTO = {'compact': ('core/proto', 'compact.proto', 'edgeprof.v1.Message'),
         'pprof': ('core/proto', 'pprof.proto', 'perftools.profiles.Profile')}


def messages(path):
    data = open(path, 'rb').read()
    at = 0
    while at < len(data):
        size, = struct.unpack_from('<I', data, at)
        yield data[at + 4:at + 4 + size]
        at += 4 + size


def decode(message, form):
    folder, file, kind = PROTO[form]
    message = gzip.decompress(message) if form == 'pprof' else message
    return subprocess.run(['protoc', '--decode=' + kind, '-I', folder, file], input=message, capture_output=True,
                          check=True).stdout.decode()


def blocks(text, name):
    return re.findall(rf'^{name} {{\n(.*?)^}}', text, re.M | re.S)


def numbers(text, name):
    return [int(n) for n in re.findall(rf'^  {name}: (-?\d+)$', text, re.M)]


def from_pprof(texts):
    """Yields (leaf's address, samples, weight) of every stack."""
    for text in texts:
        address = {numbers(b, 'id')[0]: (numbers(b, 'address') or [0])[0] for b in blocks(text, 'location')}
        for block in blocks(text, 'sample'):
            yield address[numbers(block, 'location_id')[0]], *numbers(block, 'value')


def from_compact(texts):
    """The same; samples are known of a profile as a whole and come with its first stack."""
    modules, frames = [], [0]
    for text in texts:
        for block in blocks(text, 'modules'):
            modules.append([(numbers(block, name) or [0])[0] for name in ('base', 'size', 'address')])
        for block in blocks(text, 'nodes'):
            linear = 0
            for delta in numbers(block, 'frame'):
                linear += delta
                frames.append(next((linear - b + a for b, s, a in modules if b <= linear < b + s), 0))
        for block in blocks(text, 'profiles'):
            node, samples, quantum = 0, (numbers(block, 'samples') or [0])[0], (numbers(block, 'quantum') or [0])[0]
            for step, value in zip(numbers(block, 'node'), numbers(block, 'value')):
                node += step
                yield frames[node], samples, value * quantum
                samples = 0


def function(nm, program, name):
    for line in subprocess.run([nm, '-S', program], capture_output=True, text=True, check=True).stdout.splitlines():
        words = line.split()
        if words[-1] == name and len(words) == 4:
            return range(int(words[0], 16), int(words[0], 16) + int(words[1], 16))
    sys.exit(f'own_nanopb: {program} has no function {name}')


def check(nm, program, form):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'profile')
        command = [*os.environ.get('EXEC', '').split(), os.path.abspath(program)]
        environment = {**os.environ, 'EDGEPROF_ENDPOINT': 'file://' + path, 'EDGEPROF_FORMAT': form}
        said = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
        if said.returncode:
            sys.exit(f'own_nanopb: {program} ({form}): {said.stderr}')
        samples, weight = map(int, said.stdout.split())
        stacks = list((from_pprof if form == 'pprof' else from_compact)(decode(m, form) for m in messages(path)))
    burn = function(nm, program, 'burn')
    found = sum(s[1] for s in stacks), sum(s[2] for s in stacks)
    burnt = sum(s[2] for s in stacks if s[0] in burn)
    if found[0] != samples or abs(found[1] - weight) > weight * 0.05:
        sys.exit(f'own_nanopb: {program} ({form}): {found} samples and ns in the file, {samples} and {weight} measured')
    if burnt < weight * 0.8:
        sys.exit(f'own_nanopb: {program} ({form}): {burnt} of {weight} ns in burn(), which did nearly everything')
    print(f'own_nanopb: {os.path.basename(program)}, {form}: {samples} samples, {burnt * 100 // weight} % in burn()')


for each in sys.argv[2:]:
    for each_form in PROTO:
        check(sys.argv[1], each, each_form)
