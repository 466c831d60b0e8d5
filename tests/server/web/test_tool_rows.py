"""What changed in a definition: every place that is different, the words in it, and nothing invisible."""

from toolcrib.server.web.tool_rows import changes_between


def told(change):
    marks = {False: "{}", True: "<{}>"}
    before, after = (
        "".join(marks[piece.is_changed].format(piece.text) for piece in side) for side in (change.before, change.after)
    )
    return change.place, change.words, before, after


def test_only_the_words_that_differ_are_marked():
    """Of a long description, the one word that matters."""
    old = {"name": "send", "description": "Send a message to a friend"}
    new = {"name": "send", "description": "Send a message to a stranger"}

    assert [told(change) for change in changes_between(old, new)] == [
        ("description", "changed", "Send a message to a <friend>", "Send a message to a <stranger>")
    ]


def test_what_is_new_and_what_is_gone_is_told_by_its_place():
    """Deep inside, too."""
    old = {"inputSchema": {"properties": {"a": {"type": "string"}}}}
    new = {"inputSchema": {"properties": {"b": {"type": "string"}}}}

    assert [told(change) for change in changes_between(old, new)] == [
        ("inputSchema.properties.b.type", "new", "", "<string>"),
        ("inputSchema.properties.a.type", "gone", "<string>", ""),
    ]


def test_what_nobody_can_see_is_made_visible():
    """A description that only seems to be the same is shown as it is."""
    changes = changes_between({"description": "Read a file"}, {"description": "Read a file\u200b\u2062"})

    assert "\\u{200b}" in told(changes[0])[3]


def test_a_tool_that_was_never_accepted_is_all_new():
    """There is nothing to compare it with."""
    assert {change.words for change in changes_between(None, {"name": "x", "description": "y"})} == {"new"}


def test_very_long_texts_are_compared_as_a_whole():
    """Rather than for ever."""
    old, new = {"description": "a b " * 2_000}, {"description": "b a " * 2_000}

    [change] = changes_between(old, new)

    assert (len(change.before), len(change.after)) == (1, 1)
