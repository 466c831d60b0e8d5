"""The knowledge base of a configuration: where it is, what is in it from the start, who answers."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.knowledge.embedding_server import embedding_server

from toolcrib import Crib, open_crib, open_profile
from toolcrib.config.explain import explain
from toolcrib.config.merge import merge
from toolcrib.config.model import DEFAULT, Config
from toolcrib.config.parse import parse_toml
from toolcrib.config.sections import EmbedderConfig, KbConfig, ProfileConfig, ProfileTool, SecurityConfig
from toolcrib.core.access import Caller, Grants
from toolcrib.core.errors import ConfigError
from toolcrib.core.kinds import Policy
from toolcrib.core.offers import SecurityLevel
from toolcrib.crib.library import make_answerer, make_library
from toolcrib.knowledge.library import own_documents
from toolcrib.knowledge.survey import Adding, SourceRoot
from toolcrib.stores.local import kb_path
from toolcrib.stores.paths import Environment


async def test_toolcribs_own_documentation_can_be_searched_at_once(tmp_path):
    config = Config(kb=KbConfig(enabled=True, path=str(tmp_path / "kb.db"), embedder="none"))
    async with open_crib(config) as crib:
        found = await crib.call("kb_hybrid_search", {"query": "isolation of servers", "collection_ids": ["toolcrib"]})
        listed = await crib.call("kb_list_collections", {})
    async with open_crib(config) as crib:
        again = await crib.call("kb_list_collections", {})

    best = found.structured["results"][0]
    assert best["citation"]["source_url"] == "toolcrib/docs/isolation.md"
    assert best["citation"]["license"] == "Apache-2.0"
    assert [entry["collection_id"] for entry in listed.structured["collections"]] == ["toolcrib"]
    assert listed.structured["collections"][0]["description"]
    assert again.structured == listed.structured


def test_a_package_brings_its_documentation_along(tmp_path):
    (tmp_path / "_docs" / "docs").mkdir(parents=True)
    found = own_documents(tmp_path, "1.0")

    assert [(root.path, root.label) for root in found.roots] == [(tmp_path / "_docs", "toolcrib")]
    assert own_documents(tmp_path / "elsewhere" / "deep", "1.0") is None


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("", "/state/toolcrib/kb.db"),
        ("own.db", "/work/own.db"),
        ("${PLACE}/kb.db", "/mnt/kb.db"),
        ("/a/b.db", "/a/b.db"),
    ],
)
def test_the_file_is_where_the_configuration_says(written, path):
    around = Environment(Path("/work"), {"XDG_STATE_HOME": "/state", "PLACE": "/mnt"})

    assert kb_path(KbConfig(path=written), around) == Path(path)


def test_a_key_is_a_reference_that_is_resolved_late_and_never_shown():
    text = '[kb]\nmodel = "small"\nkey = "sk-plain-and-secret"\nurl = "https://user.example/v1"\n'
    shown = {line.setting: line.value for line in explain(merge(parse_toml(text, "x.toml")))}

    assert "sk-plain" not in str(shown)
    assert shown["kb.model"] == "small"
    with pytest.raises(ConfigError, match=r"MISSING_KEY is not set; kb\.key needs it"):
        make_answerer(KbConfig(model="small", key="${MISSING_KEY}"), Environment(Path("/"), {}))


@pytest.mark.parametrize("text", ['[kb]\nprovider = "oracle"', '[kb]\nembeder = "none"', "[kb]\nkey = 12345678"])
def test_what_cannot_be_meant_is_refused(text):
    with pytest.raises(ConfigError) as caught:
        merge(parse_toml(text, "x.toml"))

    assert "12345678" not in str(caught.value)


async def far_kb(server, tmp_path):
    """A configuration with a collection whose embedder is behind HTTP, and two notes in it."""
    far = EmbedderConfig("openai", "small", server.url, api_key="${FAR_KEY}")
    config = Config(kb=KbConfig(True, str(tmp_path / "kb.db"), docs=False, embedder="far", embedders={"far": far}))
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "ants.md").write_text("# Ants\n\nAnts carry leaves.")
    (notes / "bees.md").write_text("# Bees\n\nBees dance.")
    return config, notes


async def test_tools_say_when_an_embedder_is_away_and_recover_in_the_background(tmp_path, monkeypatch):
    monkeypatch.setenv("FAR_KEY", "sk-very-secret-indeed")
    async with embedding_server(key="sk-very-secret-indeed") as server:
        config, notes = await far_kb(server, tmp_path)
        server.failures = [(400, {}, {"error": {"message": "No model is loaded"}})]
        library = make_library(config.kb, Environment())
        await library.open()
        await library.ingest.add([SourceRoot(notes)], Adding("notes"))
        held = await library.store.counts("notes")
        await library.close()
        server.gate = asyncio.Event()
        async with open_crib(config) as crib:
            found = await crib.call("kb_hybrid_search", {"query": "ants", "collection_ids": ["notes"]})
            server.gate.set()
            async with asyncio.timeout(150):
                while (stats := (await crib.call("kb_stats", {})).structured)["status"] != "healthy":
                    await asyncio.sleep(0)
            again = await crib.call("kb_hybrid_search", {"query": "ants", "collection_ids": ["notes"]})

    assert held.lacking == 2
    assert found.structured["results"][0]["title"] == "Ants"
    assert found.structured["warnings"] == ["notes: only words count; its vectors are still to be made."]
    assert (stats["collections"][0]["embedder"], stats["collections"][0]["dimensions"]) == ("openai:small", 48)
    assert "warnings" not in again.structured


async def test_an_embedder_whose_key_is_not_set_leaves_words(tmp_path, monkeypatch):
    monkeypatch.setenv("FAR_KEY", "sk-very-secret-indeed")
    async with embedding_server(key="sk-very-secret-indeed") as server:
        config, notes = await far_kb(server, tmp_path)
        library = make_library(config.kb, Environment())
        await library.open()
        await library.ingest.add([SourceRoot(notes)], Adding("notes"))
        await library.close()
        monkeypatch.delenv("FAR_KEY")
        async with open_crib(config) as crib:
            found = await crib.call("kb_hybrid_search", {"query": "ants", "collection_ids": ["notes"]})
            stats = (await crib.call("kb_stats", {})).structured

    assert found.structured["results"][0]["title"] == "Ants"
    assert "The variable FAR_KEY is not set" in found.structured["warnings"][0]
    assert (stats["status"], "FAR_KEY is not set" in stats["reasons"][0]) == ("degraded", True)


def test_toolcribs_own_documents_never_wait_for_a_network(tmp_path):
    async def embedders_of(config):
        library = make_library(config, Environment())
        await library.open()
        known = {each.id: each.embedder_name for each in await library.store.collections()}
        await library.close()
        return known

    far = EmbedderConfig("openai", "small", "http://127.0.0.1:9")
    config = KbConfig(True, str(tmp_path / "kb.db"), embedder="far", embedders={"far": far})

    assert asyncio.run(embedders_of(config)) == {"toolcrib": "bundled"}


def kb_of(tmp_path: Path, **more) -> Config:
    """As files make it: nobody has asked for the tools."""
    kb = KbConfig(True, str(tmp_path / "kb.db"), False, (str(tmp_path),), "none", **more)
    return Config(kb=kb, origins={"kb.enabled": DEFAULT})


def listed(crib: Crib) -> list[str]:
    return [name for name in crib.catalog.routes if name.startswith("kb_")]


async def test_the_tools_are_listed_from_the_first_document_to_the_last(tmp_path):
    """And clients are told; called they can be all the time."""
    (tmp_path / "note.md").write_text("Ants carry leaves.")
    told = []
    async with open_crib(kb_of(tmp_path)) as crib:
        crib.on_change(lambda: told.append(len(listed(crib))))
        before = listed(crib), (await crib.call("kb_stats", {})).success
        added = await crib.call("kb.add", {"sources": [str(tmp_path / "note.md")]})
        after = len(listed(crib))
        await crib.call("kb_remove", {"collection_id": "default", "whole_collection": True})

        assert before == ([], True)
        assert added.success
        assert (after, listed(crib), told) == (12, [], [12, 0])


async def test_what_another_process_added_is_noticed_by_the_next_list(tmp_path):
    (tmp_path / "note.md").write_text("Ants carry leaves.")
    async with open_crib(kb_of(tmp_path)) as crib, open_crib(kb_of(tmp_path)) as other:
        before = await crib.tools()
        await other.call("kb_add", {"sources": [str(tmp_path / "note.md")]})

        assert before == [tool for tool in await crib.tools() if tool.name == "result_read"]
        assert len(await crib.tools()) == len(before) + 12
    async with open_crib(kb_of(tmp_path)) as crib:
        assert len(listed(crib)) == 12
    async with open_crib(kb_of(tmp_path, expose="never")) as crib:
        assert listed(crib) == []


async def test_rules_hold_for_both_names_and_the_stricter_one_counts(tmp_path):
    """What was written for the specification's names protects what is called by the others."""
    policies = {"kb.export": Policy.DENY, "kb_stats": Policy.ALLOW, "kb.stats": Policy.DENY, "kb.l*": Policy.DENY}
    config = replace(kb_of(tmp_path), security=SecurityConfig(policies=policies))
    async with open_crib(config) as crib:
        names = ("kb_export", "kb.export", "kb_stats", "kb.stats", "kb_list_documents", "kb_list_collections")
        codes = {name: (await crib.call(name, {"collection_id": "x"})).error.code for name in names}
        searching = Caller("agent", "token", Grants(SecurityLevel.READ_ONLY, tools=("kb.hybrid_search",)))
        asked = {"query": "x", "collection_ids": ["*"]}
        found = [(await crib.call(name, asked, caller=searching)).error for name in ("kb_hybrid_search", "kb_answer")]

        assert codes == dict.fromkeys(names, "TOOL_PERMISSION_DENIED")
        assert found[0] is None
        assert found[1].code == "TOOL_PERMISSION_DENIED"


async def test_a_profile_written_for_the_specifications_names_still_shows_and_changes_them(tmp_path):
    change = {"kb.hybrid_search": ProfileTool(name="look_up", fixed={"collection_ids": ["mine"]})}
    profile = ProfileConfig(tools=("kb.*",), without=("kb.add",), change=change)
    config = replace(kb_of(tmp_path, expose="always"), profiles={"reader": profile})
    async with open_profile("reader", config) as window:
        names = {tool.name for tool in await window.tools()}
        added = await window.call("kb.add", {"sources": []})

        assert "look_up" in names
        assert names.isdisjoint({"kb_add", "kb_hybrid_search"})
        assert added.error.code == "TOOL_NOT_FOUND"
