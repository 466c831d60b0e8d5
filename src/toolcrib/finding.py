"""Finding the tool of a call that names one nobody has seen yet: its server is asked, within the call's own time."""

import asyncio
from collections.abc import Callable

from toolcrib.calls.layers.audit import unknown_call
from toolcrib.calls.layers.permit import not_open
from toolcrib.calls.rig import Rig
from toolcrib.catalog.catalog import Catalog, Route
from toolcrib.catalog.refresh import Refresher
from toolcrib.catalog.shelf import Shelf
from toolcrib.core import events
from toolcrib.core.access import EVERYTHING, may_know
from toolcrib.core.call import ToolCall
from toolcrib.core.errors import CallTimeout, InvalidName, SourceUnavailable, ToolcribError, UnknownTool
from toolcrib.core.events import Event
from toolcrib.core.names import split_name


class Finder:
    """Looks for tools that are not in the catalogue."""

    def __init__(self, refresher: Refresher, catalog: Callable[[], Catalog], rig: Rig, *, prefix: bool) -> None:
        self._fresh, self._catalog, self._rig, self._prefix = refresher, catalog, rig, prefix

    async def find(self, call: ToolCall) -> Route:
        """The call's own limit holds for finding its tool, too; what comes of it is told like any call."""
        if not may_know(call.caller.grants, call.name):
            self._note_unknown(call, refused := not_open())
            raise refused
        try:
            async with asyncio.timeout(call.timeout_s):
                return await self._discover_for(call.name)
        except TimeoutError:
            late = CallTimeout(f"{call.name} was not found within {call.timeout_s:g} s: its server is still starting.")
            self._tell_not_begun(call, late)
            raise late from None
        except UnknownTool as error:
            self._rig.emit(Event("call.unknown", "warning", {"tool": call.name[:200]}))
            told = error if call.caller.grants == EVERYTHING else not_open()
            self._note_unknown(call, told)
            raise told from None
        except ToolcribError as error:
            self._tell_not_begun(call, error)
            raise

    def _tell_not_begun(self, call: ToolCall, error: ToolcribError) -> None:
        fields = {"tool": call.name, "id": call.id, "caller": call.caller.id, "seconds": 0.0, "code": error.code}
        self._rig.emit(Event(events.CALL_FINISHED, "warning", fields))
        self._note_unknown(call, error)

    def _note_unknown(self, call: ToolCall, error: ToolcribError) -> None:
        """What never reaches the layers leaves an entry, too."""
        self._rig.metrics.count_unknown(error.code)
        self._rig.log.note(unknown_call(call, error.code))

    async def _discover_for(self, name: str) -> Route:
        """A tool nobody has seen yet may belong to a server nobody has asked yet."""
        unknown = [shelf for shelf in self._possible_shelves(name) if not shelf.is_known]
        for finding in asyncio.as_completed([self._fresh.first_record(shelf) for shelf in unknown]):
            record = await finding
            if name in self._catalog().routes:
                break
            if record.status == "failed" and self._prefix:
                status = self._fresh.shelves[record.server].source.status()
                raise SourceUnavailable(record.error, details=status.details)
        route = self._catalog().routes.get(name)
        if route is None:
            raise UnknownTool(name, known=[route.name for route in self._catalog().visible_to(EVERYTHING)])
        return route

    def _possible_shelves(self, name: str) -> list[Shelf]:
        shelves = self._fresh.shelves
        if not self._prefix:
            return list(shelves.values())
        try:
            shelf = shelves.get(split_name(name)[0])
        except InvalidName:
            return []
        return [shelf] if shelf else []
