"""Errors: what they say."""

import pytest

from toolcrib.core.errors import DefinitionError, InvalidSchema, RemoteError, ToolcribError
from toolcrib.core.requests import ErrorInfo


@pytest.mark.parametrize("words", ["It broke.\n\n", " ", "It broke."])
def test_what_a_server_says_is_not_trimmed(words):
    """Only a hint is set off from it."""
    assert str(RemoteError(-32000, words)) == words
    assert ErrorInfo.of(RemoteError(-32000, words)).message == words
    assert str(ToolcribError("It broke.", hint="Mend it.")) == "It broke. Mend it."


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("It is gone", "It is gone. Look for it."),
        ("It is gone.", "It is gone. Look for it."),
        ("Is it gone?", "Is it gone? Look for it."),
        ("fields:", "fields: Look for it."),
    ],
)
def test_a_sentence_ends_before_the_next_begins(message, told):
    """Whoever wrote the message; without a hint it stays as it is."""
    assert str(ToolcribError(message, hint="Look for it.")) == told
    assert str(ToolcribError(message)) == message


def test_what_is_wrong_with_a_definition_is_a_sentence():
    assert str(DefinitionError("add", "name", "it is taken")) == "Tool 'add': name: it is taken."
    assert str(InvalidSchema("add", "input schema", "no", hint="Mend it.")) == "Tool 'add': input schema: no. Mend it."
