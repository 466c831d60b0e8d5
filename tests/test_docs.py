"""Every example in the docs runs: Python as it stands, console lines as typed, configuration through the parser.

Those for a framework run beside its other tests, in tests/adapters.
"""

import ast
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.adapters.examples import BLOCK, PAGES, ROOT, blocks, framework_of, surroundings
from tests.doubles.llm import LlmDouble
from tests.fleet import launcher

from toolcrib.cli.failures import exit_code
from toolcrib.cli.main import GROUPS
from toolcrib.cli.main import run as run_command
from toolcrib.config.importers import parse_mcp_servers
from toolcrib.config.merge import merge
from toolcrib.config.parse import parse_toml
from toolcrib.core.errors import TOOL_CODES


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    """Where the models of all providers are."""
    with LlmDouble() as llm:
        yield llm.url


@pytest.fixture
def environment(tmp_path: Path, model: str) -> dict[str, str]:
    return surroundings(tmp_path, model)


def plain_blocks() -> list[pytest.param]:
    return [found for found in blocks("python") if not framework_of(found.values[0])]


def test_every_example_is_of_a_kind_that_is_known():
    """One of another kind would be looked at by no test; ``bash`` and ``text`` are only there to be read."""
    shown = {found[1] for page in PAGES for found in BLOCK.finditer(page.read_text())}

    assert shown <= {"python", "console", "sh", "toml", "json", "bash", "text"}


@pytest.mark.parametrize("code", plain_blocks())
def test_python_examples_run(code: str, tmp_path: Path, environment: dict[str, str]):
    """An example is a whole program that ends well."""
    script = tmp_path / "example.py"
    script.write_text(code)

    done = launcher.run([sys.executable, str(script)], stdin="", timeout_s=150, cwd=tmp_path, env=environment)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", blocks("console"))
def test_console_examples_print_what_they_show(text: str, tmp_path: Path, environment: dict[str, str]):
    """Each ``$`` line runs in an empty directory and prints the lines shown below it, if any are."""
    steps = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    for step in steps:
        command, _, shown = step.partition("\n")
        argv = [*launcher.TOOLCRIB, *after_name(command)]
        done = launcher.run(argv, stdin="", timeout_s=150, cwd=tmp_path, env=environment)

        assert done.returncode == 0, done.stderr
        assert not shown.strip() or done.stdout.strip() == shown.strip()


def after_name(command: str) -> list[str]:
    name, *arguments = shlex.split(command)
    assert name == "toolcrib"
    return arguments


@pytest.mark.parametrize("text", blocks("sh"))
def test_shell_examples_name_commands_that_exist(text: str):
    """Examples that need a network are not run, but each command in them exists."""
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["toolcrib"]:
            group = words[1:3] if words[1] in GROUPS else words[1:2]
            assert run_command([*group, "--help"]) == 0
        elif words:
            assert words[0] == "./dev"
            assert f"{words[1]})" in (ROOT / "dev").read_text()


@pytest.mark.parametrize("text", blocks("toml"))
def test_toml_examples_are_valid_configuration(text: str):
    """What the page shows can be copied."""
    config = merge(parse_toml(text, "example.toml"))

    assert config.servers or config != merge()


@pytest.mark.parametrize("text", blocks("json"))
def test_json_examples_are_valid_configuration(text: str):
    """What the page shows can be copied: into a file toolcrib reads, or, if it names toolcrib, into a client's."""
    layer = parse_mcp_servers(text, "example.json")

    assert layer.servers or "is toolcrib itself" in layer.problems[0]


def test_the_exit_code_of_every_error_code_is_documented():
    """As the table of exit codes says, so a command ends; the last line that names a code is the usual one."""
    table = re.findall(r"^\| (\d) \| .*? \| (.*) \|$", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE)
    written = {code: int(number) for number, codes in table for code in re.findall(r"`(TOOL_\w+)`", codes)}

    assert written == {code: exit_code(code, {}) for code in TOOL_CODES}
    assert exit_code("TOOL_UNAVAILABLE", {"http_status": 401}) == 3


def test_every_code_over_http_is_documented():
    """The codes in the source, but those of variables of the environment and of an answer that is no error."""
    sources = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    known = {code for text in sources for code in re.findall(r'"((?:HTTP|RESOURCE)_[A-Z_]+)"', text)}
    rows = re.findall(r"^\| (`(?:HTTP|RESOURCE)_.*?) \|", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE)

    assert {code for row in rows for code in re.findall(r"\w+", row)} == known - {"HTTP_PROXY", "HTTP_PREFLIGHT"}


ROWS = [
    f"{part}{number}"
    for part, count in zip("ABCDE", (16, 14, 18, 7, 10), strict=True)
    for number in range(1, count + 1)
]


def specification() -> dict[str, list[str]]:
    """The rows of the specification, each with the tests that it names."""
    page = (ROOT / "docs" / "specification.md").read_text()
    lines = re.findall(r"^\| ([A-E]\d+) \| .+? \| .+? \| (.+) \|$", page, re.MULTILINE)
    return {row: re.findall(r"`([\w/.]+::\w+)`", tests) for row, tests in lines}


def test_the_specification_has_every_row_and_each_one_names_its_tests():
    """In their order; none is done by halves."""
    found = specification()

    assert list(found) == ROWS
    assert all(found.values())
    assert "partly" not in (ROOT / "docs" / "specification.md").read_text()


@pytest.mark.parametrize("row", ROWS)
def test_each_test_that_the_specification_names_is_there(row: str):
    """At the top of its file, where it is collected."""
    for named in specification()[row]:
        path, _, name = named.partition("::")
        tree = ast.parse((ROOT / "tests" / path).read_text())
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}

        assert name.startswith("test_")
        assert name in functions, named


def test_every_error_code_is_documented():
    """The codes of the errors page are the codes there are."""
    documented = set(re.findall(r"^\| `(TOOL_\w+)`", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE))

    assert documented == set(TOOL_CODES)
