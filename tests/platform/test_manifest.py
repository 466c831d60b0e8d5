"""Where the manifest is looked for, and what is said when there is something wrong with it."""

import json

import pytest

from toolcrib.config.manifest import ManifestEntry
from toolcrib.core.errors import ConfigError
from toolcrib.platform.gateway import NAME, Whereabouts, find_manifest, places, read_manifest


def write(directory, root=None):
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / NAME
    path.write_text(json.dumps({"mcpServers": [{"mcpServerName": "mail"}]} if root is None else root))
    return path


def test_the_working_directory_comes_before_the_main_script(tmp_path):
    here, beside = write(tmp_path / "here"), write(tmp_path / "program")
    around = Whereabouts(tmp_path / "here", tmp_path / "program" / "main.py", {})

    assert find_manifest(around) == here
    here.unlink()
    assert find_manifest(around) == beside


def test_inside_a_repository_it_is_looked_for_up_to_its_root_and_no_further(tmp_path):
    write(tmp_path)
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    below = tmp_path / "repo" / "a" / "b"
    below.mkdir(parents=True)
    around = Whereabouts(below, None, {})

    assert places(around) == [below / NAME, below.parent / NAME, tmp_path / "repo" / NAME]
    assert find_manifest(around) is None
    found = write(tmp_path / "repo")
    assert find_manifest(around) == found


def test_one_that_is_named_counts_and_must_be_there(tmp_path):
    write(tmp_path)
    named = write(tmp_path / "other")

    assert find_manifest(Whereabouts(tmp_path, None, {"TOOLCRIB_MANIFEST": str(named)})) == named
    assert find_manifest(Whereabouts(tmp_path, None, {}), f"other/{NAME}") == named
    with pytest.raises(ConfigError, match="There is no manifest"):
        find_manifest(Whereabouts(tmp_path, None, {}), "nowhere.json")


def test_comments_and_a_byte_order_mark_do_no_harm(tmp_path):
    path = tmp_path / NAME
    path.write_text('\ufeff{ // servers\n "mcpServers": [{"mcpServerName": "mail"},] }')

    assert read_manifest(path) == (ManifestEntry("mail", "mail"),)


def test_a_broken_manifest_is_an_error_with_its_line(tmp_path):
    path = tmp_path / NAME
    path.write_text('{\n  "mcpServers": [\n    {"mcpServerName" "mail"}\n  ]\n}')

    with pytest.raises(ConfigError, match=f"{NAME}:3: "):
        read_manifest(path)


def test_a_manifest_without_a_list_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="no list"):
        read_manifest(write(tmp_path, {"servers": 3}))
