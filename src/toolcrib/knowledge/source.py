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


class KnowledgeSource:
    """The ``kb.*`` tools. ``load`` imports the rest of the room; ``offer`` makes a source of plain functions."""

    name = ""

    def __init__(
        self, load: "Callable[[], KnowledgeTools]", offer: Callable[[Sequence[Declared]], LocalSource]
    ) -> None:
        self._load = load
        self._tools: KnowledgeTools | None = None
        self._functions = offer([(self._function(method), options) for method, options in TOOLS.items()])

    def _function(self, method: str) -> Callable[[Json], Awaitable[Json]]:
        async def run(arguments: Json) -> Json:
            self._tools = self._tools or self._load()
            answered: Json = await getattr(self._tools, method)(arguments)
            return answered

        return run

    @property
    def listing(self) -> Listing:
        """The tools, all of them read from their definitions."""
        return self._functions.listing

    async def list_offers(self) -> Listing:
        """The same; nothing has to be asked."""
        return self.listing

    async def answer(self, call: Request) -> Result:
        """Run one."""
        return await self._functions.answer(call)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called when a tool was taken away."""
        self._functions.on_change(listener)

    def register(self, function: Callable[..., Any], /) -> Tool:
        """Offer another tool beside them."""
        return self._functions.register(function)

    def unregister(self, name: str) -> bool:
        """Offer a tool no more; whether there was one."""
        return self._functions.unregister(name)

    async def close(self) -> None:
        """Let go of the documents, if they were opened."""
        tools, self._tools = self._tools, None
        if tools is not None:
            await tools.close()
