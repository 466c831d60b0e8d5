"""Normalise: a model's parameter names become the server's own; nothing else is touched."""

from dataclasses import replace

import pytest

from toolcrib.calls.layers.arguments import normalise
from toolcrib.calls.pipeline import Subject
from toolcrib.core.errors import RemoteError
from toolcrib.core.events import ARGUMENTS_RENAMED, Event
from toolcrib.core.offers import Tool
from toolcrib.core.requests import Request, Result


def schema(*names: str) -> dict:
    return {"type": "object", "properties": {name: {} for name in names}}


async def passed_on(tool: Tool, arguments: dict, *, server: str = "home"):
    """The arguments that reach the server, and what was told."""
    told: list[Event] = []
    received: list[dict] = []

    async def source(call: Request) -> Result:
        received.append(call.arguments)
        return Result({})

    step = normalise(told.append)(Subject(f"{server}__{tool.name}", server, tool), source)
    await step(Request(f"{server}__{tool.name}", tool.name, arguments, "id-1"))
    return received[0], told


ZWAVE = Tool(
    "control_zwave_device",
    input_schema=schema("deviceName", "action", "value"),
    renames={"device_name": "deviceName", "command": "action"},
)


async def test_a_device_is_controlled_by_the_servers_names():
    """The configured renames of this tool, and a log line without values."""
    arguments, told = await passed_on(ZWAVE, {"device_name": "lamp", "command": "on", "value": 3})

    assert arguments == {"deviceName": "lamp", "action": "on", "value": 3}
    assert told == [
        Event(
            ARGUMENTS_RENAMED,
            "info",
            {
                "tool": "home__control_zwave_device",
                "id": "id-1",
                "names": {"device_name": "deviceName", "command": "action"},
            },
        )
    ]


@pytest.mark.parametrize(
    ("properties", "given", "expected"),
    [
        (["deviceName"], {"device_name": 1}, {"deviceName": 1}),
        (["deviceID"], {"device_id": 1}, {"deviceID": 1}),
        (["device_name"], {"device_name": 1}, {"device_name": 1}),
        (["device_name", "deviceName"], {"device_name": 1}, {"device_name": 1}),
        (["deviceName"], {"device_name": 1, "deviceName": 2}, {"device_name": 1, "deviceName": 2}),
        (["other"], {"device_name": 1}, {"device_name": 1}),
        (["deviceName"], {"devicename": 1}, {"devicename": 1}),
        (["deviceName"], {}, {}),
    ],
)
async def test_snake_case_becomes_camel_case_where_the_schema_has_it(properties, given, expected):
    """Names without underscores, names the schema knows, and names already given are left alone."""
    arguments, told = await passed_on(Tool("move", input_schema=schema(*properties)), given)

    assert arguments == expected
    assert len(told) == (arguments != given)


async def test_a_configured_rename_wins_over_the_static_one():
    """What the user wrote is what the user wants."""
    wished = replace(ZWAVE, renames={"command": "verb"})

    arguments, _ = await passed_on(wished, {"device_name": "lamp", "command": "on"})

    assert arguments == {"deviceName": "lamp", "verb": "on"}


async def test_native_tools_are_never_touched():
    """Not even one of that name: there is no layer at all."""

    async def source(call: Request) -> Result:
        return Result({})

    assert normalise(lambda event: None)(Subject(ZWAVE.name, "", ZWAVE), source) is source


async def test_the_callers_own_object_is_not_changed():
    """Renaming makes a new object."""
    given = {"device_name": "lamp"}

    await passed_on(ZWAVE, given)

    assert given == {"device_name": "lamp"}


async def test_the_servers_own_error_comes_back_unchanged():
    """Renamed or not, its words are its words."""
    refusal = RemoteError(-32000, "no such device", data={"deviceName": "lamp"})

    async def source(call: Request) -> Result:
        raise refusal

    step = normalise(lambda event: None)(Subject("home__control_zwave_device", "home", ZWAVE), source)
    with pytest.raises(RemoteError) as raised:
        await step(Request("home__control_zwave_device", ZWAVE.name, {"device_name": "lamp"}))

    assert raised.value is refusal
