#!/usr/bin/python3
"""Writes PublicAPI.Unshipped.txt of the packages as their public API is now (make nuget-api-accept).

    public_api.py BUILD

What is in PublicAPI.Shipped.txt stays there. The analyzer itself says which names are missing and which are gone."""
import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
HEADER = "#nullable enable"
GONE = re.compile(r"^Symbol '(.*)' is part of the declared API, but is either not public or could not be found", re.S)


def messages(project, build):
    log = build / f"{project.name}.sarif"
    log.unlink(missing_ok=True)
    subprocess.run(["dotnet", "build", "-c", "Release", "-f", "net10.0", "-nologo", "-v", "quiet", "--no-incremental", project,
                    f"-p:EdgeProfBuild={build}/", "-p:TreatWarningsAsErrors=false", "-p:NoWarn=CS1591",
                    f"-p:ErrorLog={log}%2cversion=2.1"], check=True, stdout=subprocess.DEVNULL)
    for result in json.loads(log.read_text(encoding="utf-8-sig"))["runs"][0]["results"]:
        yield result["ruleId"], result["message"]["text"], result.get("properties", {}).get("customProperties", {})


def accept(project, build):
    path = project / "PublicAPI.Unshipped.txt"
    shipped = set((project / "PublicAPI.Shipped.txt").read_text(encoding="utf-8").splitlines())
    path.write_text(HEADER + "\n", encoding="utf-8")
    names, known = set(), None
    while names != known:  # the analyzer names the constructor of a record only when the record itself is known
        known = set(names)
        for rule, text, more in messages(project, build):
            if rule == "RS0016":  # a public symbol is not in the files
                names.add(more["APIName"])
            elif rule == "RS0017" and (found := GONE.match(text)):
                names.add("*REMOVED*" + found[1])
        path.write_text("\n".join([HEADER, *sorted(names - shipped)]) + "\n", encoding="utf-8")
    print(f"{path.relative_to(HERE)}: {len(names)} names")


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    for name in ("EdgeProf", "EdgeProf.OpenTelemetry", "EdgeProf.Extensions.Hosting"):
        accept(HERE / name, build)


main()
