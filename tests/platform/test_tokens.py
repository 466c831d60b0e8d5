"""Token checks say exactly what the platform's contract says; tokens stay with the server they are for."""

import pytest
from tests.platform.fake_gateway import jwt

from toolcrib.config.manifest import ManifestEntry
from toolcrib.platform.headers import InvalidToken, TokenPlan, authorisation_of, check_token, own_scope, variable_for


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (None, "Authentication token is required"),
        ("", "Authentication token is required"),
        ("  ", "Authentication token is required"),
        ("abc", "Invalid JWT token format"),
        ("a.b.c.d", "Invalid JWT token format"),
        ("Bearer a.b.c", "Invalid JWT token format"),
        ("a.b\r\nx: y.c", "Invalid JWT token format"),
        ("a.%%.c", "Failed to decode JWT token payload"),
        ("a..c", "Failed to decode JWT token payload"),
        ("a.W10.c", "Failed to decode JWT token payload"),
        (jwt(exp=1), "Authentication token has expired"),
        (jwt(exp=None), "Authentication token does not contain expiration claim"),
        (jwt(exp="soon"), "Authentication token does not contain expiration claim"),
        (jwt(exp=True), "Authentication token does not contain expiration claim"),
    ],
)
def test_a_bad_token_is_refused_in_the_words_of_the_contract(token, message):
    with pytest.raises(InvalidToken) as refused:
        check_token(token)

    assert str(refused.value) == message


def test_clocks_may_differ_a_little_but_not_much():
    assert check_token(jwt(exp=1000), now=1020)["exp"] == 1000
    assert check_token(jwt(exp=2000, nbf=1020), now=1000)["nbf"] == 1020
    with pytest.raises(InvalidToken, match="has expired"):
        check_token(jwt(exp=1000), now=1031)
    with pytest.raises(InvalidToken, match="not valid yet"):
        check_token(jwt(exp=2000, nbf=1040), now=1000)


@pytest.mark.parametrize(
    ("audience", "scope", "expected"),
    [
        ("", "", ""),
        ("ea9ffc3e-8a23-4a7d-836d-234d7c7565c1", "McpServers.Mail.All", ""),
        ("api://ea9ffc3e-8a23-4a7d-836d-234d7c7565c1", "", ""),
        ("api://mail", "", "api://mail/.default"),
        ("1111", "Tools.ListInvoke.All", "1111/Tools.ListInvoke.All"),
    ],
)
def test_only_a_server_with_an_audience_of_its_own_needs_its_own_token(audience, scope, expected):
    assert own_scope(ManifestEntry("a", "a", audience=audience, scope=scope)) == expected


async def test_the_shared_token_goes_to_the_platforms_host_alone():
    plan = TokenPlan("shared", "https://gate.example")
    entry = ManifestEntry("a", "a")

    assert await authorisation_of(entry, "https://gate.example:444/a", plan) == ("Bearer shared", "")
    assert (await authorisation_of(entry, "https://other.example/a", plan))[0] == ""
    assert (await authorisation_of(entry, "http://gate.example/a", plan))[0] == ""


async def test_a_servers_own_token_comes_first_then_what_it_came_with():
    entry = ManifestEntry("a", "a", headers={"authorization": "Basic x"})
    plan = TokenPlan("shared", own=lambda server, scope: "own" if server.name == "a" else None)

    assert await authorisation_of(entry, "https://x.example", plan) == ("Bearer own", "")
    assert await authorisation_of(entry, "https://x.example", TokenPlan("shared")) == ("Basic x", "")


async def test_a_server_of_another_audience_never_gets_the_shared_token():
    entry = ManifestEntry("a", "a", audience="api://other")

    found, why = await authorisation_of(entry, "https://gate.example", TokenPlan("shared", "https://gate.example"))

    assert (found, why) == ("", "it needs a token of its own, for api://other/.default")


def test_the_variable_of_a_server_is_named_after_it():
    assert variable_for(ManifestEntry("mcp_Mail-Tools", "")) == "BEARER_TOKEN_MCP_MAIL_TOOLS"


def test_a_plan_shown_by_mistake_shows_no_token():
    assert "secret" not in repr(TokenPlan("secret"))
