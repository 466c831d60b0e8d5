"""Files of other programs: read within limits, where servers came from, and where toolcrib was written into."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from toolcrib.config.foreign.clients import CLIENTS, Client, read_servers
from toolcrib.config.foreign.locations import Location
from toolcrib.config.foreign.packages import SUFFIXES, manifest_text
from toolcrib.config.foreign.plan import FoundAt, ImportRecord
from toolcrib.config.foreign.references import ForeignServer
from toolcrib.config.jsonc import is_blank, read_jsonc
from toolcrib.config.parse import read_toml
from toolcrib.config.positions import PlacedValues
from toolcrib.core.errors import ConfigError, remedy_of
from toolcrib.stores.files import locked, read_text, replace_bytes, replace_text, sync_directory

FILE_NAME = "imports.json"
_PRIVATE = 0o600
T = TypeVar("T")


class _Kept(msgspec.Struct):
    version: int = 1
    files: dict[str, dict[str, ImportRecord]] = {}


class Origins:
    """The memory of imports of this user."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME

    def of(self, target: Path) -> dict[str, ImportRecord]:
        """What is remembered of the servers in one file."""
        return dict(self._read().files.get(str(target), {}))

    def update(self, target: Path, changes: Mapping[str, ImportRecord | None]) -> None:
        """Remember these servers of a file, and forget those that are ``None``."""
        with locked(self.path):
            kept = self._read()
            known = {**kept.files.get(str(target), {}), **changes}
            kept.files[str(target)] = {name: memory for name, memory in known.items() if memory is not None}
            _remember(self.path, kept)

    def _read(self) -> _Kept:
        hint = "Delete it; what was imported stays, but --sync will not know where it came from."
        return _recall(self.path, _Kept, "This memory of imports is damaged.", hint)


def _remember(path: Path, kept: msgspec.Struct) -> None:
    replace_text(path, msgspec.json.format(msgspec.json.encode(kept), indent=1).decode() + "\n", _PRIVATE)


def _recall(path: Path, kind: type[T], damage: str, hint: str) -> T:
    """What a file remembers; one that is not there remembers nothing."""
    text = read_text(path)
    if text is None:
        return kind()
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeError):
        raise ConfigError(damage, where=str(path), hint=hint) from None


YAML_INSTALL = "Run `toolcrib extras add yaml`."


def read_document(text: str, where: str) -> PlacedValues:
    """The values of a file; a file that cannot be read is an error with its line. An empty one holds nothing."""
    if where.endswith(".toml"):
        return read_toml(text, where)
    if where.endswith((".yaml", ".yml")):
        return PlacedValues(where, _read_yaml(text, where))
    return PlacedValues(where, {}) if is_blank(text) else read_jsonc(text, where)


def _read_yaml(text: str, where: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ConfigError("Reading YAML needs the package PyYAML.", where=where, hint=YAML_INSTALL) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or "it cannot be parsed"
        line = mark.line + 1 if mark else None
        raise ConfigError(f"This is not YAML: {reason}.", where=where, line=line) from None
    except (RecursionError, ValueError):
        raise ConfigError("This YAML cannot be read.", where=where) from None


FILE_MAX = 5_000_000
BUNDLE_MAX = 1_000_000_000

FoundHere = list[tuple[FoundAt, ForeignServer]]


@dataclass(frozen=True, slots=True)
class ForeignSource:
    """One file to look at, and whose it is."""

    client: Client
    path: Path
    folder: Path | None = None

    @classmethod
    def at(cls, location: Location) -> "ForeignSource":
        """The file of a well-known place."""
        return cls(CLIENTS[location.client], location.path, location.folder)


def read_source(source: ForeignSource, platform: str) -> FoundHere:
    """The servers of one file with their places; a file that cannot be read is an error that names it."""
    written = read_document(_text(source.path), _name_for_reading(source.path))
    written = replace(written, where=str(source.path))
    folder = str(source.folder) if source.folder else ""
    dialect = replace(source.client.dialect, folder=folder, platform=platform)
    found = read_servers(written, _client(source), dialect)
    return [(_place(source, foreign), foreign) for foreign in found]


def exists(path: Path) -> bool:
    """Whether there is a file to read; what may not even be looked at counts as none."""
    try:
        return path.is_file()
    except OSError:
        return False


def _client(source: ForeignSource) -> Client:
    return CLIENTS["mcpb"] if source.path.suffix in SUFFIXES else source.client


def _place(source: ForeignSource, foreign: ForeignServer) -> FoundAt:
    return FoundAt(_client(source).id, str(source.path), foreign.name, foreign.scope, foreign.line)


def _name_for_reading(path: Path) -> str:
    return f"{path}/manifest.json" if path.suffix in SUFFIXES else str(path)


def _text(path: Path) -> str:
    where = str(path)
    try:
        _refuse_large(path)
        if path.suffix in SUFFIXES:
            with path.open("rb") as archive:
                return manifest_text(archive, where)
        return path.read_bytes()[: FILE_MAX + 1].decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"The file is not UTF-8: byte {error.start}.", where=where) from None
    except OSError as error:
        raise ConfigError(f"The file cannot be read: {error.strerror}.", where=where) from None


def _refuse_large(path: Path) -> None:
    limit = BUNDLE_MAX if path.suffix in SUFFIXES else FILE_MAX
    size = path.stat().st_size
    if size > limit:
        message = f"The file has {size:,} bytes; more than {limit:,} are not read."
        raise ConfigError(message, where=str(path), hint="Copy its servers into a smaller file and import that.")


CONNECTIONS_NAME = "connections.json"
BACKUP = ".before-toolcrib"


class Connection(msgspec.Struct, frozen=True):
    """One file that was changed: digests of what it was and became, and where the former is kept."""

    client: str
    before: str | None
    """``None``: there was no such file."""
    after: str
    backup: str | None = None
    folders: tuple[str, ...] = ()
    """Folders that were made for it, innermost first."""
    replaced: tuple[str, ...] = ()
    """Other servers that were taken out of it."""


class _KeptConnections(msgspec.Struct):
    version: int = 1
    files: dict[str, Connection] = {}


class Connections:
    """The memory of connected clients. Hold it ``locked`` over reading and changing a client's file."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / CONNECTIONS_NAME

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One toolcrib process at a time; clients do not know this lock, and get none of their own beside a file."""
        with locked(self.path):
            yield

    def of(self, path: Path) -> Connection | None:
        """What is known of a file."""
        return self._read().files.get(str(path))

    def keep(self, path: Path, connection: Connection | None) -> None:
        """Remember a file, or forget it."""
        kept = self._read()
        if connection is None:
            kept.files.pop(str(path), None)
        else:
            kept.files[str(path)] = connection
        _remember(self.path, kept)

    def _read(self) -> _KeptConnections:
        hint = "Delete it; connected clients stay connected, but can no longer be put back exactly."
        return _recall(self.path, _KeptConnections, "This memory of connections is damaged.", hint)


def digest(content: bytes) -> str:
    """SHA-256 of a file's content."""
    return hashlib.sha256(content).hexdigest()


def keep_backup(path: Path, content: bytes) -> Path:
    """Put a copy beside a file, under a name that is free."""
    names = (path.with_name(f"{path.name}{BACKUP}{number or ''}") for number in range(1000))
    backup = next(name for name in names if not name.exists())
    mode = path.stat().st_mode & 0o777 if path.exists() else _PRIVATE
    replace_bytes(backup, content, mode)
    return backup


def missing_folders(path: Path) -> tuple[str, ...]:
    """The folders that must be made for a file, innermost first."""
    return tuple(str(folder) for folder in path.parents if not folder.exists())


def remove_file(path: Path, folders: tuple[str, ...] = ()) -> None:
    """Remove a file, and the folders that were made for it as far as they are empty."""
    try:
        path.unlink(missing_ok=True)
        sync_directory(path.parent)
    except OSError as error:
        message = f"The file cannot be removed: {error.strerror}."
        raise ConfigError(message, where=str(path), hint=remedy_of(error)) from error
    with suppress(OSError):
        for folder in folders:
            Path(folder).rmdir()
