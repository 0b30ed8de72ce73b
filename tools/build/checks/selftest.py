#!/usr/bin/env python3
"""Tests the checks with small trees: each check must pass on a correct tree and fail on a tree with one error.

Each case has a correct tree, a change that breaks it, and words that the error message must contain.
"""
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = pathlib.Path(__file__).resolve().parent


def run(script, *arguments, cwd=None):
    done = subprocess.run([sys.executable, HERE / script, *map(str, arguments)], cwd=cwd, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


class Fixture(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = pathlib.Path(self.scratch.name)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def green(self, result):
        self.assertEqual(result[0], 0, result[1])

    def red(self, result, words):
        self.assertEqual(result[0], 1, result[1])
        self.assertIn(words, result[1])

    def compile(self, name, text):
        self.write(name, text)
        subprocess.run(['gcc', '-std=gnu11', '-w', '-O2', '-fPIC', '-fcallgraph-info=su', '-fno-inline', '-fdata-sections', '-c', name],
                       cwd=self.root, check=True)


class Signal(Fixture):
    RIGHT = '''
    void *memcpy(void *, const void *, unsigned long);
    void (*pointer)(int);
    volatile int sink;
    /* Context: signal. */
    int helper(char *to, const char *from, int n);
    int helper(char *to, const char *from, int n) { memcpy(to, from, (unsigned long)n); return sink; }
    static int inner(int n) { char b[100]; return helper(b, b, n); }
    /* The handler. Context: signal. */
    void handler(int n);
    void handler(int n) { sink = inner(n); %s }
    /* Context: any thread. */
    void other(int n);
    void other(int n) { sink = n; }
    '''

    def check(self, extra='', most=2048, allow='memcpy 64  # ok\n', source=None):
        self.compile('a.c', textwrap.dedent((source or self.RIGHT) % extra))
        self.write('allow.txt', allow)
        return run('signal_check.py', '--graph', 'a.ci', '--root', 'handler', '--max', most, '--allow', 'allow.txt',
                   '--sources', 'a.c', cwd=self.root)

    def test_right(self):
        result = self.check()
        self.green(result)
        self.assertIn('memcpy 64', result[1])

    def test_pointer(self):
        self.red(self.check('pointer(n);'), 'a call through a pointer')

    def test_undefined(self):
        self.red(self.check('extern int puts(const char *); puts("x");'), 'puts, which is not on the allow-list')

    def test_recursion(self):
        self.red(self.check('if (n) { handler(n - 1); sink = 1; }'), 'recursion through handler')

    def test_mutual_recursion(self):
        source = self.RIGHT.replace('return sink; }', 'extern void handler(int); if (n > 5) handler(n); return sink; }', 1)
        self.red(self.check(source=source), 'recursion')

    def test_dynamic_frame(self):
        self.red(self.check('char v[n]; helper(v, v, n);'), 'a frame of unknown size')

    def test_large_frame(self):
        self.red(self.check('char v[4000]; helper(v, v, n);'), 'bytes of stack, 2048 are allowed')

    def test_assumed_size_counts(self):
        self.red(self.check(allow='memcpy 4000\n'), 'bytes of stack, 2048 are allowed')

    def test_context_is_missing(self):
        self.red(self.check('other(n);'), 'other is on the signal path but its comment')

    def test_weak_function_is_followed(self):
        extra = '__attribute__((weak)) int hook(int); if (hook) sink = hook(n);'
        self.compile('b.c', 'extern int puts(const char *); __attribute__((weak)) int hook(int); int hook(int n) { return puts("x") + n; }')
        self.compile('a.c', textwrap.dedent(self.RIGHT % extra))
        self.write('allow.txt', 'memcpy 64\n')
        self.red(run('signal_check.py', '--graph', 'a.ci', 'b.ci', '--root', 'handler', '--max', 2048, '--allow', 'allow.txt',
                     '--sources', 'a.c', cwd=self.root), 'puts, which is not on the allow-list, in hook')

    def test_handler_is_missing(self):
        self.red(self.check(source=self.RIGHT.replace('handler', 'handlers')), 'handler is in none')

    def test_documented_function_is_a_root(self):
        source = self.RIGHT.replace('{ memcpy', '{ pointer(n); memcpy').replace('inner(n);', 'n;')
        self.red(self.check(source=source), 'a call through a pointer, in helper')


class Symbols(Fixture):
    RIGHT = 'int ep_x; static int zero[10]; extern int getpid(void); int ep_f(int n) { zero[n]++; return getpid(); }\n'

    def check(self, extra='', text_max=10000, weak=None):
        self.compile('a.c', self.RIGHT + extra)
        subprocess.run(['ar', 'qcs', 'a.a', 'a.o'], cwd=self.root, check=True)
        self.write('allow.txt', 'getpid  # fine\n_GLOBAL_OFFSET_TABLE_\n')
        listed = []
        if weak is not None:
            self.write('weak.txt', weak)
            listed = ['--weak', 'weak.txt']
        return run('symbols_check.py', '--allow', 'allow.txt', '--prefix', 'ep_', '--data-max', 0, '--text-max', text_max,
                   *listed, 'a.a', cwd=self.root)

    def test_right(self):
        self.green(self.check('const char *const ep_names[] = {"a", "b"};'))

    def test_malloc(self):
        self.red(self.check('void *ep_m(int n) { return __builtin_malloc(n); }'), 'malloc is used by a.o')

    def test_weak_malloc(self):
        self.red(self.check('__attribute__((weak)) extern int free(int); int ep_m(void) { return free != 0; }'), 'free is used')

    def test_weak_list(self):
        weak = '__attribute__((weak)) int ep_known(void) { return 1; }'
        self.green(self.check(weak, weak='ep_known  # why\n'))
        self.red(self.check(weak, weak=''), 'ep_known is weak and not in weak.txt')
        self.red(self.check('', weak='ep_known  # why\n'), 'ep_known is in weak.txt and not weak')

    def test_prefix(self):
        self.red(self.check('int helper(void) { return 1; }'), 'helper is defined and has none of the prefixes')

    def test_data(self):
        self.red(self.check('int ep_counter = 7;'), 'bytes of writable data')

    def test_pointer_data(self):
        self.red(self.check('const char *ep_name = "a";'), 'bytes of writable data')

    def test_text(self):
        self.red(self.check(text_max=10), 'bytes of code, 10 are allowed')


class Includes(Fixture):
    def check(self, name='core/a.c', line=''):
        self.write('core/edgeprof/edgeprof.h', '#include <stdint.h>\n')
        self.write('core/sample/profiler.h', '#include <edgeprof/edgeprof.h>\n#include <edgeprof/port.h>\n#include <edgeprof/transport.h>\n')
        self.write('core/encode_x.c', '#include <pb_encode.h>\n#include "compact.pb.h"\n')
        self.write('core/edgeprof/port.h', '#include <stdint.h>\n')
        self.write('port/linux/a.c', '#include <unistd.h>\n#include <edgeprof/port.h>\n#include "linux.h"\n')
        self.write('port/linux/linux.h', '')
        self.write('core/edgeprof/transport.h', '#include <edgeprof/edgeprof.h>\n')
        self.write('transport/http.c', '#include <edgeprof/transport.h>\n#include <string.h>\n')
        self.write('transport/tcp.c', '#include <sys/socket.h>\n#include <edgeprof/port.h>\n')
        self.write('tools/a.c', '#include <sqlite3.h>\n#include "store.h"\n#include "generated.h"\n')
        self.write('tools/store.h', '')
        path = self.root / name
        self.write(name, (path.read_text() if path.exists() else '') + line + '\n')
        return run('include_check.py', self.root)

    def test_right(self):
        self.green(self.check())

    def test_wrong(self):
        for name, line in (('core/a.c', '#include <stdio.h>'), ('core/a.c', '  #  include <pb_encode.h>'),
                           ('core/a.c', '#include "transport/http.h"'), ('core/a.c', '#include "port/linux/linux.h"'),
                           ('port/linux/a.c', '#include "core/sample/profiler.h"'), ('port/linux/a.c', '#include "internal.h"'),
                           ('port/linux/a.c', '#include <edgeprof/transport.h>'), ('core/edgeprof/port.h', '#include <unistd.h>'),
                           ('transport/http.c', '#include <sys/socket.h>'), ('transport/http.c', '#include "internal.h"'),
                           ('transport/tcp.c', '#include "core/sample/profiler.h"'),
                           ('transport/tcp.c', '#include <mbedtls/ssl.h>'), ('core/edgeprof/tls.h', '#include <mbedtls/ssl.h>'), ('tools/a.c', '#include "../core/sample/profiler.h"'),
                           ('tools/a.c', '#include "core/edgeprof/edgeprof.h"'), ('boards/x/a.c', '#include <unistd.h>')):
            with self.subTest(name=name, line=line):
                self.write('transport/http.h', '')
                self.red(self.check(name, line), f'{name}:')


class Rooms(Fixture):
    TABLE = ('room: tools/lib\nface: util.h\n'
             'room: tools/store\nface: store.h\nuses: tools/lib\n'
             'room: tools/cmd   # the top\nuses: tools/store\nuses: tools/lib\n')

    def check(self, name=None, text='', table=TABLE, built='lib store \\\n   cmd'):
        self.write('tools/build/checks/rooms.txt', table)
        self.write('tools/tools.mk', f'ET_ROOMS := {built}\nET_SRC := x\n')
        self.write('tools/lib/util.h', '')
        self.write('tools/lib/util.c', '#include "tools/lib/util.h"\n')
        self.write('tools/store/store.h', '#include "tools/lib/util.h"\n')
        self.write('tools/store/rows.h', '')
        self.write('tools/store/store.c', '#include <sqlite3.h>\n#include "tools/store/store.h"\n#include "tools/store/rows.h"\n')
        self.write('tools/cmd/main.c', '#include "tools/store/store.h"\n#include "tools/lib/util.h"\n')
        if name:
            self.write(name, text)
        return run('include_check.py', self.root)

    def test_right(self):
        self.green(self.check())

    def test_upwards(self):
        self.red(self.check('tools/lib/a.c', '\n#include "tools/store/store.h"\n'), 'tools/lib/a.c:2: may not include tools/store/store.h: tools/lib does not use')

    def test_not_the_face(self):
        self.red(self.check('tools/cmd/a.c', '#include "tools/store/rows.h"\n'), 'not in the face of tools/store')

    def test_circle(self):
        table = self.TABLE.replace('face: util.h\n', 'face: util.h\nuses: tools/cmd\n')
        self.red(self.check(table=table), 'in a circle: tools/cmd -> tools/lib -> tools/cmd')

    def test_circle_that_includes_make(self):
        table = self.TABLE.replace('face: util.h\n', 'face: util.h\nuses: tools/store\n')
        self.red(self.check('tools/lib/util.h', '#include "tools/store/store.h"\n', table), 'in a circle: tools/lib -> tools/store -> tools/lib')

    def test_nothing_includes(self):
        self.red(self.check('tools/lib/left.h', ''), 'tools/lib/left.h: no file includes it')

    def test_nothing_builds(self):
        self.red(self.check(built='lib cmd'), 'tools/store/store.c: nothing builds it')

    def test_no_room(self):
        self.red(self.check('tools/left.c', ''), 'tools/left.c: its folder is no room')

    def test_table(self):
        self.red(self.check(table=self.TABLE + 'use: tools/lib\n'), 'rooms.txt:9: not a line')
        self.red(self.check(table=self.TABLE + 'uses: tools/gone\n'), 'uses tools/gone, which is no room')
        self.red(self.check(table=self.TABLE + 'face: gone.h\n'), 'tools/cmd/gone.h is in the face and does not exist')


class Functions(Fixture):
    @staticmethod
    def function(lines, name='f'):
        return f'static int {name}(int a,\n             int b)\n{{\n' + '    a++;\n' * (lines - 4) + '}\n\n'

    def check(self, *sizes):
        self.write('core/a.c', '#include "x.h"\n/* text */\n' + ''.join(self.function(s, f'f{i}') for i, s in enumerate(sizes)))
        return run('function_size.py', 'core', cwd=self.root)

    def test_right(self):
        self.green(self.check(*[15] * 6, *[50] * 3, 80))

    def test_counts_from_signature_to_brace(self):
        self.assertIn('longest  23', self.check(23)[1])

    def test_median(self):
        self.red(self.check(*[16] * 6, *[5] * 4), 'the median of all is 16')

    def test_p90(self):
        self.red(self.check(*[5] * 8, *[51] * 2), 'the p90 of all is 51')

    def test_longest(self):
        self.red(self.check(*[5] * 19, 81), 'core/a.c:117: 81 lines')

    def test_nothing(self):
        self.red(self.check(), 'no function was found')


class Tree(Fixture):
    TOP = ('README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'Makefile', 'LICENSE', 'NOTICE', 'CHANGELOG.md', '.ci/run', '.clang-format', '.gitignore', 'core/a.c',
           'port/a.c', 'transport/a.c', 'boards/README.md', 'docs/a.md', 'tests/a.c', 'tools/a.c')

    def check(self, name='core/b.c', text='x\n', subject='core: a subject'):
        for file in self.TOP:
            self.write(file, 'x\n')
        self.write('README.md', '[a](core/a.c#L1) [b](https://example.org) [c](#here) `[d](nowhere)`\n')
        self.write(name, text)
        git = ['git', '-C', self.root, '-c', 'user.name=x', '-c', 'user.email=x@example.org']
        subprocess.run([*git, 'init', '-q'], check=True)
        subprocess.run([*git, 'add', '-A', '-f'], check=True)
        subprocess.run([*git, 'commit', '-q', '-m', subject], check=True)
        return run('tree_check.py', self.root)

    def test_right(self):
        self.green(self.check())
        self.write('build/x.o', 'x')
        self.write('.gitignore', '/build/\n')
        self.green(run('tree_check.py', self.root))

    def test_missing(self):
        self.check()
        (self.root / 'LICENSE').unlink()
        self.red(run('tree_check.py', self.root), 'LICENSE: is missing')

    def test_wrong(self):
        for name, text, words in (
                ('notes.txt', 'x\n', 'notes.txt: the top level is fixed'),
                ('core/a.o', 'x\n', 'core/a.o: is a build output'),
                ('build/x', 'x\n', 'build/x: is a build output'),
                ('tests/large', 'x' * (1 << 20) + '\n', 'tests/large: has 1048577 bytes'),
                ('core/b.c', '\tx\n', 'core/b.c:1: has a tab'),
                ('core/b.c', 'x\n \n', 'core/b.c:2: ends with blanks'),
                ('core/b.c', 'x\r\n', 'core/b.c: has carriage returns'),
                ('core/b.c', 'x', 'core/b.c: does not end with a newline'),
                ('core/b.c', '"/' + 'root/x"\n', 'core/b.c:1: names a folder of one machine'),
                ('core/DESIGN.md', '[a](gone.md)\n', 'core/DESIGN.md: the link to gone.md leads nowhere'),
                ('tools/web/package-lock.json', '{"resolved": "x"}\n', 'names addresses of a registry')):
            with self.subTest(name=name, words=words):
                self.scratch.cleanup()
                self.setUp()
                self.red(self.check(name, text), words)

    def test_subject(self):
        self.red(self.check(subject='core: ' + 'x' * 55), 'the subject has 61 characters')


class Names(Fixture):
    FILES = ('core/proto/names.def', 'core/proto/compact.proto', 'core/FORMAT.md', 'docs/troubleshooting.md', 'docs/frames.md', 'core/sample/words.c',
             'core/edgeprof/edgeprof.h', 'tools/lib/kinds.c')

    def changed(self, file, old, new):
        for name in self.FILES:
            text = (HERE.parent.parent.parent / name).read_text()
            self.assertIn(old if name == file else '', text)
            self.write(name, text.replace(old, new, 1) if name == file else text)
        return run('names_check.py', self.root)

    def test_right(self):
        self.green(self.changed('core/sample/words.c', '', ''))

    def test_wrong(self):
        for file, old, new, words in (
                ('core/FORMAT.md', '`too large`', '`large`', 'FORMAT.md: losses: number 9'),
                ('core/FORMAT.md', '| 33 |', '| 34 |', 'FORMAT.md: special frames: number 33'),
                ('core/proto/names.def', 'LOSS(NO_SLOT, 2,', 'LOSS(NO_SLOT, 19,', 'LOSS: number 19 is not in order'),
                ('core/proto/names.def', '"[gap]"', '"[hole]"', 'compact.proto: frame 10'),
                ('docs/frames.md', '| `[gap]` |', '| `[hole]` |', '`[hole]` is no frame'),
                ('docs/troubleshooting.md', '| ring full |', '| ring |', 'ring full is only in names.def'),
                ('tools/lib/kinds.c', '{8, "thread"', '{8, "threads"', "the library says (8, 'thread'"),
                ('tools/lib/kinds.c', '"Locks", "nanoseconds"', '"Locks", "bytes"', 'kinds')):
            self.red(self.changed(file, old, new), words)


if __name__ == '__main__':
    unittest.main(verbosity=0)
