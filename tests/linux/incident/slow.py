#!/usr/bin/python3
"""One slow request in 10,000: each is captured, and what it did is what the incident says first.

    slow.py EDGEPROF SLOW [--dotnet] [EMULATOR...]

SLOW is tests/linux/incident/slow.c or, with --dotnet, tests/dotnet/Programs/Incidents.cs.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

edgeprof, slow = sys.argv[1:3]
dotnet = sys.argv[3:4] == ['--dotnet']
emulator = sys.argv[4 if dotnet else 3:]
folder = pathlib.Path(tempfile.mkdtemp(prefix='incident-'))
REASONS = {'lock': ('wait', 'slow_lock', '[lock]'), 'sleep': ('wait', 'slow_sleep', '[sleep]'),
           'disk': ('wait', 'slow_disk', '[disk]'), 'cpu': ('cpu', 'slow_cpu', None)}
DOTNET = {'lock': ('wait', 'Programs.Slow.SlowLock', '[lock]'), 'sleep': ('wait', 'Programs.Slow.SlowSleep', '[sleep]'),
          'disk': ('wait', 'Programs.Slow.SlowDisk', '[wait]'), 'cpu': ('cpu', 'Programs.Slow.SlowCpu', None),
          'activity': ('wait', 'Programs.Slow.SlowSleep', '[sleep]'), 'gc': ('gc', 'Programs.Slow.Collect', '[gc gen2]')}
REASONS = DOTNET if dotnet else REASONS
REQUESTS, EVERY = 2, 10000
servers = []


def check(good, what):
    if not good:
        raise SystemExit(f'test-incident: {what}')


def get(port, path):
    with urllib.request.urlopen(f'http://127.0.0.1:{port}{path}') as answer:
        return json.load(answer)


def named(port, ident, function):
    """The incident, once the server has read the program's symbols."""
    for _ in range(120):
        incident = get(port, f'/api/incident?id={ident}')
        if function in incident['functions'] or not any(re.search(r'\+0x[0-9a-f]+$', name) for name in incident['functions']):
            break
        time.sleep(0.5)
    return incident


def said(*arguments):
    done = subprocess.run([edgeprof, *arguments], capture_output=True, text=True, timeout=60)
    check(done.returncode == 0, f'edgeprof {arguments}: {done.returncode} {done.stderr}')
    return done.stdout


def stack_of(incident, at):
    names = []
    while at >= 0:
        at, function = incident['stacks'][at]
        names.append(incident['functions'][function])
    return names


def doings(incident, until=0):
    """ms by kind and stack of the thread that the incident is about, while its span was open."""
    own = [i for i, thread in enumerate(incident['threads']) if thread['tid'] == incident['tid']]
    sums = {}
    for start, length, thread, kind, stack in incident['samples']:
        inside = min(start + length, until) - max(start, -incident['value'] / 1e6)
        if [thread] == own and inside > 0:
            key = kind, tuple(stack_of(incident, stack))
            sums[key] = sums.get(key, 0) + inside
    return sums


def check_pause(incident):
    """A pause in the span, by the method that collects: of the thread that was stopped there is nothing to see."""
    start, length, thread, _, stack = max((sample for sample in incident['samples'] if sample[3] == 'gc' and
                                           sample[0] + sample[1] > -incident['value'] / 1e6), key=lambda sample: sample[1], default=(0, 0, 0, 'gc', -1))
    names = stack_of(incident, stack)
    check(names[:1] == ['[gc gen2]'] and 'Programs.Slow.Collect' in names and incident['threads'][thread]['tid'] != incident['tid'] and
          length > incident['limit'] / 2e6, f'gc: {start} {length} {names}')


def check_incident(reason, incident):
    kind, function, leaf = REASONS[reason]
    check(incident['cause'] in ('span', 'open span') and incident['name'].startswith('request ') and incident['complete'],
          f'{reason}: {incident["cause"]} {incident["name"]}')
    if reason == 'gc':
        check_pause(incident)
        return
    sums = {}
    # others decide how much of the slowness came before the trigger; it went on in the tail
    for (own_kind, stack), ms in doings(incident, 1e9).items():
        key = own_kind, function in stack, stack[0] if own_kind == 'wait' else None
        sums[key] = sums.get(key, 0) + ms
    most = max(sums, key=sums.get, default=None)
    check(most == (kind, True, leaf) and sums[most] > 0, f'{reason}: {sums}')
    ends = [start + length for start, length, *_ in incident['samples']]
    # written with three digits
    check(all(after > before - 0.01 for before, after in zip(ends, ends[1:])), f'{reason}: times run backwards')


def equal_columns(table, name):
    sizes = {key: len(value) for key, value in table.items() if isinstance(value, list)}
    check(set(sizes.values()) <= {table['length']}, f'{name}: {sizes}, length {table["length"]}')


def check_weights(reason, incident, thread, categories):
    """The call tree adds up weights: a category has as many ms as the incident's samples of the kind at that leaf."""
    samples, stacks = thread['samples'], thread['stackTable']
    check(samples['weightType'] == 'tracing-ms' and thread['frameTable']['category'] == stacks['category'], f'{samples["weightType"]}')
    weights = dict.fromkeys(categories, 0.0)
    for stack, weight in zip(samples['stack'], samples['weight']):
        check(weight == 0 or stack is not None, f'{reason}: a weight without a stack')
        if stack is not None:
            weights[categories[stacks['category'][stack]]] += weight
    leaf = REASONS[reason][2]
    told = sum(length for _, length, of, kind, stack in incident['samples'] if incident['threads'][of]['tid'] == incident['tid'] and
               kind == REASONS[reason][0] and (not leaf or stack_of(incident, stack)[0] == leaf))
    name = leaf.strip('[]').capitalize() if leaf else 'CPU'
    check(0 < weights[name] < told + 1 and weights[name] > told / 2, f'{reason}: {name} weighs {weights[name]} ms of {told}, {weights}')


def check_firefox(reason, incident, profile):
    """What the description of the processed profile format asks for, and the same samples."""
    meta = profile['meta']
    check(meta['preprocessedProfileVersion'] == 46 and meta['interval'] > 0, f'{meta}')
    categories = [category['name'] for category in meta['categories']]
    check({'CPU', 'Lock', 'Sleep', 'Network', 'Disk', 'GC', 'Other'} <= set(categories) and all(category['color'] for category in meta['categories']), f'{meta}')
    check(len(profile['threads']) == len(incident['threads']), 'threads differ')
    for number, thread in enumerate(profile['threads']):
        for name in ('samples', 'markers', 'stackTable', 'frameTable', 'funcTable', 'resourceTable', 'nativeSymbols'):
            equal_columns(thread[name], name)
        stacks, strings = thread['stackTable'], thread['stringArray']
        check(all(prefix is None or prefix < i for i, prefix in enumerate(stacks['prefix'])), 'a prefix behind its stack')
        check(all(frame < thread['frameTable']['length'] for frame in stacks['frame']), 'frames')
        check(all(func < thread['funcTable']['length'] for func in thread['frameTable']['func']), 'functions')
        check(all(name < len(strings) for name in thread['funcTable']['name'] + thread['markers']['name']), 'names')
        samples = thread['samples']
        check(all(stack is None or stack < stacks['length'] for stack in samples['stack']), 'stacks')
        check(samples['time'] == sorted(samples['time']) and all(time >= 0 for time in samples['time']), 'times')
        shown = {samples['stack'][i]: 0.0 for i in range(samples['length'])}
        for i in range(samples['length'] - 1):
            shown[samples['stack'][i]] += samples['time'][i + 1] - samples['time'][i]
        if thread['tid'] != incident['tid'] or reason == 'gc':
            continue
        ms = 0
        for stack, length in shown.items():
            names = []
            while stack is not None:
                names.append(strings[thread['funcTable']['name'][thread['frameTable']['func'][stacks['frame'][stack]]]])
                stack = stacks['prefix'][stack]
            ms += length if REASONS[reason][1] in names else 0
        check(ms > 0, f'{reason}: {ms} ms in {REASONS[reason][1]} in the Firefox profile')
        check_weights(reason, incident, thread, categories)
        check(any(strings[name].startswith('trigger: ') for name in thread['markers']['name']), 'no marker of the trigger')


def run(reason, requests, endpoint, **more):
    # Emulators let no thread read the stack of another, so a wait is recorded when it ends.
    done = subprocess.run([*emulator, slow, reason, str(requests), *(['2000'] if emulator else [])], capture_output=True, text=True, timeout=300,
                          env={k: v for k, v in os.environ.items() if k == 'MACHINE'} | {'EDGEPROF_ENDPOINT': endpoint, 'EDGEPROF_SERVICE': reason, 'TMPDIR': str(folder), **more})
    check(done.returncode == 0 and not done.stdout, f'{reason}: {done.returncode} {done.stdout} {done.stderr}')


def check_dotnet(port, url):
    for cause, function in (('heartbeat', 'Programs.Slow.Hang'), ('call', 'Programs.Slow.Wait')):
        run(cause, 1, url)
        incident = named(port, get(port, f'/api/incidents?service={cause}')['incidents'][0]['id'], function)
        check(incident['cause'] == cause, f'{cause}: {incident["cause"]}')
        check(incident['name'] == ('a name of more than thirty-one bytes' if cause == 'call' else ''), f'{incident["name"]}')
        stacks = [stack_of(incident, sample[4]) for sample in incident['samples']]
        check(any(function in stack for stack in stacks), f'{cause}: {stacks}')


def main():
    server = subprocess.Popen([edgeprof, 'serve', '--listen', '127.0.0.1:0', '--db', str(folder / 'db'), '--symbols',
                               str(pathlib.Path(slow).parent)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    servers.append(server)
    port = re.search(r'http://127\.0\.0\.1:(\d+)', server.stdout.readline())[1]
    url = f'http://127.0.0.1:{port}'
    for reason in REASONS:
        run(reason, REQUESTS, url, EDGEPROF_TAGS='device=bench', EDGEPROF_RATE='97')
        found = get(port, f'/api/incidents?service={reason}')['incidents']
        # a busy machine makes others slow, too
        found = [one for one in found if int(one['name'].split()[-1]) % EVERY == EVERY - 1]
        check(len(found) == REQUESTS, f'{reason}: {len(found)} of {REQUESTS} slow requests captured')
        for one in found:
            tags = dict(one['tags'])
            version = tags.pop('version', None) # of the assembly
            check(tags == {'device': 'bench'} and bool(version) == dotnet and one['service'] == reason, f'{one}')
            incident = named(port, one['id'], REASONS[reason][1])
            check_incident(reason, incident)
            check_firefox(reason, incident, get(port, f'/api/incident?format=firefox&id={one["id"]}'))
        listed = said('incidents', '--url', url, '--service', reason)
        check(listed.count('9999') >= REQUESTS and 'bench' in listed, listed)
        text = said('incident', found[0]['id'], '--url', url)
        check(emulator or dotnet or reason == 'cpu' or REASONS[reason][1] in text.split('all threads in the same time')[0], text)
        if reason == 'gc' and any(sample[3] == 'gc' and sample[0] < 0 for sample in incident['samples']):
            check('the garbage collector stopped all threads' in text, text)
    if dotnet:
        check_dotnet(port, url)
    server.terminate()
    check(server.wait(30) == 0, 'the server ended with an error')
    output = folder / 'incident.json'
    said('incident', 'last', '--db', str(folder / 'db'), '--symbols', str(pathlib.Path(slow).parent), '-o', str(output))
    check(json.loads(output.read_text())['threads'], 'no threads in the file')
    run('sleep', 1, f'file://{folder}/messages')
    text = said('incident', 'last', str(folder / 'messages'), '--symbols', str(pathlib.Path(slow).parent))
    check(REASONS['sleep'][1] in text, text)


try:
    main()
finally:
    for started in servers:
        started.kill()
    shutil.rmtree(folder)
print('test-incident: each slow request was captured with its reason')
