"""The knowledge base of a configuration: where it is, what is in it from the start, who answers."""

import asyncio
from pathlib import Path

import pytest
from tests.knowledge.embedding_server import embedding_server

from toolcrib import open_crib
from toolcrib.config.explain import explain
from toolcrib.config.merge import merge
from toolcrib.config.model import Config
from toolcrib.config.parse import parse_toml
from toolcrib.config.sections import EmbedderConfig, KbConfig
from toolcrib.core.errors import ConfigError
from toolcrib.crib.library import make_answerer, make_library
from toolcrib.knowledge.library import own_documents
from toolcrib.knowledge.survey import Adding, SourceRoot
from toolcrib.stores.local import kb_path
from toolcrib.stores.paths import Environment


async def test_toolcribs_own_documentation_can_be_searched_at_once(tmp_path):
    config = Config(kb=KbConfig(enabled=True, path=str(tmp_path / "kb.db"), embedder="none"))
    async with open_crib(config) as crib:
        found = await crib.call("kb.hybrid_search", {"query": "isolation of servers", "collection_ids": ["toolcrib"]})
        listed = await crib.call("kb.list_collections", {})
    async with open_crib(config) as crib:
        again = await crib.call("kb.list_collections", {})

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
            found = await crib.call("kb.hybrid_search", {"query": "ants", "collection_ids": ["notes"]})
            server.gate.set()
            async with asyncio.timeout(150):
                while (stats := (await crib.call("kb.stats", {})).structured)["status"] != "healthy":
                    await asyncio.sleep(0)
            again = await crib.call("kb.hybrid_search", {"query": "ants", "collection_ids": ["notes"]})

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
            found = await crib.call("kb.hybrid_search", {"query": "ants", "collection_ids": ["notes"]})
            stats = (await crib.call("kb.stats", {})).structured

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
