"""Files beside the pages: what others wrote is as they wrote it, and nothing else can be had."""

import hashlib
from importlib.resources import files

import pytest

from toolcrib.server.answers import HttpProblem
from toolcrib.server.web.static_files import FOR_EVER, load_static_files

VENDOR = files("toolcrib.server.web") / "static" / "vendor"


def test_vendored_files_are_those_that_were_published():
    """Every script of others is listed with its hash, and has it."""
    listed = dict(reversed(line.split()) for line in (VENDOR / "SHA256SUMS").read_text().splitlines())
    found = {
        entry.name: hashlib.sha256(entry.read_bytes()).hexdigest()
        for entry in VENDOR.iterdir()
        if entry.name not in ("SHA256SUMS", "README.txt")
    }

    assert found == listed


def test_a_file_at_its_own_address_may_be_kept_for_ever():
    """The address changes with the content; at an older one the file has to be asked for again."""
    static = load_static_files()

    current = static.answer(static.version, "style.css", packed=False)
    older = static.answer("000000000000", "style.css", packed=False)

    assert FOR_EVER in current.headers
    assert FOR_EVER not in older.headers
    assert current.body == older.body


@pytest.mark.parametrize("path", ["../site.py", "/etc/passwd", "js/../../site.py", "", "vendor", "vendor/SHA256SUMS"])
def test_only_known_files_can_be_asked_for(path: str):
    """There is no way from a name to a file that was not read at the start."""
    static = load_static_files()

    with pytest.raises(HttpProblem) as refused:
        static.answer(static.version, path, packed=False)

    assert refused.value.status == 404


def test_no_page_needs_anything_inline():
    """The policy forbids scripts and styles inside pages, so no template may have any."""
    templates = files("toolcrib.server.web") / "templates"
    texts = [
        path.read_text() for folder in (templates, *_folders(templates)) for path in folder.iterdir() if path.is_file()
    ]

    for text in texts:
        assert "<style" not in text
        assert " style=" not in text
        assert " onclick" not in text
        assert "hx-on" not in text
        assert "<script>" not in text


def _folders(place):
    return [entry for entry in place.iterdir() if entry.is_dir()]
