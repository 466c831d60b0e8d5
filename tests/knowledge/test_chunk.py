from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.knowledge import Heading, Outline, PassageSpan
from toolcrib.knowledge.chunk import TARGET, chunk
from toolcrib.knowledge.parse.text import parse_markdown

WORDS = st.sampled_from(["word", "long" * 90, "x", "Sentence end. ", "\n", "\n\n", " ", "\f", "é🌍", "\u2028", "?! "])


@st.composite
def documents(draw):
    text = "".join(draw(st.lists(WORDS, max_size=120)))
    inside = st.integers(0, max(len(text) - 1, 0))
    starts = sorted(draw(st.sets(inside, max_size=8)))
    headings = tuple(Heading(start, draw(st.integers(1, 6)), f"h{start}") for start in starts)
    return text, Outline(tuple(sorted(draw(st.sets(inside, max_size=5)))), headings)


@given(documents(), st.integers(40, 600))
def test_passages_are_ordered_apart_and_hold_every_character_that_is_no_space(document, target):
    text, outline = document
    places = chunk(text, outline, target)
    between = [0, *(edge for place in places for edge in (place.start, place.end)), len(text)]

    assert between == sorted(between)
    assert all(not text[a:b].strip() for a, b in zip(between[::2], between[1::2], strict=True))
    assert all(text[place.start : place.end] == text[place.start : place.end].strip() != "" for place in places)
    assert all(place.end - place.start <= target for place in places)


@given(documents())
def test_a_passage_stands_on_the_page_and_under_the_headings_where_it_begins(document):
    text, outline = document
    for place in chunk(text, outline):
        above = [heading for heading in outline.headings if heading.start <= place.start]
        assert place.headings == ((*place.headings[:-1], above[-1].title) if above else ())
        assert place.page == (max(sum(page <= place.start for page in outline.pages), 1) if outline.pages else None)


def test_sections_are_passages_of_their_own():
    text = "# One\n\n" + "Some words here. " * 20 + "\n\n## Two\n\n" + "Other words. " * 20 + "\n\n# Three\n\nend"
    parsed = parse_markdown(text.encode())
    places = chunk(parsed.text, parsed.outline)

    assert [place.headings for place in places] == [("One",), ("One", "Two"), ("Three",)]


def test_small_sections_stay_together():
    parsed = parse_markdown(b"# A\n\none\n\n# B\n\ntwo\n")

    assert chunk(parsed.text, parsed.outline) == (PassageSpan(0, len(parsed.text) - 1, None, ("A",)),)


def test_a_long_paragraph_is_cut_at_sentence_ends():
    text = "A sentence of some words. " * 200
    pieces = [text[place.start : place.end] for place in chunk(text)]

    assert len(pieces) > 3
    assert all(piece.endswith(".") and len(piece) <= TARGET for piece in pieces)


def test_a_text_without_a_single_space_is_cut_all_the_same():
    assert [place.end - place.start for place in chunk("x" * 3000)] == [1200, 1200, 600]
