"""What texts and queries are read as."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.search.tokens import analyse, fold, places, read_query, stem

STEMS = re.findall(
    r"\w+",
    """consist consist consisted consist consistency consist knightly knight generate generat generous generous
skies sky dying die lying lie news news inning inning succeeding succeed agreed agre feed feed hopping hop hoping hope
happy happi say say by by national nation rational ration relational relat conditional condit vietnamization vietnam
predication predic operator oper feudalism feudal decisiveness decis hopefulness hope callousness callous
formaliti formal sensitiviti sensit sensibiliti sensibl triplicate triplic formative format formalize formal
electrical electr goodness good revival reviv allowance allow inference infer adjustable adjust replacement replac
adoption adopt controlling control rolling roll ugly ugli early earli organization organiz university universiti
archaeology archaeolog geologist geolog evening evening added add egging egg""",
)


@pytest.mark.parametrize(("word", "expected"), list(zip(STEMS[::2], STEMS[1::2], strict=True)))
def test_words_have_the_stems_snowball_gives_them(word, expected):
    """As the reference implementation of the "english" stemmer says."""
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("get_user", ["get", "user", "getuser"]),
        ("getUser", ["get", "user", "getuser"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("version 1.24.3", ["version", "1.24.3"]),
        ("e-mail", ["e", "mail", "email"]),
        ("IL-6 and H1N1", ["il", "6", "il6", "and", "h1n1"]),
        ("Café naïve", ["cafe", "naiv"]),
        ("the user's", ["the", "user"]),
        ("東京都", ["東京", "京都"]),
        ("", []),
    ],
)
def test_a_text_gives_its_terms(text, terms):
    """Parts and wholes, numbers as they are, accents gone."""
    assert analyse(text) == terms


def test_a_query_drops_stop_words_unless_there_is_nothing_else():
    """«to be or not to be» can still be asked."""
    assert read_query("how do I read a file").terms == ("read", "file")
    assert read_query("to be or not").terms == ("to", "be", "or", "not")


def test_quotations_are_phrases():
    """What stands in quotation marks is remembered in order."""
    assert read_query('find "boundary layer" flow').phrases == (("boundari", "layer"),)


@settings(deadline=None)
@given(st.text(max_size=200))
def test_no_text_is_too_strange(text):
    """Any text has terms, and its words stand where they are said to."""
    assert all(isinstance(term, str) and term for term in analyse(text))
    assert all(text[start:end].strip() for start, end, _ in places(text))


@given(st.text(st.sampled_from("aZ9_.'-’ \n\t,;é·京(x)\x1f\x00") | st.characters(), max_size=60))
@settings(max_examples=300, deadline=None)
def test_a_text_gives_the_terms_of_its_words_one_by_one(text):
    """Reading it in larger pieces changes nothing."""
    assert analyse(text) == [term for _, _, terms in places(fold(text)) for term in terms]
