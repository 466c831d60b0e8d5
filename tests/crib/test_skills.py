"""Skills from a server to a client: merged, under names of their own, and only if their files are what was promised."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib.core.access import LOCAL_USER, Caller, Grants
from toolcrib.core.offers import OfferKind, RequestKind, SecurityLevel
from toolcrib.crib.window import ProfileView
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.stores.paths import Environment
from toolcrib.testing import RecordingChannel
from toolcrib.wire.jsonrpc import Inbound
from toolcrib.wire.messages import Asker

SERVER = Path(__file__).resolve().parents[1] / "doubles" / "skills_server.py"
OLD, NEW = Asker("2025-11-25"), Asker("2026-07-28")
EXTENSION = "io.modelcontextprotocol/skills"
PDF, FORMS = "skill://docs/pdf-processing/SKILL.md", "skill://docs/pdf-processing/references/FORMS.md"
ERAS = pytest.mark.parametrize("asker", [OLD, NEW], ids=["handshake", "modern"])


def entry(mode: str = "good") -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(SERVER)], "env": {"SKILLS_MODE": mode}}


@asynccontextmanager
async def opened(mode: str = "good", *, home: Path | None = None) -> AsyncIterator[toolcrib.Crib]:
    """A crib before the server; with a home, what is accepted lasts."""
    if home is None:
        async with toolcrib.open_crib({"mcpServers": {"docs": entry(mode)}}) as crib:
            yield crib
        return
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"docs": entry(mode)}}))
    around = Environment(home, {"HOME": str(home)})
    async with toolcrib.open_crib(home / "mcp.json", surroundings=around) as crib:
        yield crib


async def ask(
    crib: toolcrib.Crib, method: str, params: dict[str, Any] | None = None, asker: Asker = NEW, caller=LOCAL_USER
) -> dict[str, Any]:
    await crib.tools(grace_s=60)
    mcp = McpService(ProfileView(crib), ServerIdentity("toolcrib", "9"))
    body, _ = await mcp.respond(Inbound("2.0", 1, method, params or {}), asker, RecordingChannel(), caller)
    answer = json.loads(body)
    return answer["result"] if "result" in answer else answer["error"]


@ERAS
async def test_skills_are_listed_under_the_name_of_their_server(asker):
    """All pages of it; digests and sizes as they are, each URI with the server behind its scheme."""
    async with opened() as crib:
        listed = await ask(crib, "skills/list", asker=asker)
        got = await ask(crib, "skills/get", {"uri": PDF}, asker)
        unknown = await ask(crib, "skills/get", {"uri": "skill://docs/none/SKILL.md"}, asker)

    by_uri = {skill["uri"]: skill for skill in listed["skills"]}
    assert set(by_uri) == {PDF, "skill://docs/notes/SKILL.md"}
    assert by_uri[PDF]["frontmatter"]["name"] == "pdf-processing"
    assert [one["uri"] for one in by_uri[PDF]["resources"]] == [PDF, FORMS]
    assert got["skill"] == by_uri[PDF]
    assert unknown["code"] == -32602
    assert ("ttlMs" in listed, "ttlMs" in got) == (asker is NEW, asker is NEW)


async def test_the_extension_is_announced_only_with_something_behind_it():
    """With ``directoryRead`` where a server can do that."""
    async with opened() as crib:
        some = (await ask(crib, "server/discover"))["capabilities"]
    async with toolcrib.open_crib({"mcpServers": {}}) as crib:
        none = (await ask(crib, "server/discover"))["capabilities"]

    assert some["extensions"][EXTENSION] == {"directoryRead": True}
    assert "resources" in some
    assert EXTENSION not in none.get("extensions", {})


@ERAS
async def test_files_are_read_and_directories_too(asker):
    """A file that no list of resources has, and a directory of a thousand entries."""
    async with opened() as crib:
        body = await ask(crib, "resources/read", {"uri": PDF}, asker)
        file = await ask(crib, "resources/read", {"uri": FORMS}, asker)
        top = await ask(crib, "resources/directory/read", {"uri": "skill://docs/pdf-processing"}, asker)
        below = await ask(crib, "resources/directory/read", {"uri": "skill://docs/pdf-processing/references"}, asker)
        no_directory = await ask(crib, "resources/directory/read", {"uri": PDF}, asker)

    assert body["contents"][0]["uri"] == PDF
    assert file["contents"][0]["text"] == "How forms are filled.\n"
    assert [one["uri"] for one in top["resources"]] == [PDF, "skill://docs/pdf-processing/references"]
    assert len(below["resources"]) == 1000
    assert below["resources"][0]["uri"] == "skill://docs/pdf-processing/references/0.md"
    assert no_directory["code"] == -32602


@pytest.mark.parametrize(
    ("mode", "words"),
    [("tampered", "digest"), ("longer", "bytes"), ("disguised", "begins with")],
)
async def test_content_that_is_not_what_was_promised_is_handed_to_nobody(mode, words):
    """By every way to read it; the other files of the skill can still be read."""
    async with opened(mode) as crib:
        await crib.tools(grace_s=60)
        read = await crib.read(PDF)
        other = await crib.read(FORMS)

    assert read.error.code == "TOOL_EXECUTION_FAILED"
    assert words in read.error.message
    assert "Secrets" not in str(read.mcp)
    assert other.success


async def test_a_skill_that_changed_is_held_with_all_its_files_until_it_is_accepted(tmp_path):
    """Its files too, although one of them is also listed as a resource of its own."""
    async with opened(home=tmp_path) as crib:
        await crib.tools(grace_s=60)
        before = await crib.read(PDF)
    async with opened("second", home=tmp_path) as crib:
        await crib.refresh()
        listed = await ask(crib, "skills/list")
        held = [await crib.read(uri) for uri in (PDF, FORMS)]
        key = "skill docs__skill://pdf-processing/SKILL.md"
        accepted = await crib.servers.approve(key)
        after = await crib.read(PDF)

    assert before.success
    assert [skill["uri"] for skill in listed["skills"]] == ["skill://docs/notes/SKILL.md"]
    assert [result.error.code for result in held] == ["TOOL_PERMISSION_DENIED"] * 2
    assert all("quarantine" in result.error.message for result in held)
    assert accepted
    assert after.success


async def test_entries_nobody_should_take_are_left_out_with_a_reason():
    """Paths that climb out, files of others, digests of another form, far too many files."""
    async with opened("hostile") as crib:
        listed = await ask(crib, "skills/list")
        problems = crib.shelves["docs"].record.problems

    assert [skill["uri"] for skill in listed["skills"]] == ["skill://docs/notes/SKILL.md"]
    assert len([problem for problem in problems if problem.startswith("left out")]) == 7


async def test_rules_hold_for_skills_as_for_everything_else():
    """A caller who may not know of the server hears of none of it."""
    closed = Caller("token:a", "token", Grants(SecurityLevel.READ_ONLY, servers=("other",)))
    async with opened() as crib:
        listed = await ask(crib, "skills/list", caller=closed)
        got = await ask(crib, "skills/get", {"uri": PDF}, caller=closed)
        read = await ask(crib, "resources/read", {"uri": PDF}, caller=closed)
        route = crib.catalog.find(RequestKind.READ, "docs__skill://pdf-processing/references/FORMS.md")

    assert listed["skills"] == []
    assert got["code"] == -32602
    assert "contents" not in read
    assert route.offer.kind is OfferKind.SKILL


async def test_skills_of_two_servers_never_collide():
    """Each is read from its own server, whatever the other one has under the same path."""
    config = {"mcpServers": {"docs": entry(), "more": entry("tampered")}}
    async with toolcrib.open_crib(config) as crib:
        listed = await ask(crib, "skills/list")
        good, bad = await crib.read(PDF), await crib.read(PDF.replace("docs", "more"))

    assert len(listed["skills"]) == 4
    assert good.success
    assert bad.error is not None
