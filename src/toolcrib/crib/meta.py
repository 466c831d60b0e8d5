"""Calls of the tools that find, describe and call others, and of those that list and read resources. They decide
nothing: a tool called, or a resource read, through them passes the same layers, and is told apart in no log, from one
that is asked for by its name."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgspec

from toolcrib.calls.layers.keep import as_tool_result
from toolcrib.catalog.catalog import Catalog, Route, is_for_apps, signature_of
from toolcrib.catalog.search import MOST, USUAL, RankedTool
from toolcrib.core.access import Caller, Reach
from toolcrib.core.errors import InvalidArguments, ToolcribError
from toolcrib.core.names import (
    RESOURCE_READ,
    RESOURCES_LIST,
    TOOLS_CALL,
    TOOLS_DESCRIBE,
    TOOLS_FIND,
    name_of_alias,
)
from toolcrib.core.offers import OfferKind, RequestKind, SecurityLevel, Tool, to_mcp
from toolcrib.core.requests import Request, Result

LISTED_MAX = 100
_RESOURCES = (OfferKind.RESOURCE, OfferKind.TEMPLATE)
NOTHING = "No tool seems to do that. Try other words."


class MetaCatalog(Protocol):
    """What the tools that are found come from."""

    @property
    def catalog(self) -> Catalog:
        """The tools known now."""

    async def current(self) -> Catalog:
        """The tools, after asking those servers that must be asked."""

    async def find(self, query: str, limit: int, *, caller: Caller) -> list[RankedTool]:
        """The tools for a purpose."""

    async def run_real(self, call: Request) -> Result:
        """Run a tool."""

    async def find_others(self, query: str, limit: int, *, caller: Caller) -> list[RankedTool]:
        """The resources, templates and prompts for a purpose."""

    def resource_name(self, uri: str) -> str:
        """What toolcrib calls the resource that clients know by this URI."""

    def unknown(self, name: str, caller: Caller) -> ToolcribError:
        """There is no such tool."""


class MetaCalls:
    """Answers them for one window."""

    def __init__(self, offer: MetaCatalog) -> None:
        self._offer = offer
        self._by_name: Mapping[str, Callable[[Request], Awaitable[Result]]] = {
            TOOLS_FIND: self._find,
            TOOLS_DESCRIBE: self._describe,
            TOOLS_CALL: self._call,
            RESOURCES_LIST: self._list_resources,
            RESOURCE_READ: self._read,
        }

    async def run(self, call: Request) -> Result:
        """Answer one of them; trouble is a result, as everywhere."""
        try:
            return await self._by_name[call.name](call)
        except ToolcribError as error:
            return Result.failed(error)

    async def _find(self, call: Request) -> Result:
        query, limit = _text(call, "query"), call.arguments.get("limit", USUAL)
        if type(limit) is not int or not 1 <= limit <= MOST:
            raise InvalidArguments(f"{call.name}: limit must be a whole number from 1 to {MOST}.")
        hits = await self._offer.find(query, limit, caller=call.caller)
        shown = [signature_of(hit.route) for hit in hits if not is_for_apps(hit.route.offer.extra)]
        return _say("\n".join(shown) or NOTHING)

    async def _describe(self, call: Request) -> Result:
        name = name_of_alias(_text(call, "name"))
        route = self._visible(name, call.caller) or self._visible(name, call.caller, await self._offer.current())
        if route is None:
            raise _not_here(self._offer.unknown(name, call.caller))
        return _say(msgspec.json.encode(route.to_mcp()).decode())

    async def _call(self, call: Request) -> Result:
        """The call goes on as one of the tool it names, with all that belongs to it: channel, answers, limits."""
        name, arguments = name_of_alias(_text(call, "name")), _arguments(call)
        result = await self._offer.run_real(msgspec.structs.replace(call, name=name, arguments=arguments))
        error = result.error
        if error is None or "rpc_code" in error.details:
            return result
        if error.code == "TOOL_NOT_FOUND" and "unknown" in error.details:
            return Result.failed(_not_here(self._offer.unknown(name, call.caller)))
        if error.code == InvalidArguments.code:
            return self._with_signature(result, name, call.caller)
        return result

    async def _list_resources(self, call: Request) -> Result:
        query = call.arguments.get("query")
        if query is not None and type(query) is not str:
            raise InvalidArguments(f"{call.name}: query must be a string.")
        if query and query.strip():
            hits = await self._offer.find_others(query, LISTED_MAX, caller=call.caller)
            found = [hit.route for hit in hits if hit.route.offer.kind in _RESOURCES]
        else:
            catalog = await self._offer.current()
            found = [route for kind in _RESOURCES for route in catalog.visible_to(call.caller.grants, kind)]
        lines = [signature_of(route) for route in found[:LISTED_MAX]]
        more = [f"… and {len(found) - LISTED_MAX} more: look for what you need with query."]
        return _say("\n".join([*lines, *(more if len(found) > LISTED_MAX else [])]) or "There is nothing to read.")

    async def _read(self, call: Request) -> Result:
        """What a resource says, as a tool's result; one that is too much for a model can be read on by its handle."""
        name = self._offer.resource_name(_text(call, "uri"))
        read = msgspec.structs.replace(call, name=name, target="", arguments={}, kind=RequestKind.READ)
        read.context.for_model = True
        return as_tool_result(await self._offer.run_real(read))

    def _with_signature(self, result: Result, name: str, caller: Caller) -> Result:
        """What was wrong with the arguments, and what they should be."""
        route, error = self._visible(name, caller), result.error
        if route is None or error is None:
            return result
        message = f"{error.message}\n{signature_of(route)}"
        shown = {"content": [{"type": "text", "text": message}], "isError": True}
        return Result(shown, error=replace(error, message=message))

    def _visible(self, name: str, caller: Caller, catalog: Catalog | None = None) -> Route | None:
        found = (catalog or self._offer.catalog).visible_to(caller.grants)
        return next((route for route in found if route.name == name), None)


def _say(text: str) -> Result:
    return Result({"content": [{"type": "text", "text": text}]})


def _not_here(error: ToolcribError) -> InvalidArguments:
    """For a model: what it named is an argument like any other, and can be put right."""
    hint = error.hint if error.details.get("similar") else ""
    details = {key: value for key, value in error.details.items() if key != "unknown"}  # no error of the protocol
    return InvalidArguments(error.message, hint=f"{hint} Look for it with {TOOLS_FIND}.".strip(), details=details)


def _text(call: Request, key: str) -> str:
    value = call.arguments.get(key)
    if type(value) is not str or not value.strip():
        raise InvalidArguments(f"{call.name}: {key} must be a string that is not empty.")
    return value


def _arguments(call: Request) -> dict[str, Any]:
    """The arguments of the tool; models that write them as text mean the object in it."""
    given = call.arguments.get("arguments")
    if type(given) is str:
        try:
            given = msgspec.json.decode(given)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            given = False
    if given is None:
        return {}
    if type(given) is not dict:
        raise InvalidArguments(f"{call.name}: arguments must be an object.")
    return given


@dataclass(frozen=True, slots=True)
class MetaTool:
    """One of them, as a listing shows it."""

    tool: Tool
    reach: Reach

    def to_mcp(self) -> dict[str, Any]:
        """The definition."""
        return to_mcp(self.tool)


def _string(*names: str) -> dict[str, Any]:
    return {name: {"type": "string"} for name in names}


def _define(name: str, description: str, properties: Mapping[str, Any], *required: str) -> MetaTool:
    """Every caller may use these: they show and run only what the caller is granted."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    annotations = {} if name == TOOLS_CALL else {"readOnlyHint": True}
    reach = Reach(name, level=SecurityLevel.READ_ONLY, reads_results=True)
    return MetaTool(Tool(name, description, schema, annotations=annotations), reach)


READING: Mapping[str, MetaTool] = {
    made.tool.name: made
    for made in (
        _define(RESOURCES_LIST, "List what can be read, or find it by a query. Lists URIs.", _string("query")),
        _define(RESOURCE_READ, "Read a resource by its URI.", _string("uri"), "uri"),
    )
}
"""The two for resources."""

META: Mapping[str, MetaTool] = {
    made.tool.name: made
    for made in (
        _define(
            TOOLS_FIND,
            "Find more tools by what they do. Lists signatures.",
            {**_string("query"), "limit": {"type": "integer"}},
            "query",
        ),
        _define(TOOLS_DESCRIBE, "Show a tool's full schema.", _string("name"), "name"),
        _define(
            TOOLS_CALL, "Call a tool that was found.", {**_string("name"), "arguments": {"type": "object"}}, "name"
        ),
    )
}
