import stat

import pytest

from toolcrib.core.errors import ConfigError
from toolcrib.stores.files import read_bytes
from toolcrib.stores.foreign import Connection, Connections, keep_backup, missing_folders, remove_file

KNOWN = Connection("cursor", "1", "2", "/x.before-toolcrib", ("/x",), ("a",))


def test_a_connection_is_remembered_until_it_is_forgotten(tmp_path):
    """By the file it changed."""
    path = tmp_path / "mcp.json"
    connections = Connections(tmp_path / "state")
    with connections.locked():
        connections.keep(path, KNOWN)

    assert Connections(tmp_path / "state").of(path) == KNOWN
    assert stat.S_IMODE(connections.path.stat().st_mode) == 0o600
    connections.keep(path, None)
    assert connections.of(path) is None


def test_a_damaged_memory_says_what_to_do(tmp_path):
    """It is not silently started anew."""
    (tmp_path / "connections.json").write_text("[]")

    with pytest.raises(ConfigError, match="Delete it"):
        Connections(tmp_path).of(tmp_path)


def test_a_backup_overwrites_nothing_and_is_as_private_as_its_file(tmp_path):
    """There may be one of that name already."""
    path = tmp_path / "mcp.json"
    path.write_bytes(b"now")
    path.chmod(0o600)
    first = keep_backup(path, b"one")

    second = keep_backup(path, b"two")

    assert (first.read_bytes(), second.read_bytes()) == (b"one", b"two")
    assert stat.S_IMODE(second.stat().st_mode) == 0o600


def test_only_empty_folders_that_were_made_are_removed(tmp_path):
    """Somebody may have put something into them."""
    path = tmp_path / "a" / "b" / "mcp.json"
    folders = missing_folders(path)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    (tmp_path / "a" / "other").write_bytes(b"")

    remove_file(path, folders)

    assert folders == (str(tmp_path / "a" / "b"), str(tmp_path / "a"))
    assert sorted(found.name for found in tmp_path.rglob("*")) == ["a", "other"]
    assert read_bytes(path) is None
