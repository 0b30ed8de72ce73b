#!/usr/bin/env python3
"""Builds the tree in two folders whose paths differ in length and compares the files' bytes.

    reproducible.py FOLDER GOAL...     GOAL: a file below the tree, or GOAL:PATTERN with the files that a goal of make makes.
                                       Copies what git tracks, and what setup.sh has fetched"""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
FETCHED = ("build/deps", "tools/web/node_modules")


def copy(to):
    shutil.rmtree(to, ignore_errors=True)
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    for name in FETCHED:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(ROOT / name, to / name, symlinks=True)


def made(tree, patterns):
    """The files, by their names below the tree."""
    return {str(path.relative_to(tree)): path for pattern in patterns for path in tree.glob(pattern)}


def content(path):
    """What a package holds is compressed: its files as they are."""
    if path.suffix == ".deb":
        return b"".join(subprocess.run(["dpkg-deb", f"--{part}", path], capture_output=True, check=True).stdout for part in ("ctrl-tarfile", "fsys-tarfile"))
    return path.read_bytes()


def compare(folder, trees, patterns):
    ours, others = (made(tree, patterns) for tree in trees)
    wrong = [f"{pattern}: no such file" for pattern in patterns if not made(trees[0], [pattern])]
    wrong += [f"{name}: in one folder only" for name in sorted(ours.keys() ^ others.keys())]
    wrong += [f"{name}: differs between two folders" for name in sorted(ours.keys() & others.keys()) if ours[name].read_bytes() != others[name].read_bytes()]
    wrong += [f"{name}: names the folder" for name, path in ours.items() if str(folder).encode() in content(path)]
    return wrong, sorted(ours)


def main(folder, *goals):
    folder = pathlib.Path(folder).absolute()
    trees = [folder / "one", folder / "another/with a longer name".replace(" ", "-")]
    for tree in trees:
        copy(tree)
        for goal in goals:
            subprocess.run(["make", "-s", goal.split(":")[0]], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    wrong, names = compare(folder, trees, [goal.split(":")[-1] for goal in goals])
    for tree in trees:
        shutil.rmtree(tree)
    print("\n".join(wrong) or f"reproducible.py: {len(names)} files are the same from two folders: {', '.join(pathlib.Path(name).name for name in names)}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
