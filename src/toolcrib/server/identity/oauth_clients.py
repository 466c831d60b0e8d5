"""Clients of the built-in authorization server: who they say they are, and where their people may be sent back to.

A client names itself by the address of a document about it, which is fetched, or registers. Either way nothing it says
of itself is believed: a person sees the host it leads to, and decides.
"""

import asyncio
import ipaddress
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import msgspec

from toolcrib.core.errors import ToolcribError
from toolcrib.core.network import Network
from toolcrib.stores.connections import ConnectedClient, ConnectionBook, RegisteredClient

NAME_MAX = 80
URI_MAX = 2_000
URIS_MAX = 20
ID_MAX = 500
DOCUMENT_MAX = 32 * 1024
FETCH_S = 5.0
KEPT_S = 3600.0
FAILED_S = 60.0
KNOWN_MAX = 200
UNUSED_S = 3600.0
"""How long a client that registered may take until somebody lets it in."""
UNUSED_MAX = 500
USED_S = 400 * 86_400.0
FORBIDDEN_SCHEMES = frozenset(
    {
        "javascript",
        "data",
        "vbscript",
        "file",
        "blob",
        "about",
        "filesystem",
        "ftp",
        "ws",
        "wss",
        "view-source",
        "mailto",
        "intent",
        "jar",
        "mhtml",
        "res",
        "chrome",
        "shell",
        "search-ms",
        "ms-msdt",
        "ms-officecmd",
    }
)
"""What a browser or the system runs or opens itself: nothing of that is a program waiting for an answer."""
SECRET_METHODS = frozenset({"client_secret_post", "client_secret_basic", "client_secret_jwt"})
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*\Z")
_URI = re.compile(r"[!-~]+\Z")
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?\Z")
"""It stands in a header of the consent page: with `;` or `,` in it, it could say more than a host."""


class OAuthProblem(Exception):
    """Why a request gets no tokens: an error of RFC 6749 and what to do, as JSON or as parameters of a redirect."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.error, self.description, self.status = error, description, status
        self.ended: ConnectedClient | None = None
        """The connection that was revoked for it."""


@dataclass(frozen=True, slots=True)
class ClientDescription:
    """A client as it describes itself."""

    id: str
    name: str
    redirect_uris: tuple[str, ...]
    is_document: bool = False
    """Whether whoever owns the address of ``id`` says so."""

    @property
    def host(self) -> str:
        """Who vouches for it; empty if nobody does."""
        return urlsplit(self.id).netloc if self.is_document else ""

    def allows(self, redirect_uri: str) -> bool:
        """Whether people may be sent back there: exactly as registered, but on this machine at any port."""
        return any(redirect_uri == known or _differs_in_port(redirect_uri, known) for known in self.redirect_uris)


def _differs_in_port(given: str, known: str) -> bool:
    """Whether both are the same address of a program on the person's own machine, but for the port (RFC 8252)."""
    if not is_redirect_uri(given):
        return False
    one, other = urlsplit(given), urlsplit(known)
    if one.scheme != "http" or not is_own_machine(one.hostname or ""):
        return False
    return (one.scheme, one.hostname, one.path, one.query) == (other.scheme, other.hostname, other.path, other.query)


def is_own_machine(host: str) -> bool:
    """Whether a host is the machine of whoever uses it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_redirect_uri(uri: object) -> bool:
    """Whether people may be sent there at all: over TLS, to their own machine, or to a program with its own scheme."""
    if not isinstance(uri, str) or len(uri) > URI_MAX or _URI.match(uri) is None or "#" in uri or "\\" in uri:
        return False
    try:
        parts = urlsplit(uri)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if parts.scheme in ("http", "https"):
        return _HOST.match(parts.netloc) is not None and (parts.scheme == "https" or is_own_machine(host))
    return _SCHEME.match(parts.scheme) is not None and parts.scheme not in FORBIDDEN_SCHEMES and "@" not in parts.netloc


def is_document_id(client_id: str) -> bool:
    """Whether a client id is the address of a document about the client."""
    if not client_id.startswith("https://") or len(client_id) > ID_MAX or not is_redirect_uri(client_id):
        return False
    path = urlsplit(client_id).path
    return path not in ("", "/") and not {".", ".."} & set(path.split("/"))


class ClientMetadata(msgspec.Struct):
    """What a client says of itself, in its document or when it registers; what else it says does not matter here.
    Some write ``null`` for what they do not say."""

    client_id: str | None = None
    client_name: str | None = None
    redirect_uris: tuple[str, ...] = ()
    grant_types: tuple[str, ...] | None = None
    response_types: tuple[str, ...] | None = None
    token_endpoint_auth_method: str | None = None
    client_secret: str | None = None

    @property
    def wants_codes(self) -> bool:
        """Whether it is content with what is given here; who says nothing is (RFC 7591)."""
        grants, responses = self.grant_types, self.response_types
        return (grants is None or "authorization_code" in grants) and (responses is None or "code" in responses)

    def checked_uris(self) -> tuple[str, ...]:
        """Its redirect URIs; raises if one of them cannot be."""
        if not 0 < len(self.redirect_uris) <= URIS_MAX:
            raise OAuthProblem("invalid_redirect_uri", f"Name 1 to {URIS_MAX} redirect_uris.")
        for uri in self.redirect_uris:
            if not is_redirect_uri(uri):
                raise OAuthProblem(
                    "invalid_redirect_uri",
                    "A redirect URI must be https, http on 127.0.0.1, [::1] or localhost, or a private scheme; "
                    "without a fragment.",
                )
        return tuple(dict.fromkeys(self.redirect_uris))


def shown_name(name: str | None) -> str:
    """A client's name as people see it: one short line of printable characters."""
    kept = "".join(character for character in name or "" if character.isprintable())
    return " ".join(kept.split())[:NAME_MAX] or "a client without a name"


def read_metadata(body: bytes) -> ClientMetadata:
    """What a client sent."""
    if len(body) > DOCUMENT_MAX:
        raise OAuthProblem("invalid_client_metadata", f"Client metadata may have {DOCUMENT_MAX} bytes.", 413)
    try:
        return msgspec.json.decode(body, type=ClientMetadata)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise OAuthProblem("invalid_client_metadata", f"This is no client metadata: {error}.") from None


FetchDocument = Callable[[str], Awaitable[bytes]]


def fetch_document(network: Network | None, may_reach: Callable[[str], bool] | None = None) -> FetchDocument:
    """Fetches small JSON documents, quickly or not at all; no redirect is followed. Without ``may_reach`` only from
    addresses that anybody on the internet could reach."""

    async def fetch(url: str) -> bytes:
        from toolcrib.transports.http.client import HttpPool, PoolLimits
        from toolcrib.transports.http.fetch import is_public

        limits = PoolLimits(connections=1, body_bytes=DOCUMENT_MAX)
        pool = HttpPool(url, network=network, limits=limits, may_reach=may_reach or is_public)
        try:
            async with asyncio.timeout(FETCH_S):
                answer = await pool.request("GET", pool.origin.target, ((b"accept", b"application/json"),))
        except TimeoutError:
            raise OAuthProblem("invalid_client", f"The client's document did not come within {FETCH_S:g} s.") from None
        finally:
            await pool.close()
        kind = (answer.header(b"content-type") or b"").partition(b";")[0].strip().lower()
        if answer.status != 200:
            raise OAuthProblem("invalid_client", f"The client's document is not there: the answer was {answer.status}.")
        if kind != b"application/json" and not kind.endswith(b"+json"):
            raise OAuthProblem("invalid_client", "The client's document is not JSON.")
        return answer.body

    return fetch


@dataclass(slots=True)
class ClientDirectory:
    """Finds clients by their id."""

    book: ConnectionBook
    fetch: FetchDocument
    now: Callable[[], float]
    _documents: dict[str, tuple[float, ClientDescription | OAuthProblem]] = field(default_factory=dict)
    _flights: dict[str, asyncio.Task[ClientDescription | OAuthProblem]] = field(default_factory=dict)

    async def find(self, client_id: str) -> ClientDescription:
        """The client; raises ``OAuthProblem`` if there is none, or its document is not as it must be."""
        if is_document_id(client_id):
            return await self._find_document(client_id)
        found = await asyncio.to_thread(self._find_registered, client_id)
        if found is None:
            raise OAuthProblem(
                "invalid_client", "This client is not registered here, or was not used for too long.", 401
            )
        return ClientDescription(found.id, found.name, found.redirect_uris)

    def register(self, metadata: ClientMetadata) -> RegisteredClient:
        """A new client; of those that nobody has let in yet, the oldest goes when there are too many. Waits."""
        uris, now = metadata.checked_uris(), self.now()
        if not metadata.wants_codes:
            raise OAuthProblem("invalid_client_metadata", "Only authorization codes are given here.")
        made = RegisteredClient(
            secrets.token_hex(12), now + UNUSED_S, shown_name(metadata.client_name), uris, created=now
        )
        with self.book.changing() as desk:
            unused = [each for each in desk.all(RegisteredClient) if not each.is_used]
            for oldest in unused[: max(0, len(unused) - UNUSED_MAX + 1)]:
                desk.drop(RegisteredClient, oldest.id)
            desk.put(made)
        return made

    def _find_registered(self, client_id: str) -> RegisteredClient | None:
        found = next((each for each in self.book.read(RegisteredClient) if each.id == client_id), None)
        return found if found is not None and found.until > self.now() else None

    async def _find_document(self, url: str) -> ClientDescription:
        until, found = self._documents.get(url, (0.0, None))
        if found is None or until <= self.now():
            flight = self._flights.get(url)
            if flight is None:
                flight = self._flights[url] = asyncio.create_task(self._load(url))
                flight.add_done_callback(lambda _: self._flights.pop(url, None))
            found = await asyncio.shield(flight)
        if isinstance(found, OAuthProblem):
            raise OAuthProblem(found.error, found.description, found.status)
        return found

    async def _load(self, url: str) -> ClientDescription | OAuthProblem:
        found: ClientDescription | OAuthProblem
        try:
            found = read_document(url, await self.fetch(url))
        except OAuthProblem as problem:
            found = problem
        except ToolcribError as error:
            found = OAuthProblem("invalid_client", f"The client's document cannot be fetched: {error.message}")
        while len(self._documents) >= KNOWN_MAX:
            self._documents.pop(next(iter(self._documents)))
        self._documents[url] = self.now() + (FAILED_S if isinstance(found, OAuthProblem) else KEPT_S), found
        return found


def read_document(url: str, body: bytes) -> ClientDescription:
    """The client that a document is about; one about another client is not believed."""
    metadata = read_metadata(body)
    if metadata.client_id != url:
        raise OAuthProblem("invalid_client", "The client's document names another client_id than its own address.")
    if metadata.client_secret or metadata.token_endpoint_auth_method in SECRET_METHODS:
        raise OAuthProblem("invalid_client", "The client's document is public, and yet it counts on a secret.")
    return ClientDescription(url, shown_name(metadata.client_name), metadata.checked_uris(), is_document=True)


def registration_answer(client: RegisteredClient, scopes: Sequence[str]) -> dict[str, Any]:
    """What a client is told that registered (RFC 7591)."""
    return {
        "client_id": client.id,
        "client_id_issued_at": int(client.created),
        "client_name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": " ".join(scopes),
    }
