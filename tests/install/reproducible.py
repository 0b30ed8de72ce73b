#!/usr/bin/env python3
"""Builds the tree in two folders whose paths differ in length and compares the files' bytes.

    reproducible.py FOLDER FILE...     FILE: a goal of make, below the tree. Copies what git tracks, and what setup.sh has fetched"""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
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


def main(folder, *files):
    folder = pathlib.Path(folder).absolute()
    trees = [folder / "one", folder / "another/with a longer name".replace(" ", "-")]
    for tree in trees:
        copy(tree)
        subprocess.run(["make", "-s", *files], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    wrong = [name for name in files if (trees[0] / name).read_bytes() != (trees[1] / name).read_bytes()]
    tell = [f"{name}: differs between two folders" for name in wrong]
    tell += [f"{name}: names the folder" for name in files if str(folder).encode() in (trees[0] / name).read_bytes()]
    for tree in trees:
        shutil.rmtree(tree)
    print("\n".join(tell) or f"reproducible.py: {len(files)} files are the same from two folders")
    return bool(tell)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
