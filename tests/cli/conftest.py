"""Every test gets a toolcrib that knows nothing of the machine it runs on."""

from pathlib import Path

import pytest
from tests.cli.program import Program


@pytest.fixture
def toolcrib(tmp_path: Path) -> Program:
    """toolcrib in an empty project."""
    program = Program(tmp_path)
    program.project.mkdir()
    return program


@pytest.fixture
def tiny(toolcrib: Program) -> Program:
    """toolcrib with one small server configured, never asked."""
    toolcrib.write(toolcrib.tiny())
    return toolcrib
