#!/usr/bin/python3
"""The quick start of a page: runs its commands verbatim, as a first-time user would.

usage: quickstart.py PAGE WORK
Every ```sh block of the section "Quick start" is run by bash, one after another. A block behind "Save this as `NAME`:"
becomes that file. HOME is an empty folder, so NuGet's configuration and packages are private. The last block starts
the server on a fixed port, so it runs in a network of its own where the system allows that. Its output must show
functions."""
import os
import re
import shutil
import subprocess
import sys

page, work = sys.argv[1], os.path.abspath(sys.argv[2])
SECTION = re.search(r"^## Quick start\n(.*?)(?=^## |\Z)", open(page, encoding="utf-8").read(), re.M | re.S).group(1)
BLOCK = re.compile(r"(?:Save this as `([^`]+)`:\n\n)?```(\w+)\n(.*?)```", re.S)
# The state that a user's shell keeps between blocks.
BEFORE = "set -e\nif [ -e \"$STATE\" ]; then . \"$STATE\"; fi\n"
AFTER = "\n{ declare -p edgeprof_dir PATH; printf 'cd %q\\n' \"$PWD\"; } >\"$STATE\"\n"
LONGEST = 900


def environment():
    """Nothing of the user's settings but where the packages that are already here can be read."""
    home = os.path.join(work, "home")
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(home)
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("EDGEPROF", "PYROSCOPE", "OTEL", "NUGET_PACKAGES", "MAKE", "MFLAGS"))}
    cache = os.environ.get("NUGET_PACKAGES", os.path.expanduser("~/.nuget/packages"))
    if os.path.isdir(cache):
        kept["NUGET_FALLBACK_PACKAGES"] = cache
    return {**kept, "HOME": home, "STATE": os.path.join(work, "state")}


def own_network():
    private = ["unshare", "-rn"]
    if subprocess.run([*private, "true"], capture_output=True, check=False).returncode:
        return [], ""
    return private, "ip link set lo up\n"


def run(text, settings, before, prelude):
    """The block's output. What it left running in the background ends with it."""
    path = os.path.join(work, "block.log")
    with open(path, "w", encoding="utf-8") as log:
        process = subprocess.Popen([*before, "bash", "-c", BEFORE + prelude + text + AFTER], env=settings, stdout=log,
                                   stderr=log, start_new_session=True)
        try:
            status = process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            status = "a timeout"
    try:
        os.killpg(process.pid, 15)
    except ProcessLookupError:
        pass
    output = open(path, encoding="utf-8").read()
    if status:
        sys.exit(f"quickstart: {page}: this block ended with {status}:\n{text}\n{output}")
    return output


def main():
    settings = environment()
    blocks = BLOCK.findall(SECTION)
    commands = [i for i, (_, language, _) in enumerate(blocks) if language == "sh"]
    output = ""
    for i, (name, language, text) in enumerate(blocks):
        if name:
            folder = re.search(r"^cd (.*)$", open(settings["STATE"], encoding="utf-8").read(), re.M).group(1)
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        elif language == "sh":
            output = run(text, settings, *(own_network() if i == commands[-1] else ([], "")))
    rows = re.findall(r"^ *[0-9.]+% .*\S$", output, re.M)
    if len(rows) < 3:
        sys.exit(f"quickstart: {page}: the last block shows no functions:\n{output}")
    print(f"quickstart: {page}: {len(commands)} blocks; {len(rows)} functions, such as {rows[0].strip()!r}")


main()
