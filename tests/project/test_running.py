"""A project at work follows its files: the configuration, and the native modules beside it."""

import asyncio
import sys

import pytest

from toolcrib.crib.loading import load
from toolcrib.project import running
from toolcrib.stores.paths import Environment

HANG_S = 150


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "POLL_S", 0.01)
    monkeypatch.setattr(running, "SETTLE_S", 0.01)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in ("crib_one", "crib_two"):
        sys.modules.pop(name, None)


def write_module(path, name):
    path.write_text(f"from toolcrib import tool\n@tool\ndef {name}() -> str:\n    'Say.'\n    return '{name}'\n")


async def test_edits_of_native_modules_and_of_their_list_count_without_a_restart(place):
    """A broken edit keeps the tools before, and is told; each edit is waited for by what it changes."""
    write_module(place / "crib_one.py", "first")
    write_module(place / "crib_two.py", "other")
    config = place / "toolcrib.toml"
    config.write_text("native = ['crib_one']\n[kb]\nenabled = false\n")
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def told(name):
        async with asyncio.timeout(HANG_S):
            while await heard.get() != name:
                pass

    around = Environment(cwd=place)
    async with running.open_project(load(None, around), lambda event: heard.put_nowait(event.name)) as project:
        crib, seen = project.crib, []

        def see():
            seen.append([name for name in crib.catalog.routes if name != "result_read"])

        see()
        write_module(place / "crib_one.py", "second")
        await told("native.applied")
        see()
        (place / "crib_one.py").write_text("def broken(:\n")
        await told("native.rejected")
        see()
        config.write_text("native = ['crib_two']\n[kb]\nenabled = false\n")
        await told("native.applied")
        see()
        ran = await crib.call("other")

    assert seen == [["first"], ["second"], ["second"], ["other"]]
    assert ran.text == "other"
