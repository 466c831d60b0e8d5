"""Where imported servers came from, by the file they were written to; what ``toolcrib import --sync`` compares with."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from toolcrib.config.foreign.plan import Remembered
from toolcrib.core.errors import ConfigError
from toolcrib.stores.files import locked, read_text, replace_text

FILE_NAME = "imports.json"
_PRIVATE = 0o600


class _Kept(msgspec.Struct):
    version: int = 1
    files: dict[str, dict[str, Remembered]] = {}


class Origins:
    """The memory of imports of this user."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE_NAME

    def of(self, target: Path) -> dict[str, Remembered]:
        """What is remembered of the servers in one file."""
        return dict(self._read().files.get(str(target), {}))

    def update(self, target: Path, changes: Mapping[str, Remembered | None]) -> None:
        """Remember these servers of a file, and forget those that are ``None``."""
        with locked(self.path):
            kept = self._read()
            known = {**kept.files.get(str(target), {}), **changes}
            kept.files[str(target)] = {name: memory for name, memory in known.items() if memory is not None}
            replace_text(self.path, msgspec.json.format(msgspec.json.encode(kept), indent=1).decode() + "\n", _PRIVATE)

    def _read(self) -> _Kept:
        text = read_text(self.path)
        if text is None:
            return _Kept()
        try:
            return msgspec.json.decode(text, type=_Kept)
        except (msgspec.MsgspecError, UnicodeError):
            hint = "Delete it; what was imported stays, but --sync will not know where it came from."
            raise ConfigError("This memory of imports is damaged.", where=str(self.path), hint=hint) from None
