"""What ``doctor`` looks at in the knowledge base; nothing is made or changed by looking."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from toolcrib.config.kb import BUILT_IN_EMBEDDERS, KbConfig
from toolcrib.config.masks import shown_url
from toolcrib.config.scaling import NO_STORE, StoreConfig
from toolcrib.core.errors import ToolcribError
from toolcrib.core.knowledge import Collection, CollectionCounts, KnowledgeStore, Stamp
from toolcrib.doors.cli.checks import Check
from toolcrib.kb import kb_path
from toolcrib.shared import find_store
from toolcrib.stores.knowledge import SqliteKnowledge
from toolcrib.stores.postgres.database import StoreSettings
from toolcrib.surroundings import Surroundings

SUBJECT = "knowledge base"
SPACE_LEAST = 500_000_000
LOOKED_THROUGH_MAX = 1_000_000_000
"""Bytes of a file that is looked through for damage each time."""
STAMPS_MAX = 20_000
PARSERS = {"pypdfium2": "PDF", "selectolax": "HTML"}


async def check_knowledge(config: KbConfig, surroundings: Surroundings, shared: StoreConfig = NO_STORE) -> list[Check]:
    """Whether it can be opened, is sound, has room, and is as new as what it was made from."""
    if not config.enabled:
        return []
    try:
        if not config.path and (settings := find_store(shared, surroundings.env)) is not None:
            return [*_check_parsers(), *[check async for check in _check_shared(settings, config)]]
        path = kb_path(config, surroundings)
        return [*_check_place(path), *_check_parsers(), *[check async for check in _check_file(path, config)]]
    except ToolcribError as error:
        return [Check("fail", SUBJECT, error.message, error.hint)]


def _check_place(path: Path) -> Iterator[Check]:
    place = next(parent for parent in (path.parent, *path.parents) if parent.exists())
    if not os.access(place, os.W_OK):
        yield Check("warn", SUBJECT, f"{place} cannot be written: nothing can be added", "Make it writable.")
    free = shutil.disk_usage(place).free
    if free < SPACE_LEAST:
        todo = "Make room, or set [kb] path to another disk."
        yield Check("warn", SUBJECT, f"only {free / 1e6:.0f} MB are free on its disk", todo)


def _check_parsers() -> Iterator[Check]:
    missing = [kind for module, kind in PARSERS.items() if find_spec(module) is None]
    if missing:
        yield Check(
            "ok", SUBJECT, f"{' and '.join(missing)} cannot be read", "pip install 'toolcrib[kb]' to read them."
        )


async def _check_file(path: Path, config: KbConfig) -> AsyncIterator[Check]:
    size = await asyncio.to_thread(_size, path)
    if size is None:
        yield Check("ok", SUBJECT, "nothing in it yet", "toolcrib kb add PATH --collection NAME")
        return
    store = SqliteKnowledge(path)
    try:
        if size <= LOOKED_THROUGH_MAX:
            for problem in await store.quick_check():
                yield Check("fail", SUBJECT, problem, "toolcrib kb verify, then toolcrib kb export what can be read.")
        async for check in _check_contents(store, config, str(path)):
            yield check
    finally:
        await store.close()


async def _check_shared(settings: StoreSettings, config: KbConfig) -> AsyncIterator[Check]:
    from toolcrib.stores.postgres.knowledge import PgKnowledge

    store = PgKnowledge(settings)
    try:
        async for check in _check_contents(store, config, shown_url(settings.url)):
            yield check
    finally:
        await store.close()


async def _check_contents(store: KnowledgeStore, config: KbConfig, place: str) -> AsyncIterator[Check]:
    collections = await store.collections()
    counts = [await store.counts(each.id) for each in collections]
    documents = sum(held.documents for held in counts)
    yield Check("ok", SUBJECT, f"{documents} documents in {len(collections)} collections, {place}")
    for collection, held in zip(collections, counts, strict=True):
        for check in _check_vectors(collection, held, config):
            yield check
        stamps = await store.stamps(collection.id)
        for check in await asyncio.to_thread(list, _check_sources(collection, stamps)):
            yield check


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.exists() else None


def _check_vectors(collection: Collection, held: CollectionCounts, config: KbConfig) -> Iterator[Check]:
    name = collection.embedder_name
    if name and name not in (*BUILT_IN_EMBEDDERS, *config.embedders):
        message = f"{collection.id} was indexed with the embedder {name!r}, which is not configured: only words count"
        how = f"Describe it in [kb.embedders.{name}], or: toolcrib kb embed {collection.id} --embedder bundled"
        yield Check("warn", SUBJECT, message, how)
    elif held.waiting or held.lacking:
        message = f"{collection.id} waits for the vectors of {held.waiting or held.lacking} passages"
        yield Check("warn", SUBJECT, message, f"toolcrib kb embed {collection.id} makes them.")


def _check_sources(collection: Collection, stamps: Mapping[str, tuple[str, Stamp]]) -> Iterator[Check]:
    again = f"toolcrib kb add PATH --collection {collection.id}"
    states = [_state(source, stamp) for source, (_, stamp) in list(stamps.items())[:STAMPS_MAX]]
    changed, gone = states.count("changed"), states.count("gone")
    if changed or gone:
        parts = [f"{changed} changed" if changed else "", f"{gone} gone" if gone else ""]
        message = f"{collection.id} is behind its files: {', '.join(filter(None, parts))}"
        yield Check("warn", SUBJECT, message, f"{again} brings it up to date.")


def _state(source: str, stamp: Stamp) -> str:
    """What became of the file a document was made from; pages of the web and shipped ones are not looked at."""
    if not source.startswith("/"):
        return ""
    try:
        status = os.lstat(source)
    except FileNotFoundError:
        return "gone"
    except OSError:
        return ""
    is_same = status.st_size == stamp.size and (not stamp.mtime_ns or status.st_mtime_ns == stamp.mtime_ns)
    return "" if is_same else "changed"
