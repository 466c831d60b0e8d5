"""Files of other programs, read within limits; a broken one costs only itself."""

from dataclasses import dataclass, replace
from pathlib import Path

from toolcrib.config.foreign.bundles import SUFFIXES, manifest_text
from toolcrib.config.foreign.clients import CLIENTS, Client, read_servers
from toolcrib.config.foreign.documents import read_document
from toolcrib.config.foreign.found import ForeignServer
from toolcrib.config.foreign.gather import Place
from toolcrib.config.foreign.locations import Location
from toolcrib.core.errors import ConfigError

FILE_MAX = 5_000_000
BUNDLE_MAX = 1_000_000_000

FoundHere = list[tuple[Place, ForeignServer]]


@dataclass(frozen=True, slots=True)
class Source:
    """One file to look at, and whose it is."""

    client: Client
    path: Path
    folder: Path | None = None

    @classmethod
    def at(cls, location: Location) -> "Source":
        """The file of a well-known place."""
        return cls(CLIENTS[location.client], location.path, location.folder)


def read_source(source: Source, platform: str) -> FoundHere:
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


def _client(source: Source) -> Client:
    return CLIENTS["mcpb"] if source.path.suffix in SUFFIXES else source.client


def _place(source: Source, foreign: ForeignServer) -> Place:
    return Place(_client(source).id, str(source.path), foreign.name, foreign.scope, foreign.line)


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
