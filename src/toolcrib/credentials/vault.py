"""Seals what is kept (AES-256-GCM), each entry to its own name, with a key that is kept elsewhere.

The key is that of ``TOOLCRIB_VAULT_KEY`` (replicas on several machines need the same), else the one of the system's
keyring, else one in a file that only its owner can read. A key that was made once is never made again beside it.
"""

import asyncio
import base64
import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from toolcrib.core.errors import ConfigError
from toolcrib.stores.credentials import CredentialStore
from toolcrib.stores.files import locked, make_directory, read_bytes, replace_bytes
from toolcrib.stores.paths import state_directory
from toolcrib.stores.secrets import KEYRING, SystemKeyring

VARIABLE = "TOOLCRIB_VAULT_KEY"
KEY_NAME = "credentials.key"
SECRET_MIN = 16
NONCE_BYTES = 12
KEYRING_USER = "vault-key"
T = TypeVar("T")


class VaultKey:
    """The key, found or made when it is first needed."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env, self._path = env, state_directory(env) / KEY_NAME
        self._known: bytes | None = None
        self.place = ""
        """Where it was found."""

    def find(self) -> bytes:
        """The key; may read files and ask the keyring, so not on the event loop."""
        if self._known is None:
            self._known = self._configured() or self._in_file() or self._in_keyring() or self._made()
        return self._known

    def _configured(self) -> bytes | None:
        given = self._env.get(VARIABLE, "")
        if not given:
            return None
        if len(given) < SECRET_MIN:
            hint = "Make one with: openssl rand -base64 32"
            raise ConfigError(f"{VARIABLE} is shorter than {SECRET_MIN} characters.", hint=hint)
        self.place = VARIABLE
        return hashlib.sha256(b"toolcrib vault\0" + given.encode()).digest()

    def _in_file(self) -> bytes | None:
        content = read_bytes(self._path)
        if content is None:
            return None
        if self._path.stat().st_mode & 0o077:
            hint = f"Run `chmod 600 {self._path}`, and sign in again if somebody may have read it."
            raise ConfigError("Others can read the key of the kept credentials.", where=str(self._path), hint=hint)
        self.place = str(self._path)
        return _decoded(content, str(self._path))

    def _in_keyring(self) -> bytes | None:
        """The key of the system's keyring, made there if there is a keyring and no key yet."""
        found = SystemKeyring(self._env).ensure(KEYRING_USER, lambda: _encoded(secrets.token_bytes(32)).decode())
        if not found:
            return None
        self.place = KEYRING
        return _decoded(found.encode(), self.place)

    def _made(self) -> bytes:
        make_directory(self._path.parent, 0o700)
        with locked(self._path):
            found = self._in_file()
            if found is None:
                found = secrets.token_bytes(32)
                replace_bytes(self._path, _encoded(found), 0o600, keep=0o600)
        self.place = str(self._path)
        return found


def _encoded(key: bytes) -> bytes:
    return base64.b64encode(key)


def _decoded(text: bytes, place: str) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise ConfigError("The key of the kept credentials is damaged.", where=place, hint="Put a good copy there.")
    return key


class Vault:
    """Typed entries in a store that sees only what is sealed."""

    def __init__(self, store: CredentialStore, key: VaultKey) -> None:
        self.store, self._key = store, key

    async def get(self, name: str, kind: type[T]) -> T | None:
        """An entry; ``None`` if there is none."""
        sealed = await self.store.read(name)
        return None if sealed is None else await asyncio.to_thread(self._open, name, sealed, kind)

    async def take(self, name: str, kind: type[T]) -> T | None:
        """An entry that is gone afterwards: of two who ask, one gets it."""
        sealed = await self.store.take(name)
        return None if sealed is None else await asyncio.to_thread(self._open, name, sealed, kind)

    async def put(self, name: str, value: object) -> None:
        """Keep a value durably."""
        await self.store.write(name, await asyncio.to_thread(self._seal, name, value))

    async def remove(self, name: str) -> None:
        """Forget an entry."""
        await self.store.write(name, None)

    async def entries(self, prefix: str, kind: type[T]) -> list[tuple[str, T]]:
        """All entries whose names begin like this."""
        found = await self.store.entries(prefix)
        return await asyncio.to_thread(lambda: list(self._open_all(found, kind)))

    def _open_all(self, found: Mapping[str, bytes], kind: type[T]) -> Iterator[tuple[str, T]]:
        for name, sealed in found.items():
            yield name, self._open(name, sealed, kind)

    def _seal(self, name: str, value: object) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # slow to load, and most servers need none

        nonce = os.urandom(NONCE_BYTES)
        return nonce + AESGCM(self._key.find()).encrypt(nonce, msgspec.json.encode(value), name.encode())

    def _open(self, name: str, sealed: bytes, kind: type[T]) -> T:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            key = AESGCM(self._key.find())
            plain = key.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], name.encode())
            return msgspec.json.decode(plain, type=kind)
        except (InvalidTag, ValueError, msgspec.DecodeError):
            raise ConfigError(
                f"What is kept of {name.partition(':')[2] or name!r} was sealed with another key, or changed.",
                where=self._key.place,
                hint=f"Give every replica the same {VARIABLE}; or sign in again with `toolcrib login`.",
            ) from None


def secret_file(path: Path) -> str:
    """The text of a file that a reference points to."""
    content = read_bytes(path)
    if content is None:
        raise ConfigError("There is no such file.", where=str(path))
    return content.decode(errors="replace").strip()
