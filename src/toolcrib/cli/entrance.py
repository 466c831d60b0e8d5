"""Who may come in: whether a token is needed at all, which ones count, and as whom the others come."""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.cli.callers import NOBODY, OWNER, PERSON, Callers, local_caller
from toolcrib.cli.invoke import Options, Parser
from toolcrib.cli.tokens import FoundToken, given_token, is_loopback, kept_token, token_path
from toolcrib.config.model import Config
from toolcrib.config.sections import AuthConfig
from toolcrib.core.access import Caller
from toolcrib.core.errors import ConfigError
from toolcrib.core.events import Emit
from toolcrib.core.tool import SecurityLevel
from toolcrib.crib.backend import find_tokens
from toolcrib.server.identity.run_proof import PREFIX, RunProof
from toolcrib.server.identity.sign_in import SignIns, Tokens
from toolcrib.server.mcp.http import IsCurrent, always
from toolcrib.stores.access_tokens import TokenBook
from toolcrib.transports.http.guard import Identify

if TYPE_CHECKING:
    from toolcrib.server.identity.jwt import JwtGate, KeyRing


@dataclass(frozen=True, slots=True)
class Here:
    """What surrounds a start: the environment, the time, and who wants to hear of trouble."""

    env: Mapping[str, str]
    now: Callable[[], float]
    clock: Callable[[], float]
    """Seconds that never go back."""
    emit: Emit


@dataclass(frozen=True, slots=True)
class Entrance:
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
    """Whether somebody who came in goes on with what is under way."""
    owner: FoundToken | None = None
    keys: "KeyRing | None" = None
    """To be kept fresh by whoever serves."""
    tokens: TokenBook | None = None
    """Those that were given to others; to be followed by whoever serves."""


def admit_proven(entrance: Entrance, proof: RunProof) -> Entrance:
    """The same, and whoever can read the run file is the owner."""

    def by_token(presented: bytes) -> object | None:
        proven = proof.identify(presented) if presented.startswith(PREFIX) else None
        return proven or entrance.by_token(presented)

    return replace(entrance, by_token=by_token, identify=None if entrance.identify is None else by_token)


def add_access(parser: Parser) -> None:
    """The options that limit whoever comes without a token."""
    limits = parser.add_argument_group("callers without a token")
    limits.add_argument(
        "--level", choices=list(SecurityLevel), help="the furthest-reaching tools they may use [system]"
    )
    limits.add_argument("--only", action="append", metavar="PATTERN", help="tools they may use (repeatable) [*]")
    limits.add_argument("--agent", action="store_true", help="they are agents, which cannot approve their own calls")


def access_flags(options: Options) -> dict[str, object]:
    """The limits given on the command line, by their names in the file."""
    given = {"access.level": options.level, "access.tools": options.only}
    return {name: value for name, value in given.items() if value is not None}


def make_entrance(config: Config, options: Options, here: Here) -> Entrance:
    """Decide who may come in; what would leave a door open by mistake is an error."""
    given = given_token(options.token, here.env)
    kept = find_tokens(config, here.env, here.now)
    if config.auth_mode == "none":
        _check_open(config, given, is_allowed=options.insecure)
    if not _is_needed(config, given, kept):
        return replace(_open_entrance(local_caller(config.access, is_agent=options.agent), here), tokens=kept)
    kept.read()  # one that cannot be used is told now, not to the first client
    owner = given or kept_token(token_path(here.env))
    gate, keys = _jwt(config, here) if _has_issuer(config.auth) else (None, None)
    callers = Callers(owner.value, kept, gate, here.now)
    tokens = Tokens(callers.identify, callers.is_current, callers.may_stay)
    sign_ins = SignIns(PERSON, lambda: owner.value, tokens, here.clock)
    return Entrance(NOBODY, sign_ins, callers.identify, callers.identify, callers.may_stay, owner, keys, kept)


def asks_for_token(config: Config, env: Mapping[str, str], now: Callable[[], float]) -> bool:
    """Whether clients of a toolcrib that serves this need a token."""
    return _is_needed(config, given_token(None, env), find_tokens(config, env, now))


def _open_entrance(caller: Caller, here: Here) -> Entrance:
    """Nobody needs a token to list and call; to look after toolcrib, the owner's is needed all the same."""

    def owner_token() -> str:
        return kept_token(token_path(here.env)).value

    def identify(presented: bytes) -> Caller | None:
        return OWNER if hmac.compare_digest(presented, owner_token().encode()) else None

    return Entrance(caller, SignIns(PERSON, owner_token, Tokens(identify, always, always), here.clock), identify)


def _is_needed(config: Config, given: FoundToken | None, kept: TokenBook) -> bool:
    """Tokens that were revoked or have expired count as well: ending the last one must not open the door."""
    if config.auth_mode != "auto":
        return config.auth_mode == "required"
    return bool(not is_loopback(config.host) or given or _has_issuer(config.auth) or kept.read())


def _check_open(config: Config, given: FoundToken | None, *, is_allowed: bool) -> None:
    if given is not None or _has_issuer(config.auth):
        asks = given.origin if given is not None else "[auth]"
        raise ConfigError(
            f'[serve] auth is "none", but {asks} asks for tokens.', hint="Remove one of the two; nothing is served now."
        )
    if not is_loopback(config.host) and not is_allowed:
        raise ConfigError(
            f"Without tokens, everybody who reaches {config.host} could use every tool.",
            hint='Set [serve] auth to "auto", listen on 127.0.0.1, or say --insecure if that is what you want.',
        )


def _has_issuer(auth: AuthConfig) -> bool:
    """Whether JWTs are wanted; half of what that needs is an error."""
    needed = {"issuer": auth.issuer, "audience": auth.audience, "jwks": auth.jwks}
    missing = [name for name, value in needed.items() if not value]
    if missing and len(missing) < len(needed):
        raise ConfigError(f"[auth] lacks {' and '.join(missing)}.", hint="JWTs need issuer, audience and jwks.")
    return not missing


def _jwt(config: Config, here: Here) -> "tuple[JwtGate, KeyRing]":
    from toolcrib.server.identity.jwt import JwtGate, JwtPolicy, KeyRing, fetch_from, read_from, require_joserfc

    require_joserfc()
    auth = config.auth
    keys = KeyRing(fetch_from(auth.jwks) if "://" in auth.jwks else read_from(_key_file(config)), here.emit, here.clock)
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
