import pytest

from toolcrib.config.secrets import shown_args, shown_entry, shown_url, shown_values


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("TOKEN", "${TOKEN}", "${TOKEN}"),
        ("Authorization", "Bearer ${KEY}", "Bearer ${KEY}"),
        ("TOKEN", "${env:TOKEN}", "${env:TOKEN}"),
        ("TOKEN", "${TOKEN:-secret}", "${TOKEN:-***}"),
        ("TOKEN", "prefix-${TOKEN}", "***"),
        ("TOKEN", "abc", "***"),
        ("ANYTHING", "abc", "***"),
        ("TZ", "Europe/Vienna", "Europe/Vienna"),
        ("LOG_LEVEL", "debug", "debug"),
        ("DEBUG", "true", "true"),
        ("WORKERS", "8", "8"),
        ("API_KEY", "12345", "***"),
        ("LOG_TOKEN", "debug", "***"),
        ("NODE_ENV", "sk-0123456789abcdef", "***"),
        ("Accept", "application/json", "application/json"),
        ("EMPTY", "", ""),
    ],
)
def test_entries_are_masked_unless_they_are_harmless(name, value, expected):
    """References say where a secret is, not what it is; everything else is hidden when in doubt."""
    assert shown_entry(name, value) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.org/mcp?zone=eu#x", "https://example.org/mcp?zone=eu#x"),
        ("https://user:password@example.org/mcp", "https://***@example.org/mcp"),
        ("https://example.org/mcp?api_key=abc&zone=eu", "https://example.org/mcp?api_key=***&zone=eu"),
        ("https://example.org/mcp?api_key=${KEY}", "https://example.org/mcp?api_key=${KEY}"),
        ("https://example.org/s/0123456789abcdef0123456789abcdef/mcp", "https://example.org/s/***/mcp"),
        ("${BASE}/mcp", "${BASE}/mcp"),
    ],
)
def test_addresses_are_shown_without_what_opens_them(url, expected):
    """Passwords, keys in the query, and paths that are keys themselves."""
    assert shown_url(url) == expected


def test_arguments_are_shown_without_secrets():
    """After an option that names one, in an assignment, or built like one."""
    args = (
        "-y", "@modelcontextprotocol/server-github", "--token", "abc", "--api-key=abc", "-e", "SECRET=abc",
        "-e", "ZONE=eu", "--key", "${KEY}", "ghp_0123456789abcdef", "--auth", "--verbose", "https://u:p@x.org/",
    )  # fmt: skip

    assert shown_args(args) == [
        "-y", "@modelcontextprotocol/server-github", "--token", "***", "--api-key=***", "-e", "SECRET=***",
        "-e", "ZONE=eu", "--key", "${KEY}", "***", "--auth", "--verbose", "https://***@x.org/",
    ]  # fmt: skip


def test_arguments_are_masked_by_name_and_by_form():
    """At any depth; what is harmless stays readable."""
    given = {
        "query": "weather",
        "password": "letmein",
        "deep": [{"api_key": "x", "n": 1, "ok": True, "none": None}],
        "text": "ghp_0123456789abcdef",
        "tokens": ["a", "b"],
    }

    assert shown_values(given) == {
        "query": "weather",
        "password": "***",
        "deep": [{"api_key": "***", "n": 1, "ok": True, "none": None}],
        "text": "***",
        "tokens": ["***", "***"],
    }
