"""Every example in the docs runs: Python as it stands, console lines as typed, configuration through the parser."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.doubles.claude_code import install_claude_code
from tests.doubles.llm import LlmDouble
from tests.fleet import install, launcher
from tests.fleet.frameworks import OVER_MCP, with_model
from tests.fleet.gateway import serving

from toolcrib.config.importers import parse_mcp_servers
from toolcrib.config.merge import merge
from toolcrib.config.parse import parse_toml
from toolcrib.core.errors import TOOL_CODES
from toolcrib.doors.cli.main import GROUPS
from toolcrib.doors.cli.main import run as run_command

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
FRAMEWORKS = {"toolcrib.adapters": "frameworks", **{name: name for name in OVER_MCP}}
"""The import that marks an example as one for a framework, and the environment that it runs in."""
SERVED = "http://127.0.0.1:7337/mcp"
"""Where `toolcrib serve` answers unless it is told otherwise; in the tests it does so on a free port."""
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[pytest.param]:
    return list(found_blocks(language))


def found_blocks(language: str) -> Iterator[pytest.param]:
    for page in PAGES:
        for number, found in enumerate(BLOCK.finditer(page.read_text())):
            if found[1] == language:
                yield pytest.param(found[2], id=f"{page.name}-{number}")


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    """Where the models of all providers are."""
    with LlmDouble() as llm:
        yield llm.url


@pytest.fixture
def environment(tmp_path: Path, model: str) -> dict[str, str]:
    return surroundings(tmp_path, model)


def surroundings(home: Path, model: str) -> dict[str, str]:
    scripts = Path(sys.executable).parent
    return {
        **os.environ,
        "ANTHROPIC_API_KEY": "sk-example",
        "ANTHROPIC_BASE_URL": model,
        "OPENAI_API_KEY": "sk-example",
        "OPENAI_BASE_URL": f"{model}/v1",
        "GOOGLE_API_KEY": "example",
        "GOOGLE_GEMINI_BASE_URL": model,
        "OLLAMA_HOST": model,
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_STATE_HOME": str(home / "state"),
        "NO_COLOR": "1",
    }


def run(command: list[str], environment: dict[str, str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, cwd=cwd, env=environment, capture_output=True, text=True, timeout=150)


def home_of(code: str) -> str:
    """The environment that an example needs; none if it is the project's own."""
    return next((home for module, home in FRAMEWORKS.items() if f"from {module}" in code), "")


def framework_blocks() -> list[pytest.param]:
    return [found for found in blocks("python") if home_of(found.values[0])]


def plain_blocks() -> list[pytest.param]:
    return [found for found in blocks("python") if not home_of(found.values[0])]


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


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a real `toolcrib serve` answers."""
    config = tmp_path_factory.mktemp("served") / "toolcrib.toml"
    config.touch()
    with serving(config) as (url, _):
        yield url


@pytest.fixture(scope="module")
def inside_frameworks(
    tmp_path_factory: pytest.TempPathFactory, model: str, served: str
) -> dict[str, subprocess.CompletedProcess[str]]:
    """What came of each example, run with the Python that has its framework and a stand-in for Claude Code."""
    pythons = {env: str(install.ensure_env(env)) for env in FRAMEWORKS.values()}

    def run_one(code: str) -> tuple[str, subprocess.CompletedProcess[str]]:
        home = tmp_path_factory.mktemp("framework")
        script = home / "example.py"
        script.write_text(code.replace(SERVED, served))
        around = surroundings(home, model)
        there = {
            "PATH": f"{install_claude_code(home).parent}{os.pathsep}{around['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK": "1",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "HOME": str(home),
            **with_model(model),
        }
        return code, run([pythons[home_of(code)], str(script)], around | there, home)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(pool.map(run_one, [found.values[0] for found in framework_blocks()]))


@pytest.mark.timeout(800)  # the first of them waits for all, and some frameworks take seconds to import
@pytest.mark.parametrize("code", framework_blocks())
def test_python_examples_run_inside_frameworks(
    code: str, inside_frameworks: dict[str, subprocess.CompletedProcess[str]]
):
    """The same, where the example needs a framework."""
    done = inside_frameworks[code]

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("text", blocks("console"))
def test_console_examples_print_what_they_show(text: str, tmp_path: Path, environment: dict[str, str]):
    """Each ``$`` line runs in an empty directory and prints the lines shown below it, if any are."""
    steps = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    for step in steps:
        command, _, shown = step.partition("\n")
        done = run(shlex.split(command), environment, tmp_path)

        assert done.returncode == 0, done.stderr
        assert not shown.strip() or done.stdout.strip() == shown.strip()


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


def test_every_error_code_is_documented():
    """The codes of the errors page are the codes there are."""
    documented = set(re.findall(r"^\| `(TOOL_\w+)`", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE))

    assert documented == set(TOOL_CODES)
