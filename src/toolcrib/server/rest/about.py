"""What the description says of a route: small frozen values beside the route itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

TEXT: Mapping[str, Any] = {"type": "string"}


def count(default: int | None = None) -> Mapping[str, Any]:
    """The schema of a whole number in a query."""
    schema: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": 999_999_999}
    return schema if default is None else {**schema, "default": default}


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of the query, or a header."""

    name: str
    about: str
    schema: Mapping[str, Any] = field(default_factory=lambda: TEXT)
    place: Literal["query", "header"] = "query"


@dataclass(frozen=True, slots=True)
class About:
    """One route for whoever reads the description."""

    summary: str
    tag: str
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


class ProblemShape(msgspec.Struct, rename={"retry_after_seconds": "retryAfterSeconds", "execution_id": "executionId"}):
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
    details: dict[str, Any] = {}
