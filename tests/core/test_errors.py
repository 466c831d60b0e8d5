"""Errors: what they say."""

import pytest

from toolcrib.core.errors import RemoteError, ToolcribError
from toolcrib.core.requests import ErrorInfo


@pytest.mark.parametrize("words", ["It broke.\n\n", " ", "It broke."])
def test_what_a_server_says_is_not_trimmed(words):
    """Only a hint is set off from it."""
    assert str(RemoteError(-32000, words)) == words
    assert ErrorInfo.of(RemoteError(-32000, words)).message == words
    assert str(ToolcribError("It broke.", hint="Mend it.")) == "It broke. Mend it."
