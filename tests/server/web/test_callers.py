"""Callers by the names their tokens were given."""

import pytest
from tests.fleet.running import until
from tests.server.web.workbench import open_bench

from toolcrib.core.access import Grants
from toolcrib.core.offers import SecurityLevel
from toolcrib.server.web.words import CallerNames
from toolcrib.stores.access_tokens import NewToken, TokenFile


@pytest.fixture
def tokens(tmp_path):
    return TokenFile(tmp_path / "tokens.json", lambda: 1_000.0)


def make(tokens: TokenFile, name: str) -> str:
    return tokens.create(NewToken(name, Grants(SecurityLevel.READ_ONLY)))[0].id


def test_the_holder_of_a_token_has_its_name_and_everybody_else_their_id(tokens):
    """Also after the token has ended, because old calls are looked at, too."""
    names = CallerNames(tokens)
    cursor = make(tokens, "cursor")
    tokens.revoke("cursor")

    assert names.name_of(f"token:{cursor}") == "cursor"
    assert names.name_of("token:nobody") == "token:nobody"
    assert names.name_of("owner@page") == "owner@page"
    assert names.ids_of("cursor") == [f"token:{cursor}"]
    assert names.ids_of("someone") == []


def test_a_file_that_cannot_be_read_leaves_the_ids(tokens):
    """The page is still shown."""
    tokens.path.write_text("{")

    assert CallerNames(tokens).name_of("token:a") == "token:a"


def test_pages_show_and_find_callers_by_name(tmp_path):
    """In the live view, and in the audit with its filter."""
    with open_bench(tmp_path / "home") as bench:
        bench.guest().post("/tools/shout/try", do="run", **{"a/text": "mine"})

        assert ">guest</td>" in bench.owner.get("/calls").text
        found = lambda: ">guest</td>" in bench.owner.get("/audit?caller=guest").text  # noqa: E731
        until(found, deadline_s=150, what="the call in the log")
        assert "Nothing in the log fits" in bench.owner.get("/audit?caller=stranger").text
