"""The SBOM names every source and package that a build consists of."""
import json
import os
import re
import subprocess

import pytest

from harness import REPOSITORY, clean_environment

pytestmark = pytest.mark.apart


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, env=clean_environment(LC_ALL="C")).stdout


@pytest.fixture(scope="module")
def sbom(build):
    return json.loads((build / "edgeprof.spdx.json").read_text())


@pytest.fixture(scope="module")
def versions(sbom):
    """{kind: {name: package}}"""
    found = {}
    for row in sbom["packages"]:
        found.setdefault(row["SPDXID"].split("-")[1], {})[row["name"]] = row
    return found


def test_form(sbom):
    """What SPDX 2.3 requires of a document, and that each part has a relation to what it describes."""
    assert sbom["spdxVersion"] == "SPDX-2.3" and sbom["dataLicense"] == "CC0-1.0" and sbom["SPDXID"] == "SPDXRef-DOCUMENT"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", sbom["creationInfo"]["created"]) and sbom["documentNamespace"].startswith("https://")
    ids = [row["SPDXID"] for row in sbom["packages"]]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", one) for one in ids)
    assert all(row["name"] and row["versionInfo"] and row["downloadLocation"] for row in sbom["packages"])
    related = {end for relation in sbom["relationships"] for end in (relation["spdxElementId"], relation["relatedSpdxElement"])}
    assert related == {*ids, "SPDXRef-DOCUMENT"}


def test_sources(versions):
    """Every pinned source tree that the Makefiles compile, with its hash."""
    deps = REPOSITORY / "build/deps"
    compiled = set(re.findall(r"^\w+_DIR +\?= \$\(call third_party,(\w+)\)", (REPOSITORY / "Makefile").read_text(), re.M))
    assert compiled == set(versions["source"])
    for name, row in versions["source"].items():
        assert row["checksums"] == [{"algorithm": "SHA256", "checksumValue": (deps / name / ".sha256").read_text().strip()}]


def test_page(versions):
    """It contains no package of npm: the lock file has what its tests use."""
    locked = json.loads((REPOSITORY / "tools/web/package-lock.json").read_text())["packages"]
    assert [name for name, row in locked.items() if name and not row.get("dev")] == [] and "npm" not in versions


def test_packages(versions):
    """Every package of [build] and [tools], and every library that the linker was given for the tool."""
    text = (REPOSITORY / "tools/build/packages.txt").read_text()
    wanted = {word for section in ("build", "tools") for line in re.search(rf"^\[{section}\].*\n((?:(?!\[).*\n)*)", text, re.M)[1].splitlines()
              if (word := line.split("#")[0].strip())}
    assert len(wanted) > 15 and wanted - set(versions["deb"]) == set()
    for name, row in versions["deb"].items():
        assert row["versionInfo"] == output("dpkg-query", "-W", "-f", "${Version}\n", name).splitlines()[0]


def test_libraries(build, versions):
    """Every shared library that the tool names is of a package of the list."""
    dynamic = output("readelf", "-dW", str(build / "edgeprof"))
    names = re.findall(r"NEEDED.*\[(\S+)\]", dynamic)
    assert len(names) > 8
    owners = [line.split(": ") for line in output("dpkg", "-S", *(f"*/{name}" for name in names)).splitlines()]
    for name in names:
        assert {owner.split(":")[0] for owner, path in owners if path.endswith("/" + name)} & set(versions["deb"]), name


def test_same_again(build, sbom):
    again = subprocess.run(["/usr/bin/python3", REPOSITORY / "tools/build/sbom.py", sbom["packages"][0]["versionInfo"], str(build / "edgeprof")],
                           capture_output=True, text=True, check=True, env=clean_environment(SOURCE_DATE_EPOCH=os.environ["SOURCE_DATE_EPOCH"]))
    assert json.loads(again.stdout) == sbom
