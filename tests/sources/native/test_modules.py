"""Native tools out of modules."""

import pytest

from toolcrib.core.errors import ConfigError
from toolcrib.sources.native.functions import import_tools


def test_native_tools_are_found_by_their_path(tmp_path, monkeypatch):
    """All marked ones of a module, or one by its name."""
    (tmp_path / "crib_tools.py").write_text(
        "from toolcrib import tool\n@tool\ndef a(): pass\n@tool\ndef b(): pass\ndef c(): pass\nd = 5\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    assert [function.__name__ for function in import_tools("crib_tools")] == ["a", "b"]
    assert [function.__name__ for function in import_tools("crib_tools:c")] == ["c"]
    for path, words in (("crib_tools:d", "has no function 'd'"), ("no_such_module", "cannot import")):
        with pytest.raises(ConfigError, match=words):
            import_tools(path)
