#!/usr/bin/env python3
"""Runs the steps of Yocto's and of Buildroot's recipe as `make dist` has written them: in a folder that is the root of the
file system, with the tools of TOOLS and a cross compiler, as a user without privileges, without network. It does Yocto's
twice, in folders of other names, and compares the bytes. What is installed must be for the board's processor, know no
folder of the build, and have what CFLAGS and LDFLAGS asked for. A program must link with it and make a profile.

    recipes_test.py DIST WORK       DIST: what `make dist` has made
"""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

# All that a build needs, besides the compiler and its binutils.
TOOLS = 'make sh awk basename cat cp cut dirname env expr gzip install ln ls mkdir mv nproc realpath rm sed sort tar tr true uname'.split()
EXPECTED = ['include/edgeprof/edgeprof.h', 'lib/libedgeprof.a', 'lib/libedgeprof-tls.a', 'lib/libedgeprof.so', 'lib/pkgconfig/edgeprof.pc',
            'lib/pkgconfig/edgeprof-memory.pc', 'lib/cmake/edgeprof/edgeprofConfig.cmake', 'lib/edgeprof/libedgeprof-preload.so',
            'lib/edgeprof/libedgeprof-memory.so', 'lib/edgeprof/link.opt', 'lib/edgeprof/memory.opt', 'lib/edgeprof/write.opt',
            'share/doc/edgeprof/LICENSE', 'share/doc/edgeprof/LICENSE.nanopb', 'share/doc/edgeprof/LICENSE.mbedtls']
NOBODY = 65534
PROGRAM = r"""
#include <edgeprof/edgeprof.h>
static unsigned char memory[EP_MEMORY_DEFAULT];
_Static_assert(EP_THREADS == 40, "the installed header has the option of CFLAGS");
int main(int argc, char **argv)
{
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory, .service = "recipe", .endpoint = argv[argc - 1]};
    if (ep_start(&config) != 0)
        return 1;
    for (volatile unsigned i = 0; i < 300000000; i++)
        ;
    return ep_stop(2000);
}
"""


class Target:
    """A cross toolchain, and the environment of a distribution that uses it."""

    def __init__(self, prefix, triplet, core, machine, emulator):
        self.prefix, self.triplet, self.core, self.machine, self.emulator = prefix, triplet, core, machine, emulator

    def environment(self, sysroot, source):
        names = f'-ffile-prefix-map={source}=/usr/src/debug/edgeprof'
        flags = f'-O2 -pipe -g -feliminate-unused-debug-types {names} -fstack-protector-strong -D_FORTIFY_SOURCE=2 -Wformat ' \
            '-Werror=format-security -DEP_THREADS=40'
        return {'CC': f'{self.prefix}gcc {self.core} --sysroot={sysroot}', 'CXX': f'{self.prefix}g++ {self.core} --sysroot={sysroot}',
                'CPP': f'{self.prefix}gcc -E --sysroot={sysroot}', 'LD': f'{self.prefix}ld --sysroot={sysroot}',
                'AR': f'{self.prefix}gcc-ar', 'NM': f'{self.prefix}gcc-nm', 'OBJCOPY': f'{self.prefix}objcopy',
                'STRIP': f'{self.prefix}strip', 'RANLIB': f'{self.prefix}gcc-ranlib', 'CPPFLAGS': '-D_LARGEFILE_SOURCE',
                'CFLAGS': flags, 'CXXFLAGS': flags, 'LDFLAGS': '-Wl,-O1 -Wl,--hash-style=gnu -Wl,--as-needed -Wl,-z,relro,-z,now',
                'PYTHON': '/native/python3', 'LC_ALL': 'C.UTF-8', 'PATH': '/tools'}


AARCH64 = Target('aarch64-linux-gnu-', 'aarch64-linux-gnu', '-mcpu=cortex-a53', 'AArch64', 'qemu-aarch64')
ARMHF = Target('arm-linux-gnueabihf-', 'arm-linux-gnueabihf', '-mthumb -mfpu=neon -mfloat-abi=hard -mcpu=cortex-a7', 'ARM', 'qemu-arm')


def fail(text):
    raise SystemExit(f'recipes_test: {text}')


def make_root(root, target):
    """A root folder: links to the tools alone, a sysroot, and a Python that says that it was called."""
    for folder in 'tools', 'native', 'usr', 'etc/alternatives', 'dev', 'tmp', 'recipes', 'sysroot':
        (root / folder).mkdir(parents=True)
    for name in 'bin', 'lib', 'lib64':
        (root / name).symlink_to(f'usr/{name}')
    binutils = [f'{target.prefix}{name}' for name in ('gcc', 'gcc-ar', 'gcc-nm', 'ld', 'ar', 'nm', 'objcopy')]
    for name in TOOLS + binutils:
        (root / 'tools' / name).symlink_to(shutil.which(name, path='/usr/bin:/bin') or fail(f'there is no {name}'))
    (root / 'sysroot/usr').symlink_to(f'/usr/{target.triplet}')
    python = root / 'native/python3'
    python.write_text('#!/bin/sh\necho called >/recipes/python\nexit 1\n')
    python.chmod(0o755)


def run_inside(root, environment, script):
    """Runs a script in the root folder: no network, no privileges, nothing of the machine but /usr."""
    (root / 'recipes/steps.sh').write_text('set -e\n' + script)
    subprocess.run(['chmod', '-R', 'a+rwX', root / 'recipes', root / 'tmp'], check=True)
    bind = 'mount --bind /usr "$0/usr"; mount --bind /etc/alternatives "$0/etc/alternatives"; : >"$0/dev/null"; mount --bind /dev/null "$0/dev/null"; '
    user = f'--userspec={NOBODY}:{NOBODY} ' if os.geteuid() == 0 else ''
    enter = ['unshare', '--mount', '--net', *([] if os.geteuid() == 0 else ['--map-root-user']), 'sh', '-ec',
             bind + f'exec chroot {user}"$0" /tools/env -i "$@"', root]
    done = subprocess.run([*enter, *(f'{name}={value}' for name, value in environment.items()), '/tools/sh', '/recipes/steps.sh'],
                          capture_output=True, text=True)
    if done.returncode:
        fail(f'the steps ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}')
    if (root / 'recipes/python').exists():
        fail('a step called PYTHON')
    if 'warning:' in done.stderr:
        fail(f'warnings:\n{done.stderr[-3000:]}')


def expand(text, variables):
    while re.search(r'\$\{\w+\}', text):
        text = re.sub(r'\$\{(\w+)\}', lambda m: variables[m[1]], text)
    return text


def yocto(dist, work, target, name):
    """The steps of the recipe: its variables, do_compile and do_install, with bitbake's names for folders."""
    recipe, = (dist / 'meta-edgeprof').glob('recipes-*/*/*.bb')
    text = recipe.read_text()
    version = recipe.stem.split('_')[1]
    variables = {'PN': 'edgeprof', 'PV': version, 'BP': f'edgeprof-{version}', 'WORKDIR': f'/recipes/{name}', 'prefix': '/usr', 'libdir': '/usr/lib',
                 'includedir': '/usr/include', 'docdir': '/usr/share/doc', 'S': f'/recipes/{name}/edgeprof-{version}', 'D': f'/recipes/{name}/image'}
    for key in 'B', 'EXTRA_OEMAKE', 'SRC_URI', 'LIC_FILES_CHKSUM':
        variables[key] = re.search(rf'^{key} = "((?:[^"\\]|\\\n)*)"', text, re.M)[1].replace('\\\n', ' ')
    source = recipe.parent / 'files' / expand(variables['SRC_URI'], variables).removeprefix('file://')
    unpack(source, work / name)
    for path, md5 in re.findall(r'file://(\S+);md5=(\S+)', variables['LIC_FILES_CHKSUM']):
        if hashlib.md5((work / name / variables['BP'] / path).read_bytes()).hexdigest() != md5:
            fail(f'LIC_FILES_CHKSUM: {path}')
    steps = ''.join(expand(re.search(rf'^{step}\(\) \{{\n(.*?)^\}}', text, re.M | re.S)[1], variables) for step in ('do_compile', 'do_install'))
    (work / name / 'build').mkdir()
    script = f'oe_runmake() {{ make -j2 {expand(variables["EXTRA_OEMAKE"], variables)} "$@"; }}\n{steps}'
    return script, target.environment('/sysroot', variables['S']), work / name / 'image'


BUILDROOT = """
# What Buildroot's infrastructure gives a package's steps.
BR2_EXTERNAL_EDGEPROF_PATH := /recipes/external
BR2_TOOLCHAIN_USES_GLIBC := y
BR2_PACKAGE_EDGEPROF_OPTIONS := ""
qstrip = $(strip $(subst ",,$(1)))
generic-package :=
STAGING_DIR := {image}
TARGET_DIR := {image}-target
TARGET_CFLAGS := {cflags}
TARGET_MAKE_ENV := PATH="/tools"
TARGET_CONFIGURE_OPTS := {options}
include /recipes/external/external.mk
{source}/.stamp_built:
\t$(EDGEPROF_BUILD_CMDS)
\t$(EDGEPROF_INSTALL_STAGING_CMDS)
\t$(EDGEPROF_INSTALL_TARGET_CMDS)
"""


def buildroot(dist, work, target, name):
    external = dist / 'buildroot'
    shutil.copytree(external, work / 'external')
    mk = (external / 'package/edgeprof/edgeprof.mk').read_text()
    version = re.search(r'^EDGEPROF_VERSION = (\S+)', mk, re.M)[1]
    source = external / 'dl' / f'edgeprof-{version}.tar.gz'
    unpack(source, work / name)
    tree = work / name / f'edgeprof-{version}'
    for kind, digest, path in re.findall(r'^(sha256)  (\S+)  (\S+)', (external / 'package/edgeprof/edgeprof.hash').read_text(), re.M):
        file = source if path == source.name else tree / path
        if hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            fail(f'edgeprof.hash: {path}')
    environment = target.environment('/sysroot', f'/recipes/{name}/{tree.name}')
    options = ' '.join(f'{key}="{value}"' for key, value in environment.items() if key not in ('LC_ALL', 'PYTHON'))
    image = work / name / 'staging'
    (work / 'infrastructure.mk').write_text(BUILDROOT.format(
        source=f'/recipes/{name}/{tree.name}', image=f'/recipes/{name}/staging', cflags=environment['CFLAGS'], options=options))
    return 'make -f /recipes/infrastructure.mk\n', {key: environment[key] for key in ('LC_ALL', 'PYTHON', 'PATH')}, image


def unpack(source, to):
    to.mkdir(parents=True)
    with tarfile.open(source) as tar:
        tar.extractall(to)


def check_installed(image, target, folder):
    for name in EXPECTED:
        if not (image / 'usr' / name).exists():
            fail(f'{image} has no usr/{name}')
    files = sorted(path for path in image.rglob('*') if path.is_file() and not path.is_symlink())
    for path in files:
        if folder.encode() in path.read_bytes() or b'/recipes/' in path.read_bytes():
            fail(f'{path} names a folder of the build')
    for path in files:
        if path.suffix == '.so' or '.so.' in path.name:
            seen = subprocess.run(['readelf', '-hdW', path], check=True, capture_output=True, text=True).stdout
            if f'Machine:                           {target.machine}' not in seen or 'GNU_HASH' not in seen or 'BIND_NOW' not in seen:
                fail(f'{path}:\n{seen}')
            if target is ARMHF and path.name.startswith('libedgeprof-') and 'libgcc_s' in seen:
                fail(f'{path} needs libgcc_s, which a small image may not have')
    return {str(path.relative_to(image)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def check_program(image, target):
    """A static program links with what is installed, and delivers to a file."""
    root = image / 'usr'
    (image / 'program.c').write_text(PROGRAM)
    subprocess.run([f'{target.prefix}gcc', *target.core.split(), '-O1', '-static', f'-I{root}/include', image / 'program.c', root / 'lib/libedgeprof.a',
                    f'@{root}/lib/edgeprof/link.opt', '-lpthread', '-ldl', '-o', image / 'program'], check=True, capture_output=True)
    subprocess.run([target.emulator, image / 'program', f'file://{image}/profile'], check=True)
    if (image / 'profile').stat().st_size < 50:
        fail(f'{image}/profile has no profile')


def check(recipe, dist, work, target, names):
    results = []
    for name in names:
        root = work / f'{recipe.__name__}-{name}'
        make_root(root, target)
        script, environment, image = recipe(dist, root / 'recipes', target, name)
        run_inside(root, environment, script)
        results.append(check_installed(image, target, str(work)))
    if results[0] != results[-1]:
        fail(f'{recipe.__name__}: these differ: {sorted(set(results[0].items()) ^ set(results[-1].items()))}')
    check_program(image, target)
    print(f'recipes_test: {recipe.__name__}: {len(results[0])} files for {target.machine}' + ', twice the same bytes' * (len(names) - 1))


def main():
    dist, work = map(pathlib.Path, sys.argv[1:])
    shutil.rmtree(work, ignore_errors=True)
    check(yocto, dist, work, AARCH64, ['first', 'second-in-a-longer-folder'])
    check(buildroot, dist, work, ARMHF, ['only'])
    shutil.rmtree(work, ignore_errors=True)


if __name__ == '__main__':
    main()
