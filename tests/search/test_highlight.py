"""Highlights show what matched, in the text as it stands."""

from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.search.tokens import highlights


def marked(query, text):
    return [text[start:end] for start, end in highlights(query, text)]


def test_words_of_the_same_stem_are_marked():
    """A query's word marks its other forms; neighbours are one range."""
    assert marked("running shoes", "He runs. New Running Shoes for runners") == ["runs", "Running Shoes"]


def test_identifiers_match_however_they_are_written():
    """camelCase marks snake_case."""
    assert marked("getUserName", "call get_user_name()") == ["get_user_name"]


def test_stop_words_are_not_marked():
    """Words that say nothing stay plain."""
    assert marked("the cat", "the cat and the dog") == ["cat"]


def test_positions_are_those_of_the_text_itself():
    """Letters that fold into several do not shift what comes after."""
    assert marked("coffee", "ﬁne café — ½ coffee") == ["coffee"]


@settings(deadline=None)
@given(st.text(max_size=60), st.text(max_size=200))
def test_ranges_are_ordered_and_inside(query, text):
    """Whatever the texts, ranges ascend, do not overlap and stay inside."""
    flat = [at for span in highlights(query, text) for at in span]

    assert flat == sorted(flat)
    assert all(0 <= at <= len(text) for at in flat)
