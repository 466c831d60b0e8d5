"""The keys of isolation: what may be written, and what is said about the rest."""

import pytest

from toolcrib.config.merge import merge
from toolcrib.config.parse import parse_toml
from toolcrib.config.references import resolve_server
from toolcrib.config.sections import IsolationConfig
from toolcrib.core.errors import ConfigError


def read(text: str):
    return merge(parse_toml(text, "toolcrib.toml"))


def server(lines: str):
    return read(f'[servers.a]\ncommand = "x"\n{lines}').servers["a"]


def test_a_server_says_how_it_is_to_run():
    """Every key."""
    grants = 'read = ["a"]\nwrite = ["b"]\nnetwork = true\nloopback = [5432]'
    found = server(f'isolation = "confined"\n{grants}\nmemory = "2GB"\nprocesses = 9')

    assert (found.isolation, found.read, found.write) == ("confined", ("a",), ("b",))
    assert (found.network, found.loopback) == (True, (5432,))
    assert (found.memory_bytes, found.processes) == (2_000_000_000, 9)


def test_a_server_that_says_nothing_leaves_it_open():
    """The general setting decides."""
    found = server("")

    assert (found.isolation, found.read, found.write, found.network, found.memory_bytes) == ("", (), (), None, None)
    assert read("").isolation == IsolationConfig("limits", {})


def test_the_general_table():
    """A level, and minimums by security level."""
    found = read('[isolation]\nlevel = "auto"\nminimum = { system = "confined", admin = "limits" }').isolation

    assert found == IsolationConfig("auto", {"system": "confined", "admin": "limits"})


@pytest.mark.parametrize(
    ("written", "size"), [('"1.5GiB"', 1_610_612_736), ("2000000", 2 * 10**6), ('"3GB"', 3 * 10**9)]
)  # fmt: skip
def test_sizes_are_written_with_a_unit_or_in_bytes(written, size):
    """Thousands and, with an i, 1024s."""
    assert server(f"memory = {written}").memory_bytes == size


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('isolation = "jail"', 'must be one of "none", "limits", "confined", "isolated", "auto"'),
        ('memory = "lots"', "must be"),
        ("memory = 1", "must be"),
        ('read = "a"', "must be a list of paths"),
        ("processes = 0", "must be a whole number from 1"),
    ],
)
def test_what_cannot_be_meant_is_an_error_with_its_line(text, words):
    """And with what to write."""
    with pytest.raises(ConfigError, match=words) as caught:
        server(text)

    assert caught.value.line == 3


@pytest.mark.parametrize("minimum", ['{ root = "confined" }', '{ system = "auto" }', '"confined"'])
def test_a_minimum_is_a_table_of_known_words(minimum):
    """``auto`` is no minimum."""
    with pytest.raises(ConfigError, match=r"toolcrib\.toml:2"):
        read(f"[isolation]\nminimum = {minimum}")


@pytest.mark.parametrize("key", ['isolation = "none"', 'read = ["a"]', "network = true", 'memory = "1GB"'])
def test_isolation_goes_with_a_command(key):
    """What runs elsewhere cannot be confined from here."""
    with pytest.raises(ConfigError, match="goes with a command, not with a url"):
        read(f'[servers.a]\nurl = "https://a.example/mcp"\n{key}')


def test_references_and_the_home_are_resolved_in_grants():
    """As in cwd and env."""
    found = server('read = ["~/notes", "${DATA}/in"]\nwrite = ["${DATA:-/var}/out"]')

    resolved = resolve_server(found, {"HOME": "/home/me", "DATA": "/srv"})

    assert (resolved.read, resolved.write) == (("/home/me/notes", "/srv/in"), ("/srv/out",))
