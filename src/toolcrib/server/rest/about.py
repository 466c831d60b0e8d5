"""A resource: its routes, each written with what the description says of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from toolcrib.server.router import Respond, RouteSpec

ROOT = "/api/v1"
TEXT: Mapping[str, Any] = {"type": "string"}


def count(default: int | None = None) -> Mapping[str, Any]:
    """The schema of a whole number in a query."""
    schema: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": 999_999_999}
    return schema if default is None else {**schema, "default": default}


def one_of(words: tuple[str, ...], **more: Any) -> Mapping[str, Any]:
    """The schema of one of these words."""
    return {"type": "string", "enum": list(words), **more}


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of the query or the path, or a header."""

    name: str
    about: str
    schema: Mapping[str, Any] = field(default_factory=lambda: TEXT)
    place: Literal["query", "header", "path"] = "query"


@dataclass(frozen=True, slots=True)
class About:
    """One route for whoever reads the description."""

    summary: str
    answer: Any = None
    """The type of the body of a good answer; ``None`` for one without a body."""
    detail: str = ""
    status: int = 200
    body: Any = None
    """The type of the request's body."""
    example: Any = None
    """A body that would do."""
    params: tuple[Param, ...] = ()
    problems: tuple[int, ...] = ()
    media: str = "application/json"
    is_open: bool = False
    """Whether it can be used without a token where MCP can."""


@dataclass(frozen=True, slots=True)
class Described:
    """What the description is made of: a route's own words, and the resource it belongs to."""

    resource: "RestResource"
    about: About


@dataclass(frozen=True, slots=True)
class RestResource:
    """One kind of thing over REST; ``rest/api`` lists them all."""

    name: str
    about: str
    places: Mapping[str, str] = field(default_factory=dict)
    """What the named parts of its paths are, beside ``name`` and ``id``."""
    routes: list[RouteSpec] = field(default_factory=list)

    def route(self, method: str, path: str, about: About) -> Callable[[Respond], Respond]:
        """Have a function answer this method and path."""

        def add(respond: Respond) -> Respond:
            self.routes.append(RouteSpec(method, ROOT + path, respond, Described(self, about)))
            return respond

        return add


class ProblemShape(msgspec.Struct, rename="camel"):
    """What went wrong and what to do about it (RFC 9457)."""

    title: str
    status: int
    code: str
    """Stable, for programs."""
    detail: str
    """For people."""
    type: str = "about:blank"
    retry_after_seconds: float | None = None
    retryable: bool | None = None
    execution_id: str | None = None
    """Under which the log and the audit log know the call."""
    trace_id: str | None = None
    """The trace it belongs to."""
    details: dict[str, Any] = {}
