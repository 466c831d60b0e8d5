"""Patterns that are compiled when they are first used."""

import re

import pytest

from toolcrib.core.patterns import lazy_pattern


def test_a_pattern_is_compiled_at_its_first_use_and_then_kept(monkeypatch):
    """So a start pays for none that it does not need."""
    compiled = []
    compile_now = re.compile
    monkeypatch.setattr(re, "compile", lambda *args: compiled.append(args) or compile_now(*args))
    pattern = lazy_pattern(r"(\d+)x", re.IGNORECASE)
    before = list(compiled)

    found = [pattern.fullmatch("12X")[1], pattern.fullmatch("7x")[1], pattern.fullmatch("x")]

    assert (before, found, compiled) == ([], ["12", "7", None], [(r"(\d+)x", re.IGNORECASE)])


def test_it_can_do_what_a_pattern_can():
    pattern = lazy_pattern(rb"a(?P<n>b)")

    assert (pattern.sub(rb"\g<n>", b"abab"), pattern.groupindex["n"], pattern.search(b"x")) == (b"bb", 1, None)


def test_one_that_is_not_valid_is_noticed_at_its_first_use():
    with pytest.raises(re.error):
        lazy_pattern("(").search("")
