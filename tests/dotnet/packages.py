#!/usr/bin/python3
"""What a NuGet feed and a careful user look at in the three packages.

    packages.py FOLDER VERSION BUILD WORK

FOLDER has the packages, BUILD the archives that they were packed with. WORK gets a copy of the tree, in which EdgeProf, for all,
is packed once more and must have the same contents. There a remote shows Source Link, and new public types show that the check of
the API and the package's validation can fail."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("EdgeProf", "EdgeProf.OpenTelemetry", "EdgeProf.Extensions.Hosting")
FRAMEWORKS = ("net8.0", "net9.0", "net10.0")
URLS = {"RepositoryUrl": "https://repository.example/edgeprof.git", "PackageProjectUrl": "https://project.example/"}
NUSPEC = ('<license type="expression">Apache-2.0</license>', "<icon>icon.png</icon>", "<readme>README.md</readme>", "<description>",
          '<repository type="git"')
# A name by which Source Link knows the host; nothing is fetched.
REMOTE, SOURCES = "https://github.com/example/edgeprof.git", b"https://raw.githubusercontent.com/example/edgeprof/"
# Generated sources are below it, and their paths are in the assembly.
BUILD = pathlib.Path(sys.argv[3]).resolve().relative_to(ROOT)
faults = []


def dotnet(*command, where=ROOT):
    done = subprocess.run(["dotnet", *map(str, command)], cwd=where, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def git(*command, where=ROOT):
    return subprocess.run(["git", *command], cwd=where, capture_output=True, text=True, check=True).stdout


def contents(path):
    with zipfile.ZipFile(path) as package:
        return {name: package.read(name) for name in package.namelist()}


def expect(truth, text):
    if not truth:
        faults.append(text)


def package_check(folder, name, version):
    files, symbols = (contents(folder / f"{name}.{version}.{ending}") for ending in ("nupkg", "snupkg"))
    nuspec = files[name + ".nuspec"].decode("utf-8-sig")
    for part in NUSPEC:
        expect(part in nuspec, f"{name}: the nuspec has no {part}")
    expect("url=" not in nuspec and "<projectUrl>" not in nuspec, f"{name}: nobody set an URL, but the nuspec has one")
    expect(files.get("icon.png", b"")[:4] == b"\x89PNG", f"{name} has no icon")
    expect({"README.md", "LICENSE", "NOTICE"} <= files.keys(), f"{name} lacks README.md, LICENSE or NOTICE")
    for framework in FRAMEWORKS:
        stem = f"lib/{framework}/{name}"
        expect({stem + ".dll", stem + ".xml"} <= files.keys(), f"{name} has no assembly with documentation for {framework}")
        expect(stem + ".pdb" in symbols, f"{name}: the symbol package has nothing for {framework}")
    expect(not any(file.endswith(".pdb") for file in files), f"{name} has the symbols in the package itself")
    for file, data in {**files, **symbols}.items():
        expect(os.fsencode(ROOT) + b"/" not in data, f"{name}: {file} has this tree's path")


def copy(work, commit):
    """The tree with what is not committed, at another path, with the remote, and with the commit that was packed."""
    tree = work / "a" / "copy"
    tree.parent.mkdir(parents=True)
    git("clone", "-q", "--no-checkout", str(ROOT), str(tree))
    remote = subprocess.run(["git", "config", "remote.origin.url"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    git("remote", *(("set-url", "origin", remote) if remote else ("remove", "origin")), where=tree)
    git("update-ref", "--no-deref", "HEAD", commit, where=tree)
    for file in git("ls-files", "-co", "--exclude-standard", ".gitignore", "port/nativeaot", "core/edgeprof/edgeprof.h", "LICENSE", "NOTICE").splitlines():
        if (ROOT / file).exists():
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, tree / file)
    return tree


def pack(tree, name, version, native, rids, out, *more):
    status, said = dotnet("pack", "-c", "Release", "-nologo", "-v", "quiet", f"-p:Version={version}", f"-p:EdgeProfNative={native}/",
                          f"-p:EdgeProfRids={'+'.join(rids)}", f"-p:EdgeProfBuild={tree / BUILD}/", *more, tree / "port/nativeaot" / name,
                          "-o", out)
    expect(status == 0, f"{name}: dotnet pack fails in another folder: {said[-1500:]}")


def same_bytes(folder, other, file):
    ours, theirs = contents(folder / file), contents(other / file)
    differ = [name for name in sorted(ours.keys() | theirs.keys()) if ours.get(name) != theirs.get(name)]
    expect(not differ, f"{file}: another folder gives other {', '.join(differ)}")
    whole = (folder / file).read_bytes() == (other / file).read_bytes()
    print(f"{file}: {len(ours)} files, in another folder {len(differ)} differ" + (", the whole file is the same" if whole else ""))


def source_link(tree):
    git("remote", *(("set-url", "origin") if git("remote", where=tree).strip() else ("add", "origin")), REMOTE, where=tree)
    build = ("build", "-c", "Release", "-f", "net10.0", "-nologo", "-v", "quiet", f"-p:EdgeProfBuild={tree / BUILD}/", "port/nativeaot/EdgeProf")
    status, said = dotnet(*build, where=tree)
    expect(status == 0, f"a build with a remote fails: {said[-800:]}")
    pdb = tree / BUILD / "EdgeProf/bin/Release/net10.0/EdgeProf.pdb"
    expect(SOURCES in pdb.read_bytes(), "the symbols do not have the addresses of the sources, although the remote is known")
    (tree / "port/nativeaot/EdgeProf/More.cs").write_text("namespace EdgeProf;\n/// <summary>New.</summary>\npublic static class More { }\n",
                                                          encoding="utf-8")
    status, said = dotnet(*build, where=tree)
    expect(status != 0 and "RS0016" in said, "a new public type does not fail the build")


def validation(tree, version, native):
    """A type of .NET 8 that .NET 9 lacks. The check of the API is silent, because it would say so first."""
    (tree / "port/nativeaot/EdgeProf/More.cs").write_text(
        "#if NET8_0\nnamespace EdgeProf;\n/// <summary>Old.</summary>\npublic static class More { }\n#endif\n", encoding="utf-8")
    status, said = dotnet("pack", "-c", "Release", "-nologo", "-v", "quiet", f"-p:Version={version}", f"-p:EdgeProfNative={native}/",
                          "-p:EdgeProfRids=linux-x64", f"-p:EdgeProfBuild={tree / BUILD}/", "-p:NoWarn=RS0016%3bNU5100%3bNU5127%3bNU5128", "port/nativeaot/EdgeProf",
                          where=tree)
    expect(status != 0 and "CP0001" in said, f"a type that only one framework has does not fail the package's validation: {said[-800:]}")


def main():
    folder, version, build, work = sys.argv[1:]
    folder, build, work = (pathlib.Path(path).resolve() for path in (folder, build, work))
    shutil.rmtree(work, ignore_errors=True)
    for name in PACKAGES:
        package_check(folder, name, version)
    files = contents(folder / f"EdgeProf.{version}.nupkg")
    commit = re.search(r'<repository [^>]*commit="([0-9a-f]+)"', files["EdgeProf.nuspec"].decode("utf-8-sig"))
    tree, out = copy(work, commit[1]), work / "out"
    rids = [name.split("/")[1] for name in files if name.endswith("libedgeprof.a")]
    pack(tree, PACKAGES[0], version, build / "packed", rids, out)
    if not faults:
        for ending in ("nupkg", "snupkg"):
            same_bytes(folder, out, f"{PACKAGES[0]}.{version}.{ending}")
        pack(tree, PACKAGES[0], version, build / "packed", rids, work / "release", "--no-build", *(f"-p:{key}={url}" for key, url in URLS.items()))
        nuspec = contents(work / "release" / f"{PACKAGES[0]}.{version}.nupkg")[PACKAGES[0] + ".nuspec"].decode("utf-8-sig")
        for key, url in URLS.items():
            expect(url in nuspec, f"the nuspec does not have the {key} that a release sets")
        source_link(tree)
        validation(tree, version, build / "packed")
    for fault in faults:
        print("packages: " + fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
