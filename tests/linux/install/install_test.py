#!/usr/bin/env python3
"""Installs the library into a folder of its own and builds the example program against it: by pkg-config, by CMake
and by Meson, shared and static. Each is run, and its profile must show both of its functions. And one with https, by pkg-config.
No header may be in the include folder itself.

    install_test.py BOARD DIR EDGEPROF       environment: CC EXEC SYSROOT ARCH
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

EXAMPLE = pathlib.Path(__file__).resolve().parent / 'example'
PUBLIC = {'edgeprof'}


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        raise SystemExit(f'install_test: {shlex.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}')
    return done.stdout


def install(board, root):
    shutil.rmtree(root, ignore_errors=True)
    run('make', '-s', '--no-print-directory', f'BOARD={board}', f'DESTDIR={root}', 'PREFIX=/usr', 'install')
    found = {path.name for path in (root / 'usr/include').iterdir()}
    if found != PUBLIC:
        raise SystemExit(f'install_test: /usr/include got {found}, a header there would be everybody\'s')


def by_pkg_config(root, out, static, source='device.c', package='edgeprof'):
    env = os.environ | {'PKG_CONFIG_LIBDIR': str(root / 'usr/lib/pkgconfig'), 'PKG_CONFIG_SYSROOT_DIR': str(root),
                        'PKG_CONFIG_ALLOW_SYSTEM_CFLAGS': '1', 'PKG_CONFIG_ALLOW_SYSTEM_LIBS': '1'}
    flags = run('pkg-config', *(['--static'] if static else []), '--cflags', '--libs', package, env=env).split()
    run(*os.environ['CC'].split(), '-O2', '-g', '-Wl,--build-id', EXAMPLE / source, *(['-static'] if static else []), *flags, '-o', out)


def by_cmake(root, out, static, package=''):
    build = out.with_suffix('.cmake')
    options = [f'-DCMAKE_C_COMPILER={os.environ["CC"]}', f'-DCMAKE_PREFIX_PATH={root}/usr', f'-DSTATIC={"ON" if static else "OFF"}', f'-DTARGET={package}',
               '-DCMAKE_EXE_LINKER_FLAGS=-Wl,--build-id']
    if os.environ['SYSROOT']:
        options += ['-DCMAKE_SYSTEM_NAME=Linux', f'-DCMAKE_SYSTEM_PROCESSOR={os.environ["ARCH"]}']
    run('cmake', '-S', EXAMPLE, '-B', build, *options)
    run('cmake', '--build', build)
    shutil.copy2(build / 'device', out)


def by_meson(root, out, static):
    build = out.with_suffix('.meson')
    env = os.environ | {'PKG_CONFIG_LIBDIR': str(root / 'usr/lib/pkgconfig'), 'PKG_CONFIG_SYSROOT_DIR': str(root),
                        'PKG_CONFIG_ALLOW_SYSTEM_CFLAGS': '1', 'PKG_CONFIG_ALLOW_SYSTEM_LIBS': '1'}
    run('meson', 'setup', build, EXAMPLE, f'-Dstatic={"true" if static else "false"}', env=env)
    run('ninja', '-C', build, env=env)
    shutil.copy2(build / 'device', out)


def check_transport(root, work):
    """The transport of transport/README.md needs only what is installed, in C and in C++."""
    text = re.search(r'^```c\n(.*?)^```', (EXAMPLE.parents[3] / 'transport/README.md').read_text(), re.M | re.S)[1]
    strict = ['-Wall', '-Wextra', '-Wpedantic', '-Wconversion', '-Wshadow', '-Werror', '-D_GNU_SOURCE', '-c', f'-I{root}/usr/include']
    for command in ([*os.environ['CC'].split(), '-std=c11', '-x', 'c'], [*os.environ['CC'].replace('gcc', 'g++').split(), '-std=c++20', '-x', 'c++']):
        if not shutil.which(command[0]):  # Debian's cross compilers of C and C++ are packages of their own
            continue
        (work / 'uplink.c').write_text(text)
        run(*command, *strict, work / 'uplink.c', '-o', work / 'uplink.o')
    print('    the transport of transport/README.md: C11, C++20')


def parts(edgeprof, out, profile):
    """Shares of the time that has a stack. On a busy machine much of two seconds may have none: [unsampled], [thread exit]."""
    folded = run(edgeprof, 'cat', '--folded', '--symbols', out.parent, profile)
    found = {'filter_readings': 0, 'sum_up': 0}
    for line in folded.splitlines():
        stack, value = line.rsplit(' ', 1)
        for name in found:
            found[name] += int(value) if name in stack.split(';') else 0
    total = sum(int(line.rsplit(' ', 1)[1]) for line in folded.splitlines() if not line.startswith('['))
    return {name: 100 * value / max(1, total) for name, value in found.items()}


def run_program(root, out, *arguments):
    env = os.environ | {'LD_LIBRARY_PATH': str(root / 'usr/lib')}
    exec_ = os.environ['EXEC'].split()
    if exec_:
        env.pop('LD_LIBRARY_PATH')
        exec_ += ['-E', f'LD_LIBRARY_PATH={root}/usr/lib']
    return run(*exec_, out, *arguments, env=env)


def check_secure(root, work, static):
    out = work / f'secure-{"static" if static else "shared"}'
    by_pkg_config(root, out, static, 'secure.c')
    lines = run_program(root, out).splitlines()
    print(f'    {out.name}: {lines}')
    if len(lines) != 2 or 'with TLS linked and set up' not in lines[0] or lines[1] != '0 0 1':
        raise SystemExit(f'install_test: {out.name}: {lines}')


OWN_WRAP = r"""
#include <edgeprof/edgeprof.h>
#include <pthread.h>
#include <stdio.h>
int NEXT(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *), void *argument)
{
    puts("own");
    return NEXT(thread, attributes, fn, argument);
}
static void say(const char *line) { puts(line); }
static void *nothing(void *argument) { return argument; }
static uint8_t memory[EP_MEMORY_DEFAULT];
int main(void)
{
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory, .service = "wraps", .endpoint = "null:"};
    pthread_t thread;
    ep_notice_to(say);
    return ep_start(&config) || pthread_create(&thread, 0, nothing, 0) || pthread_join(thread, 0) || ep_stop(100);
}
"""


def check_own_wrap(root, work):
    """A wrapper of the program's own is reported at start; with the command of the documents both run."""
    page = (EXAMPLE.parents[3] / 'docs/getting-started-c.md').read_text()
    command = re.search(r'^objcopy .*$', page, re.M)[0].split()
    tool = os.environ['CC'].split()[0].removesuffix('gcc') + command[0]
    run(tool, *[str(root / 'usr/lib/libedgeprof.a') if word == 'libedgeprof.a' else word for word in command[1:]], cwd=work)
    (work / 'own.c').write_text(OWN_WRAP)
    for name, following, archive in (('replaced', '__real_pthread_create', root / 'usr/lib/libedgeprof.a'),
                                     ('chained', 'edgeprof_pthread_create', work / 'libedgeprof-chained.a')):
        run(*os.environ['CC'].split(), '-O1', '-static', f'-DNEXT={following}', f'-I{root}/usr/include', work / 'own.c', archive,
            f'@{root}/usr/lib/edgeprof/link.opt', '-lpthread', '-ldl', '-o', work / name)
        lines = run_program(root, work / name).splitlines()
        said = any('__wrap_pthread_create' in line for line in lines)
        if 'own' not in lines or said != (name == 'replaced'):
            raise SystemExit(f'install_test: {name}: {lines}')
    print('    own __wrap_pthread_create(): reported, and chained')


def check_memory(root, work):
    """The memory hooks are linked, by pkg-config and by CMake."""
    for way, name in (by_pkg_config, 'edgeprof-memory'), (by_cmake, 'edgeprof::memory'):
        out = work / f'memory-{way.__name__}'
        way(root, out, True, package=name)
        if b'__wrap_malloc' not in out.read_bytes():
            raise SystemExit(f'install_test: {out.name} has no hook of malloc()')
        print(f'    {out.name}: has the hooks')


def check(root, edgeprof, out):
    profile = out.with_suffix('.profile')
    profile.unlink(missing_ok=True)
    run_program(root, out, '2', f'file://{profile}')
    shares = parts(edgeprof, out, profile)
    text = ', '.join(f'{name} {share:.0f} %' for name, share in shares.items())
    print(f'    {out.name}: {text}')
    if min(shares.values()) < 10 or sum(shares.values()) < 80:
        raise SystemExit(f'install_test: {out.name}: {text}: both functions must be there, and be nearly all')


def main():
    board, work, edgeprof = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    root = work / 'root'
    shutil.rmtree(work, ignore_errors=True)
    install(board, root)
    # Meson reads the file of pkg-config; for a device it needs a file about the toolchain.
    for way in [by_pkg_config, by_cmake] + [by_meson] * (board == 'host' and shutil.which('meson') is not None):
        for static in False, True:
            out = work / f'{way.__name__}-{"static" if static else "shared"}' / 'device'
            out.parent.mkdir(parents=True)
            out = out.with_name(f'device-{out.parent.name}')
            way(root, out, static)
            if (b'libedgeprof.so' in out.read_bytes()) == static:
                raise SystemExit(f'install_test: {out.name} is not linked as it should be')
            check(root, edgeprof, out)
    for static in False, True:
        check_secure(root, work, static)
    check_memory(root, work)
    check_transport(root, work)
    check_own_wrap(root, work)
    print(f"install_test: {board}: all programs are right")


if __name__ == '__main__':
    main()
