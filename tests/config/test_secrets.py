"""Which values of a server are secret."""

import base64
import json

import pytest

from toolcrib.config.model import ServerConfig
from toolcrib.config.references import resolve_server
from toolcrib.config.secrets import (
    EVERYBODYS_WORDS,
    _in_basic,
    _in_url,
    secret_values,
    secrets_of,
    with_references,
)

ENV = {
    "TOKEN": "token-from-env",
    "HOME": "/home/someone",
    "PIN": "1234",
    "N": "plain-words",
    "PROJECT": "/srv/projects/blue",
    "DATABASE_URL": "postgresql://app:hunter2-hunter2@db/app",
    "DOCS": "https://docs.example.com/guide",
    "AWS_REGION": "eu-central-1",
    "WORD": "password",
    "KEY_FILE": "/run/keys/one.pem",
    "DEEP": "/srv/ghp_0123456789abcdef/x",
    "LOG_MODE": "ghp_0123456789abcdef",
    "LOGNAME": "somebody-else",
    "PEM": "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----",
}
BASIC = base64.b64encode(b"somebody:pass-word-1").decode()


def stdio(*args, **fields):
    return ServerConfig("a", command="x", args=args, **fields)


def remote(url="https://x", **headers):
    return ServerConfig("a", url=url, headers=headers)


CASES = {
    "references in env": (stdio(env={"T": "${TOKEN}", "GONE": "${MISSING}"}), {"token-from-env"}),
    "defaults of references": (stdio(env={"D": "${MISSING:-default-secret}"}), {"default-secret"}),
    "what only looks like a reference": (stdio(env={"D": "$${TOKEN}"}), set()),
    "literals with a secret's name": (stdio(env={"DB_PASSWORD": "hunter2-hunter2"}), {"hunter2-hunter2"}),
    "literals of a secret's form": (stdio(env={"OTHER": "ghp_0123456789abcdef"}), {"ghp_0123456789abcdef"}),
    "other literals": (stdio("production-mode", env={"MODE": "production-mode"}), set()),
    "references in args": (stdio("${N}", "--x=${TOKEN}"), {"plain-words", "token-from-env"}),
    "flags and their values": (stdio("--api-key", "key-in-args", "--name", "some-name"), {"key-in-args"}),
    "assigned flags": (stdio("--token=key-in-args", "-e", "MY_SECRET=other-one"), {"key-in-args", "other-one"}),
    "headers in args": (
        stdio("--header", "Authorization: Bearer abc-def-ghi"),
        {"Bearer abc-def-ghi", "abc-def-ghi"},
    ),
    "settings as JSON": (
        stdio(env={"HEADERS": json.dumps({"Authorization": "Bearer abc-def-ghi", "X": "harmless-one"})}),
        {"Bearer abc-def-ghi", "abc-def-ghi"},
    ),
    "where it runs": (stdio(cwd="/x/${TOKEN}", read=("/y/${N}",)), {"token-from-env", "plain-words"}),
    "references in headers": (remote(X="Bearer ${TOKEN}"), {"token-from-env"}),
    "literals in headers": (remote(Authorization="Bearer literal-token"), {"Bearer literal-token", "literal-token"}),
    "basic credentials": (
        remote(Authorization=f"Basic {BASIC}"),
        {f"Basic {BASIC}", BASIC, "somebody:pass-word-1", "pass-word-1"},
    ),
    "references in an address": (remote("https://x/${TOKEN}?q=${N}"), {"token-from-env", "plain-words"}),
    "an address with a password": (remote("https://me:pass%2Fword1@x/mcp"), {"pass%2Fword1", "pass/word1"}),
    "an address with a token for a user": (remote("https://token-123456@x/mcp"), {"token-123456"}),
    "an address with a key": (remote("https://x/mcp?api_key=abcdefgh1&page=chapter-one"), {"abcdefgh1"}),
    "an address with a key in its path": (remote("https://x/mcp/sk-ak-0123456789/sse"), {"sk-ak-0123456789"}),
    "an address from the environment": (stdio("${DATABASE_URL}"), {ENV["DATABASE_URL"], "hunter2-hunter2"}),
    "lines of a key": (
        stdio(env={"PEM": "${PEM}"}),
        {ENV["PEM"], "-----BEGIN KEY-----", "MIIEvQIBADANBg", "kqhkiG9w0BAQEF", "-----END KEY-----"},
    ),
    "variables that are everybody's": (stdio("${HOME}", "--region", "${AWS_REGION}", env={"H": "${HOME}"}), set()),
    "paths and addresses": (stdio("${PROJECT}", "${DOCS}", env={"KEY_FILE": "${KEY_FILE}"}), set()),
    "a path under a secret's name": (stdio(env={"API_KEY": "${PROJECT}"}), {"/srv/projects/blue"}),
    "a secret in the path of the program": (ServerConfig("a", command="/x/${TOKEN}/run"), {"token-from-env"}),
    "a secret in what may be written": (stdio(write=("/x/${TOKEN}",)), {"token-from-env"}),
    "an ordinary variable with a secret in it": (stdio("mode ${LOG_MODE}"), {"ghp_0123456789abcdef"}),
    "the name of whoever runs it": (stdio("user ${LOGNAME}"), set()),
    "a path within a secret": (
        stdio(env={"API_KEY": "at ${PROJECT}"}),
        {"at /srv/projects/blue", "/srv/projects/blue"},
    ),
    "a path with a secret in it": (stdio("at ${DEEP}"), {"/srv/ghp_0123456789abcdef/x"}),
    "lists in settings as JSON": (stdio(env={"SETTINGS": '{"tokens": ["abcdefgh1", "short"]}'}), {"abcdefgh1"}),
    "as short as they may be": (stdio("--password", "12345678"), {"12345678"}),
    "headers without a secret": (stdio("--header", "X-Mode: ordinary-words"), set()),
    "short ones": (stdio("--password", "1234567", env={"PIN": "${PIN}"}), set()),
    "words that are everybody's": (stdio("--password", "${WORD}"), set()),
}


@pytest.mark.parametrize("case", CASES)
def test_a_servers_secrets_are_found_wherever_they_are_written(case):
    """Whole, and the parts of them that would give them away; nothing that ordinary text is made of."""
    server, secrets = CASES[case]

    assert secret_values(server, ENV) == secrets


@pytest.mark.parametrize("odd", ["http://[", "{", '{"a": ', "[" * 100_000, "Basic ====", "${", "://", "a: "])
def test_what_cannot_be_taken_apart_does_no_harm(odd):
    """Values are the user's own, and may be anything."""
    assert secrets_of([("note", odd), ("api_key", f"{odd} 12345678")], {}) >= {f"{odd} 12345678".strip()}


def test_the_words_that_are_everybodys_are_written_as_they_are_compared():
    """In small letters, and long enough to be looked for at all."""
    assert all(word == word.lower() and len(word) >= 8 for word in EVERYBODYS_WORDS)


def test_what_stands_in_an_address_and_looks_like_nothing_secret_is_none():
    """Only the password, what is called a secret, and what looks like one."""
    url = "https://me:hunter2pass@host.example/v1/tools/ghp_0123456789abcdefghijABCDEFGHIJ012345?q=words&token=abcd1234"

    assert set(_in_url(url)) == {"hunter2pass", "ghp_0123456789abcdefghijABCDEFGHIJ012345", "abcd1234"}


@pytest.mark.parametrize(
    ("encoded", "found"),
    [
        ("dXNlcjpwYXNzd29yZA==", ["user:password", "password"]),
        ("dXNlcjpw!YXNzd29yZA==", []),
        ("dXNlcg==", []),
        ("//8=", []),
        ("AXVzZXI6cGFzc3dvcmQ=", []),
    ],
)
def test_user_and_password_are_read_only_from_what_is_basic(encoded, found):
    assert list(_in_basic(encoded)) == found


def test_a_secret_inside_what_is_referred_to_in_the_middle_of_a_text_is_found():
    found = secrets_of([("NOTE", "see ${DB} now")], {"DB": "https://me:hunter2pass@host.example/x"})

    assert "hunter2pass" in found


@pytest.mark.parametrize(
    ("text", "is_secret"), [("/etc/ssl/key.pem", False), ("ghp_0123456789abcdefghijABCDEFGHIJ012345", True)]
)
def test_a_name_that_says_file_hides_no_secret_that_is_none(text, is_secret):
    """A path is a path only if it looks like one."""
    assert (text in secrets_of([("TOKEN_FILE", text)], {})) is is_secret


def put_in_references(server: ServerConfig) -> tuple[ServerConfig, dict[str, str]]:
    taken: dict[str, str] = {}

    def name_for(wanted: str, value: str) -> str:
        name = next(name for name in (wanted, f"{wanted}_2") if taken.get(name, value) == value)
        taken[name] = value
        return name

    return with_references(server, name_for), taken


def test_references_take_the_place_of_secrets_and_resolve_to_what_was_there():
    """In the middle of arguments, headers and addresses; what is no secret stays."""
    server = ServerConfig(
        "notes",
        command="x",
        args=(
            *("--token", "sk-0123456789abcdef", "--api-key=abcdefgh1", "-e", "BOX_SECRET=xyz", "--verbose"),
            *("postgres://u:pw@h/db?x=1", "Authorization: Bearer abcdef123", "/path/with/key", "PORT=8080"),
        ),
        env={"GITHUB_TOKEN": "ghp_0123456789", "LOG_LEVEL": "debug", "KEY_FILE": "/home/x/key.pem", "HOME": "/h"}
        | {"AUTH_MODE": "none", "T": "${X}", "HEADERS": '{"Authorization": "Bearer abcdefghijkl"}'},
    )

    referring, taken = put_in_references(server)

    assert referring.args == (
        *("--token", "${NOTES_TOKEN}", "--api-key=${NOTES_API_KEY}", "-e", "BOX_SECRET=${BOX_SECRET}", "--verbose"),
        *("postgres://${NOTES_PASSWORD}@h/db?x=1", "Authorization: Bearer ${NOTES_TOKEN_2}"),
        *("/path/with/key", "PORT=8080"),
    )
    assert referring.env == server.env | {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "HEADERS": "${HEADERS}"}
    assert resolve_server(referring, taken | {"X": "${X}"}) == server


def test_what_an_address_and_headers_hide_is_put_in_references_part_by_part():
    server = ServerConfig(
        "far",
        url="https://user:pass@h.example/abcdef0123456789abcdef0123456789/mcp?api_key=hello123&x=2&key=1#f",
        headers={"Authorization": "Bearer abc12345", "X-Csrf": "${Z}", "Accept": "text/json"},
    )

    referring, taken = put_in_references(server)

    assert referring.url == "https://${FAR_PASSWORD}@h.example/${FAR_SECRET}/mcp?api_key=${FAR_API_KEY}&x=2&key=1#f"
    assert referring.headers == server.headers | {"Authorization": "Bearer ${FAR_TOKEN}"}
    assert resolve_server(referring, taken | {"Z": "${Z}"}) == server
    assert put_in_references(referring) == (referring, {})
