"""Permit: the same answer for what is listed and what is called, and no word about what is not open."""

import pytest

from toolcrib.calls.layers.permit import permit
from toolcrib.calls.pipeline import Subject
from toolcrib.config.model import Config
from toolcrib.config.sections import SecurityConfig
from toolcrib.core.access import EVERYTHING, LOCAL_USER, NOTHING, Caller, Grants, Reach
from toolcrib.core.errors import PermissionDenied
from toolcrib.core.offers import SecurityLevel, Tool
from toolcrib.core.requests import Request, Result
from toolcrib.testing import FakeSource, memory_crib

NAMES = {"read_only": "get_thing", "write": "write_thing", "admin": "drop_thing", "system": "bash"}
CALLERS = {level: Caller(f"by-{level}", "token", Grants(SecurityLevel(level))) for level in NAMES}


@pytest.mark.parametrize("granted", NAMES)
async def test_what_a_caller_is_shown_is_what_it_can_call(granted):
    """For every level; the rest never reaches the server."""
    order = list(NAMES)
    within = [f"srv__{NAMES[level]}" for level in order[: order.index(granted) + 1]]
    source = FakeSource("srv", list(NAMES.values()))
    caller = CALLERS[granted]
    async with memory_crib(source) as made:
        shown = [tool.name for tool in await made.crib.tools(caller=caller)]
        results = {name: await made.crib.call(f"srv__{name}", caller=caller) for name in NAMES.values()}

    assert sorted(shown) == sorted(within)
    assert sorted(f"srv__{name}" for name, result in results.items() if result.success) == sorted(within)
    assert len(source.calls) == len(within)


async def test_a_tool_that_is_not_open_looks_like_one_that_does_not_exist():
    """Whether it was discovered or not: the same words, and no name of any tool."""
    limited = Caller("t", "token", Grants(SecurityLevel.READ_ONLY, ("srv",)))
    async with memory_crib(FakeSource("srv", ["get", "bash"]), FakeSource("other", ["get"])) as made:
        names = ("srv__bash", "srv__ghost", "other__get", "ghost__get", "ghost", "")
        early = [await made.crib.call(name, caller=limited) for name in names]
        asked = made.sources["other"].listed
        await made.crib.current()
        late = [await made.crib.call(name, caller=limited) for name in names]
        nobody = [await made.crib.call("srv__get", caller=Caller("x", "token", NOTHING))]

    said = {(result.error.code, result.error.message, str(result.error.details)) for result in early + late + nobody}
    assert len(said) == 1
    assert not any(word in str(said) for word in ("srv", "bash", "ghost", "other"))
    assert asked == 0


async def test_denied_and_held_tools_are_neither_listed_nor_called_by_anybody():
    """Those who may know are told why; those who may not are told nothing."""
    source = FakeSource("srv", [Tool("get", "first"), Tool("get_b")])
    config = Config(security=SecurityConfig(policies={"srv__get_b": "deny"}))
    limited = Caller("t", "token", Grants(SecurityLevel.READ_ONLY, tools=("other__*",)))
    async with memory_crib(source, config=config) as made:
        await made.crib.refresh()
        source.tools = (Tool("get", "second"), Tool("get_b"))
        await made.crib.refresh()
        shown = await made.crib.tools()
        held, denied = [await made.crib.call(name) for name in ("srv__get", "srv__get_b")]
        hidden = [await made.crib.call(name, caller=limited) for name in ("srv__get", "srv__get_b")]

    assert (shown, source.calls) == ([], [])
    assert "quarantine" in held.error.message
    assert "denied by the configuration" in denied.error.message
    assert "toolcrib policy srv__get_b allow" in denied.error.message
    assert all("not open to this caller" in result.error.message for result in hidden)


async def test_many_callers_with_grants_of_their_own_are_each_decided_right():
    """However many there are, what is remembered of one is not given to another."""
    async with memory_crib(FakeSource("srv", ["write_it"])) as made:
        for number in range(600):
            level = SecurityLevel.WRITE if number % 2 else SecurityLevel.READ_ONLY
            caller = Caller(f"c{number}", "token", Grants(level, tools=("srv__*", f"x{number}")))
            result = await made.crib.call("srv__write_it", caller=caller)
            assert result.success == (level is SecurityLevel.WRITE)
        assert (await made.crib.call("srv__write_it", caller=LOCAL_USER)).success
        equal = Caller("c", "token", Grants(EVERYTHING.level))
        assert (await made.crib.call("srv__write_it", caller=equal)).success


async def test_without_prefixes_a_caller_of_one_server_finds_its_tools_at_the_first_call():
    """A bare name does not say whose it is, so it is looked for; what is not granted stays closed."""
    caller = Caller("t", "token", Grants(SecurityLevel.SYSTEM, ("srv",)))
    async with memory_crib(FakeSource("srv", ["get"]), FakeSource("other", ["put"]), prefix=False) as made:
        own = await made.crib.call("get", caller=caller)
        foreign = await made.crib.call("put", caller=caller)

    assert (own.text, foreign.error.code) == ("get ran", "TOOL_PERMISSION_DENIED")


@pytest.mark.parametrize(
    ("reach", "decision"),
    [
        (Reach("srv__work", "srv", policy="allow"), "allowed"),
        (Reach("srv__work", "srv", policy="ask"), "ask"),
        (Reach("srv__work", "srv", policy="deny"), None),
        (Reach("srv__work", "srv", policy="ask", held="it is new"), None),
    ],
)
@pytest.mark.parametrize("grants", [EVERYTHING, Grants(SecurityLevel.SYSTEM, ("srv",))])
async def test_what_is_allowed_or_asked_for_goes_on_and_nothing_else(reach, decision, grants):
    """Whoever is to be asked is the next layer's part."""
    done = Result({"content": []})

    async def following(_: Request) -> Result:
        return done

    call = Request("srv__work", "work", {}, caller=Caller("me", grants=grants))
    step = permit()(Subject("srv__work", "srv", Tool("work"), reach), following)
    if decision is None:
        with pytest.raises(PermissionDenied):
            await step(call)
    else:
        assert (await step(call), call.context.decision) == (done, decision)
