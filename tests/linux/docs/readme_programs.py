#!/usr/bin/python3
"""The programs of README.md and of the pages for beginners: builds each and runs it.

usage: readme_programs.py BUILD c|csharp
Each page has one block of the language, of at most 50 lines. README.md's is a part of a program: it gets a main function,
some work instead of the comment "your program", and a file as endpoint. Each run must leave a profile in that file."""
import os
import re
import shutil
import subprocess
import sys

LINES = 50
ENDPOINT = '"http://127.0.0.1:4040"'
build, which = sys.argv[1], sys.argv[2]
work = os.path.abspath(os.path.join(build, "tests", "readme-" + which))
os.makedirs(work, exist_ok=True)


def block(path, language):
    page = open(path, encoding="utf-8").read()
    found = re.findall(rf"```{language}\n(.*?)```", page, re.S)
    if len(found) != 1:
        sys.exit(f"readme_programs: {len(found)} {language} blocks in {path}, expected 1")
    if found[0].count("\n") > LINES:
        sys.exit(f"readme_programs: the {language} program of {path} has {found[0].count(chr(10))} lines, at most {LINES}")
    return found[0]


def excerpt(path, language, comment, busy, endpoint):
    text = block(path, language)
    for part in (comment, ENDPOINT):
        if text.count(part) != 1:
            sys.exit(f"readme_programs: the {language} block of {path} needs {part} once")
    return text.replace(comment, busy).replace(ENDPOINT, endpoint)


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
    run([program, "file://" + path])
    if not os.path.exists(path) or os.path.getsize(path) < 100:
        sys.exit(f"readme_programs: {program} left no profile")
    print(f"readme_programs: {os.path.basename(program)}: {os.path.getsize(path)} bytes of profile")


C_BUSY = "for (volatile unsigned i = 0; i < 1u << 30; i++)\n    ;"
C_FRAME = "#include <edgeprof/edgeprof.h>\n\nint main(int argc, char **argv)\n{{\n    (void)argc;\n{0}}}\n"


def c():
    line = re.search(r"^gcc .*$", open("docs/getting-started-c.md", encoding="utf-8").read(), re.M).group(0)
    line = line.replace("$edgeprof_dir/build/host", build).replace("$edgeprof_dir/", "")
    write("sorter.c", block("docs/getting-started-c.md", "c"))
    write("readme.c", C_FRAME.format(excerpt("README.md", "c", "/* your program */", C_BUSY, "argv[1]")))
    for name in ("sorter", "readme"):
        words = line.replace("-o sorter", "").split()
        command = [os.path.join(work, name + ".c") if word == "sorter.c" else word for word in words]
        run(command + ["-Wall", "-Wextra", "-Werror", "-o", os.path.join(work, name)])
        profile(os.path.join(work, name))


PROJECT = """<Project Sdk="Microsoft.NET.Sdk">
  <PropertyGroup>
    <OutputType>Exe</OutputType>
    <TargetFramework>net10.0</TargetFramework>
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
CS_BUSY = "double sum = 0; for (int i = 0; i < 100_000_000; i++) sum += Math.Sqrt(i); Console.WriteLine(sum);"


def csharp():
    programs = {"Page": block("docs/getting-started-dotnet.md", "csharp"),
                "Readme": excerpt("README.md", "csharp", "// your program", CS_BUSY, "args[0]")}
    write("nuget.config", CONFIG.format(cache=os.environ.get("NUGET_PACKAGES", os.path.expanduser("~/.nuget/packages")),
                                        source=os.path.abspath("build/nuget")))
    # Nothing of this tree's settings may reach the projects, and no older package of the same version.
    write("Directory.Build.props", "<Project />")
    shutil.rmtree(os.path.join(work, "packages"), ignore_errors=True)
    environment = {key: value for key, value in os.environ.items() if key != "NUGET_PACKAGES"}
    for name, text in programs.items():
        folder = os.path.join(work, name.lower()) # beside the package cache: everything below it is compiled
        os.makedirs(folder, exist_ok=True)
        write(os.path.join(name.lower(), "Program.cs"), text)
        write(os.path.join(name.lower(), name + ".csproj"), PROJECT)
        run(["dotnet", "publish", folder, "-c", "Release", "-o", os.path.join(work, "out", name), "--nologo", "-v", "q"], environment)
        profile(os.path.join(work, "out", name, name))


{"c": c, "csharp": csharp}[which]()
