"""``doctor`` on the knowledge base: whether it can be opened, is sound, has room, and is up to date."""

import os
from dataclasses import replace

import pytest

from toolcrib.config.model import Config
from toolcrib.config.sections import EmbedderConfig, KbConfig, StoreConfig
from toolcrib.crib.library import make_library
from toolcrib.knowledge.survey import Adding, SourceRoot
from toolcrib.project import checks
from toolcrib.project.checks import check_knowledge
from toolcrib.stores.paths import Environment


@pytest.fixture
def config(tmp_path):
    return KbConfig(enabled=True, path=str(tmp_path / "kb.db"), docs=False, embedder="none")


@pytest.fixture
async def notes(config, tmp_path):
    """A knowledge base of two notes that were written long ago."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("ants", "bees"):
        (folder / f"{name}.md").write_text(f"# {name}\n\nAll about {name}.\n")
        os.utime(folder / f"{name}.md", (1_700_000_000, 1_700_000_000))
    library = await make_library(config, Environment()).open()
    await library.ingest.add([SourceRoot(folder)], Adding("notes"))
    await library.close()
    return folder


async def verdicts(config):
    return [
        (check.level, check.message, check.todo) for check in await check_knowledge(Config(kb=config), Environment())
    ]


async def test_a_sound_one_is_counted(config, notes):
    ((level, message, _),) = await verdicts(config)

    assert (level, message) == ("ok", f"2 documents in 1 collections, {config.path}")


async def test_one_that_is_not_there_is_not_made_by_looking(config, tmp_path):
    ((level, message, todo),) = await verdicts(config)

    assert (level, message, "kb add" in todo) == ("ok", "nothing in it yet", True)
    assert list(tmp_path.iterdir()) == []


async def test_one_that_is_switched_off_is_not_looked_at(config):
    assert await check_knowledge(Config(kb=KbConfig(enabled=False, path=config.path)), Environment()) == []


async def test_files_that_changed_or_left_since_are_counted(config, notes):
    (notes / "ants.md").write_text("Something else entirely.")
    (notes / "bees.md").unlink()

    _, (level, message, todo) = await verdicts(config)
    assert (level, message) == ("warn", "notes is behind its files: 1 changed, 1 gone")
    assert todo == "toolcrib kb add PATH --collection notes brings it up to date."


async def test_an_embedder_that_is_no_longer_configured_is_told(config, notes):
    """Its collections are found by words alone."""
    mine = replace(config, embedder="mine", embedders={"mine": EmbedderConfig("bundled")})
    library = await make_library(mine, Environment()).open()
    await library.ingest.add([SourceRoot(notes)], Adding("others"))
    await library.close()

    assert [level for level, _, _ in await verdicts(mine)] == ["ok"]
    _, (level, message, todo) = await verdicts(config)
    assert (level, "others was indexed with the embedder 'mine', which is not configured" in message) == ("warn", True)
    assert todo.endswith("toolcrib kb embed others --embedder bundled")


async def test_a_file_that_is_none_or_is_damaged_is_a_failure(config, notes):
    with open(config.path, "r+b") as file:
        file.seek(8192)
        file.write(os.urandom(20_000))
    damaged = await verdicts(config)
    with open(config.path, "wb") as file:
        file.write(b"no database " * 1000)
    no_database = await verdicts(config)

    assert "fail" in [level for level, _, _ in damaged]
    assert [level for level, _, _ in no_database] == ["fail"]


async def test_a_full_disk_is_told_before_it_hurts(config, notes, monkeypatch):
    monkeypatch.setattr(checks, "SPACE_LEAST", 1 << 62)

    level, message, _ = (await verdicts(config))[0]
    assert (level, "MB are free on its disk" in message) == ("warn", True)


async def test_parsers_that_are_not_installed_are_named(config, monkeypatch):
    monkeypatch.setattr(checks, "PARSERS", {"no_such_parser": "PDF"})

    level, message, todo = (await verdicts(config))[0]
    assert (level, message, "toolcrib extras add kb" in todo) == ("ok", "PDF cannot be read", True)


async def test_a_shared_one_is_looked_at_where_it_is(store_settings):
    shared = KbConfig(enabled=True, docs=False, embedder="none")
    (check,) = await check_knowledge(Config(kb=shared, store=StoreConfig(url=store_settings.url)), Environment())

    assert (check.level, check.message.startswith("0 documents in 0 collections, postgresql://")) == ("ok", True)


async def test_a_shared_one_that_is_away_fails():
    shared = KbConfig(enabled=True, docs=False, embedder="none")
    (check,) = await check_knowledge(
        Config(kb=shared, store=StoreConfig(url="postgresql://me:secret@127.0.0.1:1/x")), Environment()
    )

    assert (check.level, "does not answer" in check.message) == ("fail", True)
    assert "secret" not in f"{check.message} {check.todo}"
