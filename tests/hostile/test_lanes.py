"""What a server gives to one caller in a process of their own, no other caller reaches."""

from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.hostile.encounter import SETTINGS, entry

import toolcrib
from toolcrib.core.access import EVERYTHING, Caller
from toolcrib.stores.paths import Environment

ANN, ANN_TOO = Caller("ann", grants=EVERYTHING, session="s1"), Caller("ann", grants=EVERYTHING, session="s2")
BEN = Caller("ben", grants=EVERYTHING, session="s3")


@asynccontextmanager
async def crib_of(share: str, folder: Path):
    config = folder / "toolcrib.toml"
    config.write_text(SETTINGS + entry("bad", "own_pages", folder) + f"share = {share!r}\n")
    around = Environment(folder, {"HOME": str(folder), "PATH": "/usr/bin:/bin"})
    async with toolcrib.open_crib(config, surroundings=around) as crib:
        await crib.current()
        yield crib


async def link_for(crib, caller: Caller) -> str:
    result = await crib.call("bad__echo", {"text": ""}, caller=caller, timeout_s=60)
    return result.content[0]["uri"]


@pytest.mark.parametrize(("share", "other"), [("user", BEN), ("session", BEN), ("session", ANN_TOO)])
async def test_a_page_of_one_lane_is_read_in_no_other(tmp_path, share, other):
    """Not by who knows its URI, and not by who was handed one of their own; in its own lane it is read."""
    async with crib_of(share, tmp_path) as crib:
        mine, theirs = await link_for(crib, ANN), await link_for(crib, other)
        own = await crib.read(mine, caller=ANN, timeout_s=60)
        foreign = await crib.read(mine, caller=other, timeout_s=60)

    assert mine != theirs
    assert own.error is None
    assert foreign.error is not None
    assert "for one caller only" not in str(foreign.mcp)


async def test_a_link_is_nothing_to_who_was_not_handed_it(tmp_path):
    """Where all share the server, too: no list contains it."""
    async with crib_of("all", tmp_path) as crib:
        mine = await link_for(crib, ANN)
        foreign = await crib.read(mine, caller=BEN, timeout_s=60)

    assert foreign.error is not None
    assert foreign.error.code == "TOOL_NOT_FOUND"
