"""The frameworks, in an environment of their own."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fleet import install

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def python() -> Path:
    """The interpreter that has the frameworks."""
    return install.ensure_env("frameworks")


@pytest.fixture
def converse(python: Path, tmp_path: Path) -> Callable[[str, str], Any]:
    """Has one conversation inside a framework, with the model at a URL, and returns what it prints."""
    env = {
        **{name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")},
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
        "LANGSMITH_TRACING": "false",
    }

    def run(name: str, url: str) -> Any:
        command = [str(python), "-m", f"tests.adapters.conversations.in_{name}", url]
        done = subprocess.run(command, env=env, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=150)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
