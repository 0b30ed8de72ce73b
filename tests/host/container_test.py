"""The container file, without an engine: its steps, followed in a folder. What it copies is all that the build reads, its
packages are those of tools/build/packages.txt and those whose libraries the program needs, and its command and health check
run where there is nothing else: a root with those packages' libraries, the program and a shell.

    container_test.py EDGEPROF OBJECTS      OBJECTS: the folder of its .d files
"""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

from harness import Checks, clean_environment

PROGRAM, OBJECTS = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
FILE = pathlib.Path("tools/package/Containerfile")
check = Checks()


def stages():
    """[(instruction, arguments), ...] of each stage."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", FILE.read_text(), flags=re.M))
    found = []
    for line in text.splitlines():
        if line.strip():
            word, arguments = line.split(None, 1)
            if word == "FROM":
                found.append([])
            found[-1].append((word, " ".join(arguments.split())))
    return found


def output(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, check=True, env=clean_environment(LC_ALL="C"), **options).stdout


def copied(stage):
    """Folders and files of the tree that the stage has."""
    names = []
    for word, arguments in stage:
        if word == "COPY":
            names += arguments.split()[:-1]
    for name in names:
        check(os.path.exists(name), f"COPY {name}: there is no such thing")
    return names


def build_stage(stage):
    names = copied(stage)
    read = set()
    for file in OBJECTS.rglob("*.d"):
        for word in file.read_text().replace("\\\n", " ").split():
            if not word.startswith(("/", "build/")) and not word.endswith(":"):
                read.add(word)
    check(len(read) > 100, f"files that the compiler read: {len(read)}")
    missing = [path for path in sorted(read) if not any(path == name or path.startswith(name + "/") for name in names)]
    check.equal(missing, [], "files that are compiled and not copied")
    with tempfile.TemporaryDirectory(prefix="edgeprof-container-") as folder:
        for name in names:
            target = pathlib.Path(folder) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if os.path.isdir(name):
                shutil.copytree(name, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
            else:
                shutil.copy(name, target)
        done = subprocess.run(["make", "-n", "tools"], cwd=folder, capture_output=True, text=True, check=False, env=clean_environment())
        check(done.returncode == 0 and "-o build/host/edgeprof" in done.stdout, f"make -n tools with what is copied: {done.stderr[-300:]}")
    runs = [arguments for word, arguments in stage if word == "RUN"]
    check("tools/build/setup.sh apt build tools" in runs, "the packages are those of tools/build/packages.txt, sections build and tools")
    check(any("make" in line and line.split(" && ")[0].endswith(" tools") for line in runs), "the tool is built")


def installed(stage):
    return set(re.search(r"--no-install-recommends ((?:[a-z0-9.+-]+ ?)+)&&", dict((w, a) for w, a in stage if w == "RUN")["RUN"])[1].split())


def needed():
    """Packages of the libraries that the program itself names."""
    paths = dict(re.findall(r"^\s+(\S+) => (\S+)", output("ldd", PROGRAM), re.M))
    names = re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", output("readelf", "-d", PROGRAM))
    return {owner(paths[name]) for name in names if name in paths}


def owner(path):
    for candidate in (path, os.path.realpath(path), path.removeprefix("/usr"), "/usr" + path):
        done = subprocess.run(["dpkg-query", "-S", candidate], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    raise AssertionError(f"no package has {path}")


def closure(packages):
    """The packages and all that they depend on, as installed here."""
    done, open_ = set(), set(packages)
    while open_:
        name = open_.pop()
        done.add(name)
        text = subprocess.run(["dpkg-query", "-W", "-f", "${Depends}, ${Pre-Depends}", name], capture_output=True, text=True, check=False).stdout
        for word in re.findall(r"(?:^|[,|])\s*([a-z0-9.+-]+)", text):
            if word not in done:
                open_.add(word)
    return done


def make_root(root, packages):
    """Libraries of the packages and of what they depend on, a shell, the program; nothing else."""
    for folder in ("lib", "lib64", "bin"):
        (root / "usr" / folder).mkdir(parents=True, exist_ok=True)
        (root / folder).symlink_to(f"usr/{folder}")
    for package in closure(packages | {"libc6", "bash"}):
        listed = subprocess.run(["dpkg-query", "-L", package], capture_output=True, text=True, check=False).stdout.split("\n")
        for path in listed:
            if re.search(r"/lib(64)?/.*\.so[.0-9]*$", path) and os.path.isfile(path) and "/dri/" not in path:
                target = root / path[1:]
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
    shutil.copy("/bin/bash", root / "usr/bin/bash")
    shutil.copy(PROGRAM, root / "usr/bin/edgeprof")
    (root / "data").mkdir()


def inside(root, *command):
    """In a user namespace of its own, with the folder as root: nobody there."""
    return ["unshare", "--user", "--map-root-user", "--root", str(root), "--wd", "/data", *command]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def run_stage(stage, root):
    says = {word: arguments for word, arguments in stage}
    check.equal((says["USER"], says["VOLUME"], says["EXPOSE"]), ("10001:10001", "/data", "4040"), "user, volume, port")
    check(re.search(r"useradd .*--uid 10001 .*edgeprof.* install -d -o edgeprof .*/data", says["RUN"]), "the user has the volume")
    packages = installed(stage)
    check.equal(packages - {"ca-certificates"}, needed() - {"libc6"}, "packages of the libraries that the program needs")
    check.equal(says["COPY"], "--from=build /src/build/host/edgeprof /usr/bin/edgeprof", "what comes from the build")
    make_root(root, packages)
    port = free_port()
    command = [word.replace(":4040", ":" + port) for word in json.loads(says["ENTRYPOINT"]) + json.loads(says["CMD"])]
    health = [word.replace("/4040", "/" + port) for word in json.loads(says["HEALTHCHECK"].split("CMD ", 1)[1])]
    check(subprocess.run(inside(root, *health), capture_output=True, check=False).returncode != 0, "the health check fails when nobody serves")
    with subprocess.Popen(inside(root, *command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={}) as server:
        line = server.stdout.readline()
        check("edgeprof: http://0.0.0.0:" + port in line, f"the command: {line!r}")
        done = subprocess.run(inside(root, *health), capture_output=True, text=True, check=False)
        check.equal((done.returncode, done.stderr), (0, ""), "the health check")
        check((root / "data/edgeprof.db").exists(), "the database is in the volume")
        server.terminate()
        check.equal(server.wait(60), 0, "it ends cleanly")


def main():
    build, run = stages()
    check(FILE.read_text().startswith("#") and "latest" not in FILE.read_text(), "images have a version")
    build_stage(build)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="edgeprof-container-"))
    try:
        run_stage(run, folder / "root")
    finally:
        shutil.rmtree(folder)
    check.done("test-tools-container")


main()
