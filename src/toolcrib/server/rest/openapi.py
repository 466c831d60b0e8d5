"""The description of the REST door as OpenAPI 3.1, made of the routes themselves."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from toolcrib.server.answers import HTML, JSON, TITLES, HttpAnswer
from toolcrib.server.identity.sign_in import COOKIE
from toolcrib.server.rest.about import About, Param, ProblemShape
from toolcrib.server.router import RouteSpec
from toolcrib.server.visit import PageRequest
from toolcrib.version import VERSION

REFS = "#/components/schemas/{name}"
PROBLEM = "application/problem+json"
INTRODUCTION = """\
Everything toolcrib does, for programs. Whoever comes without a token (where MCP needs none) can list and call tools;
everything else needs `Authorization: Bearer <token>`. What a token sees is what it was granted; looking after toolcrib
needs one for everything, from level `admin` on. Errors are problem details (RFC 9457) with a stable `code`."""

TAGS = {
    "tools": "What there is, and calling it.",
    "servers": "The MCP servers behind it.",
    "projects": "Directories with a configuration of their own, as their files tell.",
    "sessions": "Agents at work in a project.",
    "policies": "What may be called, what is asked about, what is refused.",
    "pins": "Tools in quarantine because they changed.",
    "approvals": "Questions for people, and their answers.",
    "calls": "Calls under way, and the last that ended.",
    "events": "News as they happen.",
    "audit": "What was done, and by whom.",
    "state": "How toolcrib is doing.",
    "sign-in": "The way to the page.",
    "description": "This description.",
}
PLACES = {
    "name": "its name, as the list shows it",
    "tool": "the name of a tool",
    "caller": "the id of a caller",
    "id": "its id, as the list shows it",
    "pattern": "a tool, a server, or a pattern such as `*__delete_*`",
}
ALWAYS = (400, 401, 413)
_NAME = re.compile(r"{(\w+)}")


def describe(routes: Sequence[RouteSpec]) -> dict[str, Any]:
    """The whole document."""
    described = [route for route in routes if isinstance(route.about, About)]
    types = [kind for route in described for kind in (route.about.body, route.about.answer) if kind is not None]
    schemas, parts = msgspec.json.schema_components([*types, ProblemShape], ref_template=REFS)
    by_type = dict(zip(map(id, [*types, ProblemShape]), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in described:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, route.about, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "toolcrib",
            "version": VERSION,
            "summary": "One tool layer for AI agents.",
            "description": INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "this toolcrib"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {"schemas": parts, "securitySchemes": SCHEMES},
    }


SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "From `toolcrib tokens create`, or the owner's.",
    },
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": "A browser that is signed in to the page; changes need the page's word in `X-CSRF` as well.",
    },
}


def _operation(route: RouteSpec, about: About, schemas: Mapping[int, Any]) -> dict[str, Any]:
    known: list[dict[str, list[str]]] = [{"bearer": []}, {"cookie": []}]
    described = {
        "operationId": _operation_id(route),
        "summary": about.summary,
        "tags": [about.tag],
        "security": [{}, *known] if about.is_open else known,
        "parameters": [*_path_parameters(route.path), *map(_parameter, about.params)],
        "responses": _responses(about, schemas),
    }
    if about.detail:
        described["description"] = about.detail
    if about.body is not None:
        content: dict[str, Any] = {"schema": schemas[id(about.body)]}
        if about.example is not None:
            content["example"] = about.example
        described["requestBody"] = {"required": True, "content": {"application/json": content}}
    return described


def _operation_id(route: RouteSpec) -> str:
    words = [word.strip("{}") for word in route.path.split("/")[3:]]
    return "_".join([route.method.lower(), *words]).replace("-", "_").replace(".", "_")


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PLACES[name],
            "schema": {"type": "string", "minLength": 1},
        }
        for name in _NAME.findall(path)
    ]


def _parameter(param: Param) -> dict[str, Any]:
    return {
        "name": param.name,
        "in": param.place,
        "required": False,
        "description": param.about,
        "schema": param.schema,
    }


def _responses(about: About, schemas: Mapping[int, Any]) -> dict[str, Any]:
    good: dict[str, Any] = {"description": "Done." if about.answer is None else "As asked for."}
    if about.answer is not None:
        good["content"] = {about.media: {"schema": schemas[id(about.answer)]}}
    return {
        str(about.status): good,
        **{str(status): _problem(TITLES[status], schemas) for status in _statuses(about)},
        "default": _problem("Anything else that went wrong", schemas),
    }


def _statuses(about: About) -> Iterable[int]:
    return sorted({*ALWAYS, *about.problems})


def _problem(description: str, schemas: Mapping[int, Any]) -> dict[str, Any]:
    return {"description": description, "content": {PROBLEM: {"schema": schemas[id(ProblemShape)]}}}


PATH = "/api/v1/openapi.json"
REFERENCE = "/api/v1/reference"
_KEEP = ((b"cache-control", b"no-cache"), (b"x-content-type-options", b"nosniff"))


def description_routes(routes: Callable[[], Sequence[RouteSpec]]) -> list[RouteSpec]:
    """The routes of the description; ``routes`` are those it describes, itself among them."""

    @cache
    def document() -> dict[str, Any]:
        # only whoever reads it needs it

        return describe(routes())

    @cache
    def encoded() -> bytes:
        return msgspec.json.encode(document())

    @cache
    def page() -> tuple[bytes, bytes]:
        from toolcrib.server.rest.reference import POLICY, render

        return render(document()).encode(), POLICY.encode()

    async def read(visit: PageRequest) -> HttpAnswer:
        del visit
        return HttpAnswer(200, encoded(), JSON, _KEEP)

    async def show(visit: PageRequest) -> HttpAnswer:
        del visit
        body, policy = page()
        return HttpAnswer(
            200, body, HTML, (*_KEEP, (b"content-security-policy", policy), (b"referrer-policy", b"no-referrer"))
        )

    about = About("Read the OpenAPI description", "description", dict[str, Any], is_open=True)
    shown = About("Read the reference", "description", str, media="text/html", is_open=True)
    return [RouteSpec("GET", PATH, read, about), RouteSpec("GET", REFERENCE, show, shown)]
