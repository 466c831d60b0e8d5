"""Secrets that toolcrib keeps for its user, each under the name by which configuration refers to it.

One file names them all. A value is in the system's keyring, where that is installed and works, otherwise in the file,
which nobody else may read.
"""

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from toolcrib.core.errors import CallerError, ConfigError, did_you_mean
from toolcrib.core.places import state_directory
from toolcrib.stores.files import Stamp, locked, make_directory, read_text, replace_text, stamp_of

FILE_NAME = "secrets.json"
VALUE_MAX = 65_536
KEYRING = "the system's keyring"
NO_KEYRING = "keyring.backends.null.Keyring"

_SERVICE = "toolcrib"
_PREFIX = "secret:"
_PRIVATE = 0o600
_OTHERS = 0o077
T = TypeVar("T")


class SystemKeyring:
    """The keyring of the system, as far as there is one; what it cannot do is ``None``, never an error."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._is_there = find_spec("keyring") is not None and env.get("PYTHON_KEYRING_BACKEND") != NO_KEYRING

    def read(self, entry: str) -> str | None:
        """What is kept under this name."""
        return self._asked(lambda keyring: keyring.get_password(_SERVICE, entry))

    def ensure(self, entry: str, make: Callable[[], str]) -> str | None:
        """What is kept under this name, made now if nothing is."""

        def ask(keyring: Any) -> Any:
            if not keyring.get_password(_SERVICE, entry):
                keyring.set_password(_SERVICE, entry, make())
            return keyring.get_password(_SERVICE, entry)

        return self._asked(ask)

    def write(self, entry: str, value: str) -> bool:
        """Keep a value; whether it is there now."""
        self._asked(lambda keyring: keyring.set_password(_SERVICE, entry, value))
        return self.read(entry) == value

    def remove(self, entry: str) -> None:
        """Forget a value."""
        self._asked(lambda keyring: keyring.delete_password(_SERVICE, entry))

    def _asked(self, ask: Callable[[Any], T]) -> T | None:
        if not self._is_there:
            return None
        import keyring
        from keyring.errors import KeyringError

        with suppress(KeyringError, RuntimeError, OSError):  # no session bus, locked for ever, none installed
            return ask(keyring)
        return None


class KeptSecret(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One entry of the file; without a value it is in the keyring."""

    value: str | None = None


class _KeptSecrets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1] = 1
    secrets: dict[str, KeptSecret] = {}


class SecretStore:
    """The secrets of this user. Reads the file again when it has changed, and asks the keyring once for each value."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.path = state_directory(env) / FILE_NAME
        self._keyring = SystemKeyring(env)
        self._stamp: Stamp | None = None
        self._kept: dict[str, KeptSecret] = {}
        self._asked: dict[str, str] = {}

    def get(self, name: str) -> str | None:
        """The value of a secret; ``None`` if none is kept under this name."""
        self._refresh()
        kept = self._kept.get(name)
        if kept is None:
            return None
        if kept.value is not None:
            return kept.value
        if name not in self._asked:
            self._asked[name] = self._from_keyring(name)
        return self._asked[name]

    def places(self) -> dict[str, str]:
        """The names, in the order of the alphabet, each with where its value is."""
        self._refresh()
        return {name: KEYRING if kept.value is None else str(self.path) for name, kept in sorted(self._kept.items())}

    def put(self, values: Mapping[str, str], replacing: Collection[str] | None = None) -> None:
        """Keep these values; in the place of other ones only where ``replacing``, if it is said, names them."""
        for name, value in values.items():
            _check(name, value)

        def change(kept: dict[str, KeptSecret]) -> dict[str, KeptSecret]:
            for name in kept.keys() & values.keys() - set(values if replacing is None else replacing):
                if (kept[name].value or self._from_keyring(name)) != values[name]:
                    raise ConfigError(f"Another value was kept as {name} at this very moment.", hint="Try again.")
            return kept | {name: self._placed(name, value) for name, value in values.items()}

        if values:
            self._change(change)

    def remove(self, name: str) -> str:
        """Forget one; where its value was."""
        place = self.places().get(name)
        if place is None:
            raise UnknownSecret(name, known=list(self._kept))
        self._change(lambda kept: {key: secret for key, secret in kept.items() if key != name})
        self._keyring.remove(f"{_PREFIX}{name}")  # last: a name without a value would be an error wherever it is used
        return place

    def _placed(self, name: str, value: str) -> KeptSecret:
        return KeptSecret() if self._keyring.write(f"{_PREFIX}{name}", value) else KeptSecret(value)

    def _from_keyring(self, name: str) -> str:
        found = self._keyring.read(f"{_PREFIX}{name}")
        if found is None:
            hint = f"Unlock it, set the variable {name}, or keep the value anew: toolcrib secrets set {name}"
            raise ConfigError(f"The secret {name} is in {KEYRING}, which does not give it out.", hint=hint)
        return found

    def _refresh(self) -> None:
        stamp = stamp_of(self.path)
        if stamp is None or stamp != self._stamp:
            self._kept, self._asked = self._read(), {}
            self._stamp = stamp

    def _change(self, change: Callable[[dict[str, KeptSecret]], dict[str, KeptSecret]]) -> None:
        make_directory(self.path.parent, 0o700)
        with locked(self.path):
            changed = _KeptSecrets(secrets=change(self._read()))
            text = msgspec.json.format(msgspec.json.encode(changed), indent=1).decode() + "\n"
            replace_text(self.path, text, _PRIVATE, keep=_PRIVATE)
        self._stamp = None

    def _read(self) -> dict[str, KeptSecret]:
        text = read_text(self.path)
        if text is None:
            return {}
        _refuse_open(self.path)
        try:
            return msgspec.json.decode(text, type=_KeptSecrets).secrets
        except (msgspec.MsgspecError, UnicodeError):
            hint = "Put a good copy in its place, or move it away and keep the secrets anew."
            raise ConfigError("The file of kept secrets is damaged.", where=str(self.path), hint=hint) from None


class UnknownSecret(CallerError):
    """No secret is kept under that name."""

    code = "RESOURCE_NOT_FOUND"

    def __init__(self, name: str, *, known: list[str]) -> None:
        super().__init__(
            f"No secret is kept as {name!r}.", hint=did_you_mean(name, known) or "See `toolcrib secrets ls`."
        )


def _refuse_open(path: Path) -> None:
    """Stop where somebody else could have read the values, or put others there."""
    status = path.stat()
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & _OTHERS:
        hint = f"Run `chmod 600 {path}`, and change what is kept there if somebody may have read it."
        raise ConfigError("Others can read the kept secrets, so they are not used.", where=str(path), hint=hint)


def _check(name: str, value: str) -> None:
    if not (name.isascii() and name.isidentifier()):
        hint = "Use letters, digits and underscores, such as GITHUB_TOKEN: it is referred to as ${GITHUB_TOKEN}."
        raise CallerError(f"{name[:80]!r} cannot be the name of a secret.", hint=hint)
    if not value or "\0" in value or len(value) > VALUE_MAX:
        reason = "is empty" if not value else "holds a NUL" if "\0" in value else f"is longer than {VALUE_MAX:,}"
        raise CallerError(f"The value of {name} {reason}, so it is not kept.", hint="Give it the whole value, once.")
