"""The account: what tools cost, what of it is dead weight, and which profile would do."""

import tomllib

from toolcrib.catalog.accounting import by_server, cost_of, dead_weight, propose
from toolcrib.catalog.catalog import Route
from toolcrib.core.offers import Tool
from toolcrib.sources.native.source import NativeSource

SOURCE = NativeSource()


def route(name: str, words: int = 5) -> Route:
    server, _, own = name.rpartition("__")
    tool = Tool(own, description="word " * words, reads_results=name == "result_read")
    return Route(name, server, tool, SOURCE)


ROUTES = [
    route("git__log"),
    route("git__push", 50),
    route("files__read", 200),
    route("clock", 30),
    route("result_read"),
    route("kb_stats", 20),
]


def test_every_tool_is_counted_under_the_place_it_comes_from():
    """The dearest place first; toolcrib's own tools apart from the user's native ones."""
    places = by_server(ROUTES)

    assert {name: [each.name for each in held] for name, held in places.items()} == {
        "files": ["files__read"],
        "git": ["git__log", "git__push"],
        "toolcrib": ["result_read", "kb_stats"],
        "native": ["clock"],
    }
    assert sum(cost_of(*place).tokens for place in places.items()) == cost_of("", ROUTES).tokens


def test_dead_weight_is_what_nobody_called():
    """The dearest first; what reads large results is always needed."""
    unused = dead_weight(ROUTES, {"git__log"})

    assert [each.name for each in unused] == ["files__read", "git__push", "clock", "kb_stats"]


def test_the_proposed_profile_is_what_was_used():
    """What it costs and what it saves are all there is."""
    proposal = propose(ROUTES, {"git__log", "clock", "gone__tool", "result_read"})

    assert proposal is not None
    assert tomllib.loads(proposal.to_toml()) == {"profiles": {"lean": {"tools": ["clock", "git__log"]}}}
    assert proposal.tokens + proposal.saved == cost_of("", ROUTES).tokens


def test_nothing_is_proposed_without_use_or_without_saving():
    """A profile of nothing helps nobody, nor one of everything."""
    assert propose(ROUTES, ()) is None
    assert propose(ROUTES, {each.name for each in ROUTES}) is None
