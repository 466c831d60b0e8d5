"""Which files of clients toolcrib was written into, and what they were before; so that they can be put back."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from toolcrib.core.disk import remedy_of
from toolcrib.core.errors import ConfigError
from toolcrib.stores.files import locked, read_text, replace_bytes, replace_text, sync_directory

FILE_NAME = "connections.json"
BACKUP = ".before-toolcrib"
_PRIVATE = 0o600


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


class _Kept(msgspec.Struct):
    version: int = 1
    files: dict[str, Connection] = {}


class Connections:
    """The memory of connected clients. Hold it ``locked`` over reading and changing a client's file."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME

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
        replace_text(self.path, msgspec.json.format(msgspec.json.encode(kept), indent=1).decode() + "\n", _PRIVATE)

    def _read(self) -> _Kept:
        text = read_text(self.path)
        if text is None:
            return _Kept()
        try:
            return msgspec.json.decode(text, type=_Kept)
        except (msgspec.MsgspecError, UnicodeError):
            hint = "Delete it; connected clients stay connected, but can no longer be put back exactly."
            raise ConfigError("This memory of connections is damaged.", where=str(self.path), hint=hint) from None


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
