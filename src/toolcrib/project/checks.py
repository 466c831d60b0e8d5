"""Whether everything is in order: each function gives verdicts on one part of the whole. Nothing is printed here."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from toolcrib.catalog.lookalikes import pairs
from toolcrib.catalog.merge import beyond_capacity
from toolcrib.catalog.profile import dress
from toolcrib.catalog.records import ServerShelf
from toolcrib.catalog.standing import standing_of
from toolcrib.catalog.supply import Supply
from toolcrib.config.lock import Lock, Record
from toolcrib.config.model import Config, ServerConfig
from toolcrib.config.references import resolve_server
from toolcrib.config.sections import BUILT_IN_EMBEDDERS, KbConfig, ProfileConfig
from toolcrib.core.errors import ConfigError, ToolcribError
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.core.knowledge import Collection, CollectionCounts, KnowledgeStore, Stamp
from toolcrib.core.network import Network
from toolcrib.core.view import DiscoveryStep
from toolcrib.crib.backend import find_backend, open_lock
from toolcrib.crib.crib import Crib
from toolcrib.crib.layers import audit_place
from toolcrib.crib.loading import Loaded
from toolcrib.stores.audit.log import AuditPlace, NoAuditLog
from toolcrib.stores.audit.note import ACCEPT
from toolcrib.stores.knowledge.store import SqliteKnowledge
from toolcrib.stores.local import Backend
from toolcrib.stores.lockfile import LockFile
from toolcrib.stores.paths import Environment, for_network
from toolcrib.transports.http.dial import parse_proxy, tls_context
from toolcrib.transports.process.environment import child_environment

NAME_MAX = 64
TOOLS_MAX = 128
SLOW_S = 5.0
LOOKALIKES_MAX = 50


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One verdict: ``ok``, ``warn`` or ``fail``, on what, and what to do."""

    level: str
    subject: str
    message: str
    todo: str = ""
    steps: tuple[DiscoveryStep, ...] = ()
    """Where it is about a server that people sign in at: each question on the way there, and its answer."""


def check_supply(supply: Supply | None) -> Iterator[HealthCheck]:
    """Whether the platform could be asked, where there is one."""
    if supply is None:
        return
    if supply.error is not None:
        todo = supply.error.hint or "See docs/platform.md."
        yield HealthCheck("fail", "platform", supply.error.message, todo)
    else:
        yield HealthCheck("ok" if supply.found else "warn", "platform", f"{len(supply.found)} servers")


def check_files(loaded: Loaded) -> Iterator[HealthCheck]:
    """The configuration files, and what in them was not used."""
    for path in loaded.files:
        yield HealthCheck("ok", "configuration", str(path))
    if not loaded.config.servers and not loaded.config.platform.is_on:
        todo = "toolcrib servers add NAME -- command args…"
        yield HealthCheck("warn", "configuration", "no server is configured", todo)
    for problem in loaded.config.problems:
        yield HealthCheck("warn", "configuration", problem)


def check_network(config: Config, around: Environment) -> Iterator[HealthCheck]:
    """Which proxy and certificates are used, where any are named."""
    network = Network.of(for_network(around, config).env)
    proxies = {"http": network.http_proxy, "https": network.https_proxy}
    try:
        told = [f"{scheme} through the proxy {parse_proxy(url)}" for scheme, url in proxies.items() if url]
        told += [f"directly to {', '.join(network.no_proxy)}"] if told and network.no_proxy else []
        places = [place for place in (network.ca_file, network.ca_dir) if place]
        if places:
            tls_context(network.ca_file, network.ca_dir)
            told.append(f"certificates of {' and '.join(places)}")
    except ConfigError as error:
        yield HealthCheck("fail", "network", error.message, error.hint)
    else:
        yield from [HealthCheck("ok", "network", "; ".join(told))] if told else ()


async def check_ledger(loaded: Loaded, env: Mapping[str, str]) -> list[HealthCheck]:
    """Whether what is discovered can be read and kept."""
    if not loaded.config.store.url:
        return list(check_lock(loaded.lock))
    try:
        async with open_lock(loaded.config, loaded.lock, Environment(env=env)) as ledger:
            found = Lock() if ledger is None else await ledger.lock()
    except ToolcribError as error:
        return [HealthCheck("fail", "shared database", error.message, error.hint)]
    return [HealthCheck("ok", "shared database", f"holds the records of {len(found.records)} servers")]


def check_lock(path: Path | None) -> Iterator[HealthCheck]:
    """Whether a lock file can be read and written."""
    if path is None:
        return
    try:
        LockFile(path).read()
    except ConfigError as error:
        yield HealthCheck("warn", "lock", error.message, error.hint)
    place = next(parent for parent in (path, *path.parents) if parent.exists())
    if os.access(place, os.W_OK) and os.access(place if place.is_dir() else place.parent, os.W_OK):
        yield HealthCheck("ok", "lock", f"{path} can be written")
    else:
        yield HealthCheck("fail", "lock", f"{path} cannot be written", f"Make {place} writable for this user.")


async def check_servers(crib: Crib, profiles: Mapping[str, ProfileConfig]) -> list[HealthCheck]:
    """Ask every server, and judge what came of it."""
    found = await asyncio.gather(*(_ask_server(crib, name) for name in sorted(crib.shelves)))
    asked = [check for checks in found for check in checks]
    off = [HealthCheck("ok", f"server {name}", "disabled") for name in sorted(crib.disabled)]
    supply = check_supply(crib.servers.supply)
    return [*supply, *asked, *off, *check_catalog(crib), *check_profiles(crib, profiles)]


async def _ask_server(crib: Crib, name: str) -> list[HealthCheck]:
    shelf = crib.shelves[name]
    obstacle = check_command(shelf.config)
    if obstacle is not None:
        return [obstacle]
    loop = asyncio.get_running_loop()
    began = loop.time()
    record = (await crib.refresh(name))[name]
    checks = list(check_server(shelf, record, loop.time() - began))
    return [*checks, *await _check_sign_in(crib, name)]


async def _check_sign_in(crib: Crib, name: str) -> list[HealthCheck]:
    """The whole way from a server's refusal to who lets people in, if it refuses strangers."""
    sign_ins = crib.sign_ins
    if sign_ins is None or not sign_ins.is_asked_for(name):
        return []
    probe = await sign_ins.walk(name)
    if probe.status not in (401, 403):
        return []
    words = f"{probe.issuer} lets people in" if probe.issuer else f"nobody can sign in there: {probe.problem}"
    return [HealthCheck("ok" if probe.issuer else "fail", f"server {name}", words, steps=probe.steps)]


def check_command(server: ServerConfig) -> HealthCheck | None:
    """What keeps a server from being started at all; ``None`` if nothing is seen."""
    subject = f"server {server.name}"
    try:
        resolved = resolve_server(server, Environment().variables)
    except ConfigError as error:
        return HealthCheck("fail", subject, error.message, error.hint)
    if resolved.command is None:
        return None
    if resolved.cwd is not None and not _directory(resolved).is_dir():
        return HealthCheck("fail", subject, f"its directory {resolved.cwd} does not exist", "Check cwd.")
    path = child_environment(resolved.env, os.environ).get("PATH")
    if shutil.which(resolved.command, path=path) is None and not (_directory(resolved) / resolved.command).is_file():
        todo = "Install it, write its whole path, or set PATH under env."
        return HealthCheck("fail", subject, f"the command {resolved.command!r} is not found", todo)
    return None


def _directory(server: ServerConfig) -> Path:
    return Path(server.origin or ".").parent / (server.cwd or "")


def check_server(shelf: ServerShelf, record: Record, elapsed_s: float) -> Iterator[HealthCheck]:
    """How a server did when it was asked."""
    subject = f"server {shelf.config.name}"
    if record.status is DiscoveryStatus.FAILED:
        yield HealthCheck("fail", subject, record.error, _next_command(shelf))
        return
    tools = f"{len(record.tools)} tool{'s' if len(record.tools) != 1 else ''}"
    yield HealthCheck("ok", subject, f"{tools} in {elapsed_s:.1f} s, protocol {record.era}")
    if elapsed_s > SLOW_S:
        yield HealthCheck(
            "warn", subject, f"it took {elapsed_s:.0f} s to list its tools", "A first call will take as long."
        )
    noise = shelf.source.status().stdout_noise
    if noise:
        todo = "Its author should print to stderr; toolcrib goes on regardless."
        yield HealthCheck("warn", subject, f"it wrote {noise} lines to stdout that are not MCP", todo)
    for problem in record.problems:
        yield HealthCheck("warn", subject, problem)


def _next_command(shelf: ServerShelf) -> str:
    step = standing_of(shelf).next
    return step.command if step is not None else ""


def check_catalog(crib: Crib) -> Iterator[HealthCheck]:
    """What clients may have trouble with."""
    for name in crib.catalog.routes:
        if len(name) > NAME_MAX:
            message = f"{name} has {len(name)} characters; some clients take at most {NAME_MAX}"
            yield HealthCheck("warn", "names", message, "Give its server a shorter name.")
    for why in crib.catalog.left_out.values():
        if why.is_clash:
            yield HealthCheck("warn", "names", why.reason, "Rename one of the two.")
    missing = beyond_capacity(crib.catalog)
    if missing:
        message = f"{len(missing)} tools are left out, from {missing[0]} on: the catalogue is full"
        yield HealthCheck("warn", "catalogue", message, "Raise [catalog] capacity, or disable what is not needed.")
    for name, other in pairs(crib.catalog.lookalikes)[:LOOKALIKES_MAX]:
        todo = f"If that is no accident, disable one: toolcrib why {name}"
        yield HealthCheck("warn", "names", f"{name} and {other} look alike", todo)
    count = len(crib.catalog.routes)
    if count > TOOLS_MAX:
        message = f"{count} tools; some clients take at most {TOOLS_MAX}, and models choose worse among so many"
        todo = 'Disable what is not needed, or let clients search: [expose] mode = "auto".'
        yield HealthCheck("warn", "catalogue", message, todo)
    else:
        yield HealthCheck("ok", "catalogue", f"{count} tool{'s' if count != 1 else ''}")


def check_profiles(crib: Crib, profiles: Mapping[str, ProfileConfig]) -> Iterator[HealthCheck]:
    """What profiles show, and what in them comes to nothing."""
    for name, profile in profiles.items():
        subject, shown = f"profile {name}", dress(crib.catalog, profile, 0).catalog
        count = len(shown.routes)
        level = "ok" if any(not route.tool.reads_results for route in shown.routes.values()) else "warn"
        yield HealthCheck(level, subject, f"{count} tool{'s' if count != 1 else ''}")
        for tool in profile.change:
            if crib.lookup(tool) is None:
                message = f"it changes {tool}, which is not there"
                yield HealthCheck("warn", subject, message, f"toolcrib why {tool}")
            elif tool in shown.left_out:
                yield HealthCheck("warn", subject, f"{tool} is left out: {shown.left_out[tool].reason}")


SUBJECT = "knowledge base"
SPACE_LEAST = 500_000_000
LOOKED_THROUGH_MAX = 1_000_000_000
"""Bytes of a file that is looked through for damage each time."""
STAMPS_MAX = 20_000
PARSERS = {"pypdfium2": "PDF", "selectolax": "HTML"}


async def check_knowledge(config: Config, surroundings: Environment) -> list[HealthCheck]:
    """Whether it can be opened, is sound, has room, and is as new as what it was made from."""
    if not config.kb.enabled:
        return []
    try:
        backend = find_backend(config, surroundings)
        path = backend.knowledge_file()
        if path is None:
            return [*_check_parsers(), *[check async for check in _check_shared(backend)]]
        return [*_check_place(path), *_check_parsers(), *[check async for check in _check_file(path, config.kb)]]
    except ToolcribError as error:
        return [HealthCheck("fail", SUBJECT, error.message, error.hint)]


def _check_place(path: Path) -> Iterator[HealthCheck]:
    place = next(parent for parent in (path.parent, *path.parents) if parent.exists())
    if not os.access(place, os.W_OK):
        yield HealthCheck("warn", SUBJECT, f"{place} cannot be written: nothing can be added", "Make it writable.")
    free = shutil.disk_usage(place).free
    if free < SPACE_LEAST:
        todo = "Make room, or set [kb] path to another disk."
        yield HealthCheck("warn", SUBJECT, f"only {free / 1e6:.0f} MB are free on its disk", todo)


def _check_parsers() -> Iterator[HealthCheck]:
    missing = [kind for module, kind in PARSERS.items() if find_spec(module) is None]
    if missing:
        yield HealthCheck(
            "ok", SUBJECT, f"{' and '.join(missing)} cannot be read", "Run `toolcrib extras add kb` to read them."
        )


async def _check_file(path: Path, config: KbConfig) -> AsyncIterator[HealthCheck]:
    size = await asyncio.to_thread(_size, path)
    if size is None:
        yield HealthCheck("ok", SUBJECT, "nothing in it yet", "toolcrib kb add PATH --collection NAME")
        return
    store = SqliteKnowledge(path)
    try:
        if size <= LOOKED_THROUGH_MAX:
            for problem in await store.quick_check():
                yield HealthCheck(
                    "fail", SUBJECT, problem, "toolcrib kb verify, then toolcrib kb export what can be read."
                )
        async for check in _check_contents(store, config, str(path)):
            yield check
    finally:
        await store.close()


async def _check_shared(backend: Backend) -> AsyncIterator[HealthCheck]:
    store = backend.knowledge()
    try:
        async for check in _check_contents(store, backend.config.kb, backend.place):
            yield check
    finally:
        await store.close()


async def _check_contents(store: KnowledgeStore, config: KbConfig, place: str) -> AsyncIterator[HealthCheck]:
    collections = await store.collections()
    counts = [await store.counts(each.id) for each in collections]
    documents = sum(held.documents for held in counts)
    yield HealthCheck("ok", SUBJECT, f"{documents} documents in {len(collections)} collections, {place}")
    for collection, held in zip(collections, counts, strict=True):
        for check in _check_vectors(collection, held, config):
            yield check
        stamps = await store.stamps(collection.id)
        for check in await asyncio.to_thread(list, _check_sources(collection, stamps)):
            yield check


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.exists() else None


def _check_vectors(collection: Collection, held: CollectionCounts, config: KbConfig) -> Iterator[HealthCheck]:
    name = collection.embedder_name
    if name and name not in (*BUILT_IN_EMBEDDERS, *config.embedders):
        message = f"{collection.id} was indexed with the embedder {name!r}, which is not configured: only words count"
        how = f"Describe it in [kb.embedders.{name}], or: toolcrib kb embed {collection.id} --embedder bundled"
        yield HealthCheck("warn", SUBJECT, message, how)
    elif held.waiting or held.lacking:
        message = f"{collection.id} waits for the vectors of {held.waiting or held.lacking} passages"
        yield HealthCheck("warn", SUBJECT, message, f"toolcrib kb embed {collection.id} makes them.")


def _check_sources(collection: Collection, stamps: Mapping[str, tuple[str, Stamp]]) -> Iterator[HealthCheck]:
    again = f"toolcrib kb add PATH --collection {collection.id}"
    states = [_state(source, stamp) for source, (_, stamp) in list(stamps.items())[:STAMPS_MAX]]
    changed, gone = states.count("changed"), states.count("gone")
    if changed or gone:
        parts = [f"{changed} changed" if changed else "", f"{gone} gone" if gone else ""]
        message = f"{collection.id} is behind its files: {', '.join(filter(None, parts))}"
        yield HealthCheck("warn", SUBJECT, message, f"{again} brings it up to date.")


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


AUDIT_SUBJECT = "audit log"


async def check_audit(config: Config, surroundings: Environment) -> list[HealthCheck]:
    """Where it is, whether it can be written and read, and whether its end is what was noted elsewhere."""
    if not config.audit.enabled:
        return []
    place = audit_place(config, surroundings)
    try:
        if problem := await asyncio.to_thread(place.problem):
            return [HealthCheck("fail", AUDIT_SUBJECT, f"{problem[0].upper()}{problem[1:]}.", ACCEPT)]
        return [HealthCheck("ok", AUDIT_SUBJECT, await asyncio.to_thread(_look, place))]
    except ToolcribError as error:
        return [HealthCheck("fail", AUDIT_SUBJECT, error.message, error.hint)]


def _look(place: AuditPlace) -> str:
    place.check()
    try:
        with place.reading() as log:
            head = log.head()
    except NoAuditLog:
        return f"{place} can be written; nothing is in it yet"
    return f"{place} can be written; {head.seq if head else 'unknown'} entries"
