"""Where files are, on three systems, from any of them."""

from pathlib import Path

import pytest

from toolcrib.config.foreign.clients import CLIENTS
from toolcrib.config.foreign.locations import Computer, locations

HOME, CWD = Path("/h"), Path("/c")


def paths(platform: str, **env: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for location in locations(Computer(HOME, CWD, env, platform)):
        found.setdefault(location.client, []).append(str(location.path))
    return found


@pytest.mark.parametrize(
    ("platform", "folder"),
    [("linux", "/h/.config"), ("darwin", "/h/Library/Application Support"), ("win32", "/h/AppData/Roaming")],
)
def test_applications_keep_their_files_where_the_system_wants_them(platform, folder):
    """The two that matter most."""
    found = paths(platform)

    assert found["claude-desktop"] == [f"{folder}/Claude/claude_desktop_config.json"]
    assert f"{folder}/Code/User/mcp.json" in found["vscode"]


def test_variables_move_them():
    """As the programs themselves obey them."""
    found = paths("linux", XDG_CONFIG_HOME="/x", CODEX_HOME="/codex", COPILOT_HOME="/copilot")

    assert found["claude-desktop"] == ["/x/Claude/claude_desktop_config.json"]
    assert found["codex"] == ["/c/.codex/config.toml", "/codex/config.toml"]
    assert "/copilot/mcp-config.json" in found["copilot"]
    assert paths("win32", APPDATA="/roam")["goose"] == ["/roam/Block/goose/config/config.yaml"]
    assert paths("darwin")["zed"] == ["/c/.zed/settings.json", "/h/.config/zed/settings.json"]


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_every_place_belongs_to_a_known_client_and_is_named_once(platform):
    """Also when the project is the home directory."""
    found = locations(Computer(HOME, HOME, {}, platform))

    assert {location.client for location in found} <= CLIENTS.keys()
    assert len({location.path for location in found}) == len(found)
