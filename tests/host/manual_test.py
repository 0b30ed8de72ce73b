"""Manual page and completions hold exactly the commands and options of the tool.

What the tool says of itself is what it takes: the help texts against the commands and options that the program
really has, and what is made of them, the manual page and the completions of bash and zsh, in a real bash and zsh."""
import os
import pty
import re
import select
import subprocess
import time

import pytest

from harness import REPOSITORY, clean_environment

ENVIRONMENT = clean_environment(LC_ALL="C.UTF-8", TERM="dumb")


def output(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT, **options)


# ---- the program ----

def real_commands():
    """The names in commands.def."""
    return re.findall(r'^ET_COMMAND\(\w+, \w+, "([a-z-]+)"', (REPOSITORY / "tools/cmd/commands.def").read_text(), re.M)


of_each_command = pytest.mark.parametrize("command", real_commands())


@pytest.fixture(scope="module")
def made(build):
    """The folder of edgeprof.1, edgeprof.bash and _edgeprof."""
    return build / "package"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with files that may be completed."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "afolder").mkdir()
    for name in ("a.db", "a b.db", "b.db"):
        (folder / name).write_text("")
    return folder


@pytest.fixture(scope="module")
def table(shipped):
    """{command: {--option: what its argument is called, "" for none}} of `edgeprof --describe`"""
    found = {}
    for line in output(shipped, "--describe").stdout.splitlines():
        row, *fields = line.split("\t")
        if row == "command":
            command = found[fields[0]] = {}
        elif row == "option":
            assert fields[0] not in command, f"{line}: two rows are of one command"
            command[fields[0]] = fields[2]
    return found


@pytest.fixture(scope="module")
def real_options(table):
    """{name: has a value}, of all commands"""
    return {name.removeprefix("--"): argument != "" for options in table.values() for name, argument in options.items()}


def help_options(text):
    """Options as a help text describes them: at the beginning of an indented line."""
    found = set()
    for line in text.splitlines():
        if line.startswith("  -"):
            found.update(re.findall(r"--[a-z][a-z-]*", re.split(r"\s{2,}", line.strip(), maxsplit=1)[0]))
    return found


@pytest.fixture(scope="module")
def texts(shipped):
    """{command: help text}"""
    done = {command: output(shipped, command, "--help") for command in real_commands()}
    assert {command: each.returncode for command, each in done.items() if each.returncode} == {}
    return {command: each.stdout for command, each in done.items()}


def test_help_names_every_command(shipped):
    listed = re.findall(r"^  ([a-z-]+) {2,}\S", output(shipped, "--help").stdout, re.M)
    assert sorted(listed) == sorted(real_commands())


@of_each_command
def test_help_names_every_option(shipped, texts, place, real_options, command):
    def takes(name, valued):
        """Whether the command knows the option: asked in a way that ends before it does anything."""
        line = [shipped, command, "--" + name] + ([] if valued else ["--no-such-option"])
        return f"unknown option --{name};" not in output(*line, cwd=place).stderr
    described = help_options(texts[command])
    for name, valued in real_options.items():
        prefix = any(option.startswith("--" + name) for option in described)
        if name != "help" and ("--" + name in described or not prefix):  # getopt takes a unique beginning
            assert ("--" + name in described) == takes(name, valued), f"its help and --{name}"
    assert [option for option in described if option[2:] not in real_options] == []


@of_each_command
def test_an_option_takes_the_value_that_its_help_shows(shipped, texts, table, place, command):
    assert set(table[command]) == help_options(texts[command])
    for option, argument in table[command].items():
        assert re.search(rf"^  (-\w, )?{option}{' ' + re.escape(argument) if argument else ''}(  |$)", texts[command], re.M), option
        refused = output(shipped, command, option, cwd=place).stderr if argument else output(shipped, command, option + "=1").stderr
        assert ("missing value" in refused) == (argument != ""), option
        assert argument or "unknown option" in refused, option


# ---- the manual page ----

@pytest.fixture(scope="module")
def page(made):
    return str(made / "edgeprof.1")


@pytest.mark.parametrize("checker", [("mandoc", "-Tlint", "-Wall"), ("groff", "-man", "-Tutf8", "-ww", "-z")], ids=lambda checker: checker[0])
def test_manual_is_well_formed(page, checker):
    done = output(*checker, page)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.fixture(scope="module")
def manual(page):
    """The page as text."""
    return re.sub(r".\x08", "", output("mandoc", "-Tutf8", "-Owidth=500", page).stdout)


@pytest.fixture(scope="module")
def sections(manual):
    parts = re.split(r"^   (\S+)$", manual, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def test_manual_has_a_section_for_each_command(sections, texts):
    assert sorted(sections) == sorted(texts)


@of_each_command
def test_manual_says_what_the_help_says(manual, sections, texts, command):
    flat = " ".join(manual.split())
    for option in help_options(texts[command]):
        assert re.search(rf"^ +(-\w, |--\S+ \S+, )*{option}\b", sections[command], re.M), option
    for line in texts[command].splitlines():
        words = " ".join(re.split(r"\s{2,}", line.strip(), maxsplit=1)[-1].split()).removeprefix("usage: ")
        assert words in flat, words


# ---- bash ----

@pytest.fixture(scope="module")
def bash(made, place):
    """bash(word ...): what bash offers for the last of the words of a command line"""
    script = (f"source {made}/edgeprof.bash; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _edgeprof; "
              "((${#COMPREPLY[@]} == 0)) || printf '%s\\n' \"${COMPREPLY[@]}\"")

    def offers(*words):
        done = output("bash", "--norc", "-c", script, "bash", "edgeprof", *words, cwd=place)
        assert done.stderr == ""
        return sorted(done.stdout.splitlines())
    return offers


def test_bash_offers_commands(bash, texts):
    assert bash("") == sorted([*texts, "--help", "--version"])


@of_each_command
def test_bash_offers_options(bash, texts, command):
    assert set(bash(command, "--")) - {"--"} == help_options(texts[command])


@pytest.mark.parametrize("words, wanted", [
    (["top", "--kind", "l"], ["live", "lock"]), (["top", "--kind", "=", "l"], ["live", "lock"]), (["run", "--level", "m"], ["medium"]),
    (["level", "h"], ["high"]), (["kinds", "o"], ["off", "on"]), (["top", "--db", "a"], ["a b.db", "a.db", "afolder"]),
    (["top", "--symbols", "a"], ["afolder"]), (["top", "--service", "a"], []), (["run", "--", "true", "--k"], []), (["nosuch", ""], [])])
def test_bash_offers_values(bash, words, wanted):
    assert bash(*words) == wanted


@pytest.mark.parametrize("words, one", [(["top", "--kind", "="], "cpu"), (["run", "--", "tru"], "true")])
def test_bash_offers_among_others(bash, words, one):
    assert one in bash(*words)


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, *command, cwd):
        self.text = ""
        self.process, self.fd = pty.fork()
        if self.process == 0:
            os.chdir(cwd)
            os.execvpe(command[0], command, {**ENVIRONMENT, "PS1": "", "HOME": str(cwd)})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)
        os.waitpid(self.process, 0)

    def type(self, text, wait_for):
        os.write(self.fd, text.encode())
        self.text = ""
        end = time.monotonic() + 300
        while wait_for not in self.text and time.monotonic() < end:
            if select.select([self.fd], [], [], 1)[0]:
                try:
                    self.text += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    break
        return self.text


@pytest.fixture(scope="module")
def bash_terminal(made, place):
    with Terminal("bash", "--norc", "--noprofile", "-i", cwd=place) as terminal:
        terminal.type("bind 'set enable-bracketed-paste off'; edgeprof() { printf 'ran:%s:' \"$@\"; echo; }; "
                      f"source {made}/edgeprof.bash; echo rea''dy\n", "ready\r\n")
        yield terminal


@pytest.mark.parametrize("typed, wanted", [
    ("edgeprof fl\t--va\t=count\n", "ran:--value:ran:=count"), ("edgeprof top --kind=exc\t\n", "ran:--kind=exception:"),
    ("edgeprof top --kind exc\t\n", "ran:exception:"), ("edgeprof cat a\\ \t\n", "ran:a b.db:")])
def test_bash_on_a_terminal(bash_terminal, typed, wanted):
    """readline itself: words are split at `=`, and a name with a blank is quoted."""
    text = bash_terminal.type(typed, "ran:")
    text += bash_terminal.type("echo do''ne\n", "done\r\n")
    assert wanted in text


# ---- zsh ----

ZSH = """
fpath=({made} $fpath)
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


@pytest.fixture(scope="module")
def zsh(made, place):
    """zsh(typed): what it offers then"""
    (place / "start.zsh").write_text(ZSH.format(made=made))
    offered = place / "offered"
    with Terminal("zsh", "-f", "-i", cwd=place) as terminal:
        terminal.type("stty rows 50 cols 200; source ./start.zsh\n", "ready\r\n")

        def offers(typed):
            offered.write_text("")
            os.write(terminal.fd, f"edgeprof {typed}\t".encode())
            end = time.monotonic() + 300
            while "@end" not in offered.read_text() and time.monotonic() < end:
                time.sleep(0.01)
            terminal.type("\x15print do''ne\n", "done\r\n")
            return {line.rstrip("= ") for line in offered.read_text().splitlines()} - {"@end"}
        yield offers


def test_zsh_offers_commands(zsh, texts):
    assert {word for word in zsh("") if word[0] != "-"} == set(texts)


@of_each_command
def test_zsh_offers_options(zsh, texts, command):
    assert {word for word in zsh(f"{command} --") if word.startswith("--")} == help_options(texts[command])


@pytest.mark.parametrize("typed, wanted", [("top --kind l", {"lock", "live"}), ("top --kind=l", {"lock", "live"}), ("level h", {"high"}),
                                           ("kinds of", {"off"}), ("top --symbols a", {"afolder"})])
def test_zsh_offers_values(zsh, typed, wanted):
    assert zsh(typed) == wanted
