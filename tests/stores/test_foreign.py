import zipfile
from pathlib import Path

import pytest

from toolcrib.config.foreign.clients import CLIENTS, UNKNOWN
from toolcrib.config.model import ServerConfig
from toolcrib.core.errors import ConfigError
from toolcrib.stores.foreign import FILE_MAX, ForeignSource, exists, read_source

MANIFEST = Path(__file__).parents[1] / "config" / "foreign" / "fixtures" / "bundle_manifest.json"


def test_a_file_is_read_with_its_byte_order_mark(tmp_path):
    """Windows programs write one."""
    path = tmp_path / "mcp.json"
    path.write_bytes(b'\xef\xbb\xbf{"mcpServers": {"a": {"command": "x"}}}')

    ((place, found),) = read_source(ForeignSource(CLIENTS["cursor"], path), "linux")

    assert (place.client, place.path, place.name) == ("cursor", str(path), "a")
    assert found.server == ServerConfig("a", command="x")


def test_a_bundle_is_read_where_it_is(tmp_path):
    """Nothing is unpacked beside it."""
    path = tmp_path / "desk.mcpb"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", MANIFEST.read_text())

    ((place, found),) = read_source(ForeignSource(UNKNOWN, path), "linux")

    assert (place.client, found.name) == ("mcpb", "paper-desk")
    assert list(tmp_path.iterdir()) == [path]


def test_a_huge_file_is_refused(tmp_path):
    """Before it is read."""
    path = tmp_path / "mcp.json"
    with path.open("wb") as file:
        file.truncate(FILE_MAX + 1)

    with pytest.raises(ConfigError, match="5,000,001 bytes; more than 5,000,000 are not read"):
        read_source(ForeignSource(UNKNOWN, path), "linux")


@pytest.mark.parametrize(("content", "expected"), [(b"\xff\xfe{", "not UTF-8"), (b'{\n"a" 1}', "mcp.json:2: ")])
def test_a_broken_file_is_named(tmp_path, content, expected):
    """With its line, where it has lines."""
    path = tmp_path / "mcp.json"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match=expected):
        read_source(ForeignSource(UNKNOWN, path), "linux")


def test_folders_and_missing_files_are_not_there(tmp_path):
    """A folder called mcp.json is not a file."""
    (tmp_path / "mcp.json").mkdir()

    assert not exists(tmp_path / "mcp.json")
    assert not exists(tmp_path / "none")


def test_what_cannot_be_read_says_why(tmp_path):
    """In the words of the system."""
    with pytest.raises(ConfigError, match="The file cannot be read: Is a directory"):
        read_source(ForeignSource(UNKNOWN, tmp_path), "linux")
