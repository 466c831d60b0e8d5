"""``[kb.embedders.NAME]``: read strictly, laid over each other by layers, and keys by reference only."""

import pytest

from toolcrib.config.explain import explain
from toolcrib.config.merge import merge
from toolcrib.config.parse import parse_toml
from toolcrib.config.sections import EmbedderConfig
from toolcrib.core.errors import ConfigError

BETTER = """\
[kb]
embedder = "better"
[kb.embedders.better]
kind = "openai"
model = "text-embedding-3-small"
url = "https://api.example.com/v1"
api_key = "${EMBEDDING_KEY}"
dimensions = 512
query_prefix = "query: "
document_prefix = ""
timeout = "10s"
"""


def test_an_embedder_is_read_with_everything_that_is_said_of_it():
    config = merge(parse_toml(BETTER, "toolcrib.toml"))

    assert config.kb.embedder == "better"
    assert config.kb.embedders == {
        "better": EmbedderConfig(
            "openai",
            "text-embedding-3-small",
            "https://api.example.com/v1",
            "",
            "${EMBEDDING_KEY}",
            512,
            "query: ",
            timeout_s=10.0,
        )
    }


def test_an_embedder_may_be_described_in_one_file_and_chosen_in_another():
    described = '[kb.embedders.a]\nkind = "onnx"\npath = "~/model"\n'
    chosen = '[kb]\nembedder = "a"\n[kb.embedders.b]\nkind = "ollama"\nmodel = "m"\n'
    config = merge(parse_toml(described, "user.toml"), parse_toml(chosen, "project.toml"))

    assert (config.kb.embedder, sorted(config.kb.embedders)) == ("a", ["a", "b"])


def test_what_is_configured_is_shown():
    shown = {line.setting: line.value for line in explain(merge(parse_toml(BETTER, "toolcrib.toml")))}

    assert shown["kb.embedders"] == ["better"]
    assert shown["kb.embedders.better.api_key"] == "${EMBEDDING_KEY}"
    assert shown["kb.embedders.better.dimensions"] == 512
    assert "kb.embedders.better.path" not in shown


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '[kb]\nembedder = "beter"\n[kb.embedders.better]\nkind = "bundled"',
            "x.toml:2: There is no embedder 'beter'",
        ),
        ('[kb]\nembedder = "beter"\n[kb.embedders.better]\nkind = "bundled"', "Did you mean 'better'?"),
        ('[kb.embedders.a]\nmodel = "x"', "x.toml:1: The embedder 'a' has no kind."),
        ('[kb.embedders.a]\nkind = "openia"', 'must be one of "bundled", "onnx", "openai", "ollama"'),
        ('[kb.embedders.a]\nkind = "openai"\nmodle = "x"', "Did you mean 'model'?"),
        ('[kb.embedders.a]\nkind = "openai"', "The embedder 'a' has no model."),
        ('[kb.embedders.a]\nkind = "onnx"\npath = "x"\nurl = "http://a"', "x.toml:4: kb.embedders.a.url means nothing"),
        ('[kb.embedders.none]\nkind = "bundled"', "'none' is built in"),
        ('[kb.embedders.a]\nkind = "openai"\nmodel = "m"\ndimensions = 0', "a whole number from 1"),
        ('[kb.embedders]\na = "openai"', "kb.embedders.a must be a table"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(text, says):
    with pytest.raises(ConfigError) as caught:
        merge(parse_toml(text, "x.toml"))

    assert says in str(caught.value)


@pytest.mark.parametrize("key", ["sk-plain-and-secret", "Bearer ${KEY}", "${KEY:-sk-plain-and-secret}", ""])
def test_a_key_is_a_reference_or_refused_without_being_repeated(key):
    text = f'[kb.embedders.a]\nkind = "openai"\nmodel = "m"\napi_key = "{key}"'
    with pytest.raises(ConfigError, match=r"must be a reference to a variable") as caught:
        merge(parse_toml(text, "x.toml"))

    assert "sk-plain" not in str(caught.value)
