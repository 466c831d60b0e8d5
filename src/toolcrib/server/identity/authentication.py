"""Authentication: from a token, a JWT or nothing at all to a caller; whether a token is needed is decided at start."""

import hmac
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from toolcrib.config.model import Config
from toolcrib.config.sections import AccessConfig
from toolcrib.core.access import EVERYTHING, NOTHING, OWNER_ID, Caller, Grants
from toolcrib.core.errors import ConfigError, StoreUnavailable
from toolcrib.core.events import Emit, Event
from toolcrib.core.network import Network
from toolcrib.core.offers import SecurityLevel
from toolcrib.core.tasks import TaskScope
from toolcrib.crib.backend import find_backend
from toolcrib.server.identity.oauth import SCOPE, BuiltinAuthorizationServer, ResourceIdentity
from toolcrib.server.identity.oauth_clients import ClientDirectory, fetch_document
from toolcrib.server.identity.oauth_tokens import ACCESS_PREFIX, CALLER_KIND, OWNER_USER, ConnectedCallers
from toolcrib.server.identity.owner_token import (
    FoundToken,
    given_token,
    has_issuer,
    is_loopback,
    is_needed,
    kept_token,
    token_path,
)
from toolcrib.server.identity.run_proof import PREFIX as RUN_PREFIX
from toolcrib.server.identity.run_proof import RunProof
from toolcrib.server.identity.sign_in import SignIns, Tokens
from toolcrib.server.mcp.addresses import SERVER_PATH, is_mcp
from toolcrib.server.mcp.http import IsCurrent, always
from toolcrib.stores.access_tokens import PREFIX, TokenBook
from toolcrib.stores.connections import ConnectedClient
from toolcrib.stores.paths import Environment, for_network
from toolcrib.transports.http.guard import Identify
from toolcrib.transports.http.message import Refusal

if TYPE_CHECKING:
    from toolcrib.server.identity.jwt import Claims, JwtGate, KeyRing

OWNER = Caller(OWNER_ID, "token", EVERYTHING)
PERSON = Caller(OWNER_USER, "local", EVERYTHING)
"""The owner at the page: somebody else than the clients that carry the owner's token."""
NOBODY = Caller("nobody", "token", NOTHING)
KNOWN_MAX = 1024
_OURS = PREFIX.encode()
_CONNECTED = ACCESS_PREFIX.encode()

TOKENS_UNREADABLE = Refusal(
    503,
    "HTTP_TOKENS_UNREADABLE",
    "The server cannot read its tokens right now, so none of them is accepted. Tell whoever runs it.",
    ((b"retry-after", b"30"),),
)


def local_caller(access: AccessConfig, *, is_agent: bool) -> Caller:
    """Whoever comes without a token, where none is needed."""
    wanted = Grants(access.level, access.servers, access.tools)
    return Caller("local", "agent" if is_agent else "local", EVERYTHING if wanted == EVERYTHING else wanted)


def grants_of(scope: Iterable[str]) -> Grants:
    """What the words of a JWT's scope grant; without a level, or with a word of ours nobody knows, nothing.

    A word that is not understood may have been meant as a limit, so it must not be passed over.
    """
    found: dict[str, list[str]] = {"level": [], "server": [], "tool": [], "capability": []}
    for word in scope:
        kind, _, value = word.removeprefix(SCOPE).partition(":")
        if not word.startswith(SCOPE):
            continue
        if kind not in found or not value:
            return NOTHING
        found[kind].append(value)
    levels = [level for level in SecurityLevel if level in found["level"]]
    if len(levels) != len(set(found["level"])) or not levels:
        return NOTHING
    return Grants(
        level=levels[-1],
        servers=tuple(found["server"]) or ("*",),
        tools=tuple(found["tool"]) or ("*",),
        capabilities=frozenset(found["capability"]) if found["capability"] else None,
    )


class Callers:
    """Everybody who may come in with a token."""

    def __init__(
        self,
        owner: str,
        kept: TokenBook,
        jwt: "JwtGate | None",
        now: Callable[[], float],
        connected: ConnectedCallers | None = None,
    ) -> None:
        self._owner, self._kept, self._jwt, self._now = owner.encode(), kept, jwt, now
        self._connected = connected
        self._subjects: dict[Claims, Caller] = {}
        self._ends: dict[tuple[str, Grants], int] = {}
        """When the last token of each subject that came in expires, by what it grants."""
        self._ends_max = KNOWN_MAX

    def identify(self, presented: bytes) -> Caller | Refusal | None:
        """Who sends this token; ``None`` for nobody."""
        try:
            found = self._by_book(presented)
        except (ConfigError, StoreUnavailable):
            return TOKENS_UNREADABLE
        if found is not None:
            return found
        if hmac.compare_digest(presented, self._owner):
            return OWNER
        return self._subject(presented) if self._jwt is not None and presented.count(b".") == 2 else None

    def _by_book(self, presented: bytes) -> Caller | None:
        if presented.startswith(_OURS):
            return self._kept.identify(presented)
        if self._connected is not None and presented.startswith(_CONNECTED):
            return self._connected.identify(presented)
        return None

    def is_current(self, caller: Caller) -> bool:
        """Whether a caller that came in some time ago may still do so."""
        kind, _, rest = caller.id.partition(":")
        if kind == "token":
            return self._kept.is_active(rest)
        if kind == CALLER_KIND:
            return self._is_connected(caller, unknown=False)
        return kind != "jwt" or self._ends.get((caller.id, caller.grants), 0) > self._now()

    def may_stay(self, caller: Caller) -> bool:
        """Whether what a caller has under way goes on: not knowing for certain is no reason to end it."""
        kind, _, token_id = caller.id.partition(":")
        if kind == CALLER_KIND:
            return self._is_connected(caller, unknown=True)
        return not self._kept.has_ended(token_id) if kind == "token" else self.is_current(caller)

    def _is_connected(self, caller: Caller, *, unknown: bool) -> bool:
        """Whether a client is still connected; ``unknown`` is what counts while nobody can tell."""
        try:
            return self._connected is not None and self._connected.is_current(caller)
        except (ConfigError, StoreUnavailable):
            return unknown

    def _subject(self, presented: bytes) -> Caller | Refusal | None:
        claims = self._jwt.check(presented) if self._jwt is not None else None
        if claims is None or isinstance(claims, Refusal):
            return claims
        return self._subjects.get(claims) or self._remember(claims)

    def _remember(self, claims: "Claims") -> Caller:
        caller = Caller(f"jwt:{claims.subject}", "token", grants_of(claims.scope))
        if len(self._subjects) >= KNOWN_MAX:
            self._subjects.clear()
        if len(self._ends) >= self._ends_max:
            now = self._now()
            self._ends = {subject: end for subject, end in self._ends.items() if end > now}
            self._ends_max = max(KNOWN_MAX, 2 * len(self._ends))
        self._subjects[claims] = caller
        known = caller.id, caller.grants
        self._ends[known] = max(claims.expires, self._ends.get(known, 0))
        return caller


@dataclass(frozen=True, slots=True)
class AuthContext:
    """What authentication needs to know of the process: environment, clocks, and who wants to hear of trouble."""

    env: Mapping[str, str]
    now: Callable[[], float]
    clock: Callable[[], float]
    """Seconds that never go back."""
    emit: Emit


@dataclass(frozen=True, slots=True)
class Authentication:
    """How requests get a caller."""

    caller: Caller
    """Makes the requests that carry no token."""
    sign_ins: SignIns
    """Who is signed in to the page."""
    by_token: Identify
    """Whose a token is, also where none is needed."""
    identify: Identify | None = None
    """``None``: no token is needed."""
    may_stay: IsCurrent = always
    """Whether somebody who came in may go on with what is under way."""
    owner: FoundToken | None = None
    keys: "KeyRing | None" = None
    """To be kept fresh by whoever serves."""
    tokens: TokenBook | None = None
    """Those that were given to others; to be followed by whoever serves."""
    resource: ResourceIdentity | None = None
    """What clients are told of who gives them tokens; ``None`` where nobody does."""
    oauth: BuiltinAuthorizationServer | None = None
    """The built-in authorization server, if there is one; what it keeps is to be followed by whoever serves."""

    def admit_proven(self, proof: RunProof) -> "Authentication":
        """The same, and whoever can read the run file is the owner."""

        def by_token(presented: bytes) -> object | None:
            proven = proof.identify(presented) if presented.startswith(RUN_PREFIX) else None
            return proven or self.by_token(presented)

        return replace(self, by_token=by_token, identify=None if self.identify is None else by_token)

    @asynccontextmanager
    async def kept_fresh(self, emit: Emit) -> AsyncIterator[None]:
        """The keys of the issuer and the tokens of all replicas, followed while the block runs."""
        tasks = TaskScope(lambda name, error: emit(Event(f"{name}.failed", "error", {"error": repr(error)})))
        if self.keys is not None:
            tasks.spawn(self.keys.run(), "auth.keys")
        if self.tokens is not None:
            tasks.spawn(self.tokens.follow(), "auth.tokens")
        if self.oauth is not None:
            tasks.spawn(self.oauth.book.follow(), "auth.connections")
        try:
            yield
        finally:
            await tasks.close()


def make_authentication(
    config: Config, here: AuthContext, *, token: str | None = None, insecure: bool = False, is_agent: bool = False
) -> Authentication:
    """Decide who may come in; what would leave everything open by mistake is an error.

    ``token`` is the owner's, ``insecure`` allows an address that others reach without any, and ``is_agent`` says that
    whoever comes without one cannot approve their own calls.
    """
    given = given_token(token, here.env)
    kept = find_backend(config, Environment(env=here.env)).tokens(here.now)
    if config.auth_mode == "none":
        _check_open(config, given, is_allowed=insecure)
    if config.oauth == "builtin":
        _check_tls(config, is_allowed=insecure)
    if not is_needed(config, given, kept):
        return replace(_open_to_all(local_caller(config.access, is_agent=is_agent), here), tokens=kept)
    kept.read()  # one that cannot be used is told now, not to the first client
    owner = given or kept_token(token_path(here.env))
    gate, keys = _jwt(config, here) if has_issuer(config.auth) else (None, None)
    resource = _resource(config)
    oauth, connected = _oauth(config, here, resource, kept) if config.oauth == "builtin" else (None, None)
    callers = Callers(owner.value, kept, gate, here.now, connected)
    tokens = Tokens(callers.identify, callers.is_current, callers.may_stay)
    return Authentication(
        caller=NOBODY,
        sign_ins=SignIns(PERSON, lambda: owner.value, tokens, here.clock),
        by_token=callers.identify,
        identify=callers.identify,
        may_stay=callers.may_stay,
        owner=owner,
        keys=keys,
        tokens=kept,
        resource=resource if oauth is not None or keys is not None else None,
        oauth=oauth,
    )


def _resource(config: Config) -> ResourceIdentity:
    issuers = (config.auth.issuer,) if has_issuer(config.auth) else ()
    return ResourceIdentity(issuers, config.oauth_level, is_endpoint)


def is_endpoint(path: str) -> bool:
    """Whether MCP is served at a path."""
    return is_mcp(path.encode("utf-8", "replace")) or path.startswith(SERVER_PATH)


def _oauth(
    config: Config, here: AuthContext, resource: ResourceIdentity, users: TokenBook
) -> tuple[BuiltinAuthorizationServer, ConnectedCallers]:
    around = Environment(env=here.env)
    book = find_backend(config, around).connections(here.now)
    book.read(ConnectedClient)  # one that cannot be used is told now, not to the first client
    connected = ConnectedCallers(book, users, here.now)
    network = Network.of(for_network(around, config).env)
    clients = ClientDirectory(book, fetch_document(network), here.now)
    return BuiltinAuthorizationServer(resource, clients, connected, here.now), connected


def _open_to_all(caller: Caller, here: AuthContext) -> Authentication:
    """Nobody needs a token to list and call; to look after toolcrib, the owner's is needed all the same."""

    def owner_token() -> str:
        return kept_token(token_path(here.env)).value

    def identify(presented: bytes) -> Caller | None:
        return OWNER if hmac.compare_digest(presented, owner_token().encode()) else None

    return Authentication(caller, SignIns(PERSON, owner_token, Tokens(identify, always, always), here.clock), identify)


def _check_open(config: Config, given: FoundToken | None, *, is_allowed: bool) -> None:
    if given is not None or has_issuer(config.auth) or config.oauth == "builtin":
        asks = given.origin if given is not None else "[auth]" if has_issuer(config.auth) else "[serve] oauth"
        raise ConfigError(
            f'[serve] auth is "none", but {asks} asks for tokens.', hint="Remove one of the two; nothing is served now."
        )
    if not is_loopback(config.host) and not is_allowed:
        raise ConfigError(
            f"Without tokens, everybody who reaches {config.host} could use every tool.",
            hint='Set [serve] auth to "auto", listen on 127.0.0.1, or say --insecure if that is what you want.',
        )


def _check_tls(config: Config, *, is_allowed: bool) -> None:
    """Tokens are given away over TLS, or on this machine (OAuth 2.1, 1.5)."""
    is_here = is_loopback(urlsplit(config.public_url).hostname or "" if config.public_url else config.host)
    if not (is_here or is_allowed or config.public_url.startswith("https://")):
        raise ConfigError(
            '[serve] oauth = "builtin" gives tokens to clients, who must reach it over TLS.',
            hint="Set public_url to the https:// address of the reverse proxy in front of it; see connect-remote.md.",
        )


def _jwt(config: Config, here: AuthContext) -> "tuple[JwtGate, KeyRing]":
    from toolcrib.server.identity.jwt import JwtGate, JwtPolicy, KeyRing, fetch_from, read_from, require_joserfc

    require_joserfc()
    auth = config.auth
    network = Network.of(for_network(Environment(env=here.env), config).env)
    fetch = fetch_from(auth.jwks, network) if "://" in auth.jwks else read_from(_key_file(config))
    keys = KeyRing(fetch, here.emit, here.clock)
    policy = JwtPolicy(auth.issuer, auth.audience, auth.algorithms, auth.max_age_s, auth.leeway_s)
    return JwtGate(policy, keys, here.now), keys


def _key_file(config: Config) -> Path:
    """The file of keys; a relative path is seen from the configuration file it is written in."""
    written = config.origins.get("auth.jwks")
    path = Path(config.auth.jwks).expanduser()
    if written is not None and not path.is_absolute():
        path = Path(written.where).parent / path
    if not path.is_file():
        raise ConfigError(f"There is no file {str(path)!r}.", hint="[auth] jwks must be an address or a file of keys.")
    return path
