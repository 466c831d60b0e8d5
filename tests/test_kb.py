"""The knowledge base of a configuration: where it is, what is in it from the start, who answers."""

from pathlib import Path

import pytest

from toolcrib import open_crib
from toolcrib.config.explain import explain
from toolcrib.config.merge import merge
from toolcrib.config.model import Config, KbConfig
from toolcrib.config.parse import parse_toml
from toolcrib.core.errors import ConfigError
from toolcrib.kb import kb_path, make_answerer
from toolcrib.knowledge.library import own_documents
from toolcrib.surroundings import Surroundings


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
    around = Surroundings(Path("/work"), {"XDG_STATE_HOME": "/state", "PLACE": "/mnt"})

    assert kb_path(KbConfig(path=written), around) == Path(path)


def test_a_key_is_a_reference_that_is_resolved_late_and_never_shown():
    text = '[kb]\nmodel = "small"\nkey = "sk-plain-and-secret"\nurl = "https://user.example/v1"\n'
    shown = {line.setting: line.value for line in explain(merge(parse_toml(text, "x.toml")))}

    assert "sk-plain" not in str(shown)
    assert shown["kb.model"] == "small"
    with pytest.raises(ConfigError, match=r"MISSING_KEY is not set; kb\.key needs it"):
        make_answerer(KbConfig(model="small", key="${MISSING_KEY}"), Surroundings(Path("/"), {}))


@pytest.mark.parametrize("text", ['[kb]\nprovider = "oracle"', '[kb]\nembeder = "none"', "[kb]\nkey = 12345678"])
def test_what_cannot_be_meant_is_refused(text):
    with pytest.raises(ConfigError) as caught:
        merge(parse_toml(text, "x.toml"))

    assert "12345678" not in str(caught.value)
