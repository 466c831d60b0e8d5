"""The knowledge base as a source: its tools are known at once, what answers them is loaded by the first call."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.core.offers import Tool
from toolcrib.core.requests import Request, Result
from toolcrib.core.source import Listing, LocalSource
from toolcrib.knowledge.definitions import TOOLS

if TYPE_CHECKING:
    from toolcrib.knowledge.tools import KnowledgeTools

Json = dict[str, Any]
Declared = tuple[Callable[[Json], Awaitable[Json]], Mapping[str, Any]]
"""A function from arguments to what is answered, and how it is described."""
Look = Callable[[bool], Awaitable[bool]]
"""Whether there is something to search; looks anew if that may have changed, or is said to be due."""
CHANGING = frozenset({"add", "remove", "import_"})


class KnowledgeSource:
    """The ``kb_*`` tools. ``load`` imports the rest of the room; ``offer`` makes a source of plain functions.

    They can always be called; ``list_while`` says when they are listed.
    """

    name = ""

    def __init__(
        self,
        load: "Callable[[], KnowledgeTools]",
        offer: Callable[[Sequence[Declared]], LocalSource],
    ) -> None:
        self._look: Look | None = None
        self._is_listed = True
        self._listeners: list[Callable[[], None]] = []
        self._load = load
        self._tools: KnowledgeTools | None = None
        self._functions = offer([(self._function(method), options) for method, options in TOOLS.items()])

    def _function(self, method: str) -> Callable[[Json], Awaitable[Json]]:
        async def run(arguments: Json) -> Json:
            self._tools = self._tools or self._load()
            try:
                answered: Json = await getattr(self._tools, method)(arguments)
                return answered
            finally:
                if method in CHANGING:
                    await self._look_again(is_due=True)

        return run

    def list_while(self, look: Look | None) -> None:
        """List them only while ``look`` finds something to search; ``None``: always."""
        self._look, self._is_listed = look, look is None

    @property
    def listing(self) -> Listing:
        """The tools, all of them read from their definitions."""
        listing = self._functions.listing
        return listing if self._is_listed else Listing((), quiet=listing.tools)

    async def list_offers(self) -> Listing:
        """The same; while there was nothing to search, somebody may have put something there."""
        if not self._is_listed:
            await self._look_again()
        return self.listing

    async def _look_again(self, *, is_due: bool = False) -> None:
        before, self._is_listed = self._is_listed, self._look is None or await self._look(is_due)
        if self._is_listed != before:
            for listener in self._listeners:
                listener()

    async def answer(self, call: Request) -> Result:
        """Run one; where documents lie on this machine is told to nobody else."""
        from toolcrib.knowledge.retrieve import SHOWS_PATHS  # with numpy: only for those who call one

        token = SHOWS_PATHS.set(call.caller.is_here)
        try:
            return await self._functions.answer(call)
        finally:
            SHOWS_PATHS.reset(token)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called when a tool was taken away, or all are listed, or not any more."""
        self._functions.on_change(listener)
        self._listeners.append(listener)

    def register(self, function: Callable[..., Any], /) -> Tool:
        """Offer another tool beside them."""
        return self._functions.register(function)

    def unregister(self, name: str) -> bool:
        """Offer a tool no more; whether there was one."""
        return self._functions.unregister(name)

    async def ailing(self) -> Mapping[str, str]:
        """The tools whose own health check fails, and why."""
        return await self._functions.ailing()

    async def close(self) -> None:
        """Let go of the documents, if they were opened."""
        tools, self._tools = self._tools, None
        if tools is not None:
            await tools.close()
