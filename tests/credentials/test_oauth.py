"""OAuth as values: what is read, chosen and refused."""

import base64
import hashlib
import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from toolcrib.credentials.oauth import (
    ID_JAG,
    AuthorizationServer,
    CallbackRefused,
    Challenge,
    IssuerRefused,
    OAuthClient,
    challenge_of,
    check_issuer,
    check_pkce,
    choose_scopes,
    claims_of,
    covers_resource,
    extend_url,
    is_document,
    method_to_register,
    prove_client,
    read_challenge,
    read_code,
    read_tokens,
    refusal,
    renewal_due_s,
    sign_jwt,
)

AS = AuthorizationServer("https://as.example")


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (b"Bearer", Challenge()),
        (b'Bearer realm="x", error="invalid_token"', Challenge("invalid_token")),
        (b'bearer scope="a b a", resource_metadata=https://x/y', Challenge("", "", ("a", "b"), "https://x/y")),
        (b'Basic realm="a, Bearer", Bearer error="insufficient_scope"', Challenge("insufficient_scope")),
        (b'Bearer error_description="say \\"no\\"\x07"', Challenge("", 'say "no"')),
        (b"Digest x=y", None),
        (b"", None),
        (b'Bearer scope="unfinished', Challenge()),
    ],
)
def test_a_challenge_is_read_however_it_is_written(header: bytes, found: Challenge | None):
    assert read_challenge([header]) == found


def test_scopes_are_those_configured_else_challenged_else_offered_and_for_renewing_where_that_is_one():
    assert choose_scopes(["own"], ["asked"], ["all"], ["offline_access"]) == ("own",)
    assert choose_scopes([], ["asked"], ["all"], ["offline_access"]) == ("asked", "offline_access")
    assert choose_scopes([], [], ["all"], []) == ("all",)
    assert choose_scopes([], [], [], []) == ()


@pytest.mark.parametrize(
    ("said", "url", "fits"),
    [
        ("https://mcp.example/mcp", "https://mcp.example/mcp", True),
        ("https://MCP.example", "https://mcp.example/mcp", True),
        ("https://mcp.example/mc", "https://mcp.example/mcp", False),
        ("https://mcp.example/mcp/inner", "https://mcp.example/mcp", False),
        ("http://mcp.example/mcp", "https://mcp.example/mcp", False),
        ("https://evil.example/mcp", "https://mcp.example/mcp", False),
        ("https://mcp.example@evil.example/mcp", "https://mcp.example/mcp", False),
    ],
)
def test_metadata_count_only_for_the_server_they_are_about(said: str, url: str, fits: bool):
    assert covers_resource(said, url) is fits


def test_the_challenge_of_a_verifier_is_its_digest():
    expected = base64.urlsafe_b64encode(hashlib.sha256(b"abc").digest()).rstrip(b"=").decode()

    assert challenge_of("abc") == expected


def test_a_server_without_pkce_is_refused_and_one_that_does_not_say_only_without_a_client_of_ones_own():
    for methods in (None, (), ("plain",)):
        with pytest.raises(IssuerRefused, match="PKCE"):
            check_pkce(AuthorizationServer("x", code_challenge_methods_supported=methods), is_configured=False)
    check_pkce(AS, is_configured=True)
    check_pkce(AuthorizationServer("x", code_challenge_methods_supported=("S256",)), is_configured=False)


@pytest.mark.parametrize(
    ("said", "advertised", "fits"),
    [
        ("https://as.example", True, True),
        ("https://as.example", False, True),
        (None, False, True),
        (None, True, False),
        ("https://as.example/", False, False),
        ("https://AS.example", True, False),
    ],
)
def test_who_answered_is_compared_letter_by_letter(said: str | None, advertised: bool, fits: bool):
    server = AuthorizationServer("https://as.example", authorization_response_iss_parameter_supported=advertised)
    if fits:
        check_issuer(said, server)
    else:
        with pytest.raises(CallbackRefused):
            check_issuer(said, server)


def test_an_error_is_told_in_the_issuers_own_words_unless_another_issuer_says_it():
    with pytest.raises(IssuerRefused, match="you said no"):
        read_code({"error": "access_denied", "error_description": "you said no"}, AS)
    with pytest.raises(CallbackRefused, match="another authorization server"):
        read_code({"error": "access_denied", "iss": "https://evil.example"}, AS)
    with pytest.raises(IssuerRefused, match="without a code"):
        read_code({}, AS)


@pytest.mark.parametrize(
    ("said", "life_s"),
    [(3600, 3600.0), ("60", 60.0), (None, None), (0, None), (-5, None), ("soon", None), (10**12, 10 * 365 * 86400.0)],
)
def test_what_says_no_sensible_end_lives_until_it_is_refused(said: object, life_s: float | None):
    body = json.dumps({"access_token": "a", "expires_in": said}).encode()

    assert read_tokens(body, "x", "step").life_s == life_s


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"token_type":"Bearer"}',
        b'{"access_token":"a\\r\\nx: y"}',
        b'{"access_token":"a","token_type":"DPoP"}',
        b'{"access_token":"a","refresh_token":"b c"}',
        b'{"access_token":5}',
        b'{"access_token":"' + b"a" * 70_000 + b'"}',
    ],
)
def test_an_answer_that_is_no_token_is_refused(body: bytes):
    with pytest.raises(IssuerRefused):
        read_tokens(body, "https://as.example", "the token request")


def test_scopes_that_were_not_said_are_those_that_were_asked_for():
    assert read_tokens(b'{"access_token":"a"}', "x", "s", asked=("r",)).scopes == ("r",)
    assert read_tokens(b'{"access_token":"a","scope":"r w"}', "x", "s", asked=("r",)).scopes == ("r", "w")


def test_a_refusal_names_issuer_step_and_words_without_what_no_terminal_should_see():
    error = refusal(
        b'{"error":"invalid_grant","error_description":"\\u001b[31mrevoked"}', 400, "https://as", "the renewal"
    )

    assert error.error == "invalid_grant"
    assert error.message == "https://as: the renewal failed: invalid_grant: [31mrevoked."
    assert error.details["http_status"] == 400
    assert "HTTP 502" in refusal(b"<html>", 502, "https://as", "the renewal").message


def test_a_client_proves_itself_as_it_registered_or_as_the_server_likes():
    post = AuthorizationServer("x", token_endpoint_auth_methods_supported=("client_secret_post",))

    assert prove_client(OAuthClient("me"), AS, 0) == ({"client_id": "me"}, [])
    fields, headers = prove_client(OAuthClient("me:", "s e"), AS, 0)
    assert fields == {}
    assert base64.b64decode(headers[0][1].partition(b" ")[2]) == b"me%3A:s%20e"
    assert prove_client(OAuthClient("me", "s"), post, 0) == ({"client_id": "me", "client_secret": "s"}, [])
    assert prove_client(OAuthClient("me", "s", "client_secret_post"), AS, 0)[1] == []


@pytest.mark.parametrize("kind", ["ec", "rsa", "ed25519"])
def test_a_client_with_a_key_signs_who_it_is(kind: str):
    key = {
        "ec": lambda: ec.generate_private_key(ec.SECP256R1()),
        "rsa": lambda: rsa.generate_private_key(65537, 2048),
        "ed25519": ed25519.Ed25519PrivateKey.generate,
    }[kind]()
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(encoding, form, serialization.NoEncryption()).decode()
    fields, _ = prove_client(OAuthClient("me", private_key=pem), AS, 1000)

    claims = claims_of(fields["client_assertion"])
    assert (claims["iss"], claims["sub"], claims["aud"], claims["exp"]) == ("me", "me", "https://as.example", 1060)
    assert len(fields["client_assertion"].split(".")) == 3


def test_what_is_no_key_is_said():
    with pytest.raises(IssuerRefused, match="no PEM key"):
        sign_jwt("nonsense", {})


def test_parameters_are_added_to_an_address_that_has_some():
    assert extend_url("https://x/a?b=1&state=old", {"state": "new", "scope": "r w"}) == (
        "https://x/a?b=1&state=new&scope=r%20w"
    )


@pytest.mark.parametrize(
    ("life_s", "earliest_s", "latest_s"),
    [
        (3600, 2520, 2700),  # three quarters
        (600, 270, 300),  # five minutes before the end
        (400, 180, 200),  # never in the first half of its life, but for the jitter
        (10, 4.5, 5),
        (86_400, 60_480, 64_800),
    ],
)
def test_a_token_is_renewed_after_three_quarters_of_its_life_or_five_minutes_before_its_end(
    life_s: float, earliest_s: float, latest_s: float
):
    """Whichever comes first, and not by everybody at the same moment."""
    moments = {renewal_due_s(life_s) for _ in range(200)}

    assert earliest_s <= min(moments) <= max(moments) <= latest_s
    assert len(moments) > 100


@pytest.mark.parametrize(
    ("client_id", "is_one"),
    [
        ("https://me.example/client.json", True),
        ("https://me.example/", False),
        ("https://me.example", False),
        ("http://me.example/client.json", False),
        ("https://me.example/client.json#x", False),
        ("5f0c-11", False),
        ("urn:me", False),
    ],
)
def test_a_client_with_a_document_is_called_by_its_address(client_id: str, is_one: bool):
    assert is_document(client_id) is is_one


@pytest.mark.parametrize(
    ("takes", "method"),
    [
        ((), "none"),
        (("none",), "none"),
        (("client_secret_post", "client_secret_basic"), "client_secret_basic"),
        (("client_secret_post",), "client_secret_post"),
        (("private_key_jwt",), "none"),
    ],
)
def test_a_registration_wants_no_secret_where_it_may_have_none(takes: tuple[str, ...], method: str):
    server = AuthorizationServer("x", token_endpoint_auth_methods_supported=takes)

    assert method_to_register(server) == method


def test_an_assertion_for_another_issuer_is_no_token_and_a_token_no_assertion():
    word = b'{"access_token":"a","token_type":"N_A","issued_token_type":"urn:ietf:params:oauth:token-type:id-jag"}'
    other = b'{"access_token":"a","token_type":"N_A","issued_token_type":"urn:ietf:params:oauth:token-type:jwt"}'

    assert read_tokens(word, "x", "s", kind=ID_JAG).access_token == "a"
    with pytest.raises(IssuerRefused, match="only Bearer"):
        read_tokens(word, "x", "s")
    with pytest.raises(IssuerRefused, match="of the kind"):
        read_tokens(other, "x", "s", kind=ID_JAG)
