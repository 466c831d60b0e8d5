"""The two tools that list and read resources, for models whose client knows of tools alone."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from toolcrib.calls.results.preview import META as KEPT
from toolcrib.config.model import Config, ResultsConfig
from toolcrib.config.sections import ExposeConfig, ProfileConfig, SecurityConfig
from toolcrib.core.access import EVERYTHING, LOCAL_USER, Caller, Grants
from toolcrib.core.kinds import Policy
from toolcrib.core.offers import OfferKind, Resource, ResourceTemplate, SecurityLevel, Tool, other_from_mcp
from toolcrib.core.requests import Request, Result
from toolcrib.core.source import Listing
from toolcrib.crib.builder import open_crib
from toolcrib.crib.window import Profiles, ProfileView, with_resources
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.sources.native.functions import define
from toolcrib.testing import RecordingChannel
from toolcrib.wire.jsonrpc import Inbound
from toolcrib.wire.messages import Asker

TWO = ["resources_list", "resource_read"]
ELSEWHERE = Caller("token:b", "token", Grants(SecurityLevel.SYSTEM, servers=("other",)))


class Shelf:
    """A source with something to read."""

    name, pinned = "lib", True

    def __init__(self, text: str = "All about it.") -> None:
        self.text, self.read = text, list[str]()

    async def list_offers(self) -> Listing:
        others = (
            Resource("memo://about", "What this is.", extra={"name": "about", "mimeType": "text/plain"}),
            ResourceTemplate("memo://photos/{id}", extra={"name": "photos"}),
            other_from_mcp(OfferKind.PROMPT, {"name": "greet", "description": "Greets."}),
        )
        return Listing((Tool("look", "Look."),), others=others)

    async def answer(self, call: Request) -> Result:
        self.read.append(call.target)
        if "photos" in call.target:
            return Result({"contents": [{"uri": call.target, "mimeType": "image/png", "blob": "aGk="}]})
        if "data" in call.target:
            return Result({"contents": [{"uri": call.target, "mimeType": "application/zip", "blob": "aGk="}]})
        return Result({"contents": [{"uri": call.target, "text": self.text}]})

    def on_change(self, listener: Callable[[], None]) -> None:
        pass

    async def close(self) -> None:
        pass


@asynccontextmanager
async def showing(config: Config, source: Shelf | None = None, profile: str = "") -> AsyncIterator[ProfileView]:
    async with open_crib(config, sources=[source or Shelf()]) as crib:
        await crib.tools()
        yield Profiles(crib, config).need(profile)


async def listed(view: ProfileView, caller: Caller = LOCAL_USER) -> list[str]:
    mcp, asker = McpService(view, ServerIdentity()), Asker("2025-06-18", info={"name": "any"})
    asked = Inbound("2.0", 1, "tools/list", {})
    body, _ = await mcp.respond(asked, asker, RecordingChannel(), caller)
    return [tool["name"] for tool in json.loads(body)["result"]["tools"]]


@pytest.mark.parametrize(
    ("expose", "caller", "shown"),
    [
        (ExposeConfig(), LOCAL_USER, []),
        (ExposeConfig(resources=True), LOCAL_USER, TWO),
        (ExposeConfig(resources="auto"), LOCAL_USER, TWO),
        (ExposeConfig("search", resources="auto"), LOCAL_USER, TWO),
        (ExposeConfig(resources=True), ELSEWHERE, TWO),
        (ExposeConfig(resources="auto"), ELSEWHERE, []),
    ],
)
async def test_they_are_listed_where_they_are_wanted_and_of_use(expose: ExposeConfig, caller: Caller, shown: list[str]):
    """Nobody is shown them unasked; with ``auto``, nobody who may read nothing."""
    async with showing(Config(expose=expose)) as view:
        names = await listed(view, caller)

    assert [name for name in names if name in TWO] == shown


async def test_a_change_of_the_configuration_is_seen_in_the_next_list():
    """Though the catalogue is the same."""
    config = Config(expose=ExposeConfig(resources="auto"))
    async with open_crib(Config(), sources=[Shelf()]) as crib:
        await crib.tools()
        profiles = Profiles(crib, Config())
        mcp_view = profiles.need("")
        before = await listed(mcp_view)
        profiles.apply(config)
        after = await listed(mcp_view)

    assert (set(TWO) & set(before), set(TWO) & set(after)) == (set(), set(TWO))


async def test_they_list_and_read_what_the_caller_may_read():
    """Texts and pictures as a tool would give them; the log knows the resource that was read."""
    shelf = Shelf()
    async with showing(Config(expose=ExposeConfig(resources=True)), shelf) as view:
        every, found = await view.call("resources_list", {}), await view.call("resources_list", {"query": "photos"})
        text = await view.call("resource_read", {"uri": "memo://lib/about"})
        photo = await view.call("resource_read", {"uri": "memo://lib/photos/7"})
        wrong = [await view.call("resource_read", arguments) for arguments in ({}, {"uri": "memo://lib/none"})]
        tallies = set(view.crib.metrics.tools)

    assert every.text.splitlines() == ["memo://lib/about - What this is", "memo://lib/photos/{id} - photos"]
    assert found.text.splitlines()[0] == "memo://lib/photos/{id} - photos"
    assert (text.text, photo.content[0]["type"]) == ("All about it.", "image")
    assert [result.success for result in wrong] == [False, False]
    assert "resource lib__memo://about" in tallies


async def test_a_client_that_was_not_given_them_cannot_call_them():
    """They are no way around what is configured; a tool of the same name is that tool."""
    own = define(lambda: "mine", name="resource_read", description="Mine.", security_level=SecurityLevel.READ_ONLY)
    async with showing(Config()) as plain:
        refused = await plain.run(plain.request("resources_list", {}))
    config = Config(expose=ExposeConfig(resources=True))
    async with open_crib(config, tools=[own], sources=[Shelf()]) as crib:
        await crib.tools()
        view = Profiles(crib, config).need("")
        names, mine = await listed(view), await view.call("resource_read", {})

    assert refused.error is not None
    assert (names.count("resource_read"), mine.text) == (1, "mine")


async def test_a_resource_too_large_for_a_model_is_read_on_by_its_handle():
    """A program that reads it gets all of it."""
    config = Config(expose=ExposeConfig(resources=True), results=ResultsConfig(limit=4096))
    async with showing(config, Shelf("line of text\n" * 2000)) as view:
        shown = await view.call("resource_read", {"uri": "memo://lib/about"})
        whole = await view.crib.read("memo://lib/about")
        handle = shown.mcp["_meta"][KEPT]["handle"]
        more = await view.call("result_read", {"handle": handle, "line": 1990, "count": 5})

    assert len(json.dumps(shown.mcp)) < 8192
    assert len(whole.mcp["contents"][0]["text"]) == 26_000
    assert "line of text" in more.text


@pytest.mark.parametrize(
    ("security", "grants"),
    [
        (SecurityConfig(policies={"lib__*": Policy.DENY}), EVERYTHING),
        (SecurityConfig(policies={"memo://lib/*": Policy.DENY}), EVERYTHING),
        (SecurityConfig(policies={"lib__*": Policy.DISABLE}), EVERYTHING),
        (SecurityConfig(), Grants(SecurityLevel.SYSTEM, servers=("other",))),
        (SecurityConfig(), Grants(SecurityLevel.SYSTEM, tools=("lib__look",))),
    ],
)
async def test_they_show_nothing_that_is_denied_or_not_granted(security: SecurityConfig, grants: Grants):
    """Not even that it is there."""
    shelf, caller = Shelf(), Caller("token:a", "token", grants)
    async with showing(Config(security=security, expose=ExposeConfig(resources=True)), shelf) as view:
        lists = [await view.call("resources_list", arguments, caller=caller) for arguments in ({}, {"query": "about"})]
        reads = [
            await view.call("resource_read", {"uri": uri}, caller=caller)
            for uri in ("memo://lib/about", "lib__memo://about", "memo://lib/photos/1")
        ]

    assert [one.text for one in lists] == ["There is nothing to read."] * 2
    assert (shelf.read, [one.success for one in reads]) == ([], [False] * 3)


async def test_a_profile_hands_out_only_its_own():
    """What it leaves out is neither listed nor read."""
    profiles = {"photos": ProfileConfig(resources=("memo://lib/photos/*",), tools=())}
    config = Config(expose=ExposeConfig(resources="auto"), profiles=profiles)
    async with showing(config, profile="photos") as view:
        names, every = await listed(view), await view.call("resources_list", {})
        photo = await view.call("resource_read", {"uri": "memo://lib/photos/7"})
        about = await view.call("resource_read", {"uri": "memo://lib/about"})

    assert names == ["result_read", *TWO]
    assert (every.text, photo.success, about.success) == ("memo://lib/photos/{id} - photos", True, False)


async def test_an_agent_in_this_process_is_given_them_by_one_call():
    """As long as there is something to read."""
    async with open_crib(Config(), sources=[Shelf()]) as crib:
        toolbox = with_resources(crib)
        names = [tool.name for tool in await toolbox.tools(caller=LOCAL_USER)]
        read = await toolbox.call("resource_read", {"uri": "memo://lib/about"})
    async with open_crib(Config()) as empty:
        none = [tool.name for tool in await with_resources(empty).tools(caller=LOCAL_USER)]

    assert (names[-2:], read.text) == (TWO, "All about it.")
    assert not set(TWO) & set(none)
