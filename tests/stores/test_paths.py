from pathlib import Path

import pytest

from toolcrib.stores.paths import find_project, lock_path, state_directory, user_config_path


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"HOME": "/home/ada"}, "/home/ada/.config/toolcrib/toolcrib.toml"),
        ({"HOME": "/home/ada", "XDG_CONFIG_HOME": "/etc/ada"}, "/etc/ada/toolcrib/toolcrib.toml"),
        ({"HOME": "/home/ada", "XDG_CONFIG_HOME": ""}, "/home/ada/.config/toolcrib/toolcrib.toml"),
        ({"HOME": "/home/ada", "XDG_CONFIG_HOME": "relative"}, "/home/ada/.config/toolcrib/toolcrib.toml"),
    ],
)
def test_the_users_file_is_where_xdg_says(env, expected):
    """A relative directory is ignored, as the XDG rules ask."""
    assert user_config_path(env) == Path(expected)


def test_the_closest_toolcrib_file_above_is_the_projects(tmp_path):
    """From anywhere inside a project; it comes before files of other programs."""
    inner = tmp_path / "project" / "src" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "toolcrib.toml").touch()
    (tmp_path / "project" / "toolcrib.toml").touch()
    (inner / ".mcp.json").touch()

    assert find_project(inner) == tmp_path / "project" / "toolcrib.toml"


def test_files_of_other_programs_are_taken_from_the_directory_itself(tmp_path):
    """In a fixed order, and not from above: a stray file in a parent must not start programs."""
    start = tmp_path / "start"
    (start / ".vscode").mkdir(parents=True)
    (start / ".cursor").mkdir()
    (tmp_path / ".mcp.json").touch()
    found = [find_project(start)]

    for name in (".vscode/mcp.json", ".cursor/mcp.json", "mcp.json", ".mcp.json"):
        (start / name).touch()
        found.append(find_project(start))

    assert found == [
        None,
        start / ".vscode/mcp.json",
        start / ".cursor/mcp.json",
        start / "mcp.json",
        start / ".mcp.json",
    ]


def test_a_directory_of_that_name_is_not_a_file(tmp_path):
    """Only files are configuration."""
    (tmp_path / "toolcrib.toml").mkdir()

    assert find_project(tmp_path) is None


def test_the_lock_lies_beside_the_configuration():
    """Whatever the configuration file is called."""
    assert lock_path(Path("/srv/x/toolcrib.toml")) == Path("/srv/x/toolcrib.lock")
    assert lock_path(Path("/srv/x/.vscode/mcp.json")) == Path("/srv/x/.vscode/toolcrib.lock")


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"HOME": "/home/ada", "XDG_STATE_HOME": "/var/ada"}, "/var/ada/toolcrib"),
        ({"HOME": "/home/ada", "XDG_STATE_HOME": "relative"}, "/home/ada/.local/state/toolcrib"),
        ({"HOME": "/home/ada"}, "/home/ada/.local/state/toolcrib"),
    ],
)
def test_tokens_and_logs_are_kept_where_xdg_says(env, expected):
    """A relative directory does not count."""
    assert state_directory(env) == Path(expected)
