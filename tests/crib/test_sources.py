"""What toolcrib itself is given is secret, too: no server can have it repeated."""

from toolcrib.config.model import Config, ServerConfig
from toolcrib.config.references import Environment
from toolcrib.config.sections import EmbedderConfig, KbConfig
from toolcrib.crib.sources import SourceMaker

ENV = {"KB_KEY": "sesame-of-the-model-1", "EMBED_KEY": "sesame-of-the-embedder-2"}


async def test_the_keys_of_the_knowledge_base_and_its_embedders_are_taken_out_of_what_servers_say(tmp_path):
    """As references, written out, and within an address."""
    embedders = {
        "one": EmbedderConfig("openai", api_key="${EMBED_KEY}"),
        "two": EmbedderConfig(
            "openai", api_key="sesame-written-out-3", url="https://me:sesame-in-url-4@embed.example/v1"
        ),
    }
    kb = KbConfig(model="m", key="${KB_KEY}", url="https://me:sesame-in-url-5@kb.example/v1", embedders=embedders)
    maker = SourceMaker(Config(kb=kb), Environment(tmp_path, ENV), lambda _: None)
    maker(ServerConfig("files", command="true"))

    said = " ".join((*ENV.values(), "sesame-written-out-3", "sesame-in-url-4", "sesame-in-url-5", "plain"))
    shown = maker.hide(said)
    await maker.close()

    assert "sesame" not in shown
    assert shown.endswith("plain")
