"""The frameworks, each imported once by a Python that forks for every program of a file's tests."""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.adapters.examples import ROOT, blocks, framework_of, surroundings
from tests.doubles.claude_code import install_claude_code
from tests.doubles.llm import LlmDouble
from tests.fleet import install
from tests.fleet.frameworks import OVER_MCP, with_model
from tests.fleet.launcher import Launcher, imports_of

HERE = Path(__file__).parent
QUIET = {
    **with_model("http://127.0.0.1:9"),
    "LANGSMITH_TRACING": "false",
    "CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK": "1",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
}
"""So that no framework asks anybody anything while it is imported."""
BASE = "import anthropic, mcp, openai"
"""What several frameworks are built upon, and slow to import."""

Inside = Callable[[str], Launcher]


def conversation_of(framework: str) -> Path:
    """The program that holds a conversation inside a framework."""
    folder = "over_mcp" if framework in OVER_MCP else "conversations"
    return HERE / folder / f"in_{framework}.py"


def environment(home: Path) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")},
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
        "LANGSMITH_TRACING": "false",
    }


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """Gives the Python that has a framework, with all imported that its conversation and its examples import."""
    examples = [found.values[0] for found in blocks("python")]
    env = environment(tmp_path_factory.mktemp("imported")) | QUIET

    with ExitStack() as life:

        @functools.cache
        def base() -> Launcher:
            return life.enter_context(closing(Launcher(str(install.ensure_env("frameworks")), BASE, env)))

        @functools.cache
        def start(framework: str) -> Launcher:
            own = [code for code in examples if framework_of(code) == framework]
            imports = imports_of([conversation_of(framework).read_text(), *own])
            if framework in OVER_MCP:
                started = Launcher(str(install.ensure_env(framework)), imports, env)
            else:
                started = Launcher(base().python, imports, env, base())
            return life.enter_context(closing(started))

        yield start


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    """Where the models of all providers are."""
    with LlmDouble() as llm:
        yield llm.url


@pytest.fixture
def run_example(inside: Inside, model: str, tmp_path: Path) -> Callable[[str], str]:
    """Runs an example of the docs inside its framework, with a stand-in for Claude Code; returns what it printed."""

    def run(code: str) -> str:
        script = tmp_path / "example.py"
        script.write_text(code)
        around = surroundings(tmp_path, model)
        there = {
            "PATH": f"{install_claude_code(tmp_path).parent}{os.pathsep}{around['PATH']}",
            "HOME": str(tmp_path),
            **QUIET,
            **with_model(model),
        }
        done = inside(framework_of(code)).run([str(script)], cwd=tmp_path, env=around | there)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
