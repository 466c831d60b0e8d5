"""The settings: what counts and where it was written, what may be called, where everything is."""

from typing import Any

from toolcrib.config.explain import explain
from toolcrib.config.security import POLICIES
from toolcrib.core.audit import AuditEntry
from toolcrib.core.clocks import elapsed
from toolcrib.core.errors import ToolcribError
from toolcrib.doors.http.answers import Answer
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.web.ledger import write_down
from toolcrib.doors.web.notices import go_on
from toolcrib.doors.web.render import Pages
from toolcrib.doors.web.servers_page import shown_origin, shown_value
from toolcrib.doors.web.words import span

ROWS = 200


def settings_routes(pages: Pages) -> list[RouteSpec]:
    """The pages, and the one form."""

    async def show(visit: Visit) -> Answer:
        visit.need_operator()
        return pages.render(visit, "settings/configuration.html", **_configuration(pages, visit))

    async def policies(visit: Visit) -> Answer:
        visit.need_operator()
        return pages.render(visit, "settings/policies.html", **_policies(pages))

    async def set_policy(visit: Visit) -> Answer:
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

    async def about(visit: Visit) -> Answer:
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
    return "" if policy in POLICIES else "Choose what shall happen."


def _configuration(pages: Pages, visit: Visit) -> dict[str, Any]:
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
        "policies": POLICIES,
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
