"""Patterns mean the same in PostgreSQL as in SQLite, whatever they are made of."""

import apsw
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolcrib.stores.postgres.audit import is_plain, regex_of

LETTERS = "ab-]^[*?.\\+({|$_\n é日🌍"
PATTERNS = st.text(LETTERS, max_size=10)


@pytest.fixture(scope="module")
def server(postgres):
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        yield connection


SQLITE = apsw.Connection(":memory:")


def by_sqlite(text: str, pattern: str) -> bool:
    return bool(SQLITE.execute("SELECT ? GLOB ?", (text, pattern)).get)


def by_postgres(server, text: str, pattern: str) -> bool:
    regex = regex_of(pattern)
    return regex is not None and server.execute('SELECT %s COLLATE "C" ~ %s', (text, regex)).fetchone()[0]


@given(st.text(LETTERS, max_size=6), PATTERNS)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_pattern_fits_the_same_texts(server, text, pattern):
    assert by_postgres(server, text, pattern) == by_sqlite(text, pattern)
    assert not is_plain(pattern) or by_sqlite(text, pattern) == (text == pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("[a-c]x", "bx"),
        ("[c-a]x", "bx"),
        ("[^c-a]x", "bx"),
        ("[]]", "]"),
        ("[^]]", "]"),
        ("[]-a]", "]"),
        ("[a-]", "-"),
        ("[-a]", "-"),
        ("[a", "a"),
        ("[", "["),
        ("[]", "]"),
        ("[^", "a"),
        ("[a-c-e]", "d"),
        ("[a-c-e]", "-"),
        ("***=a", "***=a"),
        ("(?i)A*", "(?i)Abc"),
        ("a\\*", "a\\b"),
        ("[\\]", "\\"),
        ("*" * 50 + "a", "b" * 200),
        ("*a" * 100, "a" * 120),
    ],
)
def test_a_tricky_pattern_fits_the_same_text(server, pattern, text):
    assert by_postgres(server, text, pattern) == by_sqlite(text, pattern)
