"""Tokens in a file of the user; one that is damaged, emptied, gone, or that others may write, lets nobody in.

That there are tokens is noted in another directory before the first one is told to anybody: whoever deletes the file
of tokens, or the directory it is in, leaves the door closed. Only ``toolcrib tokens reset`` takes the note away.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from toolcrib.core.access import Caller
from toolcrib.core.disk import remedy_of
from toolcrib.core.errors import ConfigError
from toolcrib.stores.files import (
    discard_leftovers,
    locked,
    make_directory,
    read_text,
    replace_text,
    sync_directory,
)
from toolcrib.stores.paths import state_directory, witness_directory
from toolcrib.stores.tokens import Known, Token, TokenWish, find_named, make_token, refuse_namesake

TOKENS_NAME = "tokens.json"
NOTE_NAME = "tokens-are-asked-for"
NOTE = "toolcrib asks for tokens, because one was made. To end that, run `toolcrib tokens reset`.\n"
_OTHERS_MAY_WRITE = 0o022
_Stamp = tuple[int, int, int]
_UNSEEN: _Stamp = (-1,) * 3


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file holds."""

    version: Literal[1] = 1
    tokens: tuple[Token, ...] = ()


class TokenFile:
    """The tokens of one file, shared between processes; a change counts from the next question on."""

    def __init__(self, path: Path, now: Callable[[], float], note: Path | None = None) -> None:
        """``note`` is where is noted that there are tokens; without one, a file that is gone had none."""
        self.path, self._note = path, note
        self._file = str(path)
        self._now = now
        self._stamp: _Stamp | None = _UNSEEN
        self._known = Known()
        self._problem: ConfigError | None = None

    def read(self) -> tuple[Token, ...]:
        """Every token there is or was; a file that cannot be trusted is an error."""
        text = read_text(self.path)
        if text is None:
            return self._none("gone")
        _check_owner(self.path)
        try:
            kept = msgspec.json.decode(text, type=_Kept).tokens
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            raise _damaged(self.path, str(error)) from None
        if len({token.id for token in kept}) != len(kept):
            raise _damaged(self.path, "two tokens have the same id")
        return kept or self._none("empty")

    def create(self, wish: TokenWish) -> tuple[Token, str]:
        """A new token, and the text its holder sends: it cannot be had again."""
        now = self._now()
        token, text = make_token(wish, now)

        def add(kept: tuple[Token, ...]) -> tuple[Token, ...]:
            refuse_namesake(kept, token.name, now)
            return (*kept, token)

        self._change(add)
        return token, text

    def revoke(self, name_or_id: str) -> Token:
        """End a token for good; it stays in the file, so that the door does not open when the last one is gone."""
        now = self._now()
        revoked: list[Token] = []

        def end(kept: tuple[Token, ...]) -> tuple[Token, ...]:
            found = find_named(kept, name_or_id)
            revoked.append(msgspec.structs.replace(found, revoked=now))
            return tuple(revoked[0] if token is found else token for token in kept)

        self._change(end)
        return revoked[0]

    def identify(self, presented: bytes) -> Caller | None:
        """Who holds this token, if it is one of ours and works; raises while the file cannot be trusted."""
        return self._look().identify(presented, self._now())

    def is_active(self, token_id: str) -> bool:
        """Whether a token still works; not while the file cannot be trusted."""
        with suppress(ConfigError):
            return self._look().is_active(token_id, self._now())
        return False

    def has_ended(self, token_id: str) -> bool:
        """Whether a token works no more; so it is while the file cannot be trusted."""
        return not self.is_active(token_id)

    def names(self) -> dict[str, str]:
        """The name of every token there is or was, by its id; of none while the file cannot be trusted."""
        with suppress(ConfigError):
            return self._look().names()
        return {}

    def reset(self) -> None:
        """End all tokens and forget that there were any, so that none is asked for."""
        with locked(self.path):
            for path in (self.path, self._note):
                if path is not None and path.exists():
                    path.unlink()
                    sync_directory(path.parent)

    def _write_note(self) -> None:
        if self._note is not None:
            _make_private(self._note)
            replace_text(self._note, NOTE, 0o600)

    def _none(self, how: str) -> tuple[Token, ...]:
        """No tokens; where some were made, that is an error."""
        if self._note is None or not self._note.exists():
            return ()
        raise ConfigError(
            f"Tokens were made, but their file is {how}, so nobody is let in.",
            where=str(self.path),
            hint="Put it back, or run `toolcrib tokens reset` to end all tokens and begin anew.",
        )

    async def follow(self) -> None:
        """Nothing to do: every question looks at the file."""

    def _look(self) -> Known:
        """The tokens, read again if the file has changed."""
        stamp = _stamp_of(self._file)
        if stamp != self._stamp:
            self._known, self._problem = Known(), None
            self._stamp = stamp
            try:
                self._known = Known.of(self.read())
            except ConfigError as error:
                self._problem = error
        if self._problem is not None:
            raise self._problem.with_traceback(None)
        return self._known

    def _change(self, change: Callable[[tuple[Token, ...]], tuple[Token, ...]]) -> None:
        _make_private(self.path)
        with locked(self.path):
            text = msgspec.json.format(msgspec.json.encode(_Kept(tokens=change(self.read())))).decode()
            discard_leftovers(self.path)
            with suppress(FileNotFoundError):
                self.path.chmod(0o600)
            replace_text(self.path, text + "\n", 0o600)
            # Last, for a note without tokens would keep everybody out; and a token in its file closes the door as well.
            with suppress(ConfigError, OSError):
                self._write_note()


def token_file(env: Mapping[str, str], now: Callable[[], float]) -> TokenFile:
    """The tokens of this user."""
    return TokenFile(state_directory(env) / TOKENS_NAME, now, witness_directory(env) / NOTE_NAME)


def _make_private(path: Path) -> None:
    try:
        make_directory(path.parent, 0o700)
    except OSError as error:
        raise ConfigError(
            f"Tokens cannot be kept: {error.strerror}.", where=str(path), hint=remedy_of(error)
        ) from error


def _check_owner(path: Path) -> None:
    """Whoever can write the file can let anybody in."""
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigError(
            f"The tokens cannot be read: {error.strerror}.", where=str(path), hint=remedy_of(error)
        ) from error
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & _OTHERS_MAY_WRITE:
        raise ConfigError(
            "Others may write the file of tokens, so it is not used.",
            where=str(path),
            hint=f"Look at what is in it, then run `chmod 600 {path}`.",
        )


def _damaged(path: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"The file of tokens is damaged: {reason}.",
        where=str(path),
        hint="Nobody is let in by it. Put back a good copy, or run `toolcrib tokens reset` and create the tokens anew.",
    )


def _stamp_of(path: str) -> _Stamp | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - a plain stat is most of the cost of recognising a token
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
