"""Tokens: which there are, a new one (shown once), and the end of one."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from toolcrib.core.access import Grants, may_operate
from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import CallerError, ToolcribError
from toolcrib.core.tool import SecurityLevel
from toolcrib.doors.http.answers import Answer
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.web.ledger import write_down
from toolcrib.doors.web.notices import go_on
from toolcrib.doors.web.render import Pages
from toolcrib.doors.web.sign_in_page import shown_path
from toolcrib.doors.web.words import clock
from toolcrib.stores.paths import state_directory
from toolcrib.stores.tokens import Token, TokenBook, TokenKind, TokenWish

DAY_S = 86_400.0
LIFETIMES = {"7": "7 days", "30": "30 days", "90": "90 days", "365": "a year", "never": "never ends"}
ROWS = 200


def token_routes(pages: Pages) -> list[RouteSpec]:
    """The page, and its forms."""
    kept = pages.tokens

    async def show(visit: Visit) -> Answer:
        visit.need_operator()
        return await _page(pages, visit, kept)

    async def create(visit: Visit) -> Answer:
        visit.need_operator()
        visit.need_confirmed()
        fields = visit.form()
        try:
            wish = _wish(fields, visit)
            token, text = await asyncio.to_thread(kept.create, wish)
        except ToolcribError as error:
            return await _page(pages, visit, kept, problem=str(error), fields=fields)
        await _note(pages, visit, "created", token)
        return await _page(pages, visit, kept, made=token, text=text)

    async def revoke(visit: Visit) -> Answer:
        visit.need_operator()
        token = await asyncio.to_thread(kept.revoke, visit.params["id"])
        await _note(pages, visit, "revoked", token)
        return go_on("/settings/tokens", "revoked", token.name)

    return [
        RouteSpec("GET", "/settings/tokens", show),
        RouteSpec("POST", "/settings/tokens", create),
        RouteSpec("POST", "/settings/tokens/{id}/revoke", revoke),
    ]


async def _page(pages: Pages, visit: Visit, kept: TokenBook, **values: Any) -> Answer:
    now = time.time()
    tokens = await asyncio.to_thread(kept.read)
    filled = {"made": None, "text": "", "problem": "", "fields": {}} | values
    return pages.render(
        visit,
        "settings/tokens.html",
        status=422 if filled["problem"] else 200,
        rows=[(token, token.state(now), scope_of(token), _end(token)) for token in reversed(tokens[-ROWS:])],
        levels=[level for level in SecurityLevel if may_operate(visit.caller, level)],
        lifetimes=LIFETIMES,
        needs_token=pages.premises.needs_token,
        is_confirmed=visit.signed_in is None or visit.signed_in.is_confirmed,
        wanted="/settings/tokens",
        token_file=shown_path(pages, state_directory(pages.premises.project.around.env) / "token"),
        **filled,
    )


def scope_of(token: Token) -> str:
    """What a token may reach, in a few words."""
    limits = {"servers": token.servers, "tools": token.tools, "capabilities": token.capabilities}
    written = (f"{name} {', '.join(values)}" for name, values in limits.items() if values not in (None, ("*",)))
    return "; ".join(written) or "all servers and tools"


def _end(token: Token) -> str:
    return "never" if token.expires is None else clock(token.expires)


def _wish(fields: Mapping[str, str], visit: Visit) -> TokenWish:
    """What a new token is to be; nobody gives away more than they have."""
    level = next((level for level in SecurityLevel if level == fields.get("level")), None)
    if level is None or not may_operate(visit.caller, level):
        raise CallerError("Choose a level that you have yourself.")
    lifetime = fields.get("lifetime", "90")
    if lifetime not in LIFETIMES:
        raise CallerError("Choose how long it shall work.")
    grants = Grants(level, _patterns(fields, "servers"), _patterns(fields, "tools"))
    kind: TokenKind = "agent" if fields.get("kind") == "agent" else "token"
    name = fields.get("name", "").strip()
    return TokenWish(name, grants, kind, None if lifetime == "never" else float(lifetime) * DAY_S)


def _patterns(fields: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(fields.get(name, "").replace(",", " ").split()) or ("*",)


async def _note(pages: Pages, visit: Visit, decision: str, token: Token) -> None:
    details = {"name": token.name, "id": token.id, "scope": scope_of(token)}
    await write_down(pages, visit, AuditEntry("token", decision=decision, details=details))
