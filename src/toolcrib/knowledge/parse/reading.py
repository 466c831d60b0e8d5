"""Which parser reads what; each is imported when it is first needed."""

import asyncio
import base64
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import PurePath
from typing import Any

import msgspec

from toolcrib.core.errors import ToolFailed, UnreadableSource
from toolcrib.core.kinds import AUTO
from toolcrib.isolate.levels import MIB, IsolationWanted, ResourceLimits
from toolcrib.isolate.worker import IdleWorker, Task, Workers, module_places
from toolcrib.knowledge.parse.parsed import Parsed

TEXT_MAX = 16_000_000
FOREIGN_MAX = 64_000_000
"""The most bytes of a file, by how carefully it is read."""

PARSERS: Mapping[str, str] = {
    "code": "text:parse_code",
    "csv": "tables:parse_csv",
    "docx": "docx:parse_docx",
    "email": "mail:parse_email",
    "html": "html:parse_html",
    "json": "tables:parse_json",
    "markdown": "text:parse_markdown",
    "pdf": "mail:parse_pdf",
    "text": "text:parse_text",
}

LIBRARIES: Mapping[str, str] = {"email": "selectolax.lexbor", "html": "selectolax.lexbor", "pdf": "pypdfium2"}
"""What parsers import when they begin, where it is installed."""


def warm_up(kind: str) -> None:
    """Import what reads such documents, as far as it is there."""
    import_module(f"toolcrib.knowledge.parse.{PARSERS[kind].partition(':')[0]}")
    with suppress(ImportError):
        import_module(LIBRARIES.get(kind, "json"))


def parse(kind: str, content: bytes) -> Parsed:
    """The document in these bytes; raises ``UnreadableSource``."""
    module, _, name = PARSERS[kind].partition(":")
    parser: Callable[[bytes], Parsed] = getattr(import_module(f"toolcrib.knowledge.parse.{module}"), name)
    return parser(content)


def size_max(name: str) -> int:
    """How large a file of that name may be."""
    return FOREIGN_MAX if PurePath(name.lower()).suffix in (".pdf", ".docx", ".html", ".htm", ".eml") else TEXT_MAX


LIMITS = ResourceLimits(memory_bytes=768 * MIB, address_bytes=4096 * MIB, file_bytes=MIB, open_files=64, cpu_s=30)
PATIENCE_S = 90.0
CALLS_MAX = 200
"""Then a worker is replaced by a new one."""
_TARGET = f"{__name__}:perform"


class Parsers:
    """A parser of foreign formats that trusts no file: each is parsed in a copy of a worker that has read none."""

    def __init__(self, workers: Workers, limits: ResourceLimits = LIMITS) -> None:
        self._workers, self._wish = workers, IsolationWanted(AUTO, limits=limits)
        self._task = Task("parsing", _TARGET, {}, module_places(__name__))
        self._idle: list[IdleWorker] = []

    async def __call__(self, kind: str, content: bytes) -> Parsed:
        """The document in these bytes; raises ``UnreadableSource``."""
        given = {"kind": kind, "content": base64.b64encode(content).decode()}
        try:
            async with asyncio.timeout(PATIENCE_S):
                answer = await self._ask(given)
        except ToolFailed as failure:
            raise UnreadableSource(_why(failure)) from None
        except TimeoutError:
            raise UnreadableSource(f"parsing it took longer than {PATIENCE_S:.0f} s") from None
        return _read_answer(answer)

    async def _ask(self, given: Mapping[str, Any]) -> bytes:
        """By a worker that is free, or a new one; it is kept if all went well and it has not worked for long."""
        worker = self._free() or await self._workers.stay(self._task, self._wish)
        try:
            answer = await worker.ask(given)
        except BaseException:
            worker.close()
            raise
        if worker.calls < CALLS_MAX:
            self._idle.append(worker)
        else:
            worker.close()
        return answer

    def _free(self) -> IdleWorker | None:
        """A worker that waits; those that were ended from outside meanwhile are no file's fault."""
        while self._idle:
            worker = self._idle.pop()
            if not worker.has_ended:
                return worker
            worker.close()
        return None

    def close(self) -> None:
        """End the workers that are free."""
        while self._idle:
            self._idle.pop().close()


def _why(failure: ToolFailed) -> str:
    said = " ".join(failure.details.get("stderr", ()))
    if "MemoryError" in said or "cannot allocate" in said.lower():
        return "parsing it needs too much memory"
    return "its parser broke, or used up its memory or time"


def _read_answer(answer: bytes) -> Parsed:
    outcome = msgspec.json.decode(answer)
    if "error" in outcome:
        raise UnreadableSource(str(outcome["error"]), hint=str(outcome.get("hint", "")))
    return msgspec.convert(outcome["parsed"], Parsed)


def prepare(given: Mapping[str, Any]) -> None:
    """In the worker that stays: import what parses such documents, so that its copies need not; looks into none."""

    warm_up(given["kind"])


def perform(given: Mapping[str, Any]) -> bytes:
    """In the worker: parse one document, and encode what came of it."""

    try:
        parsed = parse(given["kind"], base64.b64decode(given["content"]))
        return msgspec.json.encode({"parsed": parsed})
    except UnreadableSource as error:
        return msgspec.json.encode({"error": error.message, "hint": error.hint})
    except MemoryError:
        return b'{"error": "parsing it needs too much memory"}'
    except Exception as error:  # the edge of the parsers
        return msgspec.json.encode({"error": f"it cannot be parsed ({type(error).__name__})"})
