"""Tokens as commands show them."""

from datetime import UTC, datetime
from typing import Any

from toolcrib.stores.tokens import Token


def shown_scope(token: Token) -> str:
    """What a token may do, in a few words."""
    limits = {"servers": token.servers, "tools": token.tools, "capabilities": token.capabilities}
    written = (f"{name} {', '.join(values)}" for name, values in limits.items() if values not in (None, ("*",)))
    return "; ".join([f"tools up to {token.level}", *written])


def shown_expiry(token: Token) -> str:
    """When a token ends."""
    return "never" if token.expires is None else _moment(token.expires)[:16].replace("T", " ")


def token_entry(token: Token, now: float) -> dict[str, Any]:
    """A token as plain data, without its digest."""
    return {
        "id": token.id,
        "name": token.name,
        "kind": token.kind,
        "state": token.state(now),
        "level": token.level,
        "servers": list(token.servers),
        "tools": list(token.tools),
        "capabilities": None if token.capabilities is None else list(token.capabilities),
        "created": _moment(token.created),
        "expires": None if token.expires is None else _moment(token.expires),
        "revoked": None if token.revoked is None else _moment(token.revoked),
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
