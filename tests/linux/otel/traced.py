#!/usr/bin/env python3
"""Tests EDGEPROF_OTEL_CONTEXT with a program that was built without edgeprof and has a tracer of its own: another
program finds its service, and the samples carry the tracer's span.

    traced.py EDGEPROF PRELOAD TRACED WORK
"""
import os
import pathlib
import subprocess
import sys

import reader

SPAN, TRACE = '21' * 8, '21' * 16


def run(command, environment):
    """Returns (the process that has burned, the one that was started)."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(('EDGEPROF', 'OTEL'))} | environment
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    return int(process.stdout.readline().split()[1]), process


def end(process):
    process.stdin.write('\n')
    process.stdin.close()
    errors = process.stderr.read()
    assert process.wait() == 0, errors
    return errors


def share(edgeprof, profile, *options):
    """ns of CPU samples; the tool's status is 3 if there are none."""
    done = subprocess.run([edgeprof, 'cat', '--folded', '--kind', 'cpu', *options, profile], capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    return sum(int(line.rsplit(' ', 1)[1]) for line in done.stdout.splitlines())


def main():
    edgeprof, preload, traced, work = sys.argv[1:5]
    work = pathlib.Path(work).resolve()  # an endpoint's path is absolute
    work.mkdir(parents=True, exist_ok=True)

    def profiled(name, context, *arguments):
        profile = pathlib.Path(work, name)
        profile.unlink(missing_ok=True)
        environment = {'EDGEPROF_ENDPOINT': f'file://{profile}', 'LD_PRELOAD': preload, 'EDGEPROF_RATE': '250',
                       'EDGEPROF_TAGS': 'version=3', 'OTEL_SERVICE_NAME': 'traced-service'}
        pid, process = run([traced, *arguments], environment | ({'EDGEPROF_OTEL_CONTEXT': context} if context else {}))
        return pid, process, profile

    for context, arguments in (('1', []), ('1', ['fork'])):
        pid, process, profile = profiled('both', context, *arguments)
        resource, attributes = reader.decode(reader.process_context_again(pid)[1])
        assert (resource['service.name'], resource['service.version']) == ('traced-service', '3') and not attributes
        assert resource['process.pid'] == pid
        if not arguments:
            assert reader.thread_context(reader.thread_record(pid, pid), [])[:2] == (TRACE, SPAN), 'the tracer is left alone'
        assert not end(process)
        all_ns, span_ns = share(edgeprof, profile), share(edgeprof, profile, '--label', f'span_id={SPAN}')
        trace_ns = share(edgeprof, profile, '--label', f'trace_id={TRACE}')
        # Half of the CPU time; on a busy machine some of it belongs to no tick, and has no span.
        assert span_ns == trace_ns and 0.2 <= span_ns / all_ns <= 0.7, f'{span_ns} and {trace_ns} of {all_ns}'
    for context, found in ((None, 0), ('0', 0), ('read', 0), ('publish', 1)):
        pid, process, profile = profiled('one', context)
        assert len(reader.contexts(pid)) == found
        end(process)
        assert bool(share(edgeprof, profile, '--label', f'span_id={SPAN}')) == (context == 'read')
    _, process, _ = profiled('wrong', 'maybe')
    assert 'EDGEPROF_OTEL_CONTEXT: must be publish, read, 1 or 0, not maybe' in end(process)
    print('traced: spans of another tracer are in the profile')


if __name__ == '__main__':
    main()
