import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.config.model import ServerConfig
from toolcrib.config.references import resolve, resolve_server
from toolcrib.core.errors import ConfigError

ENV = {"TOKEN": "s3cr3t-value", "EMPTY": "", "HOME": "/home/ada", "DIR": "~/x"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "plain"),
        ("${TOKEN}", "s3cr3t-value"),
        ("${env:TOKEN}", "s3cr3t-value"),
        ("Bearer ${TOKEN}!", "Bearer s3cr3t-value!"),
        ("${TOKEN}${TOKEN}", "s3cr3t-values3cr3t-value"),
        ("${MISSING:-fallback}", "fallback"),
        ("${MISSING:-}", ""),
        ("${EMPTY:-fallback}", "fallback"),
        ("${EMPTY}", ""),
        ("${TOKEN:-fallback}", "s3cr3t-value"),
        ("$${TOKEN}", "${TOKEN}"),
        ("$TOKEN and ${a b} and ${x%%y}", "$TOKEN and ${a b} and ${x%%y}"),
    ],
)
def test_references_are_replaced_and_nothing_else(value, expected):
    """What is not a reference stays as it is, so shell lines survive."""
    assert resolve(value, ENV) == expected


@settings(deadline=None)
@given(st.text().filter(lambda value: "${" not in value))
def test_text_without_references_is_left_alone(value):
    """Whatever else a value contains."""
    assert resolve(value, {}) == value


def test_a_value_from_the_environment_is_not_resolved_again():
    """A secret may look like a reference."""
    assert resolve("${A}", {"A": "${B}", "B": "x"}) == "${B}"


def test_a_missing_variable_is_named_with_its_server_and_field():
    """The user knows at once what to set, and for whom."""
    server = ServerConfig("docs", url="https://x", headers={"Authorization": "Bearer ${DOCS_KEY}"})

    with pytest.raises(ConfigError) as caught:
        resolve_server(server, {})

    assert str(caught.value) == (
        "The variable DOCS_KEY is not set; headers.Authorization of server 'docs' needs it. "
        "Set it, keep it with `toolcrib secrets set DOCS_KEY`, or write ${DOCS_KEY:-default}."
    )


def test_references_only_other_programs_can_resolve_are_refused():
    """``${input:…}`` would ask somebody; nobody is there."""
    with pytest.raises(ConfigError) as caught:
        resolve("${input:api-key}", {}, server="docs", field="env.KEY")

    assert str(caught.value) == (
        "${input:api-key} in env.KEY of server 'docs' cannot be resolved. "
        "Keep the value with `toolcrib secrets set NAME`, or set a variable; then write ${NAME}."
    )


def test_a_resolved_server_is_ready_to_start():
    """Every field is resolved; ``~`` is the user's home at the start of command and cwd, and nowhere else."""
    server = ServerConfig(
        name="a",
        command="~/bin/${NAME:-run}",
        args=("${TOKEN}", "~/not-expanded"),
        env={"T": "${TOKEN}", "D": "~/x"},
        cwd="${DIR}",
        ttl_s=1.0,
    )

    assert resolve_server(server, ENV) == ServerConfig(
        name="a",
        command="/home/ada/bin/run",
        args=("s3cr3t-value", "~/not-expanded"),
        env={"T": "s3cr3t-value", "D": "~/x"},
        cwd="/home/ada/x",
        ttl_s=1.0,
    )
    remote = ServerConfig("b", url="https://${HOST:-x}/mcp", headers={"K": "${TOKEN}"})
    assert resolve_server(remote, ENV) == ServerConfig("b", url="https://x/mcp", headers={"K": "s3cr3t-value"})


def test_a_home_that_is_not_known_is_an_error():
    """Better than a directory called ``~``."""
    with pytest.raises(ConfigError, match=r"HOME is not set; '~/x' of server 'a' needs it\. Write the whole path\."):
        resolve_server(ServerConfig("a", command="~/x"), {})
