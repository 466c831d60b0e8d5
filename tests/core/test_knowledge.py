"""What a passage is recognised by."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.knowledge import text_check


@given(st.text("aé\n\t \u00a0\u2028\x1f\x85\u200b\ud800", max_size=12))
def test_a_passage_is_recognised_by_its_words_however_they_are_spaced(text):
    words = " ".join(text.split()).encode(errors="surrogatepass")

    assert text_check(text) == hashlib.sha256(words).hexdigest()[:8]
