#!/usr/bin/env python3
"""Tests the contexts of a .NET NativeAOT service, as another program finds them: only the thread that works for a span
has one, and it follows the work.

    dotnet.py PUBLISHED
"""
import os
import pathlib
import subprocess
import sys
import time

import reader


def valid(pid, keys):
    """{thread: (trace, span, labels)} of the threads with a valid record."""
    variable, found = reader.find_variable(pid), {}
    for task in pathlib.Path(f'/proc/{pid}/task').iterdir():
        try:
            record = reader.thread_record(pid, int(task.name), variable)
        except (OSError, ChildProcessError):
            continue  # it has ended
        if record:
            found[int(task.name)] = reader.thread_context(record, keys)
    return found


def main():
    environment = {k: v for k, v in os.environ.items() if not k.startswith(('EDGEPROF', 'OTEL'))}
    for switch in ('0', '1'):
        process = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=environment | {'EDGEPROF_OTEL_CONTEXT': switch, 'OTEL_RESOURCE_ATTRIBUTES': 'service.version=4.5'})
        seen = []
        for line in iter(process.stdout.readline, ''):
            where, pid, tid, *ids = line.split()
            seen.append(where)
            if switch == '0':
                assert not reader.contexts(int(pid))
            else:
                resource, attributes = reader.decode(reader.process_context_again(int(pid))[1])
                assert (resource['service.name'], resource['service.version'], resource['telemetry.sdk.language']) == ('published', '4.5', 'dotnet')
                wanted = set() if where == 'none' else {int(tid)}
                for _ in range(100):  # the thread that the work has left may still be on its way out of it
                    found = valid(int(pid), attributes['threadlocal.attribute_key_map'])
                    if set(found) == wanted:
                        break
                    time.sleep(0.02)
                if where == 'none':
                    assert not found, f'{where}: {found}'
                else:
                    trace, span, labels = found.pop(int(tid))
                    assert [trace, span] == ids and labels['step'] == 'one', f'{where}: {trace} {span} {labels}'
                    assert not found, f'{where}: other threads have {found}'
            process.stdin.write('\n')
            process.stdin.flush()
        assert process.wait() == 0 and seen == ['none', 'request', 'inner', 'elsewhere', 'after', 'none'], seen
    print('otel, .NET: spans and labels of each thread are found')


if __name__ == '__main__':
    main()
