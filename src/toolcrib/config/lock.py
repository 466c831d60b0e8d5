"""The lock: what discovery found, one record per server, what was pinned of it, and what people answered; as text that
is the same bytes for the same findings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

import msgspec
from msgspec import UNSET, UnsetType, structs

from toolcrib.core.errors import ConfigError
from toolcrib.core.kinds import DiscoveryStatus, FailureKind
from toolcrib.core.view import KeptAnswer

VERSION = 1
AHEAD_S = 60.0
"""By how much the clocks of two machines may differ."""

_TOOL_KEYS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
_REBUILD = "Mend it, or move it away: then every tool is accepted anew as it is now, and answers are asked for again."


@dataclass(frozen=True, slots=True)
class Pin:
    """What a tool looked like when it was accepted."""

    hash: str
    """Of everything a model can see of it."""
    identity: str
    """Of the command or the address of its server."""
    at: str = ""
    definition: Mapping[str, Any] | None = None
    """What was accepted, in MCP's shape; kept only while the server shows something else."""
    disorder: tuple[str, ...] = ()
    """Fields that were seen with the same words in different orders; their order does not count."""
    trusted: tuple[str, ...] = ()
    """Fields whose changes do not count, by a person's word."""


@dataclass(frozen=True, slots=True)
class StandingAnswer:
    """What a person said once and for all when asked for a tool."""

    allow: bool
    at: str = ""
    by: str = ""
    """The way the question was answered: ``terminal``, ``client``, ``inbox``."""


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a discovery failed, in the parts that decide what is next."""

    kind: FailureKind
    cause: str
    """One line."""
    advice: str = ""
    """What to do about it, in one line, if that is known."""


@dataclass(frozen=True, slots=True)
class Record:
    """The last discovery of one server."""

    server: str
    status: DiscoveryStatus = DiscoveryStatus.NEVER
    tools: tuple[Mapping[str, Any], ...] = ()
    """Definitions in MCP's shape, sanitised."""
    last_discovery: str = ""
    """When it ended, as ``timestamp`` writes it; empty before the first one."""
    error: str = ""
    config_hash: str = ""
    era: str = ""
    """The protocol revision the server was found to speak."""
    ttl_s: float | None = None
    """How long the server itself says its listing holds."""
    problems: tuple[str, ...] = ()
    pins: Mapping[str, Pin] = field(default_factory=dict)
    """By the offer's key at the server: a tool's own name."""
    entry: str = ""
    """Of a server that a platform lists: its ``ServerConfig.entry`` as it was accepted."""
    others: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Resources, templates and prompts in MCP's shape, by key; and its instructions under ``INSTRUCTIONS``."""
    features: tuple[str, ...] = ()
    """What the server can do besides (``Listing.features``)."""
    asks: bool = False
    """Whether it asked something that could not be put to anybody, because several callers shared it."""
    failure: Failure | None = None
    """Of one that failed: the cause, and what is next."""

    @property
    def instructions(self) -> str:
        """How the server says it wants to be used."""
        return str(self.others.get(INSTRUCTIONS, {}).get("description", ""))


INSTRUCTIONS = "instructions"
"""The key of what a server says of its own use: pinned and held like an offer, because a model reads it."""


Answers = Mapping[str, Mapping[str, StandingAnswer]]
"""Exposed name of a tool → caller → what was answered."""


@dataclass(frozen=True, slots=True)
class Lock:
    """The records of all servers, by name."""

    records: Mapping[str, Record] = field(default_factory=dict)
    approvals: Answers = field(default_factory=dict)
    version: int = VERSION


class _StoredPin(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    hash: str
    identity: str
    at: str = ""
    definition: dict[str, Any] | None = None
    disorder: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()


class _StoredAnswer(msgspec.Struct, forbid_unknown_fields=True):
    answer: Literal["allow", "deny"]
    at: str = ""
    by: str = ""


class _StoredRecord(msgspec.Struct, forbid_unknown_fields=True):
    status: DiscoveryStatus
    last_discovery: str = ""
    error: str = ""
    config_hash: str = ""
    era: str = ""
    ttl_s: float | None = None
    problems: tuple[str, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    pins: dict[str, _StoredPin] | UnsetType = UNSET
    entry: str | UnsetType = UNSET
    others: dict[str, dict[str, Any]] | UnsetType = UNSET
    features: tuple[str, ...] | UnsetType = UNSET
    asks: bool | UnsetType = UNSET
    failure: Failure | UnsetType = UNSET


class _StoredLock(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    servers: dict[str, _StoredRecord]
    approvals: dict[str, dict[str, _StoredAnswer]] | UnsetType = UNSET


_DECODER = msgspec.json.Decoder(_StoredLock)
_RECORD_DECODER = msgspec.json.Decoder(_StoredRecord)


def read_lock(text: str, where: str) -> Lock:
    """The lock a file holds; a file that was damaged, or written by a newer toolcrib, is an error."""
    try:
        stored = _DECODER.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ConfigError(f"The lock file cannot be read: {_reason(error)}.", where=where, hint=_REBUILD) from None
    if stored.version != VERSION:
        reason = f"The lock file has version {stored.version}; this toolcrib reads version {VERSION}."
        raise ConfigError(reason, where=where, hint=_REBUILD)
    records = {name: _to_record(name, record) for name, record in stored.servers.items()}
    return Lock(records, _to_answers(stored.approvals or {}))


def _reason(error: Exception) -> str:
    """What is wrong; of too deep a nesting, each Python says something else."""
    return "it is nested too deep" if isinstance(error, RecursionError) else str(error)


def write_lock(lock: Lock) -> str:
    """Servers and tools by name, fields in a fixed order, schemas in their own order, a newline at the end."""
    servers = {name: _to_stored(lock.records[name]) for name in sorted(lock.records)}
    packed = msgspec.json.encode(_StoredLock(lock.version, servers, _to_stored_answers(lock.approvals) or UNSET))
    return msgspec.json.format(packed, indent=2).decode() + "\n"


def read_record(server: str, text: str) -> Record:
    """One server's record, where records are kept one by one."""
    try:
        return _to_record(server, _RECORD_DECODER.decode(text))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        hint = "Mend its row in toolcrib.record, or delete it: then every tool of it is accepted anew as it is now."
        raise ConfigError(f"The record of server {server!r} cannot be read: {_reason(error)}.", hint=hint) from None


def write_record(record: Record) -> str:
    """One server's record as the lock writes it, on one line."""
    return msgspec.json.encode(_to_stored(record)).decode()


def with_record(lock: Lock, server: str, record: Record | None) -> Lock:
    """The lock with one server's record put in, or taken out with ``None``."""
    others = {name: kept for name, kept in lock.records.items() if name != server}
    return replace(lock, records=others if record is None else others | {server: record})


def with_answer(lock: Lock, tool: str, caller: str, answer: StandingAnswer | None) -> Lock:
    """The lock with one answer put in, or taken out with ``None``."""
    others = {name: kept for name, kept in lock.approvals.get(tool, {}).items() if name != caller}
    answers = others if answer is None else others | {caller: answer}
    rest = {name: kept for name, kept in lock.approvals.items() if name != tool}
    return replace(lock, approvals=rest | {tool: answers} if answers else rest)


def timestamp(moment: datetime) -> str:
    """A moment as the lock writes it: ISO, UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def age_s(record: Record, now: datetime) -> float | None:
    """Seconds since the last discovery; ``None`` if there was none, its time cannot be read, or is yet to come: by a
    clock that was wrong, and nobody knows how old it is."""
    try:
        age = (now - datetime.fromisoformat(record.last_discovery)).total_seconds()
    except (ValueError, TypeError):
        return None
    return max(0.0, age) if age >= -AHEAD_S else None


def _to_record(name: str, stored: _StoredRecord) -> Record:
    said = {key: value for key, value in structs.asdict(stored).items() if value is not UNSET}
    pins = {name: Pin(**structs.asdict(pin)) for name, pin in (stored.pins or {}).items()}
    return Record(name, **said | {"pins": pins})


def _to_answers(stored: Mapping[str, Mapping[str, _StoredAnswer]]) -> Answers:
    return {
        tool: {caller: StandingAnswer(found.answer == "allow", found.at, found.by) for caller, found in answers.items()}
        for tool, answers in stored.items()
    }


def _to_stored_answers(approvals: Answers) -> dict[str, dict[str, _StoredAnswer]]:
    return {
        tool: {
            caller: _StoredAnswer("allow" if answer.allow else "deny", answer.at, answer.by)
            for caller, answer in sorted(approvals[tool].items())
        }
        for tool in sorted(approvals)
    }


def _to_stored(record: Record) -> _StoredRecord:
    said = {name: getattr(record, name) for name in _StoredRecord.__struct_fields__}
    said |= {
        "ttl_s": None if record.ttl_s is None else float(record.ttl_s),
        "tools": tuple(_in_order(tool) for tool in sorted(record.tools, key=_name)),
        "pins": {name: _to_stored_pin(record.pins[name]) for name in sorted(record.pins)} or UNSET,
        "entry": record.entry or UNSET,
        "others": {key: _in_order(record.others[key]) for key in sorted(record.others)} or UNSET,
        "features": record.features or UNSET,
        "asks": record.asks or UNSET,
        "failure": record.failure or UNSET,
    }
    return _StoredRecord(**said)


def _to_stored_pin(pin: Pin) -> _StoredPin:
    definition = None if pin.definition is None else _in_order(pin.definition)
    return _StoredPin(pin.hash, pin.identity, pin.at, definition, pin.disorder, pin.trusted)


def _name(tool: Mapping[str, Any]) -> str:
    return str(tool.get("name", ""))


def _in_order(tool: Mapping[str, Any]) -> dict[str, Any]:
    known = {key: tool[key] for key in _TOOL_KEYS if key in tool}
    return known | {key: tool[key] for key in sorted(tool.keys() - known.keys())}


Change = Callable[[Record | None], Record | None]


class LockStore(Protocol):
    """Discovery records with their pins, and what people answered once and for all."""

    async def lock(self) -> Lock:
        """All of it; what cannot be read is an error, for with it every pin would be forgotten."""

    async def read(self) -> Mapping[str, Record]:
        """The records of all servers."""

    async def update(self, server: str, change: Change) -> None:
        """Change one record in one step, or remove it with ``None``; what others write meanwhile is not lost."""

    async def find(self, tool: str, caller: str) -> bool | None:
        """Whether the tool was allowed to the caller for ever, denied for ever, or neither."""

    async def write(self, tool: str, caller: str, allow: bool, by: str) -> None:
        """Keep an answer; returns when it will survive a power cut."""

    async def forget(self, tool: str, callers: Sequence[str] | None = None) -> list[str]:
        """Take answers back, those for all callers if none is named; whose there were."""

    async def stamp(self) -> object:
        """What is different after every change."""


def kept_answers(lock: Lock) -> list[KeptAnswer]:
    """The answers, by tool and caller."""
    return [
        KeptAnswer(tool, caller, "allow" if kept.allow else "deny", kept.at, kept.by)
        for tool, by_caller in sorted(lock.approvals.items())
        for caller, kept in sorted(by_caller.items())
    ]
