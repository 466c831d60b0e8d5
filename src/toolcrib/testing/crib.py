"""A whole Crib in memory, with everything it tells kept in a list."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET

from toolcrib.calls.approvals import MemoryAnswers
from toolcrib.calls.inbox import Inbox
from toolcrib.calls.live import Live
from toolcrib.calls.marks import Marks
from toolcrib.config.model import Config, ServerConfig
from toolcrib.core.audit import Audit, NoAudit
from toolcrib.core.events import Event
from toolcrib.crib.crib import Crib
from toolcrib.crib.layers import layer_stack, make_approvals, make_seal
from toolcrib.crib.replicas import Fleet
from toolcrib.crib.servers import Parts, room_of
from toolcrib.crib.tasks import TaskSettings
from toolcrib.sources.native.functions import NativeTool
from toolcrib.sources.native.source import NativeSource
from toolcrib.stores.lockfile import MemoryRecords
from toolcrib.testing.source import FakeSource


@dataclass(slots=True)
class MemoryCrib:
    """A Crib, and what a test wants to look at or change around it."""

    crib: Crib
    native: NativeSource
    records: MemoryRecords
    events: list[Event]
    sources: dict[str, FakeSource]
    """The source made last for each server."""
    upcoming: dict[str, FakeSource] = field(default_factory=dict)
    """What will be made when a server of that name is next added or changed; without one, a source with no tools."""

    def told(self, name: str) -> list[dict[str, Any]]:
        """The fields of all events of that name."""
        return [dict(event.fields) for event in self.events if event.name == name]


@dataclass(frozen=True, slots=True)
class _Beside:
    """What stands around the sources."""

    records: MemoryRecords
    audit: Audit
    live: Live | None
    fleet: Fleet | None


@asynccontextmanager
async def memory_crib(  # noqa: PLR0913 - what a test may wish, each by its name
    *sources: FakeSource,
    tools: Sequence[Callable[..., Any] | NativeTool] = (),
    config: Config | None = None,
    prefix: bool = True,
    records: MemoryRecords | None = None,
    audit: Audit | None = None,
    live: Live | None = None,
    fleet: Fleet | None = None,
) -> AsyncIterator[MemoryCrib]:
    """A Crib over fake servers and native functions, with the layers every call passes.

    A source without an entry in ``config`` is configured with defaults.
    """
    wishes = config or Config()
    servers = {source.name: ServerConfig(source.name, command=source.name) for source in sources}
    beside = _Beside(records or MemoryRecords(), audit or NoAudit(), live, fleet)
    made = _make(wishes, prefix, tools, beside)
    made.upcoming.update({source.name: source for source in sources})
    await made.crib.open((servers | dict(wishes.servers)).values())
    try:
        yield made
    finally:
        await made.crib.close()


def _make(
    config: Config,
    prefix: bool,
    tools: Sequence[Callable[..., Any] | NativeTool],
    beside: _Beside,
) -> MemoryCrib:
    events: list[Event] = []
    upcoming: dict[str, FakeSource] = {}
    made: dict[str, FakeSource] = {}
    native = NativeSource(tools, emit=events.append, capacity=config.capacity, memory=config.catalog_memory)

    def make_source(server: ServerConfig) -> FakeSource:
        made[server.name] = upcoming.pop(server.name) if server.name in upcoming else FakeSource(server.name)
        return made[server.name]

    fleet = beside.fleet
    marks = Marks(fleet.coordination, b"what all replicas of a test know") if fleet is not None else None
    inbox = Inbox(time.monotonic)
    parts = Parts(
        native=native,
        make_source=make_source,
        records=beside.records,
        desk=make_approvals(config, events.append, MemoryAnswers(), beside.audit, inbox, marks),
        inbox=inbox,
        emit=events.append,
        log=beside.audit,
        live=beside.live,
        security=config.security,
        tasks=TaskSettings(config.tasks.after_s, config.tasks.ttl_s, config.tasks.per_caller),
        list_grace_s=config.list_grace_s,
        prefix=prefix,
        room=room_of(config),
        fleet=fleet,
        seal=make_seal(marks.secret if marks is not None else b""),
    )
    crib = Crib(parts, layer_stack(config, parts))
    return MemoryCrib(crib, native, beside.records, events, made, upcoming)


async def run_examples(crib: Crib, *names: str) -> list[str]:
    """Run the examples of these tools (all when none is named) that say what to expect; what came out differently."""
    problems = []
    for tool in await crib.tools():
        for number, example in enumerate(tool.examples, 1):
            if example.expected_output is UNSET or (names and tool.name not in names):
                continue
            result = await crib.call(tool.name, example.arguments)
            came = result.json_data if result.error is None else result.error.message
            if came != example.expected_output or not result.success:
                problems.append(f"{tool.name}, example {number}: expected {example.expected_output!r}, got {came!r}")
    return problems
