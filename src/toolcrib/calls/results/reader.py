"""The tool that reads kept results: the same for every door, and only for the caller the result was made for."""

import asyncio
from typing import Any, Protocol

from toolcrib.calls.results.document import ResultDocument
from toolcrib.calls.results.reading import ReadRequest, answer
from toolcrib.core.errors import InvalidArguments
from toolcrib.core.requests import Request

DESCRIPTION = (
    "Read more of a large result that was shown as a preview: by line, by offset (characters, or items of an array), "
    "by words (search), or by path into its JSON (rows[*].id; $ is the whole result)."
)
_NUMBER = {"type": "integer"}
INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "handle": {"type": "string"},
        "line": _NUMBER,
        "count": _NUMBER,
        "offset": _NUMBER,
        "length": _NUMBER,
        "search": {"type": "string"},
        "path": {"type": "string"},
    },
    "required": ["handle"],
    "additionalProperties": False,
}


class ResultShelf(Protocol):
    """Where kept results are found again."""

    async def read(self, handle: str, caller: str) -> bytes | None:
        """The whole result, if this caller may have it."""


class ResultReader:
    """Answers ``result_read``."""

    def __init__(self, results: ResultShelf, limit: int) -> None:
        self._results, self._limit = results, limit

    async def read(self, call: Request, handle: str, **part: Any) -> list[dict[str, Any]]:
        """One part of a kept result, as content blocks."""
        raw = await self._results.read(handle, call.caller.id)
        if raw is None:
            raise InvalidArguments(
                f"There is no kept result {handle[:60]!r}.",
                hint="Results are kept for a while, and only for whoever called. Call the tool again.",
            )
        return await asyncio.to_thread(_answer, raw, self._limit, handle, part)


def _answer(raw: bytes, limit: int, handle: str, part: dict[str, Any]) -> list[dict[str, Any]]:
    return answer(ResultDocument(raw), ReadRequest(handle, **part), limit)
