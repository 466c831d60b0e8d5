"""``[platform]``: read strictly; tokens by reference only."""

import pytest

from toolcrib.config.explain import explain
from toolcrib.config.merge import merge
from toolcrib.config.model import is_bare
from toolcrib.config.parse import parse_toml
from toolcrib.config.sections import PlatformConfig
from toolcrib.core.errors import ConfigError

WRITTEN = """
[platform]
app_id = "app"
endpoint = "https://gate.example"
token = "${TOKEN}"
tokens = { crm = "${CRM_TOKEN}" }
servers = ["mail*"]
token_check = "none"
version = "v2"
ttl = "1m"
"""


def test_all_of_it_is_read_and_can_be_shown():
    config = merge(parse_toml(WRITTEN, "x.toml"))

    expected = PlatformConfig(
        "app",
        "https://gate.example",
        "${TOKEN}",
        {"crm": "${CRM_TOKEN}"},
        servers=("mail*",),
        token_check="none",
        version="v2",
        ttl_s=60.0,
    )
    shown = {setting.setting: setting.value for setting in explain(config)}
    assert config.platform == expected
    assert (shown["platform.token"], shown["platform.servers"]) == ("${TOKEN}", ["mail*"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('token = "eyJsecret"', "platform.token must be a reference"),
        ('tokens = { crm = "eyJsecret" }', "platform.tokens.crm must be a reference"),
        ('endpont = "https://x.example"', "Did you mean 'endpoint'?"),
        ('endpoint = "gate"', "an address that begins with"),
        ("ttl = 0", "longer than zero"),
        ('version = "v3"', 'one of "auto", "v1", "v2"'),
    ],
)
def test_what_cannot_be_used_is_said_with_its_line_and_without_secrets(text, words):
    with pytest.raises(ConfigError) as refused:
        parse_toml(f"[platform]\n{text}", "x.toml")

    assert words in str(refused.value)
    assert str(refused.value).startswith("x.toml:2: ")
    assert "eyJsecret" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "is_on"),
    [("", False), ('endpoint = "https://x.example"', False), ('app_id = "a"', True), ("development = true", True)],
)
def test_there_is_a_platform_once_there_is_something_to_ask_for(text, is_on):
    config = merge(parse_toml(f"[platform]\n{text}", "x.toml"))

    assert (config.platform.is_on, is_bare(config)) == (is_on, not is_on)
