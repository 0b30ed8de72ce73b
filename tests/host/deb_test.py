"""The Debian packages pass lintian and install, work, upgrade and purge; C programs build with them.

The Debian packages: what is in them, what lintian and systemd say, and a life in a folder that stands for a machine's
root: installed, used, upgraded, removed, purged. The tool runs from there, and a C program is built against the library.
They are those that `make deb` has put beside the build of each board."""
import http.client
import io
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tarfile

import pytest

from harness import REPOSITORY, clean_environment

pytestmark = pytest.mark.apart

UNIT = "lib/systemd/system/edgeprof.service"
EXAMPLE = REPOSITORY / "tests/linux/install/example/device.c"
# Their libraries take minutes to compile with Debian's flags: test-tools-deb-arm asks for them.
ARM = {"arm64": "qemu-aarch64", "armhf": "qemu-armhf"} if os.environ.get("DEB_ARM") else {}
COMPRESSED = 4096  # dh_compress leaves smaller files alone

CONTENT = {
    "edgeprof": ["etc/edgeprof/edgeprof.conf", UNIT, "usr/bin/edgeprof", "usr/lib/edgeprof/libedgeprof-preload.so",
                 "usr/lib/edgeprof/libedgeprof-memory.so", "usr/share/gdb/auto-load/usr/lib/edgeprof/libedgeprof-memory.so-gdb.gdb",
                 "usr/share/gdb/auto-load/usr/lib/edgeprof/libedgeprof-preload.so-gdb.gdb",
                 "usr/share/bash-completion/completions/edgeprof", "usr/share/doc/edgeprof/README.md.gz", "usr/share/doc/edgeprof/NOTICE", "usr/share/lintian/overrides/edgeprof",
                 *(f"usr/share/doc/edgeprof/docs/{page}.md" + (".gz" if os.path.getsize(REPOSITORY / f"docs/{page}.md") > COMPRESSED else "") for page in (
                     "configuration", "opentelemetry", "server", "security", "http-api", "pyroscope-and-grafana", "troubleshooting")),
                 "usr/share/man/man1/edgeprof.1.gz", "usr/share/zsh/vendor-completions/_edgeprof"],
    "libedgeprof0": ["usr/lib/TRIPLET/libedgeprof.so.0", "usr/lib/TRIPLET/libedgeprof.so.VERSION"],
    "libedgeprof-dev": [*(f"usr/include/TRIPLET/edgeprof/{header.name}" for header in sorted((REPOSITORY / "core/edgeprof").glob("*.h"))),
                        "usr/lib/TRIPLET/libedgeprof-tls.a", "usr/lib/TRIPLET/libedgeprof.a",
                        "usr/lib/TRIPLET/libedgeprof.so", "usr/lib/TRIPLET/pkgconfig/edgeprof.pc", "usr/lib/TRIPLET/pkgconfig/edgeprof-memory.pc",
                        "usr/lib/TRIPLET/edgeprof/link.opt", "usr/lib/TRIPLET/edgeprof/memory.opt", "usr/lib/TRIPLET/edgeprof/write.opt",
                        "usr/lib/TRIPLET/cmake/edgeprof/edgeprofConfig.cmake", "usr/lib/TRIPLET/cmake/edgeprof/edgeprofConfigVersion.cmake"],
}
OF_ALL = ["usr/share/doc/PACKAGE/changelog.gz", "usr/share/doc/PACKAGE/copyright"]


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, check=False,
                          **{"env": clean_environment(LC_ALL="C.UTF-8"), **options})


def must(*command, **options):
    done = run(*command, **options)
    assert done.returncode == 0, f"{shlex.join(map(str, command))}: {done.stdout}{done.stderr}"
    return done.stdout


def field(deb, name):
    return must("dpkg-deb", "-f", deb, name).strip()


def found(folder):
    return {deb.name.split("_")[0]: deb for deb in sorted(folder.glob("*.deb"))}


@pytest.fixture(scope="module")
def debs(build):
    """{package: file} of this machine."""
    return found(build / "deb")


@pytest.fixture(scope="module")
def arm(build):
    """{architecture: {package: file}}"""
    return {architecture: found(build.parent / board / "deb") for architecture, board in ARM.items()}


def members(deb):
    packed = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return archive.getmembers()


@pytest.fixture(scope="module")
def date(debs):
    """Of everything in a package: what make says, by hand what the packages have."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or max(member.mtime for member in members(debs["edgeprof"])))


@pytest.fixture(scope="module")
def tree(build):
    """Where the build is from."""
    return build.parents[1]


@pytest.fixture(scope="module")
def pack(tree, date):
    """pack(folder, setting ...): {package: file}, packed once more"""
    def make(folder, *settings):
        must("make", "-s", "--no-print-directory", "deb", f"DEB_DIR={folder}", *settings, cwd=tree,
             env=clean_environment(LC_ALL="C.UTF-8", SOURCE_DATE_EPOCH=str(date)))
        return found(folder)
    return make


# ---- what is in them ----

@pytest.fixture(scope="module")
def of_architecture(debs, arm):
    host = must("dpkg", "--print-architecture").strip()
    return lambda architecture: (host, debs, CONTENT) if architecture == "host" else (architecture, arm[architecture], ["libedgeprof-dev", "libedgeprof0"])


@pytest.mark.parametrize("architecture", ["host", *ARM])
def test_contents(of_architecture, date, architecture):
    architecture, debs, packages = of_architecture(architecture)
    assert sorted(debs) == sorted(packages)
    triplet = must("dpkg-architecture", "-a" + architecture, "-qDEB_HOST_MULTIARCH").strip()
    for name, deb in debs.items():
        assert field(deb, "Architecture") == architecture
        depends = field(deb, "Depends")
        assert re.search(r"libc6 \(>= |libc6-dev", depends) and not re.search(r"cross|:a|\$\{", depends), deb.name
        wanted = {path.replace("TRIPLET", triplet).replace("PACKAGE", name).replace("VERSION", field(deb, "Version"))
                  for path in CONTENT[name] + OF_ALL}
        assert {member.name[2:] for member in members(deb) if not member.isdir()} == wanted, deb.name
        for member in members(deb):
            assert (member.uname, member.gname, member.mode & 0o6022) == ("root", "root", 0) or member.issym(), f"{deb.name}: {member.name}"
            assert member.mtime <= date, f"{deb.name}: {member.name}"
            if member.name.endswith("edgeprof.conf"):
                assert member.mode & 0o777 == 0o600, "settings may hold secrets"


def test_lintian(debs, arm):
    every = [deb for some in (debs, *arm.values()) for deb in some.values()]
    done = run("lintian", "--allow-root", "--fail-on", "error", "--no-tag-display-limit", *every)
    assert (done.returncode, [line for line in done.stdout.splitlines() if line[:2] in ("E:", "W:")]) == (0, [])


def test_dependencies(debs):
    """What the tool's package depends on is what this machine has, of the version asked for."""
    for word in field(debs["edgeprof"], "Depends").split(", "):
        name, version = re.fullmatch(r"(\S+)(?: \(>= (\S+)\))?", word).groups()
        have = run("dpkg-query", "-W", "-f", "${Version}", name).stdout
        assert have, word
        assert not version or run("dpkg", "--compare-versions", have, "ge", version).returncode == 0, f"{word}, this machine has {have}"


def test_reproducible(debs, pack, tmp_path):
    """Packed once more, each is the same to the byte."""
    again = pack(tmp_path / "again")
    assert sorted(again) == sorted(debs)
    assert [name for name, deb in again.items() if deb.read_bytes() != debs[name].read_bytes()] == []


# ---- a life ----

class Machine:
    """A folder that stands for a machine's root, with the packages installed."""

    def __init__(self, folder, debs):
        self.folder, self.root = folder, folder / "root"
        self.state = self.root / "var/lib/private/edgeprof"
        for each in ("var/lib/dpkg/updates", "var/lib/dpkg/info"):
            (self.root / each).mkdir(parents=True)
        (self.root / "var/lib/dpkg/status").write_text("")
        self.dpkg("-i", *debs.values())

    def dpkg(self, *arguments):
        """Maintainer scripts run with DPKG_ROOT instead of in a root that would need a shell and all; so what systemd's own
        scripts do to a running machine is left out. Packages of the machine itself are not in this root: see test_dependencies."""
        as_root = [] if os.geteuid() == 0 else ["unshare", "-r"]
        return must(*as_root, "dpkg", f"--root={self.root}", "--force-script-chrootless", "--force-depends", "--force-not-root",
                    "--force-confold", f"--log={self.folder}/dpkg.log", *arguments)

    def installed(self, what):
        """That field of each package."""
        return must("dpkg-query", f"--admindir={self.root}/var/lib/dpkg", "-W", "-f", f"${{{what}}}\n").split()

    def unit(self):
        return (self.root / UNIT).read_text()

    def options(self):
        """Of the unit."""
        return dict(re.findall(r"^(\w+)=(.*)$", self.unit(), re.M))

    def command_line(self):
        """ExecStart with the default settings, in this root and on a free port."""
        settings = (self.root / "etc/edgeprof/edgeprof.conf").read_text()
        (self.folder / "edgeprof.conf").write_text(settings.replace("/var/lib/edgeprof", str(self.state)).replace(":4040", ":0"))
        assert self.options()["LoadCredential"] == "edgeprof.conf:/etc/edgeprof/edgeprof.conf"
        line = self.options()["ExecStart"].replace("${CREDENTIALS_DIRECTORY}", str(self.folder))
        return [str(self.root / word[1:]) if word.startswith("/usr") else word for word in line.split()]

    def serve(self, *prefix):
        """Starts the service as its unit does, asks it and stops it."""
        for name in re.search(r"^StateDirectory=edgeprof (.*)$", self.unit(), re.M)[1].split():
            (self.state / name.removeprefix("edgeprof/")).mkdir(parents=True, exist_ok=True)
        with subprocess.Popen([*prefix, *self.command_line()], stdout=subprocess.PIPE, text=True, cwd=self.state, env=clean_environment()) as server:
            try:
                port = int(re.search(r":(\d+)\n", server.stdout.readline())[1])
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                for path in ("/healthz", "/", "/api/services"):
                    connection.request("GET", path)
                    answer = connection.getresponse()
                    answer.read()
                    assert answer.status == 200, path
                connection.close()
                # the child of a prefix is the server; a signal to strace would end strace alone
                children = pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
                os.kill(int(children[0]) if prefix else server.pid, signal.SIGTERM)
                assert server.wait(60) == 0
            finally:
                server.kill()


@pytest.fixture
def machine(tmp_path, debs):
    return Machine(tmp_path, debs)


@pytest.fixture(scope="module")
def shared_machine(tmp_path_factory, debs):
    """Nobody takes a package from it or puts one in."""
    return Machine(tmp_path_factory.mktemp("machine"), debs)


def test_installed(shared_machine):
    assert shared_machine.installed("db:Status-Abbrev") == ["ii"] * 3
    assert (shared_machine.root / "etc/systemd/system/multi-user.target.wants/edgeprof.service").is_symlink(), "the service starts with the machine"


def allowed_calls(unit):
    """What the unit's SystemCallFilter lets through, as systemd itself spells it out."""
    def members(names):
        calls = {name for name in names if name[0] != "@"}
        for name in set(names) - calls:
            for line in must("systemd-analyze", "syscall-filter", name).splitlines():
                word = line.strip()
                if line.startswith("    ") and word and word[0] != "#":
                    calls |= members([word]) if word[0] == "@" else {word}
        return calls
    yes, no = set(), set()
    for line in re.findall(r"^SystemCallFilter=(.*)$", unit, re.M):
        if line.startswith("~"):
            no |= members(line[1:].split())
        else:
            yes |= members(line.split())
    return yes - no


def test_service(shared_machine):
    """As its unit starts it, with the system calls it makes."""
    trace = shared_machine.folder / "trace"
    shared_machine.serve("strace", "-f", "-qq", "-o", str(trace))
    calls = set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)", trace.read_text(), re.M))
    assert len(calls) > 20
    calls -= {"fchown"} if os.geteuid() == 0 else set()  # SQLite's when it is root, which the service is not
    assert calls - allowed_calls(shared_machine.unit()) == set()
    assert (shared_machine.state / "edgeprof.db").exists(), "the database is in the state directory"


def test_unit(shared_machine):
    root = shared_machine.root
    for target in pathlib.Path("/lib/systemd/system").glob("*.target"):
        shutil.copy(target, root / UNIT.rsplit("/", 1)[0])
    (root / "bin").mkdir(exist_ok=True)
    shutil.copy("/bin/kill", root / "bin/kill")
    done = run("systemd-analyze", "verify", "--man=no", f"--root={root}", "edgeprof.service")
    assert (done.returncode, [line for line in (done.stdout + done.stderr).splitlines() if "edgeprof" in line]) == (0, [])
    done = run("systemd-analyze", "security", "--offline=true", "--threshold=20", f"--root={root}", "edgeprof.service")
    assert done.returncode == 0, f"{done.stdout[-200:]}{done.stderr}"
    options = shared_machine.options()
    for key, value in (("DynamicUser", "yes"), ("ProtectSystem", "strict"), ("Restart", "on-failure"), ("CapabilityBoundingSet", "")):
        assert options.get(key) == value, key


def test_tool_finds_its_preload_library(shared_machine, tmp_path):
    done = run(shared_machine.root / "usr/bin/edgeprof", "run", "--interval", "100", "--", "sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done",
               cwd=tmp_path)
    assert done.returncode == 0 and "cum" in done.stdout, done.stderr


@pytest.mark.parametrize("static", [[], ["-static"]], ids=["shared", "static"])
def test_program(shared_machine, tmp_path, static):
    """In C, by pkg-config alone; its profile, read by the installed tool."""
    out, profile = tmp_path / "device", tmp_path / "profile"
    folder = next(shared_machine.root.glob("usr/lib/*/pkgconfig"))
    env = clean_environment(PKG_CONFIG_LIBDIR=str(folder), PKG_CONFIG_SYSROOT_DIR=str(shared_machine.root), PKG_CONFIG_ALLOW_SYSTEM_CFLAGS="1",
                            PKG_CONFIG_ALLOW_SYSTEM_LIBS="1")
    flags = must("pkg-config", "--cflags", "--libs", *(["--static"] if static else []), "edgeprof", env=env).split()
    must("gcc", "-O2", "-g", "-Wl,--build-id", EXAMPLE, *static, *flags, "-o", out)
    for _ in range(3):  # where others have the processors, ticks may miss a thread for a second
        profile.unlink(missing_ok=True)
        must(out, "1", f"file://{profile}", env=clean_environment(LD_LIBRARY_PATH=str(folder.parent)))
        folded = must(shared_machine.root / "usr/bin/edgeprof", "cat", "--folded", "--symbols", tmp_path, profile)
        if "filter_readings" in folded and "sum_up" in folded:
            return
    pytest.fail(folded)


def test_upgrade_and_removal(machine, pack):
    machine.serve()
    settings, database, link = machine.root / "etc/edgeprof/edgeprof.conf", machine.state / "edgeprof.db", machine.root / "var/lib/edgeprof"
    link.symlink_to("private/edgeprof")
    settings.write_text(settings.read_text() + "# edited\n")
    before = database.read_bytes()
    machine.dpkg("-i", *pack(machine.folder / "newer", "DEB_VERSION=9.0").values())
    assert machine.installed("Version") == ["9.0"] * 3
    assert settings.read_text().endswith("# edited\n"), "an upgrade keeps what was edited"
    assert database.read_bytes() == before, "an upgrade keeps the database"
    machine.dpkg("-r", "edgeprof")
    assert settings.exists() and database.exists() and not (machine.root / "usr/bin/edgeprof").exists(), "removal keeps settings and data"
    machine.dpkg("-P", "edgeprof")
    left = [path for path in (settings, database.parent, link, *machine.root.glob("etc/systemd/**/edgeprof*")) if os.path.lexists(path)]
    assert left == [], "a purge leaves nothing"
    machine.dpkg("-P", "libedgeprof-dev", "libedgeprof0")
    assert [path for path in machine.root.rglob("*") if "edgeprof" in path.name and "var/lib/dpkg" not in str(path)] == [], "of the libraries"
