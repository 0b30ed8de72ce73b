#!/usr/bin/env python3
"""Writes what a build consists of as SPDX 2.3 JSON to standard output.

    sbom.py VERSION TOOL

From: the sources that setup.sh pins by hash, the page's lock file, the sections [build] and [tools] of packages.txt, and the
packages of the shared libraries that TOOL needs. Debian's versions are those of this machine. SOURCE_DATE_EPOCH is the date."""
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECTIONS = ("build", "tools")
PINNED = re.compile(r"^ *pinned (\S+) (\S+) ([0-9a-f]{64}) ", re.M)
LICENSES = {"nanopb": "Zlib", "mbedtls": "Apache-2.0"}


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    return done.stdout


def package(name, version, kind, url, license_="NOASSERTION", checksum=None):
    row = {"SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", f"{kind}-{name}"), "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
           "filesAnalyzed": False, "licenseConcluded": "NOASSERTION", "licenseDeclared": license_, "copyrightText": "NOASSERTION",
           "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url}]}
    if checksum:
        row["checksums"] = [{"algorithm": checksum[0], "checksumValue": checksum[1]}]
    return row


def pinned():
    """Compiled into the library."""
    for name, tarball, digest in PINNED.findall((ROOT / "tools/build/setup.sh").read_text()):
        version = re.fullmatch(rf"{name}_(.*)\.orig\.tar\.\w+", tarball)[1]
        if name in LICENSES:
            yield package(name, version, "source", f"pkg:generic/{name}@{version}", LICENSES[name], ("SHA256", digest))


def listed():
    """Packages of the sections."""
    section = ""
    for line in (ROOT / "tools/build/packages.txt").read_text().splitlines():
        word = line.split("#")[0].strip()
        section = word[1:-1] if word.startswith("[") else section
        if word and not word.startswith("[") and section in SECTIONS:
            yield word


def needed(tool):
    """Packages of the shared libraries that the tool loads."""
    paths = re.findall(r"=> (/\S+)", output("ldd", tool))
    # A merged /usr has files under names that packages do not list.
    for line in output("dpkg", "-S", *paths, *map(os.path.realpath, paths)).splitlines():
        yield line.split(":")[0]


def debian(names):
    rows = output("dpkg-query", "-W", "-f", "${Package}\t${Version}\t${Architecture}\t${db:Status-Abbrev}\n", *names)
    for line in rows.splitlines():
        name, version, architecture, status = line.split("\t")
        if status.startswith("ii"):
            yield package(name, version, "deb", f"pkg:deb/debian/{name}@{version}?arch={architecture}")


def main(version, tool):
    ours = package("edgeprof", version, "this", f"pkg:generic/edgeprof@{version}", "Apache-2.0")
    names = sorted({*listed(), *needed(tool)})
    parts = [*pinned(), *sorted(debian(names), key=lambda row: row["name"])]
    date = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), datetime.timezone.utc)
    built = {"SPDXRef-deb-" + name for name in listed()}
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relatedSpdxElement": ours["SPDXID"], "relationshipType": "DESCRIBES"}]
    for row in parts:
        tool_of = row["SPDXID"] in built and not row["name"].endswith("-dev")
        relations.append({"spdxElementId": row["SPDXID"] if tool_of else ours["SPDXID"], "relatedSpdxElement": ours["SPDXID"] if tool_of else row["SPDXID"],
                          "relationshipType": "BUILD_TOOL_OF" if tool_of else "CONTAINS" if row["SPDXID"].startswith("SPDXRef-source") else "DEPENDS_ON"})
    json.dump({"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"edgeprof-{version}",
               "documentNamespace": f"https://spdx.org/spdxdocs/edgeprof-{version}-{int(date.timestamp())}",
               "creationInfo": {"created": date.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: tools/build/sbom.py"]},
               "packages": [ours, *parts], "relationships": relations}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])
