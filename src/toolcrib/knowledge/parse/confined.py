"""Foreign formats are parsed in a process of their own: no network, no files, little memory, little time.

A file that breaks its parser, or makes it eat memory or time without end, ends that process and nothing else.
"""

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from toolcrib.core.errors import ToolFailed, UnreadableSource
from toolcrib.isolate.grants import MIB, Limits, Wish
from toolcrib.isolate.levels import AUTO
from toolcrib.isolate.standing import Standing
from toolcrib.isolate.worker import Task, Workers, module_places
from toolcrib.knowledge.parse.parsed import Parsed

LIMITS = Limits(memory_bytes=768 * MIB, address_bytes=4096 * MIB, file_bytes=MIB, open_files=64, cpu_s=30)
PATIENCE_S = 90.0
CALLS_MAX = 200
"""Then a worker is replaced by a new one."""
_TARGET = f"{__name__}:perform"


class Parsers:
    """A parser of foreign formats that trusts no file: each is parsed in a copy of a worker that has read none."""

    def __init__(self, workers: Workers, limits: Limits = LIMITS) -> None:
        self._workers, self._wish = workers, Wish(AUTO, limits=limits)
        self._task = Task("parsing", _TARGET, {}, module_places(__name__))
        self._idle: list[Standing] = []

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

    def _free(self) -> Standing | None:
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
    from toolcrib.knowledge.parse.reading import warm_up

    warm_up(given["kind"])


def perform(given: Mapping[str, Any]) -> bytes:
    """In the worker: parse one document, and encode what came of it."""
    from toolcrib.knowledge.parse.reading import parse

    try:
        parsed = parse(given["kind"], base64.b64decode(given["content"]))
        return msgspec.json.encode({"parsed": parsed})
    except UnreadableSource as error:
        return msgspec.json.encode({"error": error.message, "hint": error.hint})
    except MemoryError:
        return b'{"error": "parsing it needs too much memory"}'
    except Exception as error:  # the edge of the parsers
        return msgspec.json.encode({"error": f"it cannot be parsed ({type(error).__name__})"})
