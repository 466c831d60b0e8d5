"""Any text survives the way into the database and back, and two texts never become one."""

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.stores.postgres.database import from_text, to_text

TRICKY = st.text(alphabet=st.sampled_from("\\0\0ab🌍")) | st.text()


@given(TRICKY)
def test_what_is_stored_comes_back_and_holds_no_nul(text):
    stored = to_text(text)

    assert "\0" not in stored
    assert from_text(stored) == text
