"""The Debian packages: what is in them, what lintian and systemd say, and a life in a folder that stands for a machine's
root: installed, used, upgraded, removed, purged. The tool runs from there, and a C program is built against the library.

    deb_test.py DEB_FOLDER WORK_FOLDER [ARM_DEB_FOLDER...]
"""
import http.client
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time

from harness import Checks, clean_environment

DEBS, WORK, ARM = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve(), [pathlib.Path(p) for p in sys.argv[3:]]
ROOT = WORK / "root"
UNIT = "lib/systemd/system/edgeprof.service"
EXAMPLE = pathlib.Path("tests/install/example/device.c")
check = Checks()
COMPRESSED = 4096 # dh_compress leaves smaller files alone

CONTENT = {
    "edgeprof": ["etc/edgeprof/edgeprof.conf", UNIT, "usr/bin/edgeprof", "usr/lib/edgeprof/libedgeprof-preload.so",
                 "usr/share/gdb/auto-load/usr/lib/edgeprof/libedgeprof-preload.so-gdb.gdb",
                 "usr/share/bash-completion/completions/edgeprof", "usr/share/doc/edgeprof/README.md.gz", "usr/share/doc/edgeprof/NOTICE",
                 *(f"usr/share/doc/edgeprof/docs/{page}.md" + (".gz" if os.path.getsize(f"docs/{page}.md") > COMPRESSED else "") for page in (
                     "configuration", "server", "security", "http-api", "pyroscope-and-grafana", "troubleshooting")),
                 "usr/share/man/man1/edgeprof.1.gz", "usr/share/zsh/vendor-completions/_edgeprof"],
    "libedgeprof0": ["usr/lib/TRIPLET/libedgeprof.so.0", "usr/lib/TRIPLET/libedgeprof.so.VERSION"],
    "libedgeprof-dev": ["usr/include/TRIPLET/edgeprof.h", "usr/include/TRIPLET/edgeprof/config.h", "usr/include/TRIPLET/edgeprof/tls.h",
                        "usr/include/TRIPLET/edgeprof/transport.h", "usr/lib/TRIPLET/libedgeprof-tls.a", "usr/lib/TRIPLET/libedgeprof.a",
                        "usr/lib/TRIPLET/libedgeprof.so", "usr/lib/TRIPLET/pkgconfig/edgeprof.pc",
                        "usr/lib/TRIPLET/cmake/edgeprof/edgeprofConfig.cmake", "usr/lib/TRIPLET/cmake/edgeprof/edgeprofConfigVersion.cmake"],
}
OF_ALL = ["usr/share/doc/PACKAGE/changelog.gz", "usr/share/doc/PACKAGE/copyright"]


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, check=False,
                          **{"env": clean_environment(LC_ALL="C.UTF-8"), **options})


def must(*command, **options):
    done = run(*command, **options)
    check.equal(done.returncode, 0, f"{shlex.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


def field(deb, name):
    return must("dpkg-deb", "-f", deb, name).strip()


def found(folder):
    return {deb.name.split("_")[0]: deb for deb in sorted(folder.glob("*.deb"))}


# ---- what is in them ----

def contents(debs, architecture, packages):
    check.equal(sorted(debs), sorted(packages), f"{architecture}: packages")
    triplet = must("dpkg-architecture", "-a" + architecture, "-qDEB_HOST_MULTIARCH").strip()
    for name, deb in debs.items():
        check.equal(field(deb, "Architecture"), architecture, f"{deb.name}: architecture")
        depends = field(deb, "Depends")
        check(re.search(r"libc6 \(>= |libc6-dev", depends) and not re.search(r"cross|:a|\$\{", depends), f"{deb.name}: depends on {depends}")
        wanted = {path.replace("TRIPLET", triplet).replace("PACKAGE", name).replace("VERSION", field(deb, "Version"))
                  for path in CONTENT[name] + OF_ALL}
        bytes_ = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], capture_output=True, check=True).stdout
        (WORK / "content.tar").write_bytes(bytes_)
        with tarfile.open(WORK / "content.tar") as archive:
            members = archive.getmembers()
        check.equal({m.name[2:] for m in members if not m.isdir()}, wanted, f"{deb.name}: files")
        for member in members:
            check((member.uname, member.gname, member.mode & 0o6022) == ("root", "root", 0) or member.issym(), f"{deb.name}: owner, mode of {member.name}")
            check(member.mtime <= int(os.environ["SOURCE_DATE_EPOCH"]), f"{deb.name}: date of {member.name}")


def lint(debs):
    done = run("lintian", "--allow-root", "--fail-on", "error", "--no-tag-display-limit", *debs)
    check.equal((done.returncode, [line for line in done.stdout.splitlines() if line[:2] in ("E:", "W:")]), (0, []), "lintian")


def reproducible(debs):
    """Packed once more, each is the same to the byte."""
    again = WORK / "again"
    must("make", "-s", "--no-print-directory", "deb", f"DEB_DIR={again}")
    for name, deb in found(again).items():
        check(deb.read_bytes() == debs[name].read_bytes(), f"{name} is the same when packed again")


# ---- a life ----

def dpkg(*arguments, confnew=False):
    """Maintainer scripts run with DPKG_ROOT instead of in a root that would need a shell and all; so what systemd's own
    scripts do to a running machine is left out. Packages of the machine itself are not in this root: see needed()."""
    as_root = [] if os.geteuid() == 0 else ["unshare", "-r"]
    return must(*as_root, "dpkg", f"--root={ROOT}", "--force-script-chrootless", "--force-depends", "--force-not-root",
                "--force-confnew" if confnew else "--force-confold", f"--log={WORK}/dpkg.log", *arguments)


def needed(deb):
    """What the package depends on is what this machine has, of the version asked for."""
    for word in field(deb, "Depends").split(", "):
        name, version = re.fullmatch(r"(\S+)(?: \(>= (\S+)\))?", word).groups()
        have = run("dpkg-query", "-W", "-f", "${Version}", name).stdout
        check(have and (not version or run("dpkg", "--compare-versions", have, "ge", version).returncode == 0), f"depends on {word}, this machine has {have}")


def unit_options():
    text = (ROOT / UNIT).read_text()
    return {key: value for key, value in re.findall(r"^(\w+)=(.*)$", text, re.M)}


def command_line(state):
    """ExecStart with the default settings, in this root and on a free port."""
    settings = (ROOT / "etc/edgeprof/edgeprof.conf").read_text()
    (WORK / "edgeprof.conf").write_text(settings.replace("/var/lib/edgeprof", str(state)).replace(":4040", ":0"))
    line = unit_options()["ExecStart"].replace("/etc/edgeprof", str(WORK))
    return [str(ROOT / word[1:]) if word.startswith("/usr") else word for word in line.split()]


def allowed_calls():
    """What the unit's SystemCallFilter lets through, as systemd itself spells it out."""
    def members(names):
        calls = set()
        for name in names:
            for line in must("systemd-analyze", "syscall-filter", name).splitlines():
                word = line.strip()
                if line.startswith("    ") and word and word[0] != "#":
                    calls |= members([word]) if word[0] == "@" else {word}
        return calls
    yes, no = set(), set()
    for line in re.findall(r"^SystemCallFilter=(.*)$", (ROOT / UNIT).read_text(), re.M):
        if line.startswith("~"):
            no |= members(line[1:].split())
        else:
            yes |= members(line.split())
    return yes - no


def service():
    """The service as its unit starts it, with the system calls it makes."""
    state = ROOT / "var/lib/private/edgeprof"
    for name in re.search(r"^StateDirectory=edgeprof (.*)$", (ROOT / UNIT).read_text(), re.M)[1].split():
        (state / name.removeprefix("edgeprof/")).mkdir(parents=True, exist_ok=True)
    trace = WORK / "trace"
    server = subprocess.Popen(["strace", "-f", "-qq", "-o", trace, *command_line(state)], stdout=subprocess.PIPE, text=True, cwd=state,
                              env=clean_environment())
    try:
        port = int(re.search(r":(\d+)\n", server.stdout.readline())[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for path in ("/healthz", "/", "/api/services"):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            check.equal(answer.status, 200, f"the installed server: {path}")
        connection.close()
        # its child is the server; a signal to strace would end strace alone
        child = int(pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()[0])
        os.kill(child, signal.SIGTERM)
        check.equal(server.wait(60), 0, "the installed server ends cleanly")
    finally:
        server.kill()
        server.stdout.close()
    calls = set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)", trace.read_text(), re.M))
    check(len(calls) > 20, f"system calls seen: {len(calls)}")
    calls -= {"fchown"} if os.geteuid() == 0 else set()  # SQLite's when it is root, which the service is not
    check.equal(sorted(calls - allowed_calls()), [], "system calls that the unit forbids")
    check((state / "edgeprof.db").exists(), "the database is in the state directory")


def unit():
    for target in pathlib.Path("/lib/systemd/system").glob("*.target"):
        shutil.copy(target, ROOT / UNIT.rsplit("/", 1)[0])
    (ROOT / "bin").mkdir(exist_ok=True)
    shutil.copy("/bin/kill", ROOT / "bin/kill")
    done = run("systemd-analyze", "verify", "--man=no", f"--root={ROOT}", "edgeprof.service")
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "edgeprof" in line]
    check.equal((done.returncode, ours), (0, []), "systemd-analyze verify")
    done = run("systemd-analyze", "security", "--offline=true", "--threshold=20", f"--root={ROOT}", "edgeprof.service")
    check.equal(done.returncode, 0, f"systemd-analyze security: {done.stdout[-200:]}{done.stderr}")
    options = unit_options()
    for key, value in (("DynamicUser", "yes"), ("ProtectSystem", "strict"), ("Restart", "on-failure"), ("CapabilityBoundingSet", "")):
        check.equal(options.get(key), value, f"unit: {key}")


def tool():
    """`edgeprof run` finds the preload library of its package."""
    edgeprof = ROOT / "usr/bin/edgeprof"
    done = run(edgeprof, "run", "--interval", "100", "--", "sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done", cwd=WORK)
    check(done.returncode == 0 and "cum" in done.stdout, f"edgeprof run: {done.returncode} {done.stdout}{done.stderr}")


def program(static):
    """A C program by pkg-config alone; its profile, read by the installed tool."""
    out = WORK / f"device-{'static' if static else 'shared'}"
    folders = list(ROOT.glob("usr/lib/*/pkgconfig"))
    env = clean_environment(PKG_CONFIG_LIBDIR=str(folders[0]), PKG_CONFIG_SYSROOT_DIR=str(ROOT), PKG_CONFIG_ALLOW_SYSTEM_CFLAGS="1",
                            PKG_CONFIG_ALLOW_SYSTEM_LIBS="1")
    flags = must("pkg-config", "--cflags", "--libs", *(["--static"] if static else []), "edgeprof", env=env).split()
    must("gcc", "-O2", "-g", "-Wl,--build-id", EXAMPLE, *(["-static"] if static else []), *flags, "-o", out)
    profile = WORK / "profile"
    profile.unlink(missing_ok=True)
    must(out, "1", f"file://{profile}", env=clean_environment(LD_LIBRARY_PATH=str(folders[0].parent)))
    folded = must(ROOT / "usr/bin/edgeprof", "cat", "--folded", "--symbols", WORK, profile)
    check("filter_readings" in folded and "sum_up" in folded, f"{out.name}: its functions: {folded[:300]}")


def life(debs):
    for folder in ("var/lib/dpkg/updates", "var/lib/dpkg/info"):
        (ROOT / folder).mkdir(parents=True)
    (ROOT / "var/lib/dpkg/status").write_text("")
    dpkg("-i", *debs.values())
    check.equal(must("dpkg-query", f"--admindir={ROOT}/var/lib/dpkg", "-W", "-f", "${db:Status-Abbrev}\n").split(), ["ii"] * 3, "all are installed")
    check((ROOT / "etc/systemd/system/multi-user.target.wants/edgeprof.service").is_symlink(), "the service starts with the machine")
    for work in (unit, service, tool):
        work()
    for static in (False, True):
        program(static)
    upgrade(debs)


def upgrade(debs):
    settings, database = ROOT / "etc/edgeprof/edgeprof.conf", ROOT / "var/lib/private/edgeprof/edgeprof.db"
    link = ROOT / "var/lib/edgeprof"
    link.symlink_to("private/edgeprof")
    settings.write_text(settings.read_text() + "# edited\n")
    before = database.read_bytes()
    must("make", "-s", "--no-print-directory", "deb", f"DEB_DIR={WORK}/newer", "DEB_VERSION=9.0")
    newer = found(WORK / "newer")
    dpkg("-i", *newer.values())
    check.equal(must("dpkg-query", f"--admindir={ROOT}/var/lib/dpkg", "-W", "-f", "${Version}\n").split(), ["9.0"] * 3, "upgraded")
    check(settings.read_text().endswith("# edited\n"), "an upgrade keeps what was edited")
    check(database.read_bytes() == before, "an upgrade keeps the database")
    dpkg("-r", "edgeprof")
    check(settings.exists() and database.exists() and not (ROOT / "usr/bin/edgeprof").exists(), "removal keeps settings and data")
    dpkg("-P", "edgeprof")
    left = [path for path in (settings, database.parent, link, *ROOT.glob("etc/systemd/**/edgeprof*")) if os.path.lexists(path)]
    check.equal(left, [], "a purge leaves nothing")
    dpkg("-P", "libedgeprof-dev", "libedgeprof0")
    files = [path for path in ROOT.rglob("*") if "edgeprof" in path.name and "var/lib/dpkg" not in str(path)]
    check.equal(files, [], "nothing is left of the libraries")


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    debs = found(DEBS)
    host = must("dpkg", "--print-architecture").strip()
    contents(debs, host, CONTENT)
    every = list(debs.values())
    for folder in ARM:
        arm = found(folder)
        contents(arm, {"qemu-aarch64": "arm64", "qemu-armhf": "armhf"}[folder.parent.name], ["libedgeprof-dev", "libedgeprof0"])
        every += arm.values()
    lint(every)
    needed(debs["edgeprof"])
    reproducible(debs)
    life(debs)
    check.done("test-tools-deb")


main()
