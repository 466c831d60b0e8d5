"""Broken files are errors with their line."""

import pytest

from toolcrib.core.errors import ConfigError
from toolcrib.stores.foreign import read_document


@pytest.mark.parametrize(
    ("text", "where", "expected"),
    [
        ('{\n "a": }', "x.json", "x.json:2: This is not JSON"),
        ("a = 1\nb =", "x.toml", "x.toml:2: This is not TOML"),
        ("a: 1\nb: [", "x.yaml", "x.yaml:2: This is not YAML"),
        ("a: 1\n\tb: 2", "x.yml", "x.yml:2: This is not YAML"),
        ("a: !!python/object:os.system {}", "x.yaml", "x.yaml:1: This is not YAML"),
    ],
)
def test_a_broken_file_is_an_error_with_its_line(text, where, expected):
    """Whichever language it is written in; YAML that wants to make objects is broken, too."""
    with pytest.raises(ConfigError) as caught:
        read_document(text, where)

    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize("where", ["x.json", "x.toml", "x.yaml"])
def test_an_empty_file_holds_nothing(where):
    """Programs create theirs empty."""
    assert not read_document("", where).root
