"""What the tool says of itself is what it takes: the help texts against the commands and options that the program
really has, and what is made of them, the manual page and the completions of bash and zsh, in a real bash and zsh.

    manual_test.py EDGEPROF FOLDER       FOLDER has edgeprof.1, edgeprof.bash and _edgeprof
"""
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

from harness import Checks, clean_environment

PROGRAM = os.path.abspath(sys.argv[1])
FOLDER = pathlib.Path(sys.argv[2]).resolve()
check = Checks()
ENVIRONMENT = clean_environment(LC_ALL="C.UTF-8", TERM="dumb")


def output(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT, **options)


# ---- the program ----

def real_commands():
    """The names in main.c's table."""
    table = re.search(r"commands\[\] = \{(.*?)\};", pathlib.Path("tools/cmd/main.c").read_text(), re.S)[1]
    return re.findall(r'\{"([a-z-]+)", ', table)


def real_options():
    """{name: has a value} of options.c."""
    text = pathlib.Path("tools/cmd/options.c").read_text()
    return {name: kind == "required" for name, kind in re.findall(r'\{"([a-z-]+)", (no|required)_argument', text)}


def takes(command, name, valued, folder):
    """Whether the command knows the option: asked in a way that ends before it does anything."""
    line = [PROGRAM, command, "--" + name] if valued else [PROGRAM, command, "--" + name, "--no-such-option"]
    return f"unknown option --{name};" not in output(*line, cwd=folder).stderr


def help_options(text):
    """Options as a help text describes them: at the beginning of an indented line."""
    found = set()
    for line in text.splitlines():
        if line.startswith("  -"):
            found.update(re.findall(r"--[a-z][a-z-]*", re.split(r"\s{2,}", line.strip(), maxsplit=1)[0]))
    return found


def helps(folder):
    """{command: help text}, checked against what the program takes."""
    text = output(PROGRAM, "--help").stdout
    listed = re.findall(r"^  ([a-z-]+) {2,}\S", text, re.M)
    check.equal(sorted(listed), sorted(real_commands()), "commands in the help and in main.c")
    texts = {}
    for command in listed:
        done = output(PROGRAM, command, "--help")
        check.equal(done.returncode, 0, f"{command} --help")
        texts[command] = done.stdout
        described = help_options(done.stdout)
        for name, valued in real_options().items():
            prefix = any(option.startswith("--" + name) for option in described)
            if name != "help" and ("--" + name in described or not prefix):  # getopt takes a unique beginning
                check.equal("--" + name in described, takes(command, name, valued, folder), f"{command}: its help and --{name}")
        check.equal([o for o in described if o[2:] not in real_options()], [], f"{command}: options that options.c does not have")
    return texts


# ---- the manual page ----

def manual(texts):
    page = FOLDER / "edgeprof.1"
    for command in (("mandoc", "-Tlint", "-Wall", str(page)), ("groff", "-man", "-Tutf8", "-ww", "-z", str(page))):
        done = output(*command)
        check.equal((done.returncode, done.stdout + done.stderr), (0, ""), command[0])
    text = output("mandoc", "-Tutf8", "-Owidth=500", str(page)).stdout
    text = re.sub(r".\x08", "", text)
    sections = re.split(r"^   (\S+)$", text, flags=re.M)
    of = {name: body for name, body in zip(sections[1::2], sections[2::2])}
    check.equal(sorted(of), sorted(texts), "a section for each command")
    flat = " ".join(text.split())
    for command, help_text in texts.items():
        for option in help_options(help_text):
            check(re.search(rf"^ +(-\w, |--\S+ \S+, )*{option}\b", of.get(command, ""), re.M), f"edgeprof(1): {command} {option}")
        for line in help_text.splitlines():
            words = " ".join(re.split(r"\s{2,}", line.strip(), maxsplit=1)[-1].split())
            words = words.removeprefix("usage: ")
            check(words in flat, f"edgeprof(1), {command}: {words!r}")


# ---- bash ----

def bash(words, folder):
    """What bash offers for the last of the words."""
    script = (f"source {FOLDER}/edgeprof.bash; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _edgeprof; "
              "((${#COMPREPLY[@]} == 0)) || printf '%s\\n' \"${COMPREPLY[@]}\"")
    done = output("bash", "--norc", "-c", script, "bash", *words, cwd=folder)
    check.equal(done.stderr, "", f"bash: {words}")
    return sorted(done.stdout.splitlines())


def bash_offers(texts, folder):
    check.equal(bash(["edgeprof", ""], folder), sorted([*texts, "--help", "--version"]), "bash: commands")
    for command, text in texts.items():
        check.equal(set(bash(["edgeprof", command, "--"], folder)) - {"--"}, help_options(text) | {"--help"}, f"bash: options of {command}")
    for words, wanted in (
            (["top", "--kind", "l"], ["live", "lock"]), (["top", "--kind", "=", "l"], ["live", "lock"]), (["top", "--kind", "="], None),
            (["run", "--level", "m"], ["medium"]), (["level", "h"], ["high"]), (["kinds", "o"], ["off", "on"]),
            (["top", "--db", "a"], ["a b.db", "a.db", "afolder"]), (["top", "--symbols", "a"], ["afolder"]), (["top", "--service", "a"], []),
            (["run", "--", "true", "--k"], []), (["nosuch", ""], [])):
        found = bash(["edgeprof", *words], folder)
        check(found == wanted if wanted is not None else "cpu" in found, f"bash: {words}: {found}")
    check("true" in bash(["edgeprof", "run", "--", "tru"], folder), "bash: a program to run")


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, *command, cwd):
        self.process, self.text = None, ""
        child, self.fd = pty.fork()
        if child == 0:
            os.chdir(cwd)
            os.execvpe(command[0], command, {**ENVIRONMENT, "PS1": "", "HOME": str(cwd)})
        self.process = child

    def type(self, text, wait_for):
        os.write(self.fd, text.encode())
        self.text = ""
        end = time.monotonic() + 60
        while wait_for not in self.text and time.monotonic() < end:
            if select.select([self.fd], [], [], 1)[0]:
                try:
                    self.text += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    break
        return self.text

    def close(self):
        os.close(self.fd)
        os.waitpid(self.process, 0)


def bash_terminal(folder):
    """readline itself: words are split at `=`, and a name with a blank is quoted."""
    terminal = Terminal("bash", "--norc", "--noprofile", "-i", cwd=folder)
    terminal.type("bind 'set enable-bracketed-paste off'; edgeprof() { printf 'ran:%s:' \"$@\"; echo; }; "
                  f"source {FOLDER}/edgeprof.bash; echo rea''dy\n", "ready\r\n")
    for typed, wanted in (("edgeprof fl\t--va\t=count\n", "ran:flame:ran:--value:"), ("edgeprof top --kind=exc\t\n", "ran:--kind=exception:"),
                          ("edgeprof top --kind exc\t\n", "ran:exception:"), ("edgeprof cat a\\ \t\n", "ran:a b.db:")):
        text = terminal.type(typed, "ran:")
        text += terminal.type("echo do''ne\n", "done\r\n")
        wanted = "ran:--value:ran:=count" if "--value:" in wanted else wanted
        check(wanted in text, f"bash, typed {typed!r}: {text!r}")
    terminal.close()


# ---- zsh ----

ZSH = """
fpath=({folder} $fpath)
autoload -Uz compinit
compinit -u -D
setopt no_list_beep no_beep no_auto_list
offer() {{ zle complete-word; print '@end' >>offered }}
zle -N offer
bindkey '^I' offer
compadd() {{
    if [[ ${{@[1,(i)(-|--)]}} == *-(O|A|D)\\ * ]]; then
        builtin compadd "$@"
        return $?
    fi
    local -a hits
    builtin compadd -O hits "$@"
    ((${{#hits}} == 0)) || print -rl -- $hits >>offered
    builtin compadd "$@"
}}
edgeprof() {{ : }}
print rea''dy
"""


def zsh_offers(texts, folder):
    (folder / "start.zsh").write_text(ZSH.format(folder=FOLDER))
    terminal = Terminal("zsh", "-f", "-i", cwd=folder)
    terminal.type("stty rows 50 cols 200; source ./start.zsh\n", "ready\r\n")

    def offers(typed):
        (folder / "offered").write_text("")
        os.write(terminal.fd, f"edgeprof {typed}\t".encode())
        end = time.monotonic() + 60
        while "@end" not in (folder / "offered").read_text() and time.monotonic() < end:
            time.sleep(0.01)
        terminal.type("\x15print do''ne\n", "done\r\n")
        return {line.rstrip("= ") for line in (folder / "offered").read_text().splitlines()} - {"@end"}

    check.equal({word for word in offers("") if word[0] != "-"}, set(texts), "zsh: commands")
    for command, text in texts.items():
        found = {word for word in offers(f"{command} --") if word.startswith("--")}
        check.equal(found, help_options(text) | {"--help"}, f"zsh: options of {command}")
    for typed, wanted in (("top --kind l", {"lock", "live"}), ("top --kind=l", {"lock", "live"}), ("level h", {"high"}), ("kinds of", {"off"}),
                          ("top --symbols a", {"afolder"})):
        check.equal(offers(typed), wanted, f"zsh: {typed}")
    terminal.close()


def main():
    with tempfile.TemporaryDirectory(prefix="edgeprof-manual-") as folder:
        folder = pathlib.Path(folder)
        (folder / "afolder").mkdir()
        for name in ("a.db", "a b.db", "b.db"):
            (folder / name).write_text("")
        texts = helps(folder)
        manual(texts)
        bash_offers(texts, folder)
        bash_terminal(folder)
        zsh_offers(texts, folder)
    check.done("test-tools-manual")


main()
