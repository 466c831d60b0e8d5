"""Explanations: every way a name can be here or not has its own verdict."""

import pytest

from toolcrib.config.model import Config, ServerConfig, ToolConfig
from toolcrib.core.errors import SourceUnavailable
from toolcrib.testing import FakeSource, memory_crib


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def files__taken() -> None:
    """A native tool with a server's name in it."""


CONFIG = Config(
    servers={
        "files": ServerConfig(
            "files",
            command="files",
            tools={"delete": ToolConfig(enabled=False), "read": ToolConfig(parameters={"path": "file"})},
            origin="toolcrib.toml",
            line=4,
        ),
        "asleep": ServerConfig("asleep", command="asleep"),
        "broken": ServerConfig("broken", command="broken"),
        "off": ServerConfig("off", command="off", enabled=False),
    }
)


async def explained(name: str):
    """The explanation, where ``files`` and ``broken`` have been asked and ``asleep`` has not."""
    files, broken = FakeSource("files", ["read", "delete", "taken"]), FakeSource("broken")
    files.problems = ("left out: 'bad': its schema is not valid",)
    broken.trouble = SourceUnavailable("The server 'broken' will not start.")
    async with memory_crib(files, broken, FakeSource("asleep"), tools=[add, files__taken], config=CONFIG) as made:
        await made.crib.refresh("files", "broken")
        return made.crib.explain(name)


@pytest.mark.parametrize(
    ("name", "verdict", "reason", "todo"),
    [
        ("add", "available", "It is a native tool of this process.", ""),
        ("files__read", "available", "Server 'files' (configured in toolcrib.toml:4) calls it 'read'.", ""),
        ("files__delete", "hidden", "disabled in the configuration", "Remove the entry"),
        ("files__bad", "left out", "left out: 'bad': its schema is not valid", "Ask the author"),
        (
            "files__raed",
            "missing",
            "Server 'files' offers no tool or prompt named 'raed'.",
            "Did you mean 'files__read'",
        ),
        ("broken__x", "failed", "The server 'broken' will not start.", "toolcrib servers refresh broken"),
        (
            "asleep__x",
            "not discovered",
            "Server 'asleep' is no help yet: nobody has asked",
            "toolcrib servers refresh asleep",
        ),
        ("off__x", "disabled", "Server 'off' is switched off.", "toolcrib servers enable off"),
        ("fils__read", "missing", "No server named 'fils' is configured. Did you mean 'files'?", "servers ls"),
        ("ad", "missing", "No native tool has this name. 'ad' is not a tool of a server.", "Did you mean 'add'?"),
        ("__x", "missing", "No native tool has this name.", "See `toolcrib ls`."),
    ],
)
async def test_every_name_has_a_story(name, verdict, reason, todo):
    """A verdict, the reason for it, and what to do."""
    explanation = await explained(name)

    assert (explanation.name, explanation.verdict) == (name, verdict)
    assert explanation.reasons[0].startswith(reason)
    assert todo in explanation.todo


async def test_a_name_that_is_taken_says_by_whom():
    """The native tool is available under it; the server's own is left out of the catalogue."""
    assert (await explained("files__taken")).reasons == (
        "It is a native tool of this process.",
        "'files__taken' of server 'files' is left out: the name is taken by a native tool.",
        "Its level is write: stated by the native tool itself.",
        "Its policy is allow: the general policy (security.policy).",
    )


async def test_renamed_parameters_are_part_of_the_story():
    """So that nobody wonders what the server is sent."""
    assert "Parameters are renamed on the way: path → file." in (await explained("files__read")).reasons


async def test_a_tool_of_a_server_in_trouble_is_stale():
    """It is still offered, with the failure told."""
    files = FakeSource("files", ["read"])
    async with memory_crib(files) as made:
        await made.crib.refresh("files")
        files.trouble = SourceUnavailable("down")
        await made.crib.refresh("files")
        explanation = made.crib.explain("files__read")

    assert explanation.verdict == "stale"
    assert "The last discovery failed: down" in explanation.reasons
    assert explanation.todo == "It is tried again by itself; or now: `toolcrib servers refresh files`."
    assert explanation.facts["original"] == "read"


async def test_a_tool_for_which_there_was_no_room_says_so():
    """And which setting it is about."""
    async with memory_crib(FakeSource("files", ["a", "b"]), tools=[add], config=Config(capacity=2)) as made:
        await made.crib.current()
        story = made.crib.explain("files__b")

    assert (story.verdict, story.reasons, story.todo) == (
        "left out",
        ("the catalogue is full at 2 tools ([catalog] capacity).",),
        "Raise it, or disable what is not needed.",
    )
