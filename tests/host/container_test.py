"""The steps of the container file build and start a healthy server.

The container file, without an engine: its steps, followed in a folder. What it copies is all that the build reads, its
packages are those of tools/build/packages.txt and those whose libraries the program needs, and its command and health check
run where there is nothing else: a root with those packages' libraries, the program and a shell."""
import contextlib
import json
import os
import re
import shutil
import subprocess

import pytest

from harness import REPOSITORY, clean_environment, deaf_port

pytestmark = pytest.mark.all

FILE = REPOSITORY / "tools/package/Containerfile"


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


BUILD_STAGE, RUN_STAGE = stages()
RUNS = [arguments for word, arguments in BUILD_STAGE if word == "RUN"]
SAYS = dict(RUN_STAGE)


def test_images_have_a_version():
    assert FILE.read_text().startswith("#") and "latest" not in FILE.read_text()


# ---- the stage that builds ----

@pytest.fixture(scope="module")
def copied():
    """Folders and files of the tree that the stage has."""
    names = [name for word, arguments in BUILD_STAGE if word == "COPY" for name in arguments.split()[:-1]]
    assert [name for name in names if not (REPOSITORY / name).exists()] == []
    return names


def test_all_that_is_compiled_is_copied(build, copied):
    read = set()
    for file in (build / "tools").rglob("*.d"):
        for word in file.read_text().replace("\\\n", " ").split():
            if not word.startswith(("/", "build/")) and not word.endswith(":"):
                read.add(word)
    assert len(read) > 100, "files that the compiler read"
    assert [path for path in sorted(read) if not any(path == name or path.startswith(name + "/") for name in copied)] == []


def test_make_has_what_it_needs(copied, tmp_path):
    for name in copied:
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (REPOSITORY / name).is_dir():
            shutil.copytree(REPOSITORY / name, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
        else:
            shutil.copy(REPOSITORY / name, target)
    done = subprocess.run(["make", "-n", "tools"], cwd=tmp_path, capture_output=True, text=True, check=False, env=clean_environment())
    assert done.returncode == 0, done.stderr
    assert "-o build/host/edgeprof" in done.stdout


def test_steps_of_the_build():
    assert "tools/build/setup.sh apt build tools" in RUNS, "the packages are those of tools/build/packages.txt, sections build and tools"
    assert any("make" in line and line.split(" && ")[0].endswith(" tools") for line in RUNS), "the tool is built"


# ---- the stage that runs ----

def output(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, check=True, env=clean_environment(LC_ALL="C")).stdout


@pytest.fixture(scope="module")
def installed():
    return set(re.search(r"--no-install-recommends ((?:[a-z0-9.+-]+ ?)+)&&", SAYS["RUN"])[1].split())


def needed(program):
    """Packages of the libraries that the program itself names."""
    paths = dict(re.findall(r"^\s+(\S+) => (\S+)", output("ldd", program), re.M))
    names = re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", output("readelf", "-d", program))
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


def make_root(root, packages, program):
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
    shutil.copy(program, root / "usr/bin/edgeprof")
    (root / "data").mkdir()


@pytest.fixture(scope="module")
def root(tmp_path_factory, installed, shipped):
    path = tmp_path_factory.mktemp("container") / "root"
    make_root(path, installed, shipped)
    yield path
    shutil.rmtree(path)


def inside(root, *command):
    """In a user namespace of its own, with the folder as root: nobody there."""
    return ["unshare", "--user", "--map-root-user", "--root", str(root), "--wd", "/data", *command]


def health(root, port):
    """What the health check says of a server at this port."""
    command = [word.replace("/4040", f"/{port}") for word in json.loads(SAYS["HEALTHCHECK"].split("CMD ", 1)[1])]
    done = subprocess.run(inside(root, *command), capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_user_volume_and_port():
    assert (SAYS["USER"], SAYS["VOLUME"], SAYS["EXPOSE"]) == ("10001:10001", "/data", "4040")
    assert re.search(r"useradd .*--uid 10001 .*edgeprof.* install -d -o edgeprof .*/data", SAYS["RUN"]), "the user has the volume"


def test_packages(installed, shipped):
    assert installed - {"ca-certificates"} == needed(shipped) - {"libc6"}, "of the libraries that the program needs"


def test_what_comes_from_the_build():
    assert SAYS["COPY"] == "--from=build /src/build/host/edgeprof /usr/bin/edgeprof"


def test_nobody_serves(root):
    with deaf_port() as port:
        assert health(root, port)[0] != 0


@contextlib.contextmanager
def running(*command):
    """A process and its output; it ends with 0 when it is asked to."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={}) as process:
        try:
            yield process
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_serves(root):
    command = json.loads(SAYS["ENTRYPOINT"]) + json.loads(SAYS["CMD"])
    assert "0.0.0.0:4040" in command
    with running(*inside(root, *[word.replace(":4040", ":0") for word in command])) as server:
        line = server.stdout.readline()
        found = re.search(r"edgeprof: http://0\.0\.0\.0:(\d+)", line)
        assert found, line
        assert health(root, found[1]) == (0, "")
        assert (root / "data/edgeprof.db").exists(), "the database is in the volume"
