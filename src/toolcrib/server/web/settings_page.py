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
from toolcrib.core.offers import SecurityLevel
from toolcrib.server.answers import HttpAnswer
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.render import PageRoutes, Pages, go_on
from toolcrib.server.web.servers_page import shown_origin, shown_value
from toolcrib.server.web.words import clock, span
from toolcrib.stores.access_tokens import AccessToken, NewToken, TokenKind

ROUTES = PageRoutes()
ROWS = 200


@ROUTES.get("/settings")
async def _show(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    config, wanted, only_written = visit.served.project.config, visit.word("q").lower(), visit.query.get("all") != "yes"
    found = [one for one in explain(config) if wanted in one.setting.lower()]
    written = [one for one in found if one.origin != "default"]
    rows = written if only_written else found
    return pages.render(
        visit,
        "settings/configuration.html",
        rows=[(one.setting, shown_value(one.value), shown_origin(visit, one.origin)) for one in rows[:ROWS]],
        total=len(rows),
        defaults=len(found) - len(written),
        q=visit.query.get("q", ""),
        only_written=only_written,
        problems=config.problems,
    )


@ROUTES.get("/settings/policies")
async def _show_policies(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    return pages.render(visit, "settings/policies.html", **_policies(visit))


@ROUTES.post("/settings/policies")
async def _set_policy(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    fields = visit.form()
    pattern, policy = fields.get("pattern", "").strip(), fields.get("policy", "")
    problem = _wrong(pattern, policy)
    if not problem:
        try:
            await visit.view.set_policy(policy, pattern)
        except ToolcribError as error:
            problem = str(error)
    if problem:
        values = _policies(visit) | {"problem": problem, "pattern": pattern}
        return pages.render(visit, "settings/policies.html", status=422, **values)
    return go_on("/settings/policies", "policy", pattern)


@ROUTES.get("/settings/about")
async def _show_about(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    served, project = visit.served, visit.served.project
    return pages.render(
        visit,
        "settings/about.html",
        url=served.url,
        uptime=span(elapsed() - served.started_s),
        files=[(str(path), path in project.loaded.files) for path in project.paths()],
        lock="in the shared database" if project.config.store.url else str(project.loaded.lock or ""),
        directory=str(project.directory),
        audit=visit.view.audit_status(),
        edit_commands=served.edit_commands,
        needs_token=served.needs_token,
    )


def _wrong(pattern: str, policy: str) -> str:
    if not pattern or len(pattern) > 200 or not pattern.isprintable():
        return "Write the name of a tool or a server, or a pattern such as github__*."
    return "" if policy in tuple(Policy) else "Choose what shall happen."


def _policies(visit: PageRequest) -> dict[str, Any]:
    config = visit.served.project.config
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
        "file": visit.served.project.file,
    }


DAY_S = 86_400.0
LIFETIMES = {"7": "7 days", "30": "30 days", "90": "90 days", "365": "a year", "never": "never ends"}


@ROUTES.get("/settings/tokens")
async def _show_tokens(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    return await _page(pages, visit)


@ROUTES.post("/settings/tokens")
async def _create(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    visit.need_confirmed()
    fields = visit.form()
    try:
        token, text = await asyncio.to_thread(pages.tokens.create, _wish(fields, visit))
    except ToolcribError as error:
        return await _page(pages, visit, problem=str(error), fields=fields)
    await _note(visit, "created", token)
    return await _page(pages, visit, made=token, text=text)


@ROUTES.post("/settings/tokens/{id}/revoke")
async def _revoke(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    token = await asyncio.to_thread(pages.tokens.revoke, visit.params["id"])
    await _note(visit, "revoked", token)
    return go_on("/settings/tokens", "revoked", token.name)


async def _page(pages: Pages, visit: PageRequest, **values: Any) -> HttpAnswer:
    now = time.time()
    tokens = await asyncio.to_thread(pages.tokens.read)
    filled = {"made": None, "text": "", "problem": "", "fields": {}} | values
    return pages.render(
        visit,
        "settings/tokens.html",
        status=422 if filled["problem"] else 200,
        rows=[(token, token.state(now), scope_of(token), _end(token)) for token in reversed(tokens[-ROWS:])],
        levels=[level for level in SecurityLevel if may_operate(visit.caller, level)],
        lifetimes=LIFETIMES,
        needs_token=visit.served.needs_token,
        is_confirmed=visit.signed_in is None or visit.signed_in.is_confirmed,
        wanted="/settings/tokens",
        token_file=pages.token_file,
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
    grants = Grants(level, patterns(fields, "servers"), patterns(fields, "tools"))
    kind: TokenKind = "agent" if fields.get("kind") == "agent" else "token"
    name = fields.get("name", "").strip()
    return NewToken(name, grants, kind, None if lifetime == "never" else float(lifetime) * DAY_S)


def patterns(fields: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The patterns of a field, ``*`` for none."""
    return tuple(fields.get(name, "").replace(",", " ").split()) or ("*",)


async def _note(visit: PageRequest, decision: str, token: AccessToken) -> None:
    details = {"name": token.name, "id": token.id, "scope": scope_of(token)}
    await visit.view.note(AuditEntry("token", decision=decision, details=details))
