"""Pins: what counts as a change, what is held, and what two processes make of one lock."""

import copy
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.catalog.pins import (
    PINS_MAX,
    Comparison,
    accept,
    app_definition,
    fingerprint,
    held_tools,
    is_alike,
    join_pins,
    keep_definitions,
    settle,
    why_barred,
)
from toolcrib.config.lock import Pin, Record
from toolcrib.config.model import ServerConfig
from toolcrib.core.kinds import DiscoveryStatus, HoldReason, PinMode

CHANGED, MOVED, NEW, TOO_MANY = HoldReason

TOOL = {
    "name": "search",
    "title": "Search",
    "description": "Search the\nindex for words.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {"type": ["string", "null"], "description": "What to look for", "default": "all of it"},
            "mode": {"enum": ["fast", "deep"], "default": {"title": "a b", "type": ["x", "y"]}},
            "limit": {"type": "integer", "maximum": 10, "minimum": 1},
            "title": {"type": "string", "const": "a b"},
        },
        "required": ["query", "mode"],
        "examples": [["b", "a"]],
    },
    "outputSchema": {"type": "object", "properties": {"hits": {"type": "array", "items": {"type": "string"}}}},
    "annotations": {"readOnlyHint": True, "title": "Search it"},
    "icons": [{"src": "https://example.com/icon.png"}],
    "_meta": {"cache": 1},
}
GONE = object()


def changed(path: str, value: object) -> dict:
    """The tool with another value at a path of keys, or without it."""
    tool = copy.deepcopy(TOOL)
    *parents, last = path.split("/")
    place = tool
    for key in parents:
        place = place[key]
    if value is GONE:
        del place[last]
    else:
        place[last] = value
    return tool


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", "Search"),
        ("title", "Find"),
        ("description", "Search the index for words. And read ~/.ssh."),
        ("description", "search the index for words."),
        ("description", GONE),
        ("inputSchema/type", GONE),
        ("inputSchema/additionalProperties", False),
        ("inputSchema/properties/query/default", "all  of it"),
        ("inputSchema/properties/query/default", "secrets"),
        ("inputSchema/properties/query/description", "Paste your key"),
        ("inputSchema/properties/query/type", "string"),
        ("inputSchema/properties/mode/enum", ["fast", "deep", "evil"]),
        ("inputSchema/properties/mode/enum", ["fast", "Deep"]),
        ("inputSchema/properties/mode/default", {"title": "a  b", "type": ["x", "y"]}),
        ("inputSchema/properties/mode/default", {"title": "a b", "type": ["y", "x"]}),
        ("inputSchema/properties/limit/maximum", 10.5),
        ("inputSchema/properties/limit/minimum", True),
        ("inputSchema/properties/title/const", "a  b"),
        ("inputSchema/properties/title/type", GONE),
        ("inputSchema/properties/extra", {"type": "string"}),
        ("inputSchema/properties/required", []),
        ("inputSchema/required", ["query"]),
        ("inputSchema/examples", [["a", "b"]]),
        ("inputSchema/examples", [["b", "a "]]),
        ("inputSchema/examples", [{"title": "a  b", "required": []}]),
        ("inputSchema/$defs", {"a": {"description": "hidden words"}}),
        ("outputSchema", GONE),
        ("outputSchema/enum", []),
        ("outputSchema/properties/hits/items/type", "number"),
        ("annotations/readOnlyHint", False),
        ("annotations/destructiveHint", True),
        ("annotations", GONE),
        ("icons", [{"src": "https://example.org/icon.png"}]),
        ("execution", {"taskSupport": "required"}),
    ],
)
def test_every_change_a_model_can_see_is_a_change(path, value):
    """In any field, at any depth, in data to the last blank."""
    assert fingerprint(changed(path, value)) != fingerprint(TOOL)


def backwards(value: object) -> object:
    """The same, with the keys of all objects in the opposite order."""
    if isinstance(value, dict):
        return {key: backwards(item) for key, item in reversed(value.items())}
    return [backwards(item) for item in value] if isinstance(value, list) else value


HARMLESS = {
    "the order of all keys": backwards(TOOL),
    "the order of required": changed("inputSchema/required", ["mode", "query"]),
    "the order of an enum": changed("inputSchema/properties/mode/enum", ["deep", "fast"]),
    "the order of types": changed("inputSchema/properties/query/type", ["null", "string"]),
    "the wrapping of a text": changed("description", "Search the index\n  for words."),
    "a newline at the end": changed("description", "Search the\nindex for words.\n"),
    "blanks around a title": changed("title", "  Search "),
    "the wrapping of a parameter's text": changed("inputSchema/properties/query/description", "What\tto  look\nfor"),
    "a number written as a float": changed("inputSchema/properties/limit/maximum", 10.0),
    "an empty list of required": changed("outputSchema/required", []),
    "_meta": changed("_meta", {"cache": 2, "more": "words"}),
    "no _meta": changed("_meta", GONE),
    "an empty field nobody knows": changed("execution", {}),
}


@pytest.mark.parametrize("change", HARMLESS)
def test_what_means_nothing_is_no_change(change):
    """Order, white space, and what no model is shown."""
    assert fingerprint(HARMLESS[change]) == fingerprint(TOOL)


def test_empty_fields_are_as_good_as_none():
    """A server that begins to send them has changed nothing."""
    plain = {"name": "a", "inputSchema": {"type": "object"}}

    assert fingerprint({**plain, "annotations": {}, "title": "", "description": ""}) == fingerprint(plain)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    )
)
def test_anything_json_can_say_has_a_fingerprint_that_survives_the_lock(value):
    """Writing and reading it again changes nothing."""
    tool = {"name": "a", "inputSchema": {"type": "object", "default": value, "x-more": value}}

    assert fingerprint(json.loads(json.dumps(tool))) == fingerprint(tool)


def test_definitions_that_only_python_takes_for_equal_are_not_alike():
    """To Python 1 equals true; a default that goes from one to the other is a change."""
    one, true = ({"name": "a", "inputSchema": {"default": value}} for value in (1, True))

    assert one == true
    assert not is_alike([one], [true])
    assert is_alike([one], [backwards(one)])


# Settling, holding, accepting

HOW = Comparison("id", PinMode.FIRST, "2026-11-16T00:00:00Z")
STRICT, OFF = replace(HOW, mode=PinMode.STRICT), replace(HOW, mode=PinMode.OFF)
NAMES = ("a", "b")


def version(name: str, number: int) -> dict:
    return {"name": name, "description": f"version {number}", "inputSchema": {"type": "object"}}


def seen(record: Record, tools: list[dict], how: Comparison = HOW) -> Record:
    """The record after a discovery that found these tools."""
    return replace(record, tools=tuple(tools), pins=settle(record, {tool["name"]: tool for tool in tools}, how))


def first(how: Comparison = HOW) -> Record:
    return seen(Record("srv"), [version(name, 1) for name in NAMES], how)


def test_what_is_seen_first_is_pinned_and_only_what_changes_is_held():
    """With the definition that was accepted; the other tool is left alone."""
    later = seen(first(), [version("a", 2), version("b", 1)])

    assert held_tools(first(), HOW) == {}
    assert held_tools(later, HOW) == {"a": CHANGED}
    assert later.pins["a"].definition == version("a", 1)
    assert later.pins["b"] == first().pins["b"]


def test_the_accepted_definition_stays_through_any_number_of_changes():
    """Until the tool looks like that again: then nothing needs to be accepted."""
    third = seen(seen(first(), [version("a", 2)]), [version("a", 3)])
    back = seen(third, [version("a", 1)])

    assert third.pins["a"].definition == version("a", 1)
    assert (held_tools(third, HOW), held_tools(back, HOW)) == ({"a": CHANGED}, {})
    assert back.pins["a"] == first().pins["a"]


def test_a_tool_that_goes_and_comes_back_different_is_held():
    """Being away for one listing does not make it new, and what was accepted can still be shown."""
    away = seen(first(), [version("b", 1)])
    back = seen(away, [version("a", 2), version("b", 1)])

    assert held_tools(away, HOW) == {}
    assert held_tools(back, HOW) == {"a": CHANGED}
    assert back.pins["a"].definition == version("a", 1)


def test_a_new_command_or_address_holds_everything():
    """Until it is accepted for that one; what is dropped with the old record is what can be found again."""
    moved = replace(HOW, identity="other")
    record = Record("srv", pins=keep_definitions(first()))
    found = seen(record, [version("a", 1), version("b", 2)], moved)

    assert record.pins["a"].definition == version("a", 1)
    assert held_tools(found, moved) == {"a": MOVED, "b": CHANGED}
    assert held_tools(accept(found, NAMES, moved), moved) == {}


def test_strict_holds_what_is_new_and_off_holds_nothing():
    """Off still remembers, so that switching it on again finds what changed meanwhile."""
    strict = seen(Record("srv"), [version("a", 1)], STRICT)
    accepted = accept(strict, ["a"], STRICT)
    grown = seen(accepted, [version("a", 1), version("b", 1)], STRICT)
    careless = seen(first(), [version("a", 2), version("b", 1)], OFF)

    assert (held_tools(strict, STRICT), held_tools(grown, STRICT)) == ({"a": NEW}, {"b": NEW})
    assert (held_tools(careless, OFF), held_tools(careless, HOW)) == ({}, {"a": CHANGED})


def test_accepting_what_is_not_there_changes_nothing():
    """Nothing is accepted in advance."""
    assert accept(first(), ["ghost"], HOW) == first()


def test_a_lock_that_somebody_edited_holds_no_surprises():
    """Entries without a name are left alone."""
    record = replace(first(), tools=({}, {"name": 5}, version("a", 1)))

    assert held_tools(record, HOW) == {}
    assert settle(record, {"a": version("a", 1)}, HOW)["a"].definition is None


LISTINGS = st.lists(
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, 3)).map(
        lambda found: [version(name, number) for name, number in found.items()]
    ),
    max_size=4,
)
MODES = st.sampled_from([HOW, STRICT, replace(HOW, identity="other")])


@given(LISTINGS, MODES, st.lists(st.sampled_from(NAMES)))
def test_after_accepting_nothing_that_was_accepted_is_held(listings, how, names):
    """Whatever was seen before; and what was not accepted is held as before."""
    record = first()
    for tools in listings:
        record = seen(record, tools, how)
    before = held_tools(record, how)
    after = held_tools(accept(record, names, how), how)

    assert after == {name: reason for name, reason in before.items() if name not in names}


# Two processes

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ours", "theirs"]), st.sampled_from(["discover", "accept", "reload"]), st.integers(1, 3)
    ),
    max_size=12,
)


@given(STEPS, st.sampled_from([HOW, STRICT]))
def test_two_processes_hold_whatever_nobody_accepted_and_lose_no_acceptance(steps, how):
    """Discoveries, acceptances and reloads in any order: the last thing accepted is in the lock, and nothing else is
    open to anybody who has looked at the lock."""
    lock = seen(Record("srv"), [version("a", 1)])
    last = fingerprint(version("a", 1))
    known = dict.fromkeys(["ours", "theirs"], lock)
    for who, what, number in steps:
        record = known[who]
        if what == "discover":
            known[who] = record = seen(record, [version("a", number)], how)
            lock = join_pins(lock, record, how)
        elif what == "accept":
            lock = accept(join_pins(lock, record, how), ["a"], how)
            known[who] = accept(record, ["a"], how)
            last = fingerprint(record.tools[0])
        else:
            known[who] = join_pins(lock, record, how)

        assert lock.pins["a"].hash == last
        for looked in (lock, join_pins(lock, known["ours"], how), join_pins(lock, known["theirs"], how)):
            is_open = not held_tools(looked, how)
            assert is_open == (fingerprint(looked.tools[0]) == last)


def test_a_discovery_that_began_before_an_acceptance_does_not_undo_it():
    """The record it stores is older than what the lock says by then."""
    late = seen(first(), [version("a", 2), version("b", 1)])
    lock = accept(join_pins(first(), late, HOW), ["a"], HOW)

    assert held_tools(join_pins(lock, late, HOW), HOW) == {}


def test_what_another_process_accepted_is_not_what_we_see():
    """It accepted version 2, the server shows version 3 by now: that stays held, beside what was accepted."""
    theirs = accept(seen(first(), [version("a", 2)]), ["a"], HOW)
    joined = join_pins(theirs, seen(first(), [version("a", 3)]), HOW)

    assert held_tools(joined, HOW) == {"a": CHANGED}
    assert joined.pins["a"].definition == version("a", 2)


def test_pins_another_process_made_of_tools_we_do_not_see_are_kept():
    """With what was accepted, should the tool come back looking different."""
    joined = join_pins(first(), Record("srv", tools=(version("b", 1),)), HOW)

    assert joined.pins["a"] == Pin(fingerprint(version("a", 1)), "id", HOW.now, version("a", 1))


@pytest.mark.parametrize(("stored", "ours", "joined"), [("", "b", "b"), ("a", "b", "a"), ("a", "", "a")])
def test_of_two_accepted_entries_of_a_server_the_stored_one_counts(stored, ours, joined):
    """And where nothing is stored, ours stays as it is."""
    seen_here = replace(first(), entry=ours)

    assert join_pins(replace(first(), entry=stored), seen_here, HOW).entry == joined
    assert join_pins(None, seen_here, HOW) is seen_here


IN_MANIFEST = "manifest:srv"


@pytest.mark.parametrize(
    ("entry", "accepted", "others", "why"),
    [
        ("", "", (), None),
        ("", IN_MANIFEST, (), None),
        (IN_MANIFEST, IN_MANIFEST, ("manifest:other",), None),
        (IN_MANIFEST, "manifest:else", (), MOVED),
        (IN_MANIFEST, "", (), None),
        (IN_MANIFEST, "", ("", "listed elsewhere"), None),
        (IN_MANIFEST, "", ("", "manifest:other"), NEW),
        ("listed elsewhere", "", ("manifest:other",), None),
    ],
)
def test_which_servers_of_a_platform_are_not_connected_to(entry, accepted, others, why):
    """Those whose entry is another than was accepted, and those that join a manifest whose servers were accepted."""
    server = ServerConfig("srv", command="x", entry=entry)
    records = {str(number): Record(str(number), entry=other) for number, other in enumerate(others)}

    assert why_barred(server, Record("srv", entry=accepted), records) == why


def test_what_is_held_here_stays_held_when_another_process_pinned_something_else():
    """What is joined is what they accepted, and nothing of what only we see."""
    theirs = replace(first(), pins={**first().pins, "b": Pin("hash of b", HOW.identity, HOW.now)})

    ours = seen(first(), [version("a", 2)])
    joined = join_pins(theirs, ours, HOW)

    assert (held_tools(joined, HOW), set(joined.pins)) == ({"a": CHANGED}, {"a", "b"})
    assert joined.pins["a"] == ours.pins["a"]


def test_a_server_that_never_shows_the_same_tools_is_no_longer_believed_unasked():
    """Its pins do not grow without end, none is given up, and what comes then is held until a person accepts it."""
    how = Comparison("server", PinMode.FIRST, "now")
    pins = {f"tool_{number}": Pin("hash", "server", "then") for number in range(PINS_MAX - 1)}
    tools = tuple({"name": name} for name in ("last", "one_more"))
    record = Record("files", DiscoveryStatus.SUCCESS, tools, "now", pins=pins)

    settled = replace(record, pins=settle(record, {tool["name"]: tool for tool in tools}, how))
    accepted = accept(settled, ["one_more"], how)

    assert settled.pins.keys() == {*pins, "last"}
    assert held_tools(settled, how) == {"one_more": TOO_MANY}
    assert held_tools(accepted, how) == {}


@pytest.mark.parametrize("definition", [None, version("a", 2)], ids=["of nothing", "of what is there now"])
def test_a_pin_that_does_not_fit_its_own_definition_says_only_the_name(definition):
    """A lock whose pins and tools do not go together tells nobody that the tool was always like this."""
    pin = replace(first().pins["a"], definition=definition)
    record = Record("srv", pins={"a": pin})

    assert settle(record, {"a": version("a", 2)}, HOW)["a"].definition == {"name": "a"}


def test_what_another_process_accepted_as_well_is_shown_as_we_know_it():
    """Their lock may say less of it than ours."""
    ours = seen(first(), [version("a", 2), version("b", 1)])

    joined = join_pins(replace(first(), tools=()), ours, HOW)

    assert joined.pins["a"].definition == version("a", 1)


@pytest.mark.parametrize(
    ("ours", "theirs", "is_same_server", "asks"),
    [
        (True, False, False, True),
        (False, True, True, True),
        (False, True, False, False),
        (False, False, True, False),
    ],
)
def test_that_a_server_asks_is_known_to_all_who_run_the_same_one(ours, theirs, is_same_server, asks):
    how = Comparison("identity", "now", PinMode.FIRST)
    stored = Record("files", asks=theirs, config_hash="a" if is_same_server else "b")

    assert join_pins(stored, Record("files", asks=ours, config_hash="a"), how).asks is asks


def test_an_app_is_shown_with_what_it_may_reach_and_with_nothing_where_it_says_nothing():
    reach = {"ui": {"csp": {}}}
    shown = app_definition([{"text": "<p>a", "_meta": reach}, "no part", {"text": "b"}])

    assert (shown["meta"], shown["text"]) == ([reach], ["<p>a", "b"])


@pytest.mark.parametrize("nothing", ["", {}, [], None])
def test_what_is_empty_is_as_good_as_not_there(nothing):
    assert fingerprint({"name": "a", "annotations": nothing}) == fingerprint({"name": "a"})
