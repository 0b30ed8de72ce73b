#!/usr/bin/python3
"""Projects that use the package, made by the commands of docs/getting-started-dotnet.md: each is published without a warning and its
profile shows the right function as the hottest.

    consumers.py PACKAGES VERSION EDGEPROF WORK [CASE...]

PACKAGES is the folder with the package. Without CASE it runs all of them. A case is KIND-FRAMEWORK, such as fsharp-net9.0."""
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent / "consumers"
# Warnings are errors, those of the trimmer and of NativeAOT, too, each one by itself.
STRICT = {"PublishAot": "true", "TreatWarningsAsErrors": "true", "TrimmerSingleWarn": "false",
          "ILLinkTreatWarningsAsErrors": "true", "IlcTreatWarningsAsErrors": "true"}


@dataclasses.dataclass
class Kind:
    template: str
    language: str
    source: str
    program: str  # the file of the template that `source` replaces
    properties: dict
    says: str


INVARIANT = {"InvariantGlobalization": "true"}
PLAIN = "server False, comma False"
KINDS = {
    "csharp": Kind("console", "C#", "Program.cs", "Program.cs", INVARIANT, PLAIN),
    "fsharp": Kind("console", "F#", "Program.fs", "Program.fs", INVARIANT, PLAIN),
    "vb": Kind("console", "VB", "Program.vb", "Program.vb", INVARIANT, PLAIN),
    "servergc": Kind("console", "C#", "Program.cs", "Program.cs",
                     {**INVARIANT, "ServerGarbageCollection": "true"}, "server True, comma False"),
    "globalization": Kind("console", "C#", "Program.cs", "Program.cs",
                          {"InvariantGlobalization": "false"}, "server False, comma True"),
    "noreflection": Kind("console", "C#", "Program.cs", "Program.cs", {**INVARIANT, "IlcDisableReflection": "true"}, PLAIN),
    "library": Kind("classlib", "C#", "Library.cs", "Class1.cs",
                    {**INVARIANT, "NativeLib": "Shared", "AllowUnsafeBlocks": "true"}, "server False, comma False"),
}
FRAMEWORKS = ("net8.0", "net9.0", "net10.0")
CASES = [f"{kind}-{framework}" for kind in KINDS for framework in FRAMEWORKS]


class Fault(Exception):
    pass


def run(*command, where, **settings):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("EDGEPROF", "PYROSCOPE", "NUGET_PACKAGES"))}
    done = subprocess.run([str(word) for word in command], cwd=where, env={**env, **settings}, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise Fault(f"{' '.join(map(str, command[:3]))}: status {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
    return done.stdout + done.stderr


def surroundings(work, packages):
    """Nothing of this tree's settings may reach the projects, and nobody's cache an older package of the same version."""
    cache = os.environ.get("NUGET_PACKAGES", os.path.expanduser("~/.nuget/packages"))
    os.makedirs(cache, exist_ok=True)
    for name in ("Directory.Build.props", "Directory.Build.targets"):
        (work / name).write_text("<Project />\n", encoding="utf-8")
    (work / "nuget.config").write_text(f"""<configuration>
  <config><add key="globalPackagesFolder" value="packages" /></config>
  <fallbackPackageFolders><add key="user" value="{cache}" /></fallbackPackageFolders>
</configuration>
""", encoding="utf-8")
    run("dotnet", "nuget", "add", "source", packages, "--name", "edgeprof", "--configfile", "nuget.config", where=work)


def publish(kind, framework, version, folder):
    """The folder of the published program."""
    run("dotnet", "new", kind.template, "-lang", kind.language, "-n", "demo", "-o", folder, "--no-restore", where=folder.parent)
    shutil.copy(HERE / kind.source, folder / kind.program)
    project = next(folder.glob("demo.*proj"))
    text = project.read_text(encoding="utf-8")
    wanted = "".join(f"<{name}>{value}</{name}>" for name, value in {**STRICT, **kind.properties}.items())
    text = re.sub(r"<TargetFramework>.*?</TargetFramework>", f"<TargetFramework>{framework}</TargetFramework>{wanted}", text)
    project.write_text(text, encoding="utf-8")
    run("dotnet", "add", "package", "EdgeProf", where=folder)
    if f'Include="EdgeProf" Version="{version}"' not in project.read_text(encoding="utf-8"):
        raise Fault("dotnet add package has not taken the package of the folder: " + project.read_text(encoding="utf-8"))
    said = run("dotnet", "publish", "-r", "linux-x64", "-o", "out", "-nologo", "-v", "quiet", where=folder)
    if said.strip():
        raise Fault("dotnet publish is not silent: " + said)
    return folder / "out"


def start(kind, out, folder):
    """The command that runs the program."""
    if kind.template == "console":
        return [out / "demo"]
    run("cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", HERE / "host.c", "-ldl", "-o", folder / "host", where=folder)
    return [folder / "host", out / "demo.so"]


def two_libraries(out, folder):
    """Two libraries with the package in one process, in which collections are a kind: both load, and the program lives."""
    shutil.copy(out / "demo.so", out / "other.so")
    for kinds in ("gc", "cpu,wait,lock,alloc,exception,gc"):
        run(folder / "host", out / "demo.so", out / "other.so", where=folder, EDGEPROF_ENDPOINT=f"file://{folder}/two", EDGEPROF_KINDS=kinds)


def hottest(edgeprof, out, profile):
    """Self time by function, the largest first, as shares."""
    total = {}
    for line in run(edgeprof, "cat", "--folded", "--symbols", out, profile, where=out).splitlines():
        stack, _, value = line.rpartition(" ")
        leaf = stack.split(";")[-1]
        total[leaf] = total.get(leaf, 0) + int(value)
    everything = sum(total.values()) or 1
    return sorted(((100 * value / everything, leaf) for leaf, value in total.items()), reverse=True)


def check(name, packages, version, edgeprof, work):
    kind, framework = KINDS[name.split("-")[0]], name.split("-")[1]
    folder = work / name
    folder.mkdir()
    out = publish(kind, framework, version, folder)
    profile = folder / "profile"
    said = run(*start(kind, out, folder), where=folder, EDGEPROF_ENDPOINT=f"file://{profile}", EDGEPROF_LEVEL="high",
               EDGEPROF_KINDS="cpu")
    if kind.says not in said:
        raise Fault(f"the program says {said!r}, not {kind.says!r}")
    if not profile.exists():
        raise Fault(f"no profile arrived: {said}")
    shares = hottest(edgeprof, out, profile)
    top = ", ".join(f"{leaf} {share:.1f} %" for share, leaf in shares[:3])
    # Three quarters of the work are Hottest's, the rest is Lesser's.
    if not shares or "Hottest" not in shares[0][1] or not 60 < shares[0][0] < 90 or "Lesser" not in shares[1][1]:
        raise Fault("the hottest functions are " + top)
    if kind.template == "classlib":
        two_libraries(out, folder)
    print(f"ok   {name}: {top}", flush=True)
    shutil.rmtree(folder)


def main():
    packages, version, edgeprof, work, *cases = sys.argv[1:]
    work = pathlib.Path(work).resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    packages, edgeprof = pathlib.Path(packages).resolve(), pathlib.Path(edgeprof).resolve()
    surroundings(work, packages)
    failed = 0
    for name in cases or CASES:
        try:
            check(name, packages, version, edgeprof, work)
        except Fault as fault:
            failed += 1
            print(f"FAIL {name}: {fault}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
