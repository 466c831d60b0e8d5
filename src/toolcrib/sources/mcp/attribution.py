"""Whose message it is that a server sends without naming a call: a question, a line of its log.

What names a task is of whoever asks about that task. All else is of the caller whose calls are under way over the
link, if they are all of one caller in one session, or if only one caller uses the link at all. Where several share it
nobody can tell, so nobody gets it. Between calls it is of whoever used the link last, if nobody else ever did.
"""

from collections.abc import Iterable

from toolcrib.core.access import Caller
from toolcrib.core.requests import BackChannel
from toolcrib.sources.mcp.link import ServerRequest
from toolcrib.wire.jsonrpc import RequestId

GIVEN_UP_COUNTS_S = 60.0
"""So long a server may still be working on a call that nobody waits for any more."""
GIVEN_UP_MAX = 100
KEPT_BYTES = 64 * 1024
"""The way back of a call with more than this is not kept: its arguments are kept with it."""


class Attribution:
    """Which caller a link's server can only mean; remembers the calls that were given up and not answered yet."""

    __slots__ = ("_caller", "_channel", "_given_up", "_is_mixed", "_is_of_one", "_latest")

    def __init__(self, *, is_of_one: bool = False) -> None:
        """``is_of_one``: whether only one caller uses the link."""
        self._is_of_one = is_of_one
        self._is_mixed = False
        self._given_up: dict[RequestId, tuple[Caller, float]] = {}
        self._caller: Caller | None = None
        self._channel: BackChannel | None = None
        self._latest: RequestId = 0

    def note_call(self, call: ServerRequest) -> None:
        """Somebody uses the link; done for every call, so most often it compares nothing but identities."""
        if call.caller is not self._caller and call.caller is not None:
            self._note_caller(call.caller)
        if call.caller is not None and len(call.params) <= KEPT_BYTES:
            self._channel, self._latest = call.channel, call.id

    def _note_caller(self, caller: Caller) -> None:
        former, self._caller = self._caller, caller
        is_same = former is None or (former.id, former.session) == (caller.id, caller.session)
        self._is_mixed = self._is_mixed or not (is_same or self._is_of_one)

    def note_given_up(self, call: ServerRequest, now: float) -> None:
        """Nobody waits for this call any more, and the server may not have heard of that."""
        if call.caller is not None:
            self._given_up[call.id] = call.caller, now
            if len(self._given_up) > GIVEN_UP_MAX:
                del self._given_up[next(iter(self._given_up))]

    def note_answered(self, request_id: object) -> None:
        """An answer came that nobody waits for: the server is done with that call."""
        if self._given_up and isinstance(request_id, int | str):
            self._given_up.pop(request_id, None)

    def calls(self, under_way: Iterable[ServerRequest], now: float, task_id: str = "") -> list[ServerRequest] | None:
        """The calls that the server may mean, all of one caller, the oldest first; ``None`` if there are several
        callers that it may mean. If none is under way, the latest there was, of a client that hears what comes later.

        With the id of a task it means whoever asks about that: whose call is under way may be somebody else.
        """
        calls = [request for request in under_way if request.caller is not None]
        if task_id:
            about = [call for call in calls if call.name == task_id and call.method.startswith("tasks/")]
            if about or self._is_mixed:
                return about or None
        if not calls:
            return self._standing()
        if self._is_of_one:
            return calls
        left = [caller for caller, at in self._given_up.values() if now - at < GIVEN_UP_COUNTS_S]
        owners = {(caller.id, caller.session) for caller in left}
        owners.update((call.caller.id, call.caller.session) for call in calls if call.caller is not None)
        return calls if len(owners) == 1 else None

    @property
    def sole(self) -> BackChannel | None:
        """The way to the only client that ever used the link, if it hears what comes later."""
        channel = self._channel
        return None if self._is_mixed or channel is None or channel.takes_input_required else channel

    def _standing(self) -> list[ServerRequest]:
        channel = self.sole
        if channel is None:
            return []
        return [ServerRequest(self._latest, "", b"", channel=channel, caller=self._caller)]
