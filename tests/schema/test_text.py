"""Text from strangers: nothing unseen survives, nothing that is written gets lost."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.schema.text import clean_text, printable, unseen_characters

UNSEEN = [
    chr(code)
    for code in range(sys.maxunicode + 1)
    if unicodedata.category(chr(code)) in {"Cc", "Cf", "Co", "Cs"} and chr(code) not in "\n\t\r"
]
FILLERS = [*map(chr, [0x34F, 0x115F, 0x1160, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10), *range(0xE0000, 0xE0200)])]


def test_every_invisible_character_is_taken_out():
    """Control, format, private and half characters, tags, variation selectors and fillers."""
    assert [char for char in UNSEEN + FILLERS if clean_text(f"a{char}é") != "aé"] == []


def test_every_invisible_character_is_shown_where_text_is_printed():
    """A person sees that something was there, and what."""
    assert [char for char in UNSEEN + FILLERS if printable(f"a{char}é") != f"a\\u{{{ord(char):x}}}é"] == []


KEPT = [
    "⚠️ careful",
    "👩‍💻",
    "👩🏽‍🚀",
    "🏳️‍🌈",
    "❤️‍🔥",
    "1️⃣ #️⃣ *️⃣",
    *(
        "🏴" + "".join(chr(0xE0000 + ord(char)) for char in region) + "\U000e007f"
        for region in ("gbeng", "gbsct", "gbwls")
    ),
    "☎︎",
    "می‌خواهم",
    "क्‍ष",
    "a\n\tb",
    "naïve 東京 Ω",
    "\\x1b",
    "",
]


@pytest.mark.parametrize("text", KEPT)
def test_ordinary_text_comes_back_as_the_same_object_or_equal(text):
    """Emoji sequences, key caps and the joiners of Persian and Hindi are part of the writing."""
    assert clean_text(text) == text
    assert printable(text) == text
    assert unseen_characters(text) == []


@pytest.mark.parametrize(
    ("hidden", "clean"),
    [
        ("a\u200db", "ab"),
        ("😀\ufe0f\ufe0f\ufe0f", "😀\ufe0f"),
        ("a\ufe0f\u200d😀", "a😀"),
        ("5\ufe0f", "5"),
        ("😀\u200d", "😀"),
        ("x\U000e0041\U000e0042y", "xy"),
        ("🏴\U000e0061\U000e0062\U000e007f", "🏴"),
        ("x\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "x"),
        ("😀\U000e0100\U000e01ef", "😀"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://e\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b1Aup", "up"),
        ("\x1b]0;never ends", "]0;never ends"),
        ("safe\rrm -rf", "safe\nrm -rf"),
        ("a\r\nb", "a\nb"),
        ("a\u2028b\u2029c", "a\nb\nc"),
        ("\x1b\x1b[0m[0m", "[0m"),
        ("user\u202egpj.exe", "usergpj.exe"),
        ("pay\xadload", "payload"),
    ],
)
def test_what_hides_is_taken_out_and_the_rest_stays(hidden, clean):
    """Smuggled selectors, terminal sequences, overwritten lines and reversed text."""
    assert clean_text(hidden) == clean


def test_unseen_characters_are_listed_once_each():
    """What was found can be told."""
    assert unseen_characters("a\u200b\u200bb\x1b[0m⚠️\U000e0041") == ["U+001B", "U+200B", "U+E0041"]


def test_printing_drops_colours_and_shows_the_rest():
    """Coloured log lines stay readable; a lone escape or a bell becomes visible."""
    assert printable("\x1b[31mred\x1b[0m \x07 \x1bc") == "red \\u{7} \\u{1b}c"


TRICKY = st.text(
    st.sampled_from("a5#😀♀❤क\u20e3\ufe0e\ufe0f\u200c\u200d\u200b\x1b\x9b[]0m;\x07\\\r\n\u2028\U000e0041\ud800")
)


@given(st.text() | TRICKY)
def test_cleaning_twice_changes_nothing(text):
    """What is clean stays as it is."""
    assert clean_text(clean_text(text)) == clean_text(text)
    assert printable(printable(text)) == printable(text)
    assert unseen_characters(clean_text(text)) == []


@given(st.text() | TRICKY)
def test_what_is_printed_cannot_move_a_cursor(text):
    """No control character but line breaks and tabs is ever left, in either form."""
    for shown in (clean_text(text), printable(text)):
        assert all(char in "\n\t" or unicodedata.category(char) not in {"Cc", "Co", "Cs"} for char in shown)
        assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\ufeff")
