"""The settings: what counts and where it was written, what may be called, where everything is."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from toolcrib.config.explain import explain
from toolcrib.core.access import Grants, may_operate
from toolcrib.core.audit import AuditEntry
from toolcrib.core.clocks import elapsed
from toolcrib.core.errors import CallerError, ToolcribError
from toolcrib.core.kinds import Policy
from toolcrib.core.tool import SecurityLevel
from toolcrib.server.answers import HttpAnswer
from toolcrib.server.router import RouteSpec
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.render import Pages, go_on, write_down
from toolcrib.server.web.servers_page import shown_origin, shown_value
from toolcrib.server.web.sign_in_page import shown_path
from toolcrib.server.web.words import clock, span
from toolcrib.stores.access_tokens import AccessToken, NewToken, TokenBook, TokenKind
from toolcrib.stores.paths import state_directory

ROWS = 200


def settings_routes(pages: Pages) -> list[RouteSpec]:
    """The pages, and the one form."""

    async def show(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        return pages.render(visit, "settings/configuration.html", **_configuration(pages, visit))

    async def policies(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        return pages.render(visit, "settings/policies.html", **_policies(pages))

    async def set_policy(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        fields = visit.form()
        pattern, policy = fields.get("pattern", "").strip(), fields.get("policy", "")
        problem = _wrong(pattern, policy)
        if not problem:
            try:
                await write_down(pages, visit, AuditEntry("policy", pattern, decision=policy))
                await pages.premises.project.set_policy(pattern, policy)
            except ToolcribError as error:
                problem = str(error)
        if problem:
            values = _policies(pages) | {"problem": problem, "pattern": pattern}
            return pages.render(visit, "settings/policies.html", status=422, **values)
        return go_on("/settings/policies", "policy", pattern)

    async def about(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        return pages.render(visit, "settings/about.html", **_about(pages))

    return [
        RouteSpec("GET", "/settings", show),
        RouteSpec("GET", "/settings/policies", policies),
        RouteSpec("POST", "/settings/policies", set_policy),
        RouteSpec("GET", "/settings/about", about),
    ]


def _wrong(pattern: str, policy: str) -> str:
    if not pattern or len(pattern) > 200 or not pattern.isprintable():
        return "Write the name of a tool or a server, or a pattern such as github__*."
    return "" if policy in tuple(Policy) else "Choose what shall happen."


def _configuration(pages: Pages, visit: PageRequest) -> dict[str, Any]:
    wanted, only_written = visit.query.get("q", "").strip().lower(), visit.query.get("all") != "yes"
    found = [one for one in explain(pages.premises.project.config) if wanted in one.setting.lower()]
    rows = [one for one in found if not only_written or one.origin != "default"]
    return {
        "rows": [(one.setting, shown_value(one.value), shown_origin(pages, one.origin)) for one in rows[:ROWS]],
        "total": len(rows),
        "defaults": len(found) - len([one for one in found if one.origin != "default"]),
        "q": visit.query.get("q", ""),
        "only_written": only_written,
        "problems": pages.premises.project.config.problems,
    }


def _policies(pages: Pages) -> dict[str, Any]:
    config = pages.premises.project.config
    servers = [(server.name, server.policy) for server in config.servers.values() if server.policy]
    tools = [
        (f"{server.name}__{name}", tool.policy)
        for server in config.servers.values()
        for name, tool in server.tools.items()
        if tool.policy
    ]
    return {
        "default": config.security.policy,
        "rows": [*config.security.policies.items(), *servers, *tools][:ROWS],
        "policies": tuple(Policy),
        "problem": "",
        "pattern": "",
        "file": pages.premises.project.file,
    }


def _about(pages: Pages) -> dict[str, Any]:
    premises = pages.premises
    project, audit = premises.project, premises.crib.audit.status()
    return {
        "url": premises.url,
        "uptime": span(elapsed() - premises.started_s),
        "files": [(str(path), path in project.loaded.files) for path in project.paths()],
        "lock": "in the shared database" if project.config.store.url else str(project.loaded.lock or ""),
        "directory": str(project.directory),
        "audit": audit,
        "edit_commands": premises.edit_commands,
        "needs_token": premises.needs_token,
    }


DAY_S = 86_400.0
LIFETIMES = {"7": "7 days", "30": "30 days", "90": "90 days", "365": "a year", "never": "never ends"}
TOKEN_ROWS = 200


def token_routes(pages: Pages) -> list[RouteSpec]:
    """The page, and its forms."""
    kept = pages.tokens

    async def show(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        return await _page(pages, visit, kept)

    async def create(visit: PageRequest) -> HttpAnswer:
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

    async def revoke(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        token = await asyncio.to_thread(kept.revoke, visit.params["id"])
        await _note(pages, visit, "revoked", token)
        return go_on("/settings/tokens", "revoked", token.name)

    return [
        RouteSpec("GET", "/settings/tokens", show),
        RouteSpec("POST", "/settings/tokens", create),
        RouteSpec("POST", "/settings/tokens/{id}/revoke", revoke),
    ]


async def _page(pages: Pages, visit: PageRequest, kept: TokenBook, **values: Any) -> HttpAnswer:
    now = time.time()
    tokens = await asyncio.to_thread(kept.read)
    filled = {"made": None, "text": "", "problem": "", "fields": {}} | values
    return pages.render(
        visit,
        "settings/tokens.html",
        status=422 if filled["problem"] else 200,
        rows=[(token, token.state(now), scope_of(token), _end(token)) for token in reversed(tokens[-TOKEN_ROWS:])],
        levels=[level for level in SecurityLevel if may_operate(visit.caller, level)],
        lifetimes=LIFETIMES,
        needs_token=pages.premises.needs_token,
        is_confirmed=visit.signed_in is None or visit.signed_in.is_confirmed,
        wanted="/settings/tokens",
        token_file=shown_path(pages, state_directory(pages.premises.project.around.env) / "token"),
        **filled,
    )


def scope_of(token: AccessToken) -> str:
    """What a token may reach, in a few words."""
    limits = {"servers": token.servers, "tools": token.tools, "capabilities": token.capabilities}
    written = (f"{name} {', '.join(values)}" for name, values in limits.items() if values not in (None, ("*",)))
    return "; ".join(written) or "all servers and tools"


def _end(token: AccessToken) -> str:
    return "never" if token.expires is None else clock(token.expires)


def _wish(fields: Mapping[str, str], visit: PageRequest) -> NewToken:
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
    return NewToken(name, grants, kind, None if lifetime == "never" else float(lifetime) * DAY_S)


def _patterns(fields: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(fields.get(name, "").replace(",", " ").split()) or ("*",)


async def _note(pages: Pages, visit: PageRequest, decision: str, token: AccessToken) -> None:
    details = {"name": token.name, "id": token.id, "scope": scope_of(token)}
    await write_down(pages, visit, AuditEntry("token", decision=decision, details=details))
