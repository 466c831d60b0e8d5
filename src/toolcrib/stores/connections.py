"""What the built-in authorization server keeps: clients that registered, codes, connected clients, invitations.

Secrets are kept as digests. Every change happens while nobody else can change anything, so that a code or a refresh
token that two replicas are given at the same moment is taken once.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Protocol, TypeVar

import msgspec

from toolcrib.core.access import Grants
from toolcrib.core.errors import CallerError, ConfigError, ToolcribError, remedy_of
from toolcrib.core.offers import SecurityLevel
from toolcrib.stores.access_tokens import AccessToken, NewToken, TokenBook, check_name, refuse_namesake
from toolcrib.stores.files import (
    Stamp,
    check_private,
    discard_leftovers,
    locked,
    make_directory,
    read_text,
    replace_text,
    stamp_of,
)
from toolcrib.stores.paths import state_directory

CONNECTIONS_NAME = "oauth.json"
KEY_ID = "1"
INVITED_S = 7 * 86_400.0
"""How long an invitation can be accepted."""
REMEMBERED_S = 30 * 86_400.0
"""How long a revoked client is remembered; must be longer than an access token lives."""
_UNSEEN: Stamp = (-1,) * 3


class OAuthRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind"):
    """One thing that is kept; times are seconds since 1970."""

    id: str
    until: float
    """When it is forgotten."""

    kind: ClassVar[str] = ""


class SigningKey(OAuthRecord, frozen=True, tag="key"):
    """What access tokens are signed with."""

    kind: ClassVar[str] = "key"
    value: str = ""


class RegisteredClient(OAuthRecord, frozen=True, tag="client"):
    """A client that registered itself; forgotten unless somebody lets it in soon."""

    kind: ClassVar[str] = "client"
    name: str = ""
    redirect_uris: tuple[str, ...] = ()
    created: float = 0.0
    is_used: bool = False


class AuthorizationCode(OAuthRecord, frozen=True, tag="code"):
    """What a client exchanges for its first tokens. One that was used is remembered, to notice if it comes again."""

    kind: ClassVar[str] = "code"
    sha256: str = ""
    expires: float = 0.0
    redirect_uri: str = ""
    """As the client wrote it in its request."""
    challenge: str = ""
    connection: "ConnectedClient | None" = None
    """What it becomes."""
    is_used: bool = False


class ConnectedClient(OAuthRecord, frozen=True, tag="connection"):
    """A client that a person let in, with all tokens it was ever given: they end together."""

    kind: ClassVar[str] = "connection"
    client_id: str = ""
    client_name: str = ""
    user: str = ""
    """The id of the caller who let it in."""
    user_name: str = ""
    level: SecurityLevel = SecurityLevel.READ_ONLY
    servers: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    capabilities: tuple[str, ...] | None = None
    resource: str = ""
    """The one address its tokens are for."""
    created: float = 0.0
    refreshed: float = 0.0
    refresh_sha256: str = ""
    """Of the one refresh token that works."""
    revoked: float | None = None
    reason: str = ""
    """Why it was revoked."""

    @property
    def grants(self) -> Grants:
        """What it may reach."""
        capabilities = None if self.capabilities is None else frozenset(self.capabilities)
        return Grants(self.level, self.servers, self.tools, capabilities)

    def state(self, now: float) -> Literal["active", "expired", "revoked"]:
        """Whether it can come in, or renew its tokens."""
        if self.revoked is not None:
            return "revoked"
        return "active" if now < self.until else "expired"


class Invitation(OAuthRecord, frozen=True, tag="invitation"):
    """A link that makes a person a user, once."""

    kind: ClassVar[str] = "invitation"
    sha256: str = ""
    name: str = ""
    level: SecurityLevel = SecurityLevel.WRITE
    servers: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    created: float = 0.0

    @property
    def grants(self) -> Grants:
        """What whoever accepts it may reach."""
        return Grants(self.level, self.servers, self.tools)


AnyRecord = SigningKey | RegisteredClient | AuthorizationCode | ConnectedClient | Invitation
R = TypeVar("R", SigningKey, RegisteredClient, AuthorizationCode, ConnectedClient, Invitation)


class RecordDesk(Protocol):
    """The records, while nobody else can change them; what was done counts when the change ends well."""

    def get(self, kind: type[R], record_id: str) -> R | None:
        """The record of that id."""

    def all(self, kind: type[R]) -> list[R]:
        """All of one kind, in the order they were first written."""

    def put(self, record: AnyRecord) -> None:
        """Write a record, in place of the one with its id."""

    def drop(self, kind: type[R], record_id: str) -> None:
        """Forget a record."""


@dataclass(frozen=True, slots=True)
class ConnectionIndex:
    """What must be known to recognise an access token, as it was at one moment."""

    key: bytes = b""
    """Empty before there is one: then there are no tokens either."""
    connections: Mapping[str, ConnectedClient] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[AnyRecord]) -> "ConnectionIndex":
        """Out of these records."""
        known = list(records)
        key = next((each.value for each in known if isinstance(each, SigningKey)), "")
        return cls(bytes.fromhex(key), {each.id: each for each in known if isinstance(each, ConnectedClient)})


class ConnectionBook(Protocol):
    """Where all of it is kept; whatever cannot be trusted raises, and lets nobody in."""

    def changing(self) -> AbstractContextManager[RecordDesk]:
        """The records, to be changed by nobody else meanwhile; waits, so not on the event loop."""

    def read(self, kind: type[R]) -> list[R]:
        """All records of a kind; waits, so not on the event loop."""

    def look(self) -> ConnectionIndex:
        """What is known right now, without waiting; raises while that is not certain."""

    async def follow(self) -> None:
        """Keep up with changes that others make, for as long as somebody serves; returns if that takes nothing."""


def digest(secret: str) -> str:
    """As which a secret is kept."""
    return hashlib.sha256(secret.encode()).hexdigest()


def signing_key(book: ConnectionBook) -> bytes:
    """What access tokens are signed with, made by the first that needs it; waits, so not on the event loop."""
    with suppress(ToolcribError):  # what is not known for certain is asked for below
        if known := book.look().key:
            return known
    with book.changing() as desk:
        kept = desk.get(SigningKey, KEY_ID)
        if kept is None:
            kept = SigningKey(KEY_ID, float("inf"), secrets.token_hex(32))
            desk.put(kept)
    return bytes.fromhex(kept.value)


class NoSuchConnection(CallerError):
    """No connected client has that id or name."""

    code = "RESOURCE_NOT_FOUND"

    def __init__(self, wanted: str) -> None:
        super().__init__(f"No connected client is called {wanted!r}.", hint="See `toolcrib clients ls`.")


def revoke_connection(book: ConnectionBook, wanted: str, now: float, reason: str) -> ConnectedClient:
    """End a connected client with all its tokens; by its id, or by its name if only one has it."""
    with book.changing() as desk:
        active = [each for each in desk.all(ConnectedClient) if each.state(now) == "active"]
        found = [each for each in active if each.id == wanted] or [
            each for each in active if each.client_name == wanted
        ]
        if not found:
            raise NoSuchConnection(wanted)
        if len(found) > 1:
            ids = ", ".join(each.id for each in found)
            raise CallerError(
                f"{len(found)} connected clients are called {wanted!r}.", hint=f"Name one by its id: {ids}."
            )
        return end_connection(desk, found[0], now, reason)


def end_connection(desk: RecordDesk, connection: ConnectedClient, now: float, reason: str) -> ConnectedClient:
    """Revoke all tokens of a connected client."""
    ended = msgspec.structs.replace(connection, revoked=now, until=now + REMEMBERED_S, reason=reason, refresh_sha256="")
    desk.put(ended)
    return ended


class InvitationOver(CallerError):
    """An invitation that was accepted, is too old, or never was."""

    code = "RESOURCE_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__("This invitation was accepted before, or is too old.", hint="Ask for another one.")


def invite(book: ConnectionBook, people: TokenBook, name: str, grants: Grants, now: float) -> str:
    """Invite somebody; the word that their link carries, which cannot be had again."""
    if grants.level is None:
        raise CallerError("An invitation needs a level.", hint="Choose read_only, write, admin or system.")
    refuse_namesake(people.read(), check_name(name), now)
    word = secrets.token_urlsafe(24)
    made = Invitation(
        digest(word)[:32], now + INVITED_S, digest(word), name, grants.level, grants.servers, grants.tools, now
    )
    with book.changing() as desk:
        desk.put(made)
    return word


def find_invitation(book: ConnectionBook, word: str, now: float) -> Invitation:
    """The invitation of a link; raises for one that is over."""
    found = next((each for each in book.read(Invitation) if each.sha256 == digest(word)), None)
    if found is None or found.until <= now:
        raise InvitationOver
    return found


def accept_invitation(book: ConnectionBook, people: TokenBook, word: str, now: float) -> tuple[AccessToken, str]:
    """Make the person of an invitation a user, once: their token, and the text they sign in with."""
    with book.changing() as desk:
        kept = desk.get(Invitation, digest(word)[:32])
        if kept is None or kept.sha256 != digest(word) or kept.until <= now:
            raise InvitationOver
        made = people.create(NewToken(kept.name, kept.grants, "person"))
        desk.drop(Invitation, kept.id)
    return made


_encode = msgspec.json.Encoder().encode
_decoder: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


def to_body(record: AnyRecord) -> bytes:
    """A record as it is stored; one that is never forgotten has no number for that."""
    return _encode(msgspec.structs.replace(record, until=FOREVER) if record.until > FOREVER else record)


FOREVER = 1e12


def from_body(body: bytes | str) -> AnyRecord:
    """A record as it was stored; raises ``msgspec.MsgspecError`` for what is none."""
    return _decoder.decode(body)


class MemoryDesk:
    """Records in a dictionary."""

    def __init__(self, records: Iterable[AnyRecord]) -> None:
        self.records: dict[tuple[str, str], AnyRecord] = {(each.kind, each.id): each for each in records}

    def get(self, kind: type[R], record_id: str) -> R | None:
        """The record of that id."""
        found = self.records.get((kind.kind, record_id))
        return found if isinstance(found, kind) else None

    def all(self, kind: type[R]) -> list[R]:
        """All of one kind."""
        return [each for each in self.records.values() if isinstance(each, kind)]

    def put(self, record: AnyRecord) -> None:
        """Write a record."""
        self.records[record.kind, record.id] = record

    def drop(self, kind: type[R], record_id: str) -> None:
        """Forget a record."""
        self.records.pop((kind.kind, record_id), None)


class _KeptRecords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file holds."""

    version: Literal[1] = 1
    records: tuple[AnyRecord, ...] = ()


class ConnectionFile:
    """The records of one file, shared between processes; a change counts from the next question on."""

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        self.path, self._file, self._now = path, str(path), now
        self._seen: tuple[Stamp | None, ConnectionIndex | ConfigError] = (_UNSEEN, ConnectionIndex())
        """Replaced as a whole: the event loop looks while a thread does."""

    def read(self, kind: type[R]) -> list[R]:
        """All records of a kind."""
        return MemoryDesk(self._read()).all(kind)

    @contextmanager
    def changing(self) -> Iterator[RecordDesk]:
        """The records; what becomes of them is on disk when the block has ended well."""
        try:
            make_directory(self.path.parent, 0o700)
        except OSError as error:
            problem = f"Connected clients cannot be kept: {error.strerror}."
            raise ConfigError(problem, where=self._file, hint=remedy_of(error)) from error
        with locked(self.path):
            before = self._read()
            desk = MemoryDesk(before)
            yield desk
            now = self._now()
            kept = tuple(each for each in desk.records.values() if each.until > now)
            if kept != before:
                self._write(kept)

    def look(self) -> ConnectionIndex:
        """What is known, read again if the file has changed."""
        stamp, (seen, known) = stamp_of(self._file), self._seen
        if stamp != seen:
            try:
                known = ConnectionIndex.of(self._read())
            except ConfigError as error:
                known = error
            self._seen = stamp, known
        if isinstance(known, ConfigError):
            raise known.with_traceback(None)
        return known

    async def follow(self) -> None:
        """Nothing to do: every question looks at the file."""

    def _read(self) -> tuple[AnyRecord, ...]:
        text = read_text(self.path)
        if text is None:
            return ()
        check_private(self.path, "connected clients")
        try:
            return msgspec.json.decode(text, type=_KeptRecords).records
        except (msgspec.MsgspecError, RecursionError, UnicodeError, ValueError) as error:
            raise ConfigError(
                f"The file of connected clients is damaged: {error}.",
                where=self._file,
                hint="Nobody is let in by it. Put back a good copy, or remove it: then every client connects anew.",
            ) from None

    def _write(self, kept: tuple[AnyRecord, ...]) -> None:
        records = tuple(from_body(to_body(each)) for each in kept)
        text = msgspec.json.format(_encode(_KeptRecords(records=records))).decode()
        discard_leftovers(self.path)
        with suppress(FileNotFoundError):
            self.path.chmod(0o600)
        replace_text(self.path, text + "\n", 0o600)


def connection_file(env: Mapping[str, str], now: Callable[[], float]) -> ConnectionFile:
    """The records of this user."""
    return ConnectionFile(state_directory(env) / CONNECTIONS_NAME, now)
