"""The examples in the docs, and what is around a program that runs one."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fleet.frameworks import OVER_MCP

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FRAMEWORK = re.compile(
    rf"^from (?:toolcrib\.adapters\.(?!offered\b)(\w+)|({'|'.join((*OVER_MCP, 'fastapi'))})\b)", re.MULTILINE
)


def blocks(language: str) -> list[pytest.param]:
    return list(_found(language))


def _found(language: str) -> Iterator[pytest.param]:
    for page in PAGES:
        for number, found in enumerate(BLOCK.finditer(page.read_text())):
            if found[1] == language:
                yield pytest.param(found[2], id=f"{page.name}-{number}")


def framework_of(code: str) -> str:
    """The framework that an example is for; none if it needs only the project itself."""
    found = FRAMEWORK.search(code)
    return found[1] or found[2] if found else ""


def framework_blocks(*, over_mcp: bool) -> list[pytest.param]:
    """The examples for frameworks: those that have an adapter, or those that come over MCP."""
    named = ((found, framework_of(found.values[0])) for found in blocks("python"))
    return [found for found, name in named if name and (name in OVER_MCP) == over_mcp]


def surroundings(home: Path, model: str) -> dict[str, str]:
    """The environment of somebody who has keys of all providers, whose models are at a URL."""
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
