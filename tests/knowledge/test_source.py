"""The knowledge base as a source: listed without being loaded, one among others, closed with what it opened."""

import subprocess
import sys

from toolcrib import open_crib, tool
from toolcrib.config.model import Config
from toolcrib.config.sections import KbConfig
from toolcrib.core.requests import Request
from toolcrib.core.source import Listing
from toolcrib.crib.knowledge import make_knowledge
from toolcrib.stores.paths import Environment

LOADED = """
import asyncio, sys
from toolcrib import open_crib
from toolcrib.config.model import Config
from toolcrib.config.sections import KbConfig

async def main():
    async with open_crib(Config(kb=KbConfig(enabled=True, path=sys.argv[1], docs=False, embedder="none"))) as crib:
        before = "numpy" in sys.modules, "toolcrib.knowledge.tools" in sys.modules, len(crib.catalog.routes)
        answered = await crib.call("kb_stats", {})
        print(before, "numpy" in sys.modules, answered.structured["status"])

asyncio.run(main())
"""


def config(tmp_path) -> KbConfig:
    return KbConfig(enabled=True, path=str(tmp_path / "kb.db"), docs=False, embedder="none")


def test_the_room_is_not_imported_before_a_tool_is_called(tmp_path):
    """Start-up is a feature: the tools are in the catalogue, numpy is not in memory."""
    result = subprocess.run(
        [sys.executable, "-c", LOADED, str(tmp_path / "kb.db")], capture_output=True, text=True, check=True
    )

    assert result.stdout == "(False, False, 13) True healthy\n", result.stdout


async def test_it_lists_and_answers_like_any_source(tmp_path):
    source = make_knowledge(config(tmp_path), Environment())
    listed = await source.list_offers()
    answered = await source.answer(Request("kb_stats", "kb_stats", {}))
    await source.close()
    await source.close()

    assert isinstance(listed, Listing)
    assert (source.name, listed.tools) == ("", source.listing.tools)
    assert answered.structured["status"] == "healthy"


async def test_a_tool_of_the_programs_own_counts_more_than_one_of_the_same_name(tmp_path):
    @tool(name="kb_stats")
    def own_stats() -> str:
        return "mine"

    @tool(name="kb_answer")
    def own_answer() -> str:
        return "mine, too"

    events = []
    async with open_crib(Config(kb=config(tmp_path)), tools=[own_stats], emit=events.append) as crib:
        first = await crib.call("kb_stats", {})
        crib.register(own_answer)
        later = await crib.call("kb_answer", {})
        gone = crib.unregister("kb_stats"), crib.unregister("kb_reindex"), crib.unregister("kb.nothing")
        left = set(crib.catalog.routes)

    assert (first.text, later.text, gone) == ("mine", "mine, too", (True, True, False))
    assert not left & {"kb_stats", "kb_reindex"}
    assert {"kb_answer", "kb_add"} < left
    assert [event.fields for event in events if event.name == "tools.registry.replaced"] == [{"tool": "kb_answer"}]
