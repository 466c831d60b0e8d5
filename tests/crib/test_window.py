"""What clients are shown of a Crib, and that a tool called by whatever name is called as itself."""

import json
import re

import msgspec
import pytest

from toolcrib.config.model import Config, Origin
from toolcrib.config.sections import ExposeConfig, ProfileConfig, ProfileTool, SecurityConfig
from toolcrib.core.access import EVERYTHING, LOCAL_USER, Caller, Grants
from toolcrib.core.errors import ConfigError
from toolcrib.core.offers import SecurityLevel, Tool
from toolcrib.core.requests import Request, Result
from toolcrib.crib.window import Profiles, ProfileSettings, ProfileView
from toolcrib.schema.signature import count_tokens
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.testing import FakeSource, MemoryAudit, RecordingChannel, memory_crib
from toolcrib.wire.jsonrpc import Inbound
from toolcrib.wire.messages import Asker

ISSUE = Tool(
    "create_issue",
    "Create an issue. In a repository.",
    {
        "type": "object",
        "properties": {"repoName": {"type": "string"}, "title": {"type": "string"}, "labels": {"type": "array"}},
        "required": ["repoName", "title"],
    },
)
SEARCH = ExposeConfig("search")
READER = Caller("reader", "token", Grants(SecurityLevel.READ_ONLY))


def hub() -> FakeSource:
    return FakeSource("hub", [ISSUE, Tool("list_issues", "List issues of a repository."), "delete_repo"])


def clock() -> FakeSource:
    return FakeSource("clock", [Tool("get_time", "Tell the time in a city.")])


def meta(tool: str, caller: Caller | None = None, **arguments: object) -> Request:
    return Request(tool, "", arguments, caller=caller or LOCAL_USER)


async def listed(window: ProfileView, client: str = "", caller: Caller | None = None) -> list[str]:
    mcp = McpService(window, ServerIdentity())
    asker = Asker("2025-06-18", info={"name": client})
    grants = caller or Caller("me", grants=EVERYTHING)
    body, _ = await mcp.respond(Inbound("2.0", 1, "tools/list", {}), asker, RecordingChannel(), grants)
    return [tool["name"] for tool in json.loads(body)["result"]["tools"]]


META = ["tools_find", "tools_describe", "tools_call"]


async def test_a_client_that_searches_is_shown_three_tools_and_the_pinned():
    """They cost less than 160 tokens together, whatever is behind them."""
    async with memory_crib(hub(), clock()) as made:
        window = ProfileView(made.crib, ProfileSettings(ExposeConfig("search", pinned=("clock__*",))))
        names = await listed(window)
        found = [route.to_mcp() for name, route in window.front.routes.items() if name in META]

    assert names == ["clock__get_time", *META]
    assert count_tokens(json.dumps(found, separators=(",", ":"))) < 160


async def test_auto_shows_everything_as_long_as_it_fits():
    """Beyond the budget, it searches; what a caller may not use does not count."""
    async with memory_crib(hub()) as made:
        wide = ProfileView(made.crib, ProfileSettings(ExposeConfig("auto", budget=1000)))
        tight = ProfileView(made.crib, ProfileSettings(ExposeConfig("auto", budget=60)))

        assert "hub__create_issue" in await listed(wide)
        assert await listed(tight) == META
        assert await listed(tight, caller=READER) == ["hub__list_issues"]


async def test_each_client_is_shown_what_is_set_for_its_name():
    """By pattern; all others get what holds for all."""
    async with memory_crib(hub()) as made:
        window = ProfileView(made.crib, ProfileSettings(ExposeConfig("search", clients={"big-*": "all"})))

        assert len(await listed(window, "big-agent")) == 3
        assert await listed(window, "other") == META


async def test_find_answers_with_signatures_of_what_the_caller_may_use():
    """Nothing else takes a place or is mentioned."""
    async with memory_crib(hub(), clock()) as made:
        window = ProfileView(made.crib, ProfileSettings(SEARCH))
        mine = await window.run(meta("tools_find", query="open an issue in a repository", limit=2))
        theirs = await window.run(meta("tools_find", READER, query="delete a repository"))
        nothing = await window.run(meta("tools_find", query="xyzzy"))

    assert mine.text.splitlines()[0] == (
        "hub__create_issue(repoName: str, title: str, labels?: [any]) - Create an issue"
    )
    assert len(mine.text.splitlines()) == 2
    assert "delete_repo" not in theirs.text
    assert nothing.text.startswith("No tool seems")


async def test_describe_gives_the_whole_definition():
    """Of what is there; else the nearest names."""
    async with memory_crib(hub()) as made:
        window = ProfileView(made.crib, ProfileSettings(SEARCH))
        whole = await window.run(meta("tools_describe", name="hub__create_issue"))
        near = await window.run(meta("tools_describe", name="hub__create_isue"))
        hidden = await window.run(meta("tools_describe", READER, name="hub__create_issue"))

    assert json.loads(whole.text)["inputSchema"] == ISSUE.input_schema
    assert "'hub__create_issue'" in near.text
    assert (hidden.error.code, "repoName" in hidden.text) == ("TOOL_INVALID_INPUT", False)


async def test_a_tool_called_through_another_is_called_as_itself():
    """With its channel, its answers and its bytes; the audit log names it, and the result is not touched."""
    source, audit = hub(), MemoryAudit()
    raw = b'{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":{"n":1.50}}'
    source.answers["create_issue"] = Result(raw=raw)
    channel = RecordingChannel()
    async with memory_crib(source, audit=audit) as made:
        window = ProfileView(made.crib, ProfileSettings(SEARCH))
        call = meta("tools_call", name="hub__create_issue", arguments={"repo_name": "r", "title": "t"})
        result = await window.run(msgspec.structs.replace(call, channel=channel, more={"requestState": "s"}))

    assert result.raw == raw
    arrived = source.calls[0]
    assert (arrived.target, arrived.arguments) == ("create_issue", {"repoName": "r", "title": "t"})
    assert (arrived.channel, arrived.more) == (channel, {"requestState": "s"})
    assert {entry.tool for entry in audit.noted if entry.event == "call"} == {"hub__create_issue"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": "hub__create_isue"}, "Did you mean 'hub__create_issue'"),
        ({"name": "tools_call"}, "No tool named 'tools_call'"),
        ({"name": "hub__create_issue", "arguments": {"title": "t"}}, "hub__create_issue(repoName: str, title: str,"),
        ({"name": "hub__create_issue", "arguments": '{"title": 5'}, "arguments must be an object"),
        ({"name": "hub__create_issue", "arguments": [1]}, "arguments must be an object"),
        ({}, "name must be a string"),
    ],
)
async def test_a_call_that_cannot_be_made_says_how_it_can(arguments, says):
    """In the result, where a model reads it: never as an error of the protocol."""
    async with memory_crib(hub()) as made:
        mcp = McpService(ProfileView(made.crib, ProfileSettings(SEARCH)), ServerIdentity())
        request = Inbound("2.0", 1, "tools/call", {"name": "tools_call", "arguments": arguments})
        body, _ = await mcp.respond(request, Asker("2025-06-18"), RecordingChannel())

    result = json.loads(body)["result"]
    assert result["isError"] is True
    assert says in result["content"][0]["text"]


async def test_permissions_and_policies_are_those_of_a_direct_call():
    """Word for word."""
    config = Config(security=SecurityConfig(policies={"hub__delete_repo": "deny"}))
    async with memory_crib(hub(), config=config) as made:
        await made.crib.current()
        window = ProfileView(made.crib, ProfileSettings(SEARCH))
        for name, caller in (("hub__delete_repo", None), ("hub__create_issue", READER), ("hub__nothing", READER)):
            direct = await window.run(meta(name, caller))
            through = await window.run(meta("tools_call", caller, name=name))

            assert direct.error.code == "TOOL_PERMISSION_DENIED"
            assert (through.error, through.text) == (direct.error, direct.text)


async def test_where_everything_is_shown_the_three_names_mean_nothing():
    """A native tool may have them."""

    def tools_find(query: str) -> str:
        """Mine."""
        return f"mine {query}"

    async with memory_crib(tools=[tools_find]) as made:
        plain = await ProfileView(made.crib, ProfileSettings()).run(meta("tools_find", query="x"))
        searching = ProfileView(made.crib, ProfileSettings(SEARCH))
        through = await searching.run(meta("tools_call", name="tools_find", arguments={"query": "x"}))

    assert plain.text == through.text == "mine x"


# Profiles

TRIAGE = ProfileConfig(
    servers=("hub",),
    without=("*delete*",),
    change={"hub__create_issue": ProfileTool("report", "Report a bug.", fixed={"repoName": "app"}, hidden=("labels",))},
)


async def test_a_profile_shows_its_tools_dressed():
    """Renamed, described anew, and without what is not for the model."""
    async with memory_crib(hub(), clock()) as made:
        window = ProfileView(made.crib, ProfileSettings(profile=TRIAGE), "triage")
        await made.crib.current()
        shown = window.catalog.routes["report"].to_mcp()

        assert await listed(window) == ["hub__list_issues", "report"]
        assert (await window.find("report a bug"))[0].route.name == "report"
    assert shown["description"] == "Report a bug."
    assert shown["inputSchema"] == {
        "type": "object",
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
    }


async def test_fixed_arguments_are_filled_in_and_the_call_is_the_real_tools():
    """In the audit log, too."""
    source, audit = hub(), MemoryAudit()
    async with memory_crib(source, audit=audit) as made:
        result = await ProfileView(made.crib, ProfileSettings(profile=TRIAGE), "triage").run(meta("report", title="t"))

    assert result.success
    assert (source.calls[0].target, source.calls[0].arguments) == ("create_issue", {"title": "t", "repoName": "app"})
    assert {entry.tool for entry in audit.noted if entry.event == "call"} == {"hub__create_issue"}


@pytest.mark.parametrize("name", ["repoName", "repo_name", "labels"])
async def test_nobody_else_can_give_what_a_profile_keeps_to_itself(name):
    """Under whatever name the server would get it."""
    source = hub()
    async with memory_crib(source) as made:
        result = await ProfileView(made.crib, ProfileSettings(profile=TRIAGE), "triage").run(
            meta("report", title="t", **{name: "x"})
        )

    assert (result.error.code, source.calls) == ("TOOL_INVALID_INPUT", [])
    assert "cannot be given here" in result.text


@pytest.mark.parametrize("name", ["label", "Labels", "lables"])
async def test_a_slip_of_the_pen_is_no_way_to_a_hidden_parameter(name):
    """What would be repaired elsewhere is refused here, without a word of what is hidden."""
    closed = Tool("create_issue", "", {**ISSUE.input_schema, "additionalProperties": False})
    source = FakeSource("hub", [closed])
    async with memory_crib(source) as made:
        window = ProfileView(made.crib, ProfileSettings(profile=TRIAGE), "triage")
        refused = await window.run(meta("report", title="t", **{name: ["x"]}))
        repaired = await window.run(meta("report", titel="t"))

    assert (refused.error.code, "'labels'" in refused.text) == ("TOOL_INVALID_INPUT", False)
    assert f"unknown field '{name}'; allowed: title" in refused.text
    assert repaired.success
    assert [call.arguments for call in source.calls] == [{"title": "t", "repoName": "app"}]


async def test_what_is_wrong_with_arguments_is_said_by_what_was_shown():
    """Under the name that was shown, without a word of what was not; through tools_call with the signature."""
    closed = Tool("create_issue", "", {**ISSUE.input_schema, "additionalProperties": False})
    profile = ProfileConfig(**{**_fields(TRIAGE), "expose": "search"})
    async with memory_crib(FakeSource("hub", [closed])) as made:
        window = Profiles(made.crib, Config(profiles={"triage": profile})).need("triage")
        direct = await window.run(meta("report", label="bug"))
        through = await window.run(meta("tools_call", name="report", arguments={"title": [5]}))

    assert direct.text.startswith("report: missing required field 'title'")
    assert "unknown field 'label'; allowed: title" in direct.text
    assert not {"repoName", "labels"} & set(re.findall(r"\w+", direct.text + through.text))
    assert through.text.endswith("\nreport(title: str) - Report a bug")


async def test_who_may_not_call_a_tool_learns_nothing_of_what_a_profile_does_to_it():
    """Giving what cannot be given is refused like any other call of theirs."""
    async with memory_crib(hub()) as made:
        window = ProfileView(made.crib, ProfileSettings(profile=TRIAGE), "triage")
        with_it = await window.run(meta("report", READER, title="t", repoName="x"))
        without = await window.run(meta("report", READER, title="t"))

    assert with_it.error == without.error
    assert with_it.error.code == "TOOL_PERMISSION_DENIED"


@pytest.mark.parametrize("name", ["hub__create_issue", "hub__delete_repo", "clock__get_time", "nothing"])
async def test_what_a_profile_does_not_show_cannot_be_called_through_it(name):
    """Not even by its real name; the refusal is written down, and names nothing outside the profile."""
    source, audit = hub(), MemoryAudit()
    profile = ProfileConfig(**{**_fields(TRIAGE), "expose": "search"})
    async with memory_crib(source, clock(), audit=audit) as made:
        window = Profiles(made.crib, Config(profiles={"triage": profile})).need("triage")
        direct = await window.run(meta(name))
        through = await window.run(meta("tools_call", name=name))

    assert (direct.error.code, through.error.code) == ("TOOL_NOT_FOUND", "TOOL_INVALID_INPUT")
    assert source.calls == []
    assert "clock__" not in through.text.replace(name, "")
    assert [(entry.tool, entry.outcome) for entry in audit.noted] == [(name, "TOOL_NOT_FOUND")] * 2


def _fields(profile: ProfileConfig) -> dict[str, object]:
    return {name: getattr(profile, name) for name in profile.__slots__}


async def test_grants_and_policies_go_by_the_real_name():
    """Another name opens no door."""
    limited = Caller("t", "token", Grants(SecurityLevel.SYSTEM, tools=("report",)))
    granted = Caller("t", "token", Grants(SecurityLevel.SYSTEM, tools=("hub__create_issue",)))
    async with memory_crib(hub()) as made:
        window = ProfileView(made.crib, ProfileSettings(profile=TRIAGE), "triage")

        assert await listed(window, caller=limited) == []
        assert await listed(window, caller=granted) == ["report"]
        assert (await window.run(meta("report", limited, title="t"))).error.code == "TOOL_PERMISSION_DENIED"
        assert (await window.run(meta("report", granted, title="t"))).success


async def test_why_tells_what_a_profile_does_to_a_tool():
    """Here, renamed, left out and by which of its words."""
    broken = ProfileConfig(
        tools=("hub__*",),
        change={
            "hub__create_issue": ProfileTool(hidden=("title",)),
            "hub__list_issues": ProfileTool(fixed={"repo": 1}),
        },
    )
    async with memory_crib(hub(), clock()) as made:
        await made.crib.current()
        window = ProfileView(made.crib, ProfileSettings(profile=TRIAGE), "triage")
        stories = {name: window.explain(name) for name in ("report", "hub__create_issue", "clock__get_time", "x__y")}
        mended = ProfileView(made.crib, ProfileSettings(profile=broken), "b")
        reasons = [
            mended.explain(name).reasons[0] for name in ("hub__create_issue", "hub__list_issues", "clock__get_time")
        ]

    assert {name: story.verdict for name, story in stories.items()} == {
        "report": "available",
        "hub__create_issue": "renamed",
        "clock__get_time": "hidden",
        "x__y": "missing",
    }
    assert stories["report"].reasons[:3] == (
        "Profile 'triage' shows 'hub__create_issue' under this name.",
        "It fills in repoName.",
        "It hides labels.",
    )
    assert reasons == [
        "Profile 'b' leaves it out: it hides the parameter 'title', which the tool needs: give it a value in fixed.",
        "Profile 'b' leaves it out: it fixes or hides the parameter 'repo', which the tool does not have.",
        "Profile 'b' leaves it out: no pattern of its tools fits.",
    ]


async def test_two_tools_cannot_have_one_name_in_a_profile():
    """The first by its real name keeps it."""
    both = {name: ProfileTool("issue") for name in ("hub__create_issue", "hub__list_issues")}
    async with memory_crib(hub()) as made:
        await made.crib.current()
        window = ProfileView(made.crib, ProfileSettings(profile=ProfileConfig(tools=("*issue*",), change=both)), "p")

    assert [route.real for route in window.catalog.routes.values()] == ["hub__create_issue"]
    assert "it shows 'hub__create_issue' as 'issue' already" in window.explain("hub__list_issues").reasons[0]


async def test_a_change_of_the_configuration_counts_at_once_and_is_told():
    """Only where it changes what is shown; a profile that is taken out shows nothing any more."""
    async with memory_crib(hub()) as made:
        windows = Profiles(made.crib, Config(profiles={"triage": TRIAGE, "other": ProfileConfig()}))
        window, told = windows.need("triage"), []
        before = await listed(window)
        forget = window.on_change(lambda: told.append(1))
        windows.apply(Config(profiles={"triage": TRIAGE}))
        windows.apply(Config(profiles={"triage": ProfileConfig(tools=("hub__list*",))}))
        after = await listed(window)
        windows.apply(Config())
        gone = await listed(window)
        forget()
        windows.apply(Config(profiles={"triage": TRIAGE}))

    assert (before, after, gone) == (["hub__list_issues", "report"], ["hub__list_issues"], [])
    assert len(told) == 2
    assert windows.get("other") is None


def test_an_unknown_profile_is_refused_with_the_nearest():
    """Or with what to write."""
    with pytest.raises(ConfigError, match="Did you mean 'triage'"):
        Profiles(None, Config(profiles={"triage": TRIAGE})).need("triag")


async def test_the_command_line_says_more_than_profiles_and_clients():
    """``--expose`` is for this run, whoever connects."""
    profile = ProfileConfig(expose="all")
    written = Config(expose=ExposeConfig("search", clients={"*": "all"}), profiles={"p": profile})
    flagged = Config(expose=written.expose, profiles=written.profiles, origins={"expose.mode": Origin("flag")})
    async with memory_crib(hub()) as made:
        modes = [
            Profiles(made.crib, config).need(name).mode_for("client")
            for config in (written, flagged)
            for name in ("", "p")
        ]

    assert modes == ["all", "all", "search", "search"]


async def test_a_profile_can_be_used_wherever_a_crib_can():
    profile = ProfileConfig(tools=("hub__create_issue",), change={"hub__create_issue": ProfileTool("report")})
    async with memory_crib(hub(), clock()) as made:
        window = ProfileView(made.crib, ProfileSettings(profile=profile), "triage")
        shown = await window.tools()
        hidden = await window.call("hub__delete_repo", {})
        done = await window.call("report", {"repoName": "a", "title": "b"})

    assert [(tool.name, tool.description) for tool in shown] == [("report", ISSUE.description)]
    assert hidden.error is not None
    assert hidden.error.code == "TOOL_NOT_FOUND"
    assert done.success
