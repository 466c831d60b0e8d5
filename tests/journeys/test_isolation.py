"""Real servers within bounds: Node and Python, at every level that this machine proves."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fleet import servers
from tests.fleet.install import FLEET
from tests.journeys.workshop import make_repository

from toolcrib.core.kinds import IsolationLevel
from toolcrib.crib.builder import open_crib
from toolcrib.isolate.plan import Host
from toolcrib.isolate.selftest import measure
from toolcrib.stores.paths import Environment
from toolcrib.transports.process.spawn import Spawner

pytestmark = pytest.mark.timeout(600)  # the first run installs the fleet


@pytest.fixture(scope="module")
def proof():
    async def examine():
        spawner = Spawner()
        try:
            return await measure(spawner, Host.here(os.environ))
        finally:
            await spawner.close()

    return asyncio.run(examine())


@pytest.fixture
def around(tmp_path):
    return Environment(tmp_path, {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "NODE_ENV": "test"})


def write(path: Path, name: str, launch: servers.Launch, **keys: str) -> Path:
    """A configuration with one server."""
    lines = [f"{key} = {value}" for key, value in keys.items()]
    args = ", ".join(f"'{arg}'" for arg in launch.args)
    path.write_text("\n".join([f"[servers.{name}]", f"command = '{launch.command}'", f"args = [{args}]", *lines]))
    return path


@pytest.mark.parametrize("level", ["limits", "confined", "isolated"])
async def test_a_node_server_works_at_every_level(fleet, proof, around, tmp_path, level):
    """With its own packages granted for reading, and nothing else; where a level is not proven, it is not started."""
    grants = {} if level == "limits" else {"read": f"['{FLEET / 'npm'}']"}
    config = write(tmp_path / "toolcrib.toml", "everything", servers.everything(), isolation=f"'{level}'", **grants)

    async with open_crib(config, surroundings=around) as crib:
        result = await crib.call("everything__echo", {"message": "hi"})
        health = crib.health().servers["everything"]

    if proof.holds(IsolationLevel(level)):
        assert (result.text, health.isolation) == ("Echo: hi", level)
    else:
        assert (result.error.code, health.isolation) == ("TOOL_UNAVAILABLE", "")
        assert "not proven on this machine" in result.error.message


async def test_a_node_server_runs_at_limits_unless_told_otherwise(fleet, around, tmp_path):
    """Its huge reservations of address space are no use of memory."""
    config = write(tmp_path / "toolcrib.toml", "everything", servers.everything(), memory="'1GB'")

    async with open_crib(config, surroundings=around) as crib:
        result = await crib.call("everything__echo", {"message": "hi"})
        health = crib.health().servers["everything"]

    assert (result.text, health.isolation) == ("Echo: hi", "limits, untested")


async def test_a_file_server_reaches_what_it_was_granted_and_nothing_else(fleet, around, tmp_path):
    """Even what its own arguments allow is out of reach unless it is granted."""
    (tmp_path / "open").mkdir()
    (tmp_path / "shut").mkdir()
    for name in ("open", "shut"):
        (tmp_path / name / "note").write_text(name)
    launch = servers.filesystem(tmp_path / "open")
    launch = replace(launch, args=(*launch.args, str(tmp_path / "shut")))
    grants = {"read": f"['{FLEET / 'npm'}']", "write": "['open']"}
    config = write(tmp_path / "toolcrib.toml", "files", launch, isolation="'confined'", **grants)

    async with open_crib(config, surroundings=around) as crib:
        granted = await crib.call("files__read_text_file", {"path": str(tmp_path / "open" / "note")})
        denied = await crib.call("files__read_text_file", {"path": str(tmp_path / "shut" / "note")})
        written = await crib.call("files__write_file", {"path": str(tmp_path / "open" / "new"), "content": "written"})

    assert granted.text == "open"
    assert not denied.success
    assert written.success, written.text
    assert (tmp_path / "open" / "new").read_text() == "written"


async def test_a_python_server_works_confined_without_any_grant(fleet, around, tmp_path):
    """Its interpreter and packages are found by its command."""
    config = write(tmp_path / "toolcrib.toml", "clock", servers.time(), isolation="'confined'")

    async with open_crib(config, surroundings=around) as crib:
        conversion = {"source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Tokyo"}
        result = await crib.call("clock__convert_time", conversion)

    assert "21:30" in result.text


async def test_a_git_server_works_confined_with_its_repository(fleet, around, tmp_path):
    """It runs git below itself, in the same bounds."""
    repository = make_repository(tmp_path / "repository")
    grants = {"write": "['repository']", "env": "{ GIT_CONFIG_NOSYSTEM = '1' }"}
    config = write(tmp_path / "toolcrib.toml", "git", servers.git(repository), isolation="'confined'", **grants)

    async with open_crib(config, surroundings=around) as crib:
        result = await crib.call("git__git_status", {"repo_path": str(repository)})

    assert result.success, result.error
