"""Assembly: what a Crib is made of."""

import asyncio
import sys

import pytest
from tests.fleet.running import until

from toolcrib.config.lock import Record
from toolcrib.config.model import AuditConfig, Config
from toolcrib.core.errors import ConfigError
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.crib.builder import as_loaded, open_crib
from toolcrib.stores.lockfile import MemoryRecords
from toolcrib.stores.paths import Environment as Around


async def test_records_in_memory_are_changed_one_at_a_time():
    """Put in, changed, and taken out by ``None``, as in a lock file."""
    records = MemoryRecords()

    await records.update("a", lambda old: Record("a", DiscoveryStatus.SUCCESS) if old is None else None)
    put = dict(await records.read())
    await records.update("a", lambda old: Record("a", DiscoveryStatus.FAILED, error=old.status))
    changed = dict(await records.read())
    await records.update("a", lambda old: None)

    assert put == {"a": Record("a", DiscoveryStatus.SUCCESS)}
    assert changed == {"a": Record("a", DiscoveryStatus.FAILED, error="success")}
    assert dict(await records.read()) == {}


HANGING = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    method, answer = request["method"], {"jsonrpc": "2.0", "id": request.get("id")}
    if method == "initialize":
        info = {"name": "hanging", "version": "1"}
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": "hang", "inputSchema": {"type": "object"}}]}
    elif "id" in request and method != "tools/call":
        answer["error"] = {"code": -32601, "message": "Method not found"}
    if "result" in answer or "error" in answer:
        print(json.dumps(answer), flush=True)
    if method in ("tools/call", "notifications/cancelled"):
        open(sys.argv[1], "a").write(method + "\\n")
"""


async def test_a_server_is_told_when_a_person_ends_its_call(tmp_path):
    """As when the caller gives up; the caller gets a result."""
    (tmp_path / "hanging.py").write_text(HANGING)
    diary = tmp_path / "diary"
    diary.touch()

    async def noted(method: str) -> None:
        await asyncio.to_thread(
            until, lambda: method in diary.read_text(), deadline_s=150, what=f"{method} at the server"
        )

    entry = {"command": sys.executable, "args": [str(tmp_path / "hanging.py"), str(diary)]}
    async with open_crib({"mcpServers": {"slow": entry}}, live=True) as crib:
        task = asyncio.create_task(crib.call("slow__hang"))
        await noted("tools/call")
        ended = crib.live.cancel(crib.live.running()[0].id)
        result = await task
        await noted("notifications/cancelled")

    assert ended
    assert result.error.code == "TOOL_CANCELLED"
    assert "A person ended this call" in result.error.message


async def test_a_program_has_its_calls_watched_only_if_it_says_so():
    """Nobody pays for what nobody looks at."""
    async with open_crib(Config()) as usual, open_crib(Config(), live=True) as watched:
        assert usual.live is None
        assert watched.live.recent() == []


async def test_a_crib_is_opened_over_an_object_and_functions(tmp_path):
    """What most programs start with."""

    def add(a: int, b: int) -> int:
        return a + b

    async with open_crib({"mcpServers": {"files": {"command": "x"}}}, tools=[add]) as crib:
        result = await crib.call("add", {"a": 1, "b": 2})
        servers = list(crib.shelves)

    assert (result.text, servers) == ("3", ["files"])


def test_a_configuration_is_taken_in_any_form(tmp_path):
    """A value, an object, a path."""
    around = Around(tmp_path, {})
    (tmp_path / "mine.toml").write_text('[servers.files]\ncommand = "x"\n')

    loaded = [as_loaded(config, around) for config in (Config(), {"mcpServers": {}}, tmp_path / "mine.toml")]

    assert [list(each.config.servers) for each in loaded] == [[], [], ["files"]]
    assert as_loaded(loaded[0], around) is loaded[0]
    with pytest.raises(ConfigError, match="There is no configuration file"):
        as_loaded(tmp_path / "other.toml", around)


async def test_a_configuration_of_files_is_audited_and_one_of_a_program_is_not(tmp_path):
    """A library writes no file nobody asked for; asked for, it does."""
    around = Around(tmp_path, {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")})
    (tmp_path / "toolcrib.toml").write_text("")
    own = Config(audit=AuditConfig(enabled=True, path="mine.db"))
    enabled = []

    for config in (tmp_path / "toolcrib.toml", None, {"mcpServers": {}}, Config(), own):
        async with open_crib(config, surroundings=around) as crib:
            enabled.append(crib.audit.status().enabled)
            await crib.call("nothing")

    assert enabled == [True, True, False, False, True]
    assert sorted(path.name for path in tmp_path.rglob("*.db")) == ["audit.db", "mine.db"]
