"""The workspace of a configuration: off unless asked for, and only where it can do no harm."""

import os

import pytest

from toolcrib.config.merge import merge
from toolcrib.config.parse import parse_toml
from toolcrib.config.sections import WORKSPACE_TOOLS
from toolcrib.core.errors import ConfigError
from toolcrib.crib.builder import open_crib
from toolcrib.crib.loading import load
from toolcrib.project.known import named_natives
from toolcrib.stores.paths import Environment


@pytest.fixture
def around(tmp_path):
    (tmp_path / "project" / "work").mkdir(parents=True)
    (tmp_path / "project" / "deep").mkdir()
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    return Environment(tmp_path / "project" / "deep", env, elsewhere=True)


def configure(around, text):
    (around.cwd.parent / "toolcrib.toml").write_text(f"[kb]\nenabled = false\n{text}")
    return load(None, around)


async def names(loaded, around):
    async with open_crib(loaded, surroundings=around) as crib:
        return {tool.name for tool in await crib.tools()} - {"result_read"}


async def test_there_is_no_workspace_unless_asked_for(around):
    assert await names(configure(around, ""), around) == set()


async def test_all_tools_are_there_but_bash(around):
    loaded = configure(around, "[workspace]\nenabled = true\nroot = 'work'")

    assert await names(loaded, around) == set(WORKSPACE_TOOLS) - {"bash"}


async def test_some_tools_are_there_if_they_are_named(around):
    loaded = configure(around, "[workspace]\nenabled = true\nroot = 'work'\nbash = true\ntools = ['bash', 'file_read']")

    assert await names(loaded, around) == {"bash", "file_read"}
    assert {tool.name for tool in named_natives(loaded.config).tools} == {"bash", "file_read"}


async def test_the_root_is_seen_from_the_projects_file(around):
    loaded = configure(around, "[workspace]\nenabled = true\nroot = 'work'")
    async with open_crib(loaded, surroundings=around) as crib:
        await crib.call("file_write", {"path": "made.txt", "content": "x"})

    assert (around.cwd.parent / "work" / "made.txt").read_text() == "x"


async def test_the_file_that_configures_it_is_not_written_under_any_name(around, tmp_path):
    (tmp_path / "project" / "own.toml").write_text("[workspace]\nenabled = true\n[kb]\nenabled = false\n")
    async with open_crib(load("../own.toml", around), surroundings=around) as crib:
        refused = await crib.call("file_write", {"path": "own.toml", "content": "x"})
        run = await crib.call("file_read", {"path": "own.toml"})

    assert "decides which programs are run" in refused.error.message
    assert "enabled = true" in run.text


async def test_tasks_last_longer_than_the_program(around):
    loaded = configure(around, "[workspace]\nenabled = true\nroot = 'work'")
    async with open_crib(loaded, surroundings=around) as crib:
        await crib.call("task_create", {"title": "To be done"})
    async with open_crib(loaded, surroundings=around) as crib:
        listed = await crib.call("task_list", {})

    assert [task["title"] for task in listed.structured["tasks"]] == ["To be done"]


async def test_levels_say_how_far_each_tool_reaches(around):
    loaded = configure(around, "[workspace]\nenabled = true\nroot = 'work'\nbash = true")
    async with open_crib(loaded, surroundings=around) as crib:
        levels = {tool.name: tool.security_level.value for tool in await crib.tools()}

    assert {name for name in WORKSPACE_TOOLS if levels[name] == "read_only"} == {
        "file_read", "file_list", "file_find", "ripgrep_search", "url_fetch", "task_list", "task_view",
    }  # fmt: skip
    assert [name for name in WORKSPACE_TOOLS if levels[name] == "system"] == ["bash"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("root = 'missing'", "is no directory"),
        ("root = '..'", "keeps its tokens and logs"),
        ("root = '/'", "holds your home directory"),
        ("root = '~'", "holds your home directory"),
        ("root = 'work'\ntools = ['bash']", "tools names bash, which is not switched on"),
    ],
)
async def test_a_root_that_would_give_too_much_away_is_refused(around, text, complaint):
    loaded = configure(around, f"[workspace]\nenabled = true\n{text}")

    with pytest.raises(ConfigError, match=complaint):
        await names(loaded, around)


@pytest.mark.parametrize(
    "text", ["tools = ['file_reed']", "isolation = 'auto'", "bash = 'yes'", "rooot = '.'", "timeout = 0"]
)
def test_what_cannot_be_meant_is_refused(text):
    with pytest.raises(ConfigError):
        merge(parse_toml(f"[workspace]\nenabled = true\n{text}", "x.toml"))
