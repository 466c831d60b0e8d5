"""The headers of everything that goes to the platform and its servers, composed in this one place."""

import platform
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.platform.tokens import InvalidToken, read_claims
from toolcrib.version import VERSION

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
class Turn:
    """The turn of a conversation a request is made in; what is not known is empty."""

    channel_id: str = ""
    subchannel_id: str = ""
    agent_id: str = ""
    correlation_id: str = ""
    conversation_id: str = ""
    message_id: str = ""
    text: str = ""


def turn_of(context: object) -> Turn:
    """The turn behind a hosting framework's turn context, its activity, or the same as plain data."""
    if context is None or isinstance(context, Turn):
        return context or Turn()
    activity = _look(context, "activity") or context
    channel = _look(activity, "channel_id", "channelId")
    name, _, within = str(_look(channel, "channel") or channel or "").partition(":")
    sub = _look(channel, "sub_channel") or _look(activity, "sub_channel", "channelIdSubChannel", "subChannel")
    recipient = _look(activity, "recipient")
    return Turn(
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


def channel_headers(turn: Turn, orchestrator: str = "") -> dict[str, str]:
    """Where the conversation takes place, and who asks; without a token."""
    known = {CHANNEL_ID: turn.channel_id, SUBCHANNEL_ID: turn.subchannel_id}
    return {name: as_value(value) for name, value in known.items() if as_value(value)} | {
        USER_AGENT: user_agent(orchestrator)
    }


def compose_headers(
    token: str, turn: Turn | None = None, orchestrator: str = "", application: str = ""
) -> dict[str, str]:
    """All headers of a request to the platform."""
    known = turn or Turn()
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
