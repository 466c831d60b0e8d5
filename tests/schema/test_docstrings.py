"""Docstrings: the summary and the parameters, in both common styles."""

from toolcrib.schema.from_signature import Docstring, read_docstring


def google(path, limit, rest):
    """Find things
    in places.

    More words: not of interest.

    Args:
        path (str): Where to look,
            and how.
        limit: How many.

        **rest: The others: all of them.

    Returns:
        nothing: at all
    """


def sphinx(path, limit):
    """Find things.

    :param str path: Where to look,
        and how.
    :type path: str
    :param limit: How many.
    :returns: nothing
    """


def bare(path):
    pass


def only_arguments(path):
    """
    Args:
        path: Where.
    """


def test_googles_style_is_read():
    """The summary is one line, items go on over several, other sections are not parameters."""
    assert read_docstring(google) == Docstring(
        "Find things in places.",
        {"path": "Where to look, and how.", "limit": "How many.", "rest": "The others: all of them."},
    )


def test_the_sphinx_style_is_read():
    """Types and results are not parameters."""
    documented = read_docstring(sphinx)

    assert documented.summary == "Find things."
    assert documented.parameters == {"path": "Where to look, and how.", "limit": "How many."}


def test_what_is_not_there_is_empty():
    """No docstring, or none but parameters."""
    assert read_docstring(bare) == Docstring()
    assert read_docstring(only_arguments) == Docstring("", {"path": "Where."})
