import stat
from pathlib import Path

import pytest

from toolcrib.config.foreign.plan import ImportRecord
from toolcrib.core.errors import ConfigError
from toolcrib.stores.foreign import Origins

MEMORY = ImportRecord((("cursor", "/mcp.json", "a", ""),), "1", "2")


def test_what_is_remembered_is_kept_by_file_and_for_its_owner_alone(tmp_path):
    """Another toolcrib.toml has its own memory; digests are nobody else's business."""
    origins = Origins(tmp_path / "state")
    origins.update(Path("/x/toolcrib.toml"), {"a": MEMORY, "b": MEMORY})
    origins.update(Path("/x/toolcrib.toml"), {"b": None})

    assert Origins(tmp_path / "state").of(Path("/x/toolcrib.toml")) == {"a": MEMORY}
    assert origins.of(Path("/y/toolcrib.toml")) == {}
    assert stat.S_IMODE(origins.path.stat().st_mode) == 0o600


def test_a_damaged_memory_says_what_to_do(tmp_path):
    """It is not silently started anew."""
    (tmp_path / "imports.json").write_text("{")

    with pytest.raises(ConfigError, match="Delete it"):
        Origins(tmp_path).of(Path("/x"))
