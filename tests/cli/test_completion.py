"""Completion: commands, options, tools and servers, from tables and the lock; nothing is started."""

import shutil
import subprocess

import pytest
from tests.cli.library import with_library
from tests.cli.program import TOOLCRIB

from toolcrib.cli.main import COMMANDS


def completed(toolcrib, *words):
    lines = toolcrib.run("__complete", "--", *words).stdout.splitlines()
    return [line.partition("\t")[0] for line in lines]


@pytest.fixture
def known(tiny):
    """The tiny server, asked once."""
    asked = tiny.run("servers", "refresh")
    assert asked.returncode == 0, asked.stderr
    return tiny


def test_commands_and_groups_come_first(toolcrib):
    """An empty line offers every command; a beginning offers what fits."""
    assert set(completed(toolcrib, "")) == {name.split()[0] for name in COMMANDS}
    assert completed(toolcrib, "se") == ["serve", "service", "servers", "secrets"]
    assert completed(toolcrib, "servers", "re") == ["refresh"]
    assert completed(toolcrib, "tokens", "") == ["create", "ls", "revoke", "reset"]
    assert completed(toolcrib, "cost", "--d") == ["--days"]


def test_options_are_those_of_the_command(toolcrib):
    """Each command offers its own."""
    assert "--cached" in completed(toolcrib, "ls", "--")
    assert completed(toolcrib, "serve", "--po") == ["--port"]
    assert completed(toolcrib, "ls", "--log-level", "w") == ["warning"]


def test_tools_and_their_parameters_come_from_the_lock(known):
    """Names, then ``parameter=``, without starting the server again."""
    assert completed(known, "call", "tiny__e") == ["tiny__echo"]
    assert completed(known, "call", "tiny__echo", "t") == ["text=", "times="]
    assert completed(known, "show", "--config", str(known.config), "tiny__p") == ["tiny__paint", "tiny__picture"]
    assert known.starts == 1


def test_servers_come_from_the_configuration(tiny):
    """Asked or not, for every command that takes one."""
    assert completed(tiny, "servers", "rm", "") == ["tiny"]
    assert completed(tiny, "ls", "--server", "") == ["tiny"]


def test_profiles_come_from_the_configuration(tiny):
    """Wherever one can be named."""
    tiny.write(tiny.tiny(), "[profiles.small]", "[profiles.wide]")

    assert completed(tiny, "ls", "--profile", "") == ["small", "wide"]
    assert completed(tiny, "stdio", "--expose", "") == ["all", "search", "auto"]


def test_a_broken_configuration_completes_nothing(toolcrib):
    """A shell in the middle of a line is no place for complaints."""
    toolcrib.config.write_text("oops =\n")

    result = toolcrib.run("__complete", "--", "servers", "rm", "")

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(toolcrib, shell):
    """The script is on stdout, ready to be sourced; where the shell is here, it reads it without complaint."""
    script = toolcrib.run("completion", shell).stdout

    assert "toolcrib __complete --" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_bash_really_completes(known):
    """Sourced into a bash, the function fills in the tool."""
    assert in_bash(known, "toolcrib call tiny__e") == ["tiny__echo"]
    assert in_bash(known, "toolcrib call tiny__echo ") == ["text=", "times=", "extra="]


def test_uris_prompts_and_their_arguments_come_from_the_lock(tiny, tmp_path):
    """In bash, which takes a colon for the end of a word, the rest of a URI is filled in."""
    library = with_library(tiny, tmp_path)
    library.run("servers", "refresh")

    assert completed(library, "resources", "read", "memo://tiny/a") == ["memo://tiny/about"]
    assert completed(library, "show", "memo") == ["memo://tiny/about", "memo://tiny/{id}/photo"]
    assert completed(library, "prompts", "get", "") == ["tiny__greet"]
    assert completed(library, "prompts", "get", "tiny__greet", "") == ["who=", "how="]
    assert completed(library, "call", "memo") == []
    assert in_bash(library, "toolcrib resources read memo://tiny/a") == ["//tiny/about"]
    assert library.starts == 1


def in_bash(known, line):
    """What a bash that sourced the script puts in place of the last word of a line."""
    script = known.run("completion", "bash").stdout
    ask = f'COMP_LINE={line!r}; COMP_POINT=${{#COMP_LINE}}; _toolcrib; printf "%s\\n" "${{COMPREPLY[@]}}"'
    alias = f'toolcrib() {{ {" ".join(TOOLCRIB)} "$@"; }}'

    shown = subprocess.run(
        ["bash", "-c", f"{alias}\n{script}\n{ask}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=known.project,
        env=known.variables(),
    )
    return shown.stdout.splitlines()
