"""Which files toolcrib reads servers from: by their last steps, whatever their case."""

import pytest

from toolcrib.config.foreign.locations import (
    READ_AT_START,
    is_folder_of_server_files,
    is_server_file,
    is_server_file_name,
)

SERVER_FILES = (
    "toolcrib.toml",
    "toolcrib.lock",
    ".mcp.json",
    "mcp.json",
    ".cursor/mcp.json",
    ".vscode/mcp.json",
    ".codex/config.toml",
    ".kiro/settings/mcp.json",
    "opencode.json",
    "librechat.yaml",
)


@pytest.mark.parametrize("name", [*SERVER_FILES, *READ_AT_START])
def test_a_server_file_is_known_in_any_directory_and_any_case(name):
    steps = name.split("/")

    assert is_server_file(steps)
    assert is_server_file(["work", "deep", "er", *steps])
    assert is_server_file(name.upper().split("/"))
    assert is_server_file_name(steps[-1].upper())
    assert all(is_folder_of_server_files(folder.upper()) for folder in steps[:-1][:1])


@pytest.mark.parametrize("name", ["notes.md", "config.toml", ".codex/mcp.txt", "settings/config.toml", "mcp.json/x"])
def test_other_files_are_not(name):
    assert not is_server_file(name.split("/"))


def test_other_names_and_folders_are_not_looked_at():
    assert not is_server_file_name("notes.md")
    assert not is_server_file_name(".cursor")
    assert not is_folder_of_server_files("src")
    assert not is_folder_of_server_files("mcp.json")


def test_what_is_read_without_being_asked_to_is_complete():
    """Each of them can have any command started."""
    assert set(READ_AT_START) >= {"toolcrib.toml", "toolcrib.lock", ".mcp.json", "mcp.json", ".cursor/mcp.json"}
    assert len(READ_AT_START) == 7
    assert ".vscode/mcp.json" in READ_AT_START
