"""Reuse: merging what changed comes to the same as merging everything from nothing."""

from dataclasses import replace

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.catalog.current import Current
from toolcrib.catalog.lookalikes import find_lookalikes
from toolcrib.catalog.merge import Room
from toolcrib.catalog.records import ServerShelf
from toolcrib.config.lock import Record
from toolcrib.config.model import ServerConfig, ToolConfig
from toolcrib.config.sections import PlaceRules, SecurityConfig
from toolcrib.core.offers import SecurityLevel, Tool
from toolcrib.sources.native.functions import native_tool
from toolcrib.sources.native.source import NativeSource
from toolcrib.testing import FakeSource

SERVERS = ("a", "fi1es", "files")
NAMES = ("read", "Read", "reаd", "write")
TOOLS = [
    Tool(name, title=title, annotations=claims)
    for name in NAMES
    for title in ("", "Send mail", "Sеnd mail")
    for claims in ({}, {"destructiveHint": True}, {"destructiveHint": 1})
]
LISTINGS = st.lists(st.sampled_from(TOOLS), max_size=4).map(lambda tools: tuple({t.name: t for t in tools}.values()))
SECURITY = st.sampled_from(
    [
        SecurityConfig(),
        SecurityConfig("ask", {"a__*": "deny"}),
        SecurityConfig(policies={"*read*": "disable"}, levels={"a__read": SecurityLevel.ADMIN}),
        SecurityConfig(levels={"*": SecurityLevel.READ_ONLY}),
        SecurityConfig(places=(PlaceRules("user.toml", policies={"files__*": "disable", "*": "ask"}),)),
    ]
)
CONFIGS = st.sampled_from([{}, {"policy": "ask"}, {"policy": None}, {"tools": {"read": ToolConfig(enabled=False)}}])
CHANGES = st.one_of(
    st.tuples(st.just("list"), st.sampled_from(SERVERS), LISTINGS),
    st.tuples(st.just("same"), st.sampled_from(SERVERS), st.none()),
    st.tuples(st.just("hold"), st.sampled_from(SERVERS), st.dictionaries(st.just("read"), st.just("it changed"))),
    st.tuples(st.just("configure"), st.sampled_from(SERVERS), CONFIGS),
    st.tuples(st.just("remove"), st.sampled_from(SERVERS), st.none()),
    st.tuples(st.just("forget"), st.sampled_from(SERVERS), st.none()),
    st.tuples(st.just("secure"), st.none(), SECURITY),
    st.tuples(st.just("register"), st.none(), st.sampled_from(("add", "a__read", "Read"))),
    st.tuples(st.just("unregister"), st.none(), st.sampled_from(("add", "a__read", "Read"))),
)


def a_shelf(name: str) -> ServerShelf:
    return ServerShelf(ServerConfig(name, command="x"), FakeSource(name), Record(name))


def a_native(name: str):
    async def tool() -> str:
        """Does something."""
        return ""

    tool.__name__ = name
    return native_tool(tool)


NATIVE = {name: a_native(name) for name in ("add", "a__read", "Read")}


class World:
    """Servers and rules that change, and the catalog that follows them."""

    def __init__(self, prefix: bool, capacity: int) -> None:
        self.native, self.shelves, self.settings = NativeSource(), {}, {"prefix": prefix, "room": Room(capacity)}
        self.current = Current(self.native, SecurityConfig(), self._ignore, **self.settings)
        self.current.merge((), first=True)

    @staticmethod
    def _ignore(event) -> None:
        del event

    def change(self, what: str, name: str | None, value) -> None:
        shelf = None if name is None else self.shelves.get(name) or a_shelf(name)
        match what:
            case "list":
                shelf.tools, shelf.is_known, self.shelves[name] = value, True, shelf
            case "same":  # another object that says the same
                shelf.tools, self.shelves[name] = tuple(replace(tool) for tool in shelf.tools), shelf
            case "hold":
                shelf.held = value
            case "configure":
                shelf.config = replace(shelf.config, **value)
            case "remove":
                self.shelves.pop(name, None)
            case "forget":
                shelf.is_known = False
            case "secure":
                self.current.security = value
            case "register":
                self.native.register(NATIVE[value])
            case "unregister":
                self.native.unregister(value)
        self.current.merge(self.shelves.values())

    def from_nothing(self):
        fresh = Current(self.native, self.current.security, self._ignore, **self.settings)
        fresh.merge(self.shelves.values())
        return fresh.catalog


def shown(catalog) -> bytes:
    """What a model is shown, to the letter: to Python 1 is true."""
    return msgspec.json.encode([route.to_mcp() for route in catalog.routes.values()])


@given(st.lists(CHANGES, max_size=8), st.booleans(), st.sampled_from((3, 1000)))
def test_following_changes_comes_to_the_same_as_starting_from_nothing(changes, prefix, capacity):
    """Listings, rules, quarantine, configuration, servers and native tools may change in any order."""
    world = World(prefix, capacity)
    for name in SERVERS:
        world.change("list", name, (Tool("read"), Tool("Write")))
    for change in changes:
        world.change(*change)
        followed, fresh = world.current.catalog, world.from_nothing()

        assert replace(followed, version=0) == replace(fresh, version=0)
        assert list(followed.routes) == sorted(fresh.routes)
        assert shown(followed) == shown(fresh)
        assert followed.lookalikes == find_lookalikes(followed.routes.values())


def test_routes_to_servers_that_did_not_change_are_kept():
    """The cost of a listing is that of its own server; that of none is nothing."""
    world = World(prefix=True, capacity=1000)
    world.change("list", "a", (Tool("read"),))
    world.change("list", "b", (Tool("read"),))
    before = world.current.catalog
    world.change("list", "b", (Tool("write"),))
    after = world.current.catalog

    assert after.routes["a__read"] is before.routes["a__read"]

    world.change("remove", "none", None)
    world.current.security = replace(world.current.security)
    world.current.merge(world.shelves.values())

    assert (world.current.catalog.routes, world.current.catalog.version) == (after.routes, after.version)
    assert all(world.current.catalog.routes[name] is route for name, route in after.routes.items())


def test_a_listing_that_only_python_takes_for_the_same_is_shown():
    """1 is true to Python, not to a model; and a tool that goes into quarantine is the same tool."""
    world = World(prefix=True, capacity=1000)
    world.change("list", "a", (Tool("read", annotations={"openWorldHint": True}),))
    world.change("list", "a", (Tool("read", annotations={"openWorldHint": 1}),))

    assert b'"openWorldHint":1' in shown(world.current.catalog)

    world.change("hold", "a", {"read": "it changed"})

    assert world.current.catalog.routes["a__read"].held == "it changed"
