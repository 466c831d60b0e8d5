"""The description of the REST door as OpenAPI 3.1, made of the routes themselves."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from toolcrib.server.answers import HTML, JSON, TITLES, HttpAnswer
from toolcrib.server.identity.sign_in import COOKIE
from toolcrib.server.rest.about import About, Described, Param, ProblemShape, RestResource
from toolcrib.server.rest.reference import render
from toolcrib.server.router import RouteSpec
from toolcrib.server.visit import PageRequest
from toolcrib.version import VERSION

REFS = "#/components/schemas/{name}"
PROBLEM = "application/problem+json"
INTRODUCTION = """\
Everything toolcrib does, for programs. Whoever comes without a token (where MCP needs none) can list and call tools;
everything else needs `Authorization: Bearer <token>`. What a token sees is what it was granted; looking after toolcrib
needs one for everything, from level `admin` on. Errors are problem details (RFC 9457) with a stable `code`."""

PLACES = {"name": "its name, as the list shows it", "id": "its id, as the list shows it"}
ALWAYS = (400, 401, 413)
_NAME = re.compile(r"{(\w+)}")


def describe(routes: Sequence[RouteSpec]) -> dict[str, Any]:
    """The whole document."""
    described = [(route, route.about) for route in routes if isinstance(route.about, Described)]
    types = [kind for _, told in described for kind in (told.about.body, told.about.answer) if kind is not None]
    schemas, parts = msgspec.json.schema_components([*types, ProblemShape], ref_template=REFS)
    by_type = dict(zip(map(id, [*types, ProblemShape]), schemas, strict=True))
    tags = {told.resource.name: told.resource.about for _, told in described}
    paths: dict[str, dict[str, Any]] = {}
    for route, told in described:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, told, by_type)
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
        "tags": [{"name": name, "description": text} for name, text in tags.items()],
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


def _operation(route: RouteSpec, told: Described, schemas: Mapping[int, Any]) -> dict[str, Any]:
    about = told.about
    known: list[dict[str, list[str]]] = [{"bearer": []}, {"cookie": []}]
    described = {
        "operationId": _operation_id(route),
        "summary": about.summary,
        "tags": [told.resource.name],
        "security": [{}, *known] if about.is_open else known,
        "parameters": [_parameter(param) for param in (*_path_parameters(route.path, told.resource), *about.params)],
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


def _path_parameters(path: str, resource: RestResource) -> list[Param]:
    places, schema = {**PLACES, **resource.places}, {"type": "string", "minLength": 1}
    return [Param(name, places[name], schema, "path") for name in _NAME.findall(path)]


def _parameter(param: Param) -> dict[str, Any]:
    return {
        "name": param.name,
        "in": param.place,
        "required": param.place == "path",
        "description": param.about,
        "schema": param.schema,
    }


def _responses(about: About, schemas: Mapping[int, Any]) -> dict[str, Any]:
    good: dict[str, Any] = {"description": "Done." if about.answer is None else "As asked for."}
    if about.answer is not None:
        good["content"] = {about.media: {"schema": schemas[id(about.answer)]}}
    return {
        str(about.status): good,
        **{str(status): _problem(TITLES[status], schemas) for status in sorted({*ALWAYS, *about.problems})},
        "default": _problem("Anything else that went wrong", schemas),
    }


def _problem(description: str, schemas: Mapping[int, Any]) -> dict[str, Any]:
    return {"description": description, "content": {PROBLEM: {"schema": schemas[id(ProblemShape)]}}}


_KEEP = ((b"cache-control", b"no-cache"), (b"x-content-type-options", b"nosniff"))


def description_routes(routes: Callable[[], Sequence[RouteSpec]]) -> list[RouteSpec]:
    """The routes of the description; ``routes`` are those it describes, itself among them."""
    resource = RestResource("description", "This description.")

    @cache  # only whoever reads it needs it
    def document() -> dict[str, Any]:
        return describe(routes())

    @cache
    def encoded() -> bytes:
        return msgspec.json.encode(document())

    @cache
    def page() -> HttpAnswer:
        body, policy = render(document())
        kept = (*_KEEP, (b"content-security-policy", policy), (b"referrer-policy", b"no-referrer"))
        return HttpAnswer(200, body, HTML, kept)

    @resource.route("GET", "/openapi.json", About("Read the OpenAPI description", dict[str, Any], is_open=True))
    async def read(_: PageRequest) -> HttpAnswer:
        return HttpAnswer(200, encoded(), JSON, _KEEP)

    @resource.route("GET", "/reference", About("Read the reference", str, media="text/html", is_open=True))
    async def show(_: PageRequest) -> HttpAnswer:
        return await asyncio.to_thread(page)  # the first time it is compiled, which would hold up every call

    return resource.routes
