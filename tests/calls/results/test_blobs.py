"""Base64 in text: found where it begins, named by what is inside, and not seen where there is none."""

import base64
import random

import pytest

from toolcrib.calls.results.shape import find_blob, whole_blob

NOISE = random.Random(7).randbytes(3_000)
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + NOISE).decode()


def test_a_stretch_inside_a_text_is_found_with_its_ends():
    """Also one that reaches beyond what was looked at."""
    text = f"before {PNG} after"

    blob = find_blob(text, 0, 100)

    assert blob is not None
    assert text[blob.start : blob.end] == PNG
    assert (blob.kind, blob.size) == ("image/png", 3_008)


def test_one_that_begins_later_is_not_found_yet():
    """Only what begins between the two places counts."""
    assert find_blob(f"{'word ' * 100}{PNG}", 0, 400) is None


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"%PDF-1.7", "application/pdf"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"??", "binary"),
    ],
)
def test_what_is_inside_is_told_by_its_first_bytes(start, kind):
    """As far as it can be told."""
    blob = whole_blob(base64.b64encode(start + NOISE).decode())

    assert blob is not None
    assert blob.kind == kind


def test_a_data_address_names_its_own_kind():
    """Whatever the bytes look like."""
    blob = find_blob(f"data:audio/x-mine;charset=utf-8;base64,{PNG}", 0, 100)

    assert blob is not None
    assert blob.kind == "audio/x-mine"


@pytest.mark.parametrize(
    "text",
    ["x" * 5_000, "-" * 5_000, "0123456789" * 500, "deadbeef42" * 500, "A word. " * 500, PNG[:300], "a/b/c/" * 500],
    ids=["x", "rule", "digits", "hex", "prose", "short", "path"],
)
def test_what_only_looks_long_is_no_binary(text):
    """Somebody wants to read it."""
    assert find_blob(text, 0, len(text)) is None


def test_words_before_or_after_mean_that_it_is_not_the_whole():
    """A text with a picture in it is still a text."""
    assert whole_blob(f"{PNG} and more") is None
    assert whole_blob(f"see {PNG}") is None
