#!/usr/bin/env python3
"""Writes a C file with a table of every function that public headers declare.

public_functions.py CC HEADER... >FILE   HEADER: as a program includes it, such as edgeprof/edgeprof.h; CC with options
"""
import re
import subprocess
import sys
import tempfile

DECLARED = re.compile(r"/\* (\S+):\d+:\S+ \*/ extern .*?\b(ep_\w+) \(")


def functions(cc, headers):
    """The names that GCC finds in the headers themselves, in their order; functions with a body are left out."""
    with tempfile.NamedTemporaryFile("r") as found:
        source = "".join(f"#include <{header}>\n" for header in headers)
        subprocess.run([*cc, "-std=c11", "-fsyntax-only", "-aux-info", found.name, "-x", "c", "-"], input=source,
                       text=True, check=True)
        declared = (DECLARED.match(line) for line in found)
        return list(dict.fromkeys(match[2] for match in declared if match and match[1].endswith(tuple(headers))))


def main():
    headers = [arg for arg in sys.argv[1:] if arg.endswith(".h")]
    names = functions([arg for arg in sys.argv[1:] if not arg.endswith(".h")], headers)
    assert len(names) > len(headers), names
    print("/* Written by public_functions.py. */")
    print('#include "public_functions.h"\n')
    for header in headers:
        print(f"#include <{header}>")
    print("\nconst struct public_function public_functions[] = {")
    for name in names:
        print(f'    {{"{name}", (void (*)(void)){name}}},')
    print("    {0},\n};")


if __name__ == "__main__":
    main()
