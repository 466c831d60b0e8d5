"""The catalogue of the record shows what the running one shows, and needs nothing that runs."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from toolcrib.catalog.entries import ToolEntry
from toolcrib.catalog.pins import accept, comparison
from toolcrib.catalog.recorded import Named, recorded_catalog, recorded_tools
from toolcrib.config.lock import Lock, Record, write_lock
from toolcrib.config.merge import merge
from toolcrib.config.model import Config, config_hash
from toolcrib.config.parse import parse_toml
from toolcrib.core.access import LOCAL_USER
from toolcrib.core.errors import SourceUnavailable
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.core.names import RESULT_READ
from toolcrib.core.offers import Tool
from toolcrib.core.requests import Request
from toolcrib.crib.builder import open_crib
from toolcrib.crib.loading import Loaded

AT = "2026-01-02T03:04:05Z"

WRITTEN = """
[security]
policy = "ask"
pins = "strict"
policies = { "files__read_*" = "allow", "mail__send" = "deny" }
levels = { "mail__*" = "admin" }

[servers.files]
command = "files"

[servers.files.tools.wipe]
enabled = false

[servers.mail]
command = "mail"
policy = "allow"

[servers.moved]
command = "somewhere-else"

[servers.broken]
command = "broken"

[servers.resting]
command = "resting"
enabled = false

[servers.new]
command = "new"
"""


def config_of(text: str = WRITTEN) -> Config:
    return merge(parse_toml(text, "toolcrib.toml"))


def shown(name: str, **more: object) -> dict[str, object]:
    return {"name": name, "description": f"{name} things", "inputSchema": {"type": "object"}, **more}


def record_of(config: Config, server: str, *tools: dict[str, object], accepted: bool = True, **more: str) -> Record:
    found = config.servers[server]
    record = Record(server, DiscoveryStatus.SUCCESS, tools, AT, config_hash=config_hash(found))
    names = [str(tool["name"]) for tool in tools if accepted and "name" in tool]
    return replace(accept(record, names, comparison(found, "strict", AT)), **more)


def records_of(config: Config) -> dict[str, Record]:
    records = [
        record_of(config, "files", shown("read_file"), shown("write_file"), shown("wipe"), {"description": "no name"}),
        record_of(config, "mail", shown("send"), shown("get", annotations={"destructiveHint": True}), accepted=False),
        replace(record_of(config, "moved", shown("old")), config_hash="of another command"),
        record_of(config, "broken", shown("still_there"), status=DiscoveryStatus.FAILED, error="It died."),
        record_of(config, "resting", shown("asleep")),
        Record("gone", DiscoveryStatus.SUCCESS, (shown("ghost"),), AT),
    ]
    return {record.server: record for record in records}


async def live_entries(config: Config, lock: Path, *, prefix: bool) -> list[ToolEntry]:
    async with open_crib(Loaded(config, lock=lock), prefix=prefix) as crib:
        return [entry for entry in crib.entries() if entry.name != RESULT_READ]


@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize("more", ["", "[catalog]\ncapacity = 3\n"])
async def test_the_record_and_the_running_catalogue_show_the_same(tmp_path: Path, prefix: bool, more: str):
    """For the same lock every entry is equal: names, policies, levels, quarantine, discovery."""
    config = config_of(WRITTEN + more)
    lock = tmp_path / "toolcrib.lock"
    lock.write_text(write_lock(Lock(records_of(config))))

    recorded = recorded_catalog(config, records_of(config), prefix=prefix).entries()

    assert recorded == await live_entries(config, lock, prefix=prefix)
    assert recorded


def test_an_entry_tells_all_there_is_to_know():
    """Name, kind, server, policy, level, quarantine, and how fresh that is."""
    config = config_of()
    entries = {entry.name: entry for entry in recorded_catalog(config, records_of(config)).entries()}

    assert msgspec.to_builtins(entries["files__read_file"]) == {
        "name": "files__read_file",
        "description": "read_file things",
        "kind": "mcp",
        "server": "files",
        "originalName": "read_file",
        "policy": "allow",
        "level": "read_only",
        "held": None,
        "discoveryStatus": "success",
        "lastDiscovered": AT,
    }
    assert {name: (entry.policy, entry.level) for name, entry in entries.items()} == {
        "broken__still_there": ("ask", "write"),
        "files__read_file": ("allow", "read_only"),
        "files__write_file": ("ask", "write"),
        "mail__get": ("allow", "admin"),
        "mail__send": ("deny", "admin"),
    }
    assert entries["broken__still_there"].discovery_status == "failed"
    assert entries["mail__get"].held == "it is new and has not been accepted yet"


def test_native_tools_stand_beside_those_of_servers():
    """One of which only the name is known says that nobody has looked at it yet."""
    native = Named((Tool("add", "Add numbers."), Tool("later")), frozenset({"later"}))
    entries = recorded_catalog(config_of(), {}, native).entries()

    assert [(entry.name, entry.kind, entry.discovery_status) for entry in entries] == [
        ("add", "native", "success"),
        ("later", "native", "never"),
    ]


def test_a_server_nobody_asked_yet_brings_nothing():
    """Tools without the time of a discovery were never discovered."""
    assert recorded_tools(Record("files", DiscoveryStatus.SUCCESS, (shown("read"),))) == ()


async def test_what_is_only_recorded_cannot_be_called():
    """The way to it leads nowhere, and says so."""
    config = config_of()
    source = recorded_catalog(config, records_of(config)).catalog.routes["files__read_file"].source

    assert (await source.list_offers()).tools == ()
    with pytest.raises(SourceUnavailable, match="only known from the record"):
        await source.answer(Request("files__read_file", "read_file", {}, caller=LOCAL_USER))
