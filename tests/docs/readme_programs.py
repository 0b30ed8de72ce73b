#!/usr/bin/python3
"""README.md's programs: takes them out of the page, holds them to 50 lines, builds and runs them as the page says.

usage: readme_programs.py BUILD c|csharp
The C program is built with the page's own command line; each run must leave a profile in a file."""
import os
import re
import shutil
import subprocess
import sys

LINES = 50
build, which = sys.argv[1], sys.argv[2]
page = open("README.md", encoding="utf-8").read()
work = os.path.abspath(os.path.join(build, "tests", "readme-" + which))
os.makedirs(work, exist_ok=True)


def block(language):
    found = re.findall(rf"```{language}\n(.*?)```", page, re.S)
    if len(found) != 1:
        sys.exit(f"readme_programs: {len(found)} {language} blocks in README.md, expected 1")
    if found[0].count("\n") > LINES:
        sys.exit(f"readme_programs: the {language} program has {found[0].count(chr(10))} lines, at most {LINES}")
    return found[0]


def write(name, text):
    with open(os.path.join(work, name), "w", encoding="utf-8") as file:
        file.write(text)


def run(command, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"readme_programs: {' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def profile(program):
    path = os.path.join(work, "profile.ep")
    if os.path.exists(path):
        os.remove(path)
    output = run([program, "file://" + path])
    if not os.path.exists(path) or os.path.getsize(path) < 100:
        sys.exit(f"readme_programs: {program} left no profile")
    print(f"readme_programs: {which}: {os.path.getsize(path)} bytes of profile; {output.strip()[-40:]!r}")


def c():
    write("sorter.c", block("c"))
    line = re.search(r"^gcc .*$", page, re.M).group(0).replace("build/host", build)
    command = line.replace("sorter.c", os.path.join(work, "sorter.c")).split()
    run(command + ["-Wall", "-Wextra", "-Werror", "-o", os.path.join(work, "sorter")])
    profile(os.path.join(work, "sorter"))


PROJECT = """<Project Sdk="Microsoft.NET.Sdk">
  <PropertyGroup>
    <OutputType>Exe</OutputType>
    <TargetFramework>net9.0</TargetFramework>
    <ImplicitUsings>enable</ImplicitUsings>
    <Nullable>enable</Nullable>
    <PublishAot>true</PublishAot>
    <InvariantGlobalization>true</InvariantGlobalization>
    <TreatWarningsAsErrors>true</TreatWarningsAsErrors>
  </PropertyGroup>
  <ItemGroup>
    <PackageReference Include="EdgeProf" Version="*" />
  </ItemGroup>
</Project>
"""


CONFIG = """<configuration>
  <config><add key="globalPackagesFolder" value="packages" /></config>
  <fallbackPackageFolders><add key="user" value="{cache}" /></fallbackPackageFolders>
  <packageSources><add key="edgeprof" value="{source}" /></packageSources>
</configuration>
"""


def csharp():
    project = os.path.join(work, "app") # beside the package cache: everything below it is compiled
    os.makedirs(project, exist_ok=True)
    write("app/Program.cs", block("csharp"))
    write("app/Readme.csproj", PROJECT)
    write("nuget.config", CONFIG.format(cache=os.environ.get("NUGET_PACKAGES", os.path.expanduser("~/.nuget/packages")),
                                        source=os.path.abspath("build/nuget")))
    # Nothing of this tree's settings may reach the project, and no older package of the same version.
    write("Directory.Build.props", "<Project />")
    shutil.rmtree(os.path.join(work, "packages"), ignore_errors=True)
    environment = {key: value for key, value in os.environ.items() if key != "NUGET_PACKAGES"}
    run(["dotnet", "publish", project, "-c", "Release", "-o", os.path.join(work, "out"), "--nologo", "-v", "q"], environment)
    profile(os.path.join(work, "out", "Readme"))


{"c": c, "csharp": csharp}[which]()
