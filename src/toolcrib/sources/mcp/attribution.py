"""Whose message it is that a server sends without naming a call: a question, a line of its log.

It is of the caller whose calls are under way over the link, if they are all of one caller in one session, or if only
one caller uses the link at all. Where several share it nobody can tell, so nobody gets it.
"""

from collections.abc import Iterable

from toolcrib.core.access import Caller
from toolcrib.sources.mcp.link import ServerRequest

GIVEN_UP_COUNTS_S = 60.0
"""So long a server may still be working on a call that nobody waits for any more."""
GIVEN_UP_MAX = 100


class Attribution:
    """Which caller a link's server can only mean; remembers the calls that were given up and not answered yet."""

    __slots__ = ("_given_up", "_is_of_one")

    def __init__(self, *, is_of_one: bool = False) -> None:
        """``is_of_one``: whether only one caller uses the link."""
        self._is_of_one = is_of_one
        self._given_up: dict[int, tuple[Caller, float]] = {}

    def note_given_up(self, call: ServerRequest, now: float) -> None:
        """Nobody waits for this call any more, and the server may not have heard of that."""
        if call.caller is not None:
            self._given_up[call.id] = call.caller, now
            if len(self._given_up) > GIVEN_UP_MAX:
                del self._given_up[next(iter(self._given_up))]

    def note_answered(self, request_id: object) -> None:
        """An answer came that nobody waits for: the server is done with that call."""
        if self._given_up and isinstance(request_id, int):
            self._given_up.pop(request_id, None)

    def calls(self, under_way: Iterable[ServerRequest], now: float) -> list[ServerRequest] | None:
        """The calls that the server may mean, all of one caller, the oldest first; ``None`` if there are several
        callers that it may mean."""
        calls = [request for request in under_way if request.caller is not None]
        if not calls or self._is_of_one:
            return calls
        left = [caller for caller, at in self._given_up.values() if now - at < GIVEN_UP_COUNTS_S]
        owners = {(caller.id, caller.session) for caller in left}
        owners.update((call.caller.id, call.caller.session) for call in calls if call.caller is not None)
        return calls if len(owners) == 1 else None
