"""The way in: help, typos, exit codes, and what a person sees when something breaks."""

import asyncio
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from toolcrib.cli import commands
from toolcrib.cli.failures import EXIT_CODES, exit_code
from toolcrib.cli.invoke import CliCommand, arg, as_json, command, command_of
from toolcrib.cli.main import COMMANDS, HIDDEN, run
from toolcrib.core.errors import TOOL_CODES

ROOMS_OF_HELP = {"toolcrib", "toolcrib.version", "toolcrib.cli", "toolcrib.cli.main"}


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_help_and_version_import_nothing_else(words):
    """Start-up is a feature: no asyncio, no msgspec, no argparse, no other room."""
    script = f"import sys; from toolcrib.cli.main import run; run({words}); print(*sys.modules, file=sys.stderr)"

    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    loaded = set(result.stderr.split())
    assert not loaded & {"asyncio", "msgspec", "argparse", "json", "dataclasses"}
    assert {name for name in loaded if name.startswith("toolcrib")} == ROOMS_OF_HELP


def test_help_names_every_command(toolcrib):
    """Whoever types nothing at all is shown everything there is."""
    result = toolcrib.run()

    assert result.returncode == 0
    assert all(name.split()[0] in result.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", [*COMMANDS, "servers", "config"])
def test_every_command_explains_itself(toolcrib, name):
    """``--help`` works on each, on stdout, with exit code 0."""
    result = toolcrib.run(*name.split(), "--help")

    assert (result.returncode, result.stderr) == (0, "")
    assert f"toolcrib {name}" in result.stdout


def test_a_command_is_its_file_and_a_line_of_the_table(monkeypatch, capsys):
    """Nothing else has to know of it: help, parsing, suggestions, waiting and the exit code come from these two."""

    @command(arg("--often", type=int, default=1), as_json("it"))
    async def run_wave(options, console):
        await asyncio.sleep(0)
        console.print("wave " * options.often)
        return 3

    module = ModuleType("toolcrib.cli.commands.gestures")
    module.run_wave = run_wave
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(COMMANDS, "wave", ("gestures", "Wave at somebody."))

    codes = [run(words) for words in (["wave", "--often", "2"], ["wave", "--help"], ["--help"], ["wave", "--oftn"])]

    out, err = capsys.readouterr()
    assert codes == [3, 0, 0, 2]
    assert out.startswith("wave wave")
    assert out.count("Wave at somebody.") == 2
    assert "--log-level" in out
    assert "Did you mean '--often'" in err


def test_every_command_is_found_in_its_file():
    """By the name in the table, and no file has one that the table does not name."""
    names = {name: module for name, (module, _) in (COMMANDS | HIDDEN).items()}
    files = {module: import_module(f"toolcrib.cli.commands.{module}") for module in names.values()}

    found = {(module, name) for module, file in files.items() for name in vars(file) if _is_command(name, file)}

    assert all(isinstance(command_of(name, files[module]), CliCommand) for name, module in names.items())
    assert found == {(module, f"run_{name.split()[-1].strip('_')}") for name, module in names.items()}
    assert {path.stem for path in Path(commands.__path__[0]).glob("*.py")} == {"__init__", *files}


def _is_command(name: str, file: ModuleType) -> bool:
    value = vars(file)[name]
    return isinstance(value, CliCommand) and value.run.__module__ == file.__name__


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (["srve"], "'serve'"),
        (["servers", "ad"], "'servers add'"),
        (["ls", "--jsn"], "'--json'"),
        (["serve", "--prot=0"], "'--port'"),
    ],
)
def test_a_typo_gets_a_suggestion(toolcrib, words, suggestion):
    """A mistyped command or option is a usage error that names the nearest right one."""
    result = toolcrib.run(*words)

    assert (result.returncode, result.stdout) == (2, "")
    assert f"Did you mean {suggestion}" in result.stderr


@pytest.mark.parametrize(
    "words", [["call"], ["show"], ["servers"], ["why", "a", "b"], ["ls", "--", "x"], ["completion", "x"]]
)
def test_a_wrong_command_line_is_a_usage_error(toolcrib, words):
    """Exit code 2, nothing on stdout, and no traceback."""
    result = toolcrib.run(*words)

    assert (result.returncode, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr


def test_the_configuration_may_be_named_before_the_command(tiny):
    """``toolcrib --config FILE ls`` is ``toolcrib ls --config FILE``."""
    other = tiny.config.rename(tiny.home / "other.toml")

    result = tiny.run("--config", str(other), "config", "check")

    assert (result.returncode, result.stderr) == (0, "")
    assert str(other) in result.stdout


def test_every_error_code_has_an_exit_code():
    """Nothing that can go wrong leaves the command line without a number of its own."""
    assert set(EXIT_CODES) >= TOOL_CODES


@pytest.mark.parametrize(
    ("code", "details", "expected"),
    [
        ("TOOL_UNAVAILABLE", {"http_status": 401}, 3),
        ("TOOL_UNAVAILABLE", {}, 4),
        ("TOOL_EXECUTION_FAILED", {}, 5),
        ("TOOL_PERMISSION_DENIED", {}, 6),
        ("TOOL_NOT_FOUND", {}, 7),
    ],
)
def test_exit_codes_tell_kinds_of_trouble_apart(code, details, expected):
    """3 wants a credential, 4 cannot be reached, 5 the tool failed, 6 not allowed, 7 not there."""
    assert exit_code(code, details) == expected


def test_an_error_can_be_read_by_a_program(toolcrib):
    """With ``--json`` the error is one JSON object on stderr; stdout stays empty."""
    result = toolcrib.run("show", "nothing", "--json")

    error = json.loads(result.stderr)["error"]
    assert (result.returncode, result.stdout) == (7, "")
    assert (error["code"], error["retryable"]) == ("TOOL_NOT_FOUND", False)


@pytest.fixture
def exploding(toolcrib):
    """A configuration whose native module fails in a way nobody foresaw."""
    (toolcrib.project / "explodes.py").write_text(
        "class Trap:\n"
        "    def __call__(self): ...\n"
        "    def __getattr__(self, name): raise RuntimeError('kaboom')\n"
        "trap = Trap()\n"
    )
    toolcrib.config.write_text('native = ["explodes"]\n')
    toolcrib.env["PYTHONPATH"] = str(toolcrib.project)
    return toolcrib


def test_the_unexpected_is_one_line_and_a_hint(exploding):
    """No traceback reaches a user who did not ask for one."""
    result = exploding.run("ls")

    assert result.returncode == 1
    assert "kaboom" in result.stderr
    assert "TOOLCRIB_DEBUG=1" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_traceback_is_there_for_who_asks(exploding):
    """``TOOLCRIB_DEBUG=1`` shows where it happened."""
    assert "Traceback" in exploding.run("ls", TOOLCRIB_DEBUG="1").stderr


def test_a_native_module_that_cannot_be_loaded_is_named(toolcrib):
    """Whatever it raises, the error says which module and why."""
    (toolcrib.project / "broken.py").write_text("1 / 0\n")
    toolcrib.config.write_text('native = ["broken"]\n')
    toolcrib.env["PYTHONPATH"] = str(toolcrib.project)

    result = toolcrib.run("ls")

    assert result.returncode == 1
    assert "cannot import 'broken': ZeroDivisionError" in result.stderr


def test_a_reader_that_leaves_is_no_trouble(tiny):
    """``toolcrib ls | head -1`` ends quietly."""
    read, write = os.pipe()
    os.close(read)

    process = tiny.start("ls", "--json", stdout=write, stderr=subprocess.PIPE)
    os.close(write)

    assert process.communicate(timeout=150)[1] == b""


def test_no_color_is_honoured(toolcrib):
    """Colours can be forced where there is no terminal, and ``NO_COLOR`` wins over everything."""
    assert "\x1b[" in toolcrib.run("ls", FORCE_COLOR="1").stdout
    assert "\x1b[" not in toolcrib.run("ls", FORCE_COLOR="1", NO_COLOR="1").stdout
    assert "\x1b[" not in toolcrib.run("ls").stdout


def test_a_full_disk_is_told_once(tiny):
    """What cannot be written is a failure with a reason, not a complaint of the interpreter."""
    with open("/dev/full", "w") as full:
        process = tiny.start("ls", "--json", stdout=full, stderr=subprocess.PIPE)

    error = json.loads(process.communicate(timeout=150)[1])["error"]
    assert (process.returncode, error["code"]) == (1, "TOOL_INTERNAL")
    assert "No space left on device" in error["message"]


def test_a_wrong_variable_is_a_usage_error(toolcrib):
    """The environment is held to the same choices as the options."""
    result = toolcrib.run("ls", TOOLCRIB_LOG_LEVEL="loud")

    assert (result.returncode, result.stdout) == (2, "")
    assert "debug, info, warning, error" in result.stderr
