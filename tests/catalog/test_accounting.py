"""The account: what tools cost, what of it is dead weight, and which profile would do."""

import tomllib

from toolcrib.catalog.accounting import by_server, cost_of, dead_weight, propose
from toolcrib.catalog.catalog import Route
from toolcrib.core.tool import Tool
from toolcrib.sources.native import NativeSource

SOURCE = NativeSource()


def route(name: str, words: int = 5) -> Route:
    server, _, own = name.rpartition("__")
    return Route(name, server, Tool(own, description="word " * words), SOURCE)


ROUTES = [route("git__log"), route("git__push", 50), route("files__read", 200), route("clock"), route("result_read")]


def test_every_tool_is_counted_under_the_place_it_comes_from():
    """The dearest place first; toolcrib's own tools apart from the user's native ones."""
    places = by_server(ROUTES)

    assert {name: [each.name for each in held] for name, held in places.items()} == {
        "files": ["files__read"],
        "git": ["git__log", "git__push"],
        "toolcrib": ["result_read"],
        "native": ["clock"],
    }
    assert sum(cost_of(*place).tokens for place in places.items()) == cost_of("", ROUTES).tokens


def test_dead_weight_is_what_nobody_called():
    """The dearest first; what toolcrib brings along is not held against anybody."""
    assert [each.name for each in dead_weight(ROUTES, {"git__log"})] == ["files__read", "git__push", "clock"]


def test_the_proposed_profile_is_what_was_used():
    """What it costs and what it saves are all there is."""
    proposal = propose(ROUTES, {"git__log": 1, "clock": 2, "gone__tool": 3})

    assert proposal is not None
    assert tomllib.loads(proposal.to_toml()) == {"profiles": {"lean": {"tools": ["clock", "git__log"]}}}
    assert proposal.tokens + proposal.saved == cost_of("", ROUTES).tokens


def test_nothing_is_proposed_without_use_or_without_saving():
    """A profile of nothing helps nobody, nor one of everything."""
    assert propose(ROUTES, {}) is None
    assert propose(ROUTES, {each.name: 1 for each in ROUTES}) is None
