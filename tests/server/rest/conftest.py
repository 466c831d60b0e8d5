"""Every test gets a toolcrib of its own, served over HTTP."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.program import Program
from tests.server.rest.api import Api, serving_api

TURNCOAT = Path(__file__).resolve().parents[2] / "hostile" / "turncoat.py"


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """toolcrib with one small server, never asked."""
    program = Program(tmp_path)
    program.project.mkdir()
    program.write(program.tiny())
    return program


@pytest.fixture
def api(program: Program) -> Iterator[Api]:
    """The same, served to everybody on this machine."""
    with serving_api(program) as api:
        yield api


@pytest.fixture
def turncoat(program: Program) -> Program:
    """toolcrib with a server whose tools are those of ``face.json``."""
    (program.home / "face.json").write_text(json.dumps([{"name": "get_thing", "inputSchema": {"type": "object"}}]))
    argv = json.dumps(["-I", "-S", str(TURNCOAT), str(program.home / "face.json")])
    program.write(f"[servers.box]\ncommand = {json.dumps(sys.executable)}\nargs = {argv}")
    return program
