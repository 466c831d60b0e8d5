"""toolcrib in the files of its clients: put in, taken out again, and the file as it was before.

Nothing is printed or asked here. A client's file is changed in one step; what it was is kept beside it, and put back
byte for byte as long as nobody else changed the file meanwhile.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from toolcrib.config.foreign.connectors import (
    CONNECTORS,
    NAME,
    Connector,
    Launch,
    entry_for,
    file_of_client,
    insert_entry,
    remove_entry,
)
from toolcrib.config.jsonc import BOM, is_blank, read_values
from toolcrib.config.parse import read_toml
from toolcrib.config.positions import value_at
from toolcrib.core.errors import ConfigError, remedy_of
from toolcrib.project.importing import ImportPlan, ImportRequest, find_imports, machine
from toolcrib.stores.files import read_bytes, replace_bytes, sync_directory
from toolcrib.stores.foreign import Connection, Connections, digest, keep_backup, missing_folders, remove_file
from toolcrib.stores.paths import Environment, state_directory

Kind = Literal["connected", "already", "restored", "taken out", "absent"]

_PRIVATE, _SHARED = 0o600, 0o644


@dataclass(frozen=True, slots=True)
class ClientFile:
    """One client's file on this machine."""

    connector: Connector
    path: Path
    in_project: bool = False


@dataclass(frozen=True, slots=True)
class ClientChange:
    """What happens, or would happen, to a client's file."""

    kind: Kind
    path: Path
    before: bytes | None
    after: bytes | None
    backup: Path | None = None


@dataclass(frozen=True, slots=True)
class ClientState:
    """How a client stands to toolcrib."""

    client: ClientFile
    is_here: bool
    """Whether there is any sign of the client on this machine."""
    entry: Any = None
    """The entry of toolcrib in its file, if it has one."""
    problem: str = ""


def client_here(name: str, around: Environment, *, in_project: bool = False) -> ClientFile:
    """The client of that name."""
    connector = CONNECTORS[name]
    return ClientFile(connector, file_of_client(connector, machine(around), in_project=in_project), in_project)


def standings(around: Environment) -> list[ClientState]:
    """Every client toolcrib can be put into, with its user file and, where there is one, its project file."""
    return [_standing(client) for client in _clients(around)]


def _clients(around: Environment) -> list[ClientFile]:
    found = []
    for name, connector in CONNECTORS.items():
        found.append(client_here(name, around))
        if connector.project and (inside := client_here(name, around, in_project=True)).path.is_file():
            found.append(inside)
    return found


def _standing(client: ClientFile) -> ClientState:
    is_here = client.path.is_file() or (client.path.parent.is_dir() and client.connector.client != "claude-code")
    try:
        return ClientState(client, is_here, _entry(client, read_bytes(client.path)))
    except ConfigError as error:
        return ClientState(client, is_here, problem=str(error))


def connect(
    client: ClientFile, launch: Launch, around: Environment, without: Collection[str] | None = None
) -> ClientChange:
    """Write toolcrib into a client's file; ``without`` these other servers, which stand in toolcrib's own by now."""
    connections = Connections(state_directory(around.env))
    with connections.locked():
        known = connections.of(client.path)
        change, base = _connected(client, launch, known, without)
        if change.kind == "already" or change.after is None:
            _force(client.path)
            return change
        folders = known.folders if known else missing_folders(client.path)
        backup = _backup(client, base, known)
        connection = Connection(
            client=client.connector.client,
            before=None if base is None else digest(base),
            after=digest(change.after),
            backup=str(backup) if backup else None,
            folders=folders,
            replaced=tuple(_replaced(known, without)),
        )
        connections.keep(client.path, connection)  # first: a file that was changed can always be put back
        _write(client, change.before, change.after)
        if known and known.backup != connection.backup and not known.replaced:
            _drop_backup(known)
    return ClientChange(change.kind, change.path, change.before, change.after, backup)


def preview_connect(
    client: ClientFile, launch: Launch, around: Environment, without: Collection[str] | None = None
) -> ClientChange:
    """What ``connect`` would do."""
    return _connected(client, launch, Connections(state_directory(around.env)).of(client.path), without)[0]


def _connected(
    client: ClientFile, launch: Launch, known: Connection | None, without: Collection[str] | None
) -> tuple[ClientChange, bytes | None]:
    """The change, and the file as it would be without toolcrib."""
    current = read_bytes(client.path)
    entry = entry_for(client.connector, launch)
    base = _without_toolcrib(client, current, known)
    text = _text(base or b"", client.path)
    for name in _replaced(known, without):
        text = remove_entry(text, client.connector, str(client.path), name)
    after = insert_entry(text, client.connector, entry, str(client.path)).encode()
    is_plain = without is None and not (known and known.replaced)
    is_same = after == current or (is_plain and _entry(client, current) == entry)
    return ClientChange("already" if is_same else "connected", client.path, current, after), base


def _replaced(known: Connection | None, without: Collection[str] | None) -> list[str]:
    """What is left out: what was left out before stays out."""
    return list(dict.fromkeys((*(known.replaced if known else ()), *(without or ()))))


def _backup(client: ClientFile, base: bytes | None, known: Connection | None) -> Path | None:
    if base is None:
        return None
    if known and known.backup and read_bytes(Path(known.backup)) == base:
        return Path(known.backup)
    return keep_backup(client.path, base)


def disconnect(client: ClientFile, around: Environment) -> ClientChange:
    """Take toolcrib out of a client's file, which is then as it was before, or without the one entry."""
    connections = Connections(state_directory(around.env))
    with connections.locked():
        known = connections.of(client.path)
        change = _disconnected(client, known)
        if change.kind == "restored" and change.after is None:
            remove_file(client.path, known.folders if known else ())
        elif change.after is not None and change.kind != "absent":
            _write(client, change.before, change.after)
        if change.backup is None:
            _drop_backup(known)
        if known is not None:
            connections.keep(client.path, None)
    return change


def preview_disconnect(client: ClientFile, around: Environment) -> ClientChange:
    """What ``disconnect`` would do."""
    return _disconnected(client, Connections(state_directory(around.env)).of(client.path))


def _disconnected(client: ClientFile, known: Connection | None) -> ClientChange:
    current = read_bytes(client.path)
    if _is_untouched(current, known):
        base = _without_toolcrib(client, current, known)
        if base is None or digest(base) == (known.before if known else None):
            return ClientChange("restored", client.path, current, base)
    if _entry(client, current) is None:
        return ClientChange("absent", client.path, current, current)
    backup = Path(known.backup) if known and known.replaced and known.backup else None
    return ClientChange("taken out", client.path, current, _without_toolcrib(client, current, None), backup)


def _is_untouched(current: bytes | None, known: Connection | None) -> bool:
    return known is not None and current is not None and digest(current) == known.after


def _without_toolcrib(client: ClientFile, current: bytes | None, known: Connection | None) -> bytes | None:
    """The file as it was before, if nobody changed it since; otherwise as it is, without the entry."""
    if known is not None and _is_untouched(current, known):
        if known.before is None:
            return None
        kept = read_bytes(Path(known.backup)) if known.backup else None
        if kept is not None and digest(kept) == known.before:
            return kept
    if current is None:
        return None
    return remove_entry(_text(current, client.path), client.connector, str(client.path)).encode()


def _drop_backup(known: Connection | None) -> None:
    if known is not None and known.backup:
        remove_file(Path(known.backup))


def _write(client: ClientFile, expected: bytes | None, content: bytes) -> None:
    if read_bytes(client.path) != expected:
        raise ConfigError("The file was changed at this very moment.", where=str(client.path), hint="Try again.")
    replace_bytes(client.path, content, _SHARED if client.in_project else _PRIVATE)


def _force(path: Path) -> None:
    """Nothing is to be done, except what the last attempt may have failed at."""
    try:
        sync_directory(path.parent)
    except OSError as error:
        message = f"The file cannot be forced to the disk: {error.strerror}."
        raise ConfigError(message, where=str(path), hint=remedy_of(error)) from error


def _text(content: bytes, path: Path) -> str:
    """With its byte order mark, if it has one: what is written back begins as it began."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"The file is not UTF-8: byte {error.start}.", where=str(path)) from None


def _entry(client: ClientFile, content: bytes | None) -> Any:
    if content is None:
        return None
    text, where = _text(content, client.path).removeprefix(BOM), str(client.path)
    if client.connector.is_toml:
        root = read_toml(text, where).root
    else:
        root = {} if is_blank(text) else read_values(text, where)
    return value_at(root, (*client.connector.servers, NAME))


@dataclass(frozen=True, slots=True)
class OtherEntries:
    """The other servers in a client's file, by what can become of them."""

    ready: tuple[str, ...] = ()
    """What toolcrib has, or could take over."""
    twice: tuple[str, ...] = ()
    """Of these, what toolcrib serves as well: an agent sees their tools twice."""
    stays: tuple[str, ...] = ()
    """What toolcrib cannot take over, or has with other settings."""
    found: ImportPlan = field(default_factory=lambda: ImportPlan(()))

    def new_in(self, entries: Collection[str]) -> list[str]:
        """What must be taken over before these may leave the client's file."""
        new = self.found.in_state("new")
        return [one.name for one in new if any(origin.name in entries for origin in one.origins)]


def other_entries(client: ClientFile, target: Path, around: Environment) -> OtherEntries:
    """The other servers in a client's file; ``target`` is the file that toolcrib would get them in."""
    if not client.path.is_file():
        return OtherEntries()
    found = find_imports(around, ImportRequest(target, (str(client.path),)))
    along = {origin.name for one in found.along for origin in one.origins if origin.path == str(client.path)}
    ready, twice, stays = list[str](), list[str](), list[str]()
    for candidate in found.candidates:
        for origin in (origin for origin in candidate.origins if not origin.scope):
            is_served = candidate.state in ("same", "used") or origin.name in along
            twice += [origin.name] if is_served else []
            (ready if candidate.state in ("new", "same") else stays).append(origin.name)
    return OtherEntries(tuple(ready), tuple(twice), tuple(stays), found)
