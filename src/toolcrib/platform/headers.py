"""Headers and tokens of what goes to the platform and its servers."""

import base64
import binascii
import inspect
import json
import math
import platform
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from toolcrib.config.manifest import ManifestEntry
from toolcrib.core.errors import CallerError
from toolcrib.version import VERSION

REQUIRED = "Authentication token is required"
NOT_A_JWT = "Invalid JWT token format"
UNREADABLE = "Failed to decode JWT token payload"
EXPIRED = "Authentication token has expired"
NO_EXPIRY = "Authentication token does not contain expiration claim"
NOT_YET = "Authentication token is not valid yet"
CLOCK_SKEW_S = 30.0
"""How far the clocks of this machine and of the issuer may be apart."""

PLATFORM_APP = "ea9ffc3e-8a23-4a7d-836d-234d7c7565c1"
"""The application that stands for the platform itself, as an audience."""
SHARED_VARIABLE = "BEARER_TOKEN"

_SENDABLE = re.compile(r"[!-~]+")


class InvalidToken(CallerError):
    """A token that cannot be used; the messages are part of the platform's contract, so nothing is put behind them."""


def check_token(token: str | None, *, now: float | None = None, skew_s: float = CLOCK_SKEW_S) -> Mapping[str, Any]:
    """The claims of a token that can be sent; its signature is for whoever receives it to check."""
    if token is None or not token.strip():
        raise InvalidToken(REQUIRED)
    claims = read_claims(token)
    moment = time.time() if now is None else now
    expires, begins = _moment(claims.get("exp")), _moment(claims.get("nbf"))
    if expires is None:
        raise InvalidToken(NO_EXPIRY)
    if expires + skew_s < moment:
        raise InvalidToken(EXPIRED)
    if begins is not None and begins - skew_s > moment:
        raise InvalidToken(NOT_YET)
    return claims


def read_claims(token: str) -> Mapping[str, Any]:
    """What a token says of itself, unproven."""
    parts = token.split(".")
    if len(parts) != 3 or not _SENDABLE.fullmatch(token):
        raise InvalidToken(NOT_A_JWT)
    try:
        padded = parts[1].rstrip("=") + "=" * (-len(parts[1].rstrip("=")) % 4)
        claims = json.loads(base64.b64decode(padded.translate(_STANDARD), validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise InvalidToken(UNREADABLE) from None
    if not isinstance(claims, dict):
        raise InvalidToken(UNREADABLE)
    return claims


def check_opaque(token: str) -> str:
    """A token of any other kind, if a header can carry it."""
    if token and not _SENDABLE.fullmatch(token):
        raise InvalidToken("Authentication token contains characters that a header cannot carry")
    return token


_STANDARD = str.maketrans("-_", "+/")


def _moment(value: object) -> float | None:
    """Seconds since 1970, if a claim says so."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


TokenSource = Callable[[ManifestEntry, str], Awaitable[str | None] | str | None]
"""From a server and the scope its token must be made for to that token, or ``None`` for no token of its own."""


@dataclass(frozen=True, slots=True)
class TokenPlan:
    """Which server gets which token: its own, else the one it came with, else the shared one if that is made for it."""

    shared: str = field(default="", repr=False)
    home: str = ""
    """The address the shared token is for; empty if it is for all servers of the platform, wherever they are."""
    own: TokenSource | None = None


def own_scope(entry: ManifestEntry) -> str:
    """What a token for this server alone must be made for; empty if the platform's own token is the right one."""
    audience = entry.audience.removeprefix("api://")
    if not audience or audience.lower() == PLATFORM_APP:
        return ""
    return f"{entry.audience}/{entry.scope or '.default'}"


async def authorisation_of(entry: ManifestEntry, url: str, plan: TokenPlan) -> tuple[str, str]:
    """The ``Authorization`` of a server, and why there is none if there is none."""
    scope = own_scope(entry)
    own = plan.own(entry, scope) if plan.own is not None else None
    own = await own if inspect.isawaitable(own) else own
    if own:
        return f"Bearer {own}", ""
    if written := next((value for key, value in entry.headers.items() if key.lower() == "authorization"), ""):
        return written, ""
    if scope:
        return "", f"it needs a token of its own, for {scope}"
    if not plan.shared:
        return "", ""
    if plan.home and not is_same_host(plan.home, url):
        return "", "it is at another host than the platform, which the platform's token is not for"
    return f"Bearer {plan.shared}", ""


def is_same_host(home: str, url: str) -> bool:
    """Whether what is sent to the one may be sent to the other: same host, and not in the clear instead of over TLS."""
    one, other = urlsplit(home), urlsplit(url)
    return one.hostname == other.hostname and other.scheme in ("https", one.scheme)


def variable_for(entry: ManifestEntry) -> str:
    """The variable that holds the token of one server in development."""
    return f"{SHARED_VARIABLE}_{re.sub(r'[^A-Z0-9]', '_', entry.name.upper())}"


AUTHORIZATION = "Authorization"
CHANNEL_ID = "x-ms-channel-id"
SUBCHANNEL_ID = "x-ms-subchannel-id"
USER_AGENT = "User-Agent"
AGENT_ID = "x-ms-agentid"
CORRELATION_ID = "x-ms-correlation-id"

_APP_CLAIMS = ("xms_par_app_azp", "appid", "azp")
_UNFIT = re.compile(r"[^ -~]|[();]")
VALUE_MAX = 256


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """The turn of a conversation a request is made in; what is not known is empty."""

    channel_id: str = ""
    subchannel_id: str = ""
    agent_id: str = ""
    correlation_id: str = ""
    conversation_id: str = ""
    message_id: str = ""
    text: str = ""


def turn_of(context: object) -> ConversationTurn:
    """The turn behind a hosting framework's turn context, its activity, or the same as plain data."""
    if context is None or isinstance(context, ConversationTurn):
        return context or ConversationTurn()
    activity = _look(context, "activity") or context
    channel = _look(activity, "channel_id", "channelId")
    name, _, within = str(_look(channel, "channel") or channel or "").partition(":")
    sub = _look(channel, "sub_channel") or _look(activity, "sub_channel", "channelIdSubChannel", "subChannel")
    recipient = _look(activity, "recipient")
    return ConversationTurn(
        channel_id=name,
        subchannel_id=str(sub or within),
        agent_id=str(_look(recipient, "agentic_app_blueprint_id", "agenticAppBlueprintId") or ""),
        correlation_id=str(_look(activity, "id") or ""),
        conversation_id=str(_look(_look(activity, "conversation"), "id") or ""),
        message_id=str(_look(activity, "id") or ""),
        text=str(_look(activity, "text") or ""),
    )


def _look(thing: object, *names: str) -> Any:
    if isinstance(thing, str) or thing is None:
        return None
    for name in names:
        found = thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
        if found:
            return found
    return None


def user_agent(orchestrator: str = "") -> str:
    """Who asks: toolcrib, where it runs, and the orchestrator it works for."""
    parts = (platform.system(), f"Python {platform.python_version()}", as_value(_UNFIT.sub("", orchestrator)))
    return f"toolcrib/{VERSION} ({'; '.join(filter(None, parts))})"


def as_value(text: str) -> str:
    """A text as a header can carry it."""
    return re.sub(r"[^ -~]", "", text).strip()[:VALUE_MAX]


def channel_headers(turn: ConversationTurn, orchestrator: str = "") -> dict[str, str]:
    """Where the conversation takes place, and who asks; without a token."""
    known = {CHANNEL_ID: turn.channel_id, SUBCHANNEL_ID: turn.subchannel_id}
    return {name: as_value(value) for name, value in known.items() if as_value(value)} | {
        USER_AGENT: user_agent(orchestrator)
    }


def compose_headers(
    token: str, turn: ConversationTurn | None = None, orchestrator: str = "", application: str = ""
) -> dict[str, str]:
    """All headers of a request to the platform."""
    known = turn or ConversationTurn()
    headers = {AUTHORIZATION: f"Bearer {token}"} if token else {}
    headers |= channel_headers(known, orchestrator)
    if agent := as_value(known.agent_id or _app_of(token) or application):
        headers[AGENT_ID] = agent
    return headers | {CORRELATION_ID: as_value(known.correlation_id) or str(uuid.uuid4())}


def _app_of(token: str) -> str:
    """The application a token was made for, if it says so."""
    try:
        claims = read_claims(token)
    except InvalidToken:
        return ""
    return next((str(claims[name]) for name in _APP_CLAIMS if isinstance(claims.get(name), str)), "")
