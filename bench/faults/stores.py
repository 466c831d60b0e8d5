"""Every store that keeps something on a disk, as one thing: a value is put under a key, and read again."""

import asyncio
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from bench.faults.history import GONE
from toolcrib.cli.entries import export_to
from toolcrib.config.foreign.connectors import CONNECTORS, Launch
from toolcrib.config.foreign.plan import ImportRecord
from toolcrib.config.lock import Record
from toolcrib.config.model import ResultsConfig
from toolcrib.config.parse import parse
from toolcrib.core.access import Grants
from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import ConfigError
from toolcrib.core.kinds import DiscoveryStatus, IsolationLevel
from toolcrib.core.knowledge import Arrival, Collection, CollectionChange, DocumentInfo, PassageSpan, Stamp, document_id
from toolcrib.core.worklist import TaskChange
from toolcrib.isolate.proof import Proof, Trial, recall, remember
from toolcrib.knowledge.indexing import build_segment
from toolcrib.project.connecting import ClientFile, connect, disconnect, preview_disconnect
from toolcrib.server.identity.owner_token import kept_token
from toolcrib.stores.access_tokens import NewToken, TokenFile
from toolcrib.stores.audit.file import AuditFile
from toolcrib.stores.audit.log import in_order
from toolcrib.stores.audit.note import HeadNote, NotedPlace
from toolcrib.stores.audit.verify import verify
from toolcrib.stores.audit.writer import QueuedAudit
from toolcrib.stores.files import locked, read_text
from toolcrib.stores.foreign import Connection, Connections, Origins
from toolcrib.stores.knowledge.store import SqliteKnowledge
from toolcrib.stores.lockfile import FileLedger, LockFile, write_config
from toolcrib.stores.paths import Environment
from toolcrib.stores.projects import KnownProject, ProjectFile
from toolcrib.stores.results import ResultStore
from toolcrib.stores.run_files import OwnRunFile, RunFiles, RunOffer
from toolcrib.stores.worklist import SqliteWorkList
from toolcrib.workspace.root import WorkspaceRoot

Outside = dict[str, Any]
"""What somebody outside remembers while the store is closed and opened again: handles, tokens."""


class Store(Protocol):
    """One store, opened in a directory."""

    file: str
    """What it keeps, below the directory; empty if it is nothing that could be damaged at rest."""
    again: str
    """The second value of a key: another one, or ``GONE`` where things are removed and not changed."""
    may_be_empty: bool
    """Whether an empty file is what somebody may have wanted."""
    survives: bool
    """Whether what is kept outlives the program."""

    async def put(self, key: str, value: str) -> None: ...
    async def read(self) -> dict[str, str]: ...
    async def faults(self) -> list[str]: ...
    async def close(self) -> None: ...


class _Store:
    file, again, may_be_empty, survives = "", "2", False, True

    def __init__(self, home: Path, outside: Outside) -> None:
        self.home, self.outside = home, outside

    async def faults(self) -> list[str]:
        """What is not whole."""
        return []

    async def close(self) -> None:
        """Let go of it."""


class Records(_Store):
    """The lock file: what discovery found."""

    file = "project/toolcrib.lock"

    def __init__(self, home: Path, outside: Outside) -> None:
        super().__init__(home, outside)
        self._file = LockFile(home / self.file)

    async def put(self, key: str, value: str) -> None:
        self._file.update(key, lambda _: Record(key, DiscoveryStatus.SUCCESS, error=value))
        if self._file.problem:  # kept in memory, and said so
            raise ConfigError(self._file.problem, hint="in memory", where=str(self._file.path))

    async def read(self) -> dict[str, str]:
        return {name: record.error for name, record in self._file.read().records.items()}


class Answers(_Store):
    """The lock file: what people answered."""

    file = "project/toolcrib.lock"

    def __init__(self, home: Path, outside: Outside) -> None:
        super().__init__(home, outside)
        self._ledger = FileLedger(LockFile(home / self.file))

    async def put(self, key: str, value: str) -> None:
        await self._ledger.write(f"files__{key}", "local", True, value)

    async def read(self) -> dict[str, str]:
        approvals = (await self._ledger.lock()).approvals
        return {tool.removeprefix("files__"): answers["local"].by for tool, answers in approvals.items()}


class Tokens(_Store):
    """Tokens of callers: made, then revoked."""

    file = "state/tokens.json"

    def __init__(self, home: Path, outside: Outside) -> None:
        super().__init__(home, outside)
        self._file = TokenFile(home / self.file, lambda: 1000.0, home / "witness" / "tokens")

    async def put(self, key: str, value: str) -> None:
        if value == "1":
            self._file.create(NewToken(key, Grants("write")))
        else:
            self._file.revoke(key)

    async def read(self) -> dict[str, str]:
        return {token.name: "1" if token.revoked is None else "2" for token in self._file.read()}


class OwnerToken(_Store):
    """The owner's own token: made once, then the same for ever."""

    file = "state/token"

    async def put(self, key: str, value: str) -> None:
        self.outside[key] = kept_token(self.home / self.file).value, value

    async def read(self) -> dict[str, str]:
        if not os.path.lexists(self.home / self.file):
            return {}
        token = kept_token(self.home / self.file).value
        return {key: value for key, (known, value) in self.outside.items() if known == token}


class Projects(_Store):
    """Projects that were used."""

    file, again = "state/projects.json", GONE

    def __init__(self, home: Path, outside: Outside) -> None:
        super().__init__(home, outside)
        self._file = ProjectFile(home / "state")

    async def put(self, key: str, value: str) -> None:
        if value == GONE:
            self._file.forget(_id(key))
        else:
            self._file.note(KnownProject(_id(key), str(self.home), "2026-01-01T00:00:00Z", key))

    async def read(self) -> dict[str, str]:
        return {project.chosen: "1" for project in self._file.read()}


class Imports(_Store):
    """Where imported servers came from."""

    file, again = "state/imports.json", GONE

    def __init__(self, home: Path, outside: Outside) -> None:
        super().__init__(home, outside)
        self._origins = Origins(home / "state")

    async def put(self, key: str, value: str) -> None:
        memory = None if value == GONE else ImportRecord((("cursor", "/x", key, ""),), value, value)
        self._origins.update(Path("/target"), {key: memory})

    async def read(self) -> dict[str, str]:
        return {name: memory.found for name, memory in self._origins.of(Path("/target")).items()}


class Connected(_Store):
    """Which clients were connected."""

    file, again = "state/connections.json", GONE

    def __init__(self, home: Path, outside: Outside) -> None:
        super().__init__(home, outside)
        self._connections = Connections(home / "state")

    async def put(self, key: str, value: str) -> None:
        with self._connections.locked():
            self._connections.keep(Path(key), None if value == GONE else Connection("cursor", None, value))

    async def read(self) -> dict[str, str]:
        known = {key: self._connections.of(Path(key)) for key in "abcd"}
        return {key: connection.after for key, connection in known.items() if connection is not None}


class ClientFiles(_Store):
    """Files of clients that toolcrib is written into, and taken out of: nothing of theirs is lost."""

    again = GONE

    async def put(self, key: str, value: str) -> None:
        client, around = self._client(key), self._around()
        if value == GONE:
            disconnect(client, around)
        else:
            connect(client, Launch(("toolcrib", "up")), around)

    async def read(self) -> dict[str, str]:
        return {key: "1" for key in "abcd" if '"toolcrib"' in (read_text(self._client(key).path) or "")}

    async def faults(self) -> list[str]:
        found = []
        for key in await self.read():
            restored = preview_disconnect(self._client(key), self._around()).after
            if json.loads(restored or b"{}") != json.loads(client_text(key) or "{}"):
                found.append(f"{key} cannot be put back")
        return found

    def _client(self, key: str) -> ClientFile:
        return ClientFile(CONNECTORS["cursor"], self.home / "clients" / key / "mcp.json")

    def _around(self) -> Environment:
        return Environment(self.home, {"XDG_STATE_HOME": str(self.home / "state"), "HOME": str(self.home)})


def client_text(key: str) -> str:
    """A client's file before toolcrib; one client has none."""
    return "" if key == "b" else '{"mcpServers": {"own": {"command": "own-' + key + '"}}}\n'


class Configuration(_Store):
    """The user's own file, edited by a command."""

    file, may_be_empty = "config/toolcrib.toml", True

    async def put(self, key: str, value: str) -> None:
        path = self.home / self.file
        with locked(path):
            before = read_text(path) or ""
            servers = self._servers(before) | {key: value}
            after = "".join(f'[servers.{name}]\ncommand = "{command}"\n' for name, command in servers.items())
            write_config(path, before, after)

    async def read(self) -> dict[str, str]:
        return self._servers(read_text(self.home / self.file) or "")

    def _servers(self, text: str) -> dict[str, str]:
        servers = parse(text, str(self.home / self.file)).servers
        return {name: str(entry.fields["command"]) for name, entry in servers.items()}


class Audit(_Store):
    """The audit log, as the running gateway writes it."""

    file = "state/audit.db"

    def __init__(self, home: Path, outside: Outside) -> None:
        super().__init__(home, outside)
        self._file = AuditFile(home / self.file)
        self._place = NotedPlace(self._file, HeadNote(home / "witness" / "audit"))
        self._audit = QueuedAudit(self._place, lambda: 1_000_000)

    async def put(self, key: str, value: str) -> None:
        count = self.outside["noted"] = self.outside.get("noted", 0) + 1
        self._audit.note(AuditEntry("call", tool=f"note {count}"))
        await self._audit.commit(AuditEntry("call.begun", tool=key, execution_id=value))

    async def read(self) -> dict[str, str]:
        return await asyncio.to_thread(self._read)

    def _read(self) -> dict[str, str]:
        if not os.path.lexists(self._file.path):
            return {}
        with self._place.reading() as log:
            return {entry.tool: entry.execution_id for entry in in_order(log) if entry.event == "call.begun"}

    async def faults(self) -> list[str]:
        if not os.path.lexists(self._file.path):
            return []
        with self._place.reading() as log:
            tools = [entry.tool for entry in in_order(log) if entry.event == "call"]
            finding = verify(log)
        changed = self._place.problem()
        twice = [f"{tool} is there twice" for tool in sorted(set(tools)) if tools.count(tool) > 1]
        return twice + ([finding.fault.words] if finding.fault else []) + ([changed] if changed else [])

    async def close(self) -> None:
        await self._audit.close()


class Knowledge(_Store):
    """The knowledge base: a document and its index."""

    file = "state/kb.db"

    def __init__(self, home: Path, outside: Outside) -> None:
        super().__init__(home, outside)
        self._store = SqliteKnowledge(home / self.file)

    async def put(self, key: str, value: str) -> None:
        if not await self._store.collections():
            await self._store.put_collection(Collection("notes"))
        await self._store.apply(_arrival(key, value))

    async def read(self) -> dict[str, str]:
        return {document.source: document.title for document in await self._store.documents("notes")}

    async def faults(self) -> list[str]:
        return await self._store.verify()

    async def close(self) -> None:
        await self._store.close()


@cache
def _arrival(key: str, value: str) -> CollectionChange:
    """The same document comes in thousands of trials; it is indexed once."""
    text = f"version {value} of {key}"
    document = DocumentInfo(document_id("notes", key), "notes", key, value, "text", Stamp(f"h{value}"))
    arrivals = (Arrival(document, text, (PassageSpan(0, len(text), 1, ()),)),)
    return CollectionChange("notes", arrivals, segment=build_segment(arrivals, None))


class Tasks(_Store):
    """The tasks of a workspace."""

    file = "state/tasks.db"

    def __init__(self, home: Path, outside: Outside) -> None:
        super().__init__(home, outside)
        self._store = SqliteWorkList(home / self.file, "/work", lambda: "2026-01-01T00:00:00.000Z")

    async def put(self, key: str, value: str) -> None:
        known = next((task for task in await self._store.tasks() if task.title == key), None)
        if known is None:
            await self._store.add(key, value)
        else:
            await self._store.change(known.id, TaskChange(description=value))

    async def read(self) -> dict[str, str]:
        return {task.title: task.description for task in await self._store.tasks()}

    async def close(self) -> None:
        await self._store.close()


class Results(_Store):
    """Large results, for as long as the program runs."""

    survives = False

    def __init__(self, home: Path, outside: Outside) -> None:
        super().__init__(home, outside)
        self._store = ResultStore(home / "results", ResultsConfig())
        self._handles: dict[str, str] = {}

    async def put(self, key: str, value: str) -> None:
        self._handles[key] = await self._store.keep(value.encode() * 100, "local", "tool")

    async def read(self) -> dict[str, str]:
        found = {key: await self._store.read(handle, "local") for key, handle in self._handles.items()}
        return {key: _only(content) for key, content in found.items() if content is not None}

    async def close(self) -> None:
        await self._store.close()


class Workspace(_Store):
    """Files an agent writes with the workspace's tools."""

    def __init__(self, home: Path, outside: Outside) -> None:
        super().__init__(home, outside)
        self._root = WorkspaceRoot(home / "work")

    async def put(self, key: str, value: str) -> None:
        self._root.change(f"deep/{key}/file.txt", lambda _: value.encode() * 100, make=True)

    async def read(self) -> dict[str, str]:
        return {key: self._content(f"deep/{key}/file.txt") for key in "abcde" if self._is_there(key)}

    def _is_there(self, key: str) -> bool:
        return (self.home / "work" / "deep" / key / "file.txt").exists()

    def _content(self, path: str) -> str:
        with self._root.reading(path) as file:
            return _only(file.read())


class Exports(_Store):
    """What an export wrote, in many parts: all of it, or what was there before."""

    async def put(self, key: str, value: str) -> None:
        with export_to(str(self.home / "exports" / key)) as write:
            for _ in range(5):  # a first, a last, and some between: each is written the same way
                write(value.encode() * 20)

    async def read(self) -> dict[str, str]:
        texts = {key: read_text(self.home / "exports" / key) for key in "abcde"}
        return {key: _only(text.encode()) for key, text in texts.items() if text is not None}


class Running(_Store):
    """Who serves, for as long as they do."""

    survives = False

    def __init__(self, home: Path, outside: Outside) -> None:
        super().__init__(home, outside)
        self._files = RunFiles({"XDG_STATE_HOME": str(home / "state")})
        self._written: dict[str, OwnRunFile] = {}

    async def put(self, key: str, value: str) -> None:
        written = self._files.write(RunOffer(f"http://127.0.0.1/{key}/{value}", self.home / "toolcrib.toml", "1"))
        if key in self._written:
            self._written[key].remove()
        self._written[key] = written

    async def read(self) -> dict[str, str]:
        found = {entry.url: entry for entry in self._files.read()}
        urls = {key: written.entry.url for key, written in self._written.items()}
        return {key: url.rpartition("/")[2] for key, url in urls.items() if url in found}


class SelfTest(_Store):
    """What the self-test of the isolation found: it may be lost, and is found anew; it is never half there."""

    survives = False

    def __init__(self, home: Path, outside: Outside) -> None:
        super().__init__(home, outside)
        self._found: dict[str, str] = {}

    async def put(self, key: str, value: str) -> None:
        path, said = self.home / "state" / "isolation.json", {"key": key}
        proof = Proof({IsolationLevel.LIMITS: Trial({}, value)})
        remember(path, said, proof)
        found = recall(path, said)
        if found is None:
            raise ConfigError("It is not kept.", hint="It is measured again.")
        self._found[key] = found.trials[IsolationLevel.LIMITS].missing

    async def read(self) -> dict[str, str]:
        return dict(self._found)


def _only(content: bytes) -> str:
    """The one character that is there a hundred times; all of it if it is not so."""
    return content[:1].decode() if content == content[:1] * 100 else repr(content)


def _id(key: str) -> str:
    return key * 12


STORES: dict[str, Callable[[Path, Outside], Store]] = {
    "records": Records,
    "answers": Answers,
    "tokens": Tokens,
    "owner token": OwnerToken,
    "projects": Projects,
    "imports": Imports,
    "connections": Connected,
    "client files": ClientFiles,
    "configuration": Configuration,
    "audit": Audit,
    "knowledge": Knowledge,
    "tasks": Tasks,
    "results": Results,
    "workspace": Workspace,
    "exports": Exports,
    "run files": Running,
    "self-test": SelfTest,
}


def prepare(home: Path) -> None:
    """What is there, and safe, before anything is stored."""
    (home / "work").mkdir(parents=True)
    for key in "acd":
        (home / "clients" / key).mkdir(parents=True)
        (home / "clients" / key / "mcp.json").write_text(client_text(key))
