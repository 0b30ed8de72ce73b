#!/usr/bin/python3
"""transport/README.md's own transport: taken out of the page, compiled, and led through everything its table lists.

    readme_transport.py FOLDER ARCHIVE      COMPILE, LINK: the command that compiles, what follows the archive

The far end is here: a socket whose answers are scripted, one a message."""
import os
import re
import socket
import subprocess
import sys
import threading
import time

PAGE = open('transport/README.md', encoding='utf-8').read()
HEADER = open('core/edgeprof/transport.h', encoding='utf-8').read()
FOLDER, ARCHIVE = os.path.abspath(sys.argv[1]), sys.argv[2]
SOCKET = os.path.join('/tmp', f'edgeprof-uplink-{os.getpid()}')
PATIENCE = 120

# Burns until standard input ends, then stops with argv[2] ms. CONFIG is the page's.
MAIN = r'''
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <edgeprof/edgeprof.h>
EXTERN
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
int main(int argc, char **argv)
{
    static unsigned char memory[EP_MEMORY_DEFAULT];
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory, .rate_hz = 250, .interval_ms = 100};
    struct ep_stats stats;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    volatile unsigned work = 0;
    if (argc != 2)
        return 2;
    CONFIG
    if (ep_start(&config) != 0)
        return puts(ep_start_error()), 1;
    while (poll(&input, 1, 0) == 0)
        for (unsigned i = 0; i < 1000000; i++)
            work = work + i;
    double before = now();
    int result = ep_stop((unsigned)atoi(argv[1]));
    double took = now() - before;
    if (ep_stats_get(&stats) != 0)
        return 1;
    printf("result=%d took_ms=%.0f delivered=%llu failures=%llu refused=%llu segment=%llu stopped=%llu\n", result,
           took * 1000, (unsigned long long)stats.delivered, (unsigned long long)stats.delivery_failures,
           (unsigned long long)stats.lost_count[EP_LOSS_REFUSED], (unsigned long long)stats.lost_count[EP_LOSS_SEGMENT],
           (unsigned long long)stats.lost_count[EP_LOSS_STOPPED]);
    return 0;
}
'''


def fail(what):
    sys.exit(f'readme_transport: {what}')


def compile_page():
    blocks = re.findall(r'```c\n(.*?)```', PAGE, re.S)
    if len(blocks) != 3:
        fail(f'{len(blocks)} C blocks in transport/README.md, expected 3')
    extern, config = blocks[1].split('...\n')
    if '"/run/uplink.sock"' not in config:
        fail('the second block does not set the endpoint')
    config = config.replace('/run/uplink.sock', SOCKET)
    texts = {'uplink': blocks[0], 'over': blocks[2], 'main': MAIN.replace('EXTERN', extern).replace('CONFIG', config)}
    for name, text in texts.items():
        path = os.path.join(FOLDER, name)
        with open(path + '.c', 'w', encoding='utf-8') as file:
            file.write(text)
        run([*os.environ['COMPILE'].split(), '-c', path + '.c', '-o', path + '.o'])
    program = os.path.join(FOLDER, 'program')
    run([*os.environ['COMPILE'].split(), *(os.path.join(FOLDER, n + '.o') for n in ('main', 'uplink')), ARCHIVE,
         *os.environ['LINK'].split(), '-o', program])
    return program


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        fail(f'{" ".join(command)}:\n{done.stderr}')


def table():
    """The page's table and the header name the same values."""
    contract = re.search(r'^ \* send .*?^ \*         It must return', HEADER, re.M | re.S)[0]
    said, listed = set(re.findall(r'-E[A-Z]+', contract)), set(re.findall(r'^\| `(-E[A-Z]+)`', PAGE, re.M))
    if said != listed or len(said) < 4:
        fail(f'transport.h lists {sorted(said)}, the page {sorted(listed)}')


class Uplink:
    """Gives each message the next of the answers, then always the last. '': hangs up. None: says nothing."""

    def __init__(self, answers):
        self.answers, self.messages, self.given, self.open = answers, [], [], []
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listening.bind(SOCKET)
        self.listening.listen(8)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            message = connection.recv(1 << 20)
            answer = self.answers[min(len(self.messages), len(self.answers) - 1)]
            if answer:
                connection.send(answer.encode())
            if answer is None:
                self.open.append(connection)
            else:
                connection.close()
            self.given.append(answer)
            self.messages.append(message)

    def close(self):
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        os.unlink(SOCKET)


def play(program, answers, messages, stop_ms, idle=0.0):
    """Runs the program against these answers until there have been so many messages and, for so many seconds, no
    others, then stops it."""
    uplink = Uplink(answers)
    try:
        command = [*os.environ.get('EXEC', '').split(), program, str(stop_ms)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        give_up = time.monotonic() + PATIENCE
        while len(uplink.messages) < messages and child.poll() is None and time.monotonic() < give_up:
            time.sleep(0.01)
        time.sleep(idle)
        if idle and len(uplink.messages) > messages:
            fail(f'{answers}: {len(uplink.messages)} messages, and it was told to wait after {messages}')
        output, _ = child.communicate(timeout=PATIENCE)
    finally:
        uplink.close()
    if child.returncode or len(uplink.messages) < messages:
        fail(f'{answers}: exit code {child.returncode}, {len(uplink.messages)} messages: {output}')
    return uplink, {k: int(v) for k, v in re.findall(r'(\w+)=(-?\d+)', output)}


def decode(message):
    text = subprocess.run(['protoc', '--decode=edgeprof.v1.Message', '-I', 'core/proto', 'compact.proto'],
                          input=message, capture_output=True, check=True).stdout.decode()
    sequence = re.search(r'^sequence: (\d+)', text, re.M)
    return re.search(r'^segment: (\d+)', text, re.M)[1], int(sequence[1]) if sequence else 0


def expect(what, good, *seen):
    if not good:
        fail(f'{what}: {seen}')
    print(f'readme_transport: {what}')


def scenarios(program):
    uplink, stats = play(program, ['', 'k'], 4, 60000)
    ids = [decode(m) for m in uplink.messages[1:]]
    expect('not delivered: the same bytes again, then the rest in order',
           uplink.messages[0] == uplink.messages[1] and stats['result'] == 0 and stats['failures'] == 1 and
           stats['delivered'] == len(ids) and ids == [(ids[0][0], n) for n in range(len(ids))], stats, ids)

    uplink, stats = play(program, ['k', 's', 'k'], 4, 60000)
    ids = [decode(m) for m in uplink.messages]
    expect('-ESTALE: a new segment, with the same message', stats['segment'] == 0 and stats['failures'] == 0 and
           stats['delivered'] == len(ids) - 1 and ids[0][0] == ids[1][0] != ids[2][0] and
           ids[2:] == [(ids[2][0], n) for n in range(len(ids) - 2)], stats, ids)

    uplink, stats = play(program, ['n', 'k'], 3, 60000)
    expect('-EBADMSG: lost, counted, the next one', stats['refused'] > 0 and stats['failures'] == 0 and
           uplink.messages[0] != uplink.messages[1] and stats['delivered'] == len(uplink.messages) - 1, stats)

    uplink, stats = play(program, ['w', 'k'], 1, 60000, idle=2.5)
    expect('-EAGAIN: a minute of patience, which only the stop cuts short', uplink.messages[0] == uplink.messages[1] and
           stats['failures'] == 1 and stats['result'] == 0, stats)

    uplink, stats = play(program, [None], 1, 200)
    expect('silence: the stop ends it', stats['took_ms'] < 3000 and stats['result'] == -110 and stats['stopped'] > 0 and
           stats['delivered'] == 0, stats)


os.makedirs(FOLDER, exist_ok=True)
table()
scenarios(compile_page())
