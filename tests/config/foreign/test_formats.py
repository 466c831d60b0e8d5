import base64
import json

import pytest

from toolcrib.config.foreign.formats import is_link, read_link
from toolcrib.config.foreign.references import ForeignDialect
from toolcrib.config.model import ServerConfig
from toolcrib.core.errors import ConfigError

START = "cursor://anysphere.cursor-deeplink/mcp/install"


def encoded(entry: object) -> str:
    return base64.b64encode(json.dumps(entry).encode()).decode()


@pytest.mark.parametrize(
    "entry", [{"command": "npx", "args": ["-y", "q?>"]}, {"p": {"command": "npx", "args": ["-y", "q?>"]}}]
)
def test_an_install_link_names_one_server(entry):
    """With the entry itself, or with its name around it."""
    link = f"{START}?name=p&config={encoded(entry)}"

    assert is_link(link)
    assert [found.server for found in read_link(link, ForeignDialect())] == [
        ServerConfig("p", command="npx", args=("-y", "q?>"))
    ]


@pytest.mark.parametrize("query", ["", "?name=p", "?name=p&config=%%%", "?name=p&config=/w=="])
def test_a_damaged_link_is_refused(query):
    """With words, not with a traceback."""
    with pytest.raises(ConfigError):
        list(read_link(START + query, ForeignDialect()))
