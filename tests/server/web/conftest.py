"""Every test gets a toolcrib of its own, in an empty project."""

from pathlib import Path

import pytest
from tests.cli.program import Program


@pytest.fixture
def toolcrib(tmp_path: Path) -> Program:
    program = Program(tmp_path)
    program.project.mkdir()
    return program


@pytest.fixture
def tiny(toolcrib: Program) -> Program:
    """With one small server configured, never asked."""
    toolcrib.write(toolcrib.tiny())
    return toolcrib
