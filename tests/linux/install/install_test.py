#!/usr/bin/env python3
"""Installs the library into a folder of its own and builds the example program against it: by pkg-config and by CMake,
shared and static. Each is run, and its profile must show both of its functions. And one with https, by pkg-config.
No header may be in the include folder itself.

    install_test.py BOARD DIR EDGEPROF       environment: CC EXEC SYSROOT ARCH
"""
import os
import pathlib
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


def by_pkg_config(root, out, static, source='device.c'):
    env = os.environ | {'PKG_CONFIG_LIBDIR': str(root / 'usr/lib/pkgconfig'), 'PKG_CONFIG_SYSROOT_DIR': str(root),
                        'PKG_CONFIG_ALLOW_SYSTEM_CFLAGS': '1', 'PKG_CONFIG_ALLOW_SYSTEM_LIBS': '1'}
    flags = run('pkg-config', *(['--static'] if static else []), '--cflags', '--libs', 'edgeprof', env=env).split()
    run(*os.environ['CC'].split(), '-O2', '-g', '-Wl,--build-id', EXAMPLE / source, *(['-static'] if static else []), *flags, '-o', out)


def by_cmake(root, out, static):
    build = out.with_suffix('.cmake')
    options = [f'-DCMAKE_C_COMPILER={os.environ["CC"]}', f'-DCMAKE_PREFIX_PATH={root}/usr', f'-DSTATIC={"ON" if static else "OFF"}',
               '-DCMAKE_EXE_LINKER_FLAGS=-Wl,--build-id']
    if os.environ['SYSROOT']:
        options += ['-DCMAKE_SYSTEM_NAME=Linux', f'-DCMAKE_SYSTEM_PROCESSOR={os.environ["ARCH"]}']
    run('cmake', '-S', EXAMPLE, '-B', build, *options)
    run('cmake', '--build', build)
    shutil.copy2(build / 'device', out)


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
    if len(lines) != 2 or 'ep_tls_setup()' not in lines[0] or lines[1] != '0 0 1':
        raise SystemExit(f'install_test: {out.name}: {lines}')


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
    for way in by_pkg_config, by_cmake:
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
    print(f'install_test: {board}: 6 programs')


if __name__ == '__main__':
    main()
