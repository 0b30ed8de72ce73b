#!/usr/bin/env python3
"""Checks which features a program links that only reads the environment.

linked_features.py OBJECTS ARCHIVE CC...     OBJECTS: the library's, by source folder; NM names the tool

A feature's reader of variables links nothing of the feature, so a program pays for what it starts and not for what it
asks. Two features are chosen by variables while the program runs: the file of a token, and names in profiles.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAM = """#include <edgeprof/edgeprof.h>
int main(void)
{
    struct ep_config config = {0};
    return ep_start(&config) + (int)((unsigned long)(void *)CALLS & 1);
}
"""
CHOSEN_BY_VARIABLES = {"ep_config_from_env": {"token"}, "ep_pprof_from_env": {"names"}}


def symbols(*files, options=()):
    lines = subprocess.run([os.environ.get("NM", "nm"), "--defined-only", *options, *map(str, files)], check=True,
                           capture_output=True, text=True).stdout
    return set(re.findall(r" [A-Za-z] (ep_\w+)$", lines, re.MULTILINE))


def features(objects):
    """Symbols of each feature, without its reader of variables."""
    found = {}
    for room in sorted((objects / "core/features").iterdir()):
        sources = (file.relative_to(objects).with_suffix(".c") for file in room.rglob("*.o"))
        files = [objects / source.with_suffix(".o") for source in sources
                 if source.exists() and source.stem != "environment"]
        found[room.name] = symbols(*files, options=["-g"]) if files else set()
    return found


def linked(cc, archive, function, room_symbols, scratch):
    source, program = scratch / "program.c", scratch / "program"
    source.write_text(PROGRAM.replace("CALLS", function))
    subprocess.run([*cc, "-Icore", source, "-o", program, archive, "-lpthread", "-ldl"], check=True)
    present = symbols(program)
    return {room for room, names in room_symbols.items() if names & present}


def main():
    objects, archive, cc = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    headers = [header for header in pathlib.Path("core/edgeprof").glob("*.h") if header.name != "tls.h"]
    readers = re.findall(r"\b(ep_\w+_from_env)\(", "".join(header.read_text() for header in headers))
    room_symbols = features(objects)
    assert len(set(readers)) >= 5 and len(room_symbols) >= 10, (readers, room_symbols.keys())
    with tempfile.TemporaryDirectory() as scratch:
        base = linked(cc, archive, "ep_start", room_symbols, pathlib.Path(scratch))
        for reader in sorted(set(readers)):
            more = linked(cc, archive, reader, room_symbols, pathlib.Path(scratch)) - base
            if more != CHOSEN_BY_VARIABLES.get(reader, set()):
                sys.exit(f"{reader}() links {sorted(more)}, not {sorted(CHOSEN_BY_VARIABLES.get(reader, set()))}")
    print(f"{len(set(readers))} readers of the environment link no feature that a variable cannot choose")


if __name__ == "__main__":
    main()
