"""Where sealed credentials are kept, and who may renew one: in a file of this user, or by the same protocol elsewhere.

What is kept is sealed before it comes here. A **claim** is the right to renew an entry: it ends by itself, by the
store's own clock, so that nobody waits for ever for a process that was killed.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from toolcrib.core.clocks import elapsed
from toolcrib.core.errors import ConfigError
from toolcrib.stores.files import Stamp, discard_leftovers, locked, make_directory, read_bytes, replace_bytes, stamp_of
from toolcrib.stores.paths import state_directory

FILE_NAME = "credentials.json"
T = TypeVar("T")


class CredentialStore(Protocol):
    """Sealed entries by their names; what was written is on disk when ``write`` returns."""

    async def read(self, name: str) -> bytes | None:
        """An entry, as it is now."""

    async def write(self, name: str, sealed: bytes | None) -> None:
        """Put an entry in place of what was there; ``None`` removes it."""

    async def take(self, name: str) -> bytes | None:
        """Read an entry and remove it in one step: of two who ask, one gets it."""

    async def entries(self, prefix: str) -> Mapping[str, bytes]:
        """All entries whose names begin like this."""

    async def claim(self, name: str, owner: str, for_s: float) -> bool:
        """Get the right to renew an entry, unless somebody else has it."""

    async def release(self, name: str, owner: str) -> None:
        """Give that right back."""


class _Claim(msgspec.Struct, frozen=True):
    owner: str
    until: float


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    version: int = 1
    entries: dict[str, bytes] = {}
    claims: dict[str, _Claim] = {}


class FileCredentials:
    """All entries in one file that only its owner can read; every change is a new file."""

    def __init__(self, directory: Path, now: Callable[[], float] = elapsed) -> None:
        self._path, self._now = directory / FILE_NAME, now
        self._seen: tuple[Stamp | None, _Kept] = (None, _Kept())

    async def read(self, name: str) -> bytes | None:
        """An entry, as it is now."""
        return (await asyncio.to_thread(self._load)).entries.get(name)

    async def entries(self, prefix: str) -> Mapping[str, bytes]:
        """All entries whose names begin like this."""
        kept = await asyncio.to_thread(self._load)
        return {name: sealed for name, sealed in sorted(kept.entries.items()) if name.startswith(prefix)}

    async def write(self, name: str, sealed: bytes | None) -> None:
        """Put an entry in place of what was there; ``None`` removes it."""

        def change(kept: _Kept) -> None:
            if sealed is None:
                kept.entries.pop(name, None)
            else:
                kept.entries[name] = sealed

        await self._change(change)

    async def take(self, name: str) -> bytes | None:
        """Read an entry and remove it in one step."""
        return await self._change(lambda kept: kept.entries.pop(name, None))

    async def claim(self, name: str, owner: str, for_s: float) -> bool:
        """Get the right to renew an entry, unless somebody else has it; a claim further ahead than anybody makes one
        was made by a clock that was off."""

        def change(kept: _Kept) -> bool:
            now, held = self._now(), kept.claims.get(name)
            is_held = held is not None and held.owner != owner and now < held.until <= now + for_s
            if is_held and held is not None and _is_alive(held.owner):
                return False
            kept.claims = {each: claim for each, claim in kept.claims.items() if claim.until > now}
            kept.claims[name] = _Claim(owner, now + for_s)
            return True

        return await self._change(change)

    async def release(self, name: str, owner: str) -> None:
        """Give that right back."""

        def change(kept: _Kept) -> None:
            held = kept.claims.get(name)
            if held is not None and held.owner == owner:
                del kept.claims[name]

        await self._change(change)

    async def _change(self, change: Callable[[_Kept], T]) -> T:
        return await asyncio.to_thread(self._change_now, change)

    def _change_now(self, change: Callable[[_Kept], T]) -> T:
        make_directory(self._path.parent, 0o700)
        with locked(self._path):
            discard_leftovers(self._path)
            kept = self._decoded()
            outcome = change(kept)
            replace_bytes(self._path, msgspec.json.encode(kept), 0o600, keep=0o600)
        return outcome

    def _load(self) -> _Kept:
        """What the file says; the copy in memory as long as the file is the same."""
        stamp = stamp_of(self._path)
        if stamp is None or stamp != self._seen[0]:
            self._seen = stamp, self._decoded()
        return self._seen[1]

    def _decoded(self) -> _Kept:
        content = read_bytes(self._path)
        if content is None:
            return _Kept(entries={}, claims={})
        try:
            return msgspec.json.decode(content, type=_Kept)
        except msgspec.DecodeError as error:
            hint = "Move it away, and sign in again; or put a good copy in its place."
            raise ConfigError(
                f"The kept credentials cannot be read: {error}.", where=str(self._path), hint=hint
            ) from None


def _is_alive(owner: str) -> bool:
    """Whether the process that claimed something is still there; on this machine that can be seen."""
    try:
        os.kill(int(owner.partition(":")[0]), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def credentials_file(env: Mapping[str, str]) -> FileCredentials:
    """The one of this user."""
    return FileCredentials(state_directory(env))
