"""What all adapters have in common, without any framework."""

import importlib
from dataclasses import replace
from typing import Any

import pytest

from toolcrib.adapters.offered import (
    FrameworkOffer,
    framework,
    get_prompt,
    list_prompts,
    list_resources,
    offer_tools,
    read_resource,
    without,
)
from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.core.errors import CallerError, UnknownTool
from toolcrib.core.offers import Offer, OfferKind, Prompt, Resource, ResourceTemplate, Tool
from toolcrib.core.requests import Result
from toolcrib.models.talk import Picture, TextPart
from toolcrib.schema.dialects.names import PARAMETER_NAMES

ADAPTERS = {
    "agent_framework": "agent-framework",
    "claude_agent_sdk": "claude-agent-sdk",
    "google_adk": "google-adk",
    "langchain": "langchain",
    "openai_agents": "openai-agents",
    "pydantic_ai": "pydantic-ai",
    "smolagents": "smolagents",
}
PLAIN = framework("plain", parameters=without(PARAMETER_NAMES, "self", "config"))


class Box:
    """The smallest thing that has tools: a profile of a Crib is no more."""

    def __init__(self, *tools: Tool) -> None:
        self._tools = tools
        self.called: list[tuple[str, dict[str, Any], Caller]] = []

    def replace(self, *tools: Tool) -> None:
        self._tools = tools

    async def tools(self, *, caller: Caller) -> list[Tool]:
        return [tool for tool in self._tools if caller is LOCAL_USER or tool.name == "time__now"]

    async def call(self, name: str, arguments: Any, *, caller: Caller, channel: Any) -> Result:
        self.called.append((name, dict(arguments), caller))
        return Result({"content": [{"type": "text", "text": "noon"}], "structuredContent": {"hour": 12}})


NOW = Tool("time__now", "What time it is.")
ODD = Tool(
    "kb.search",
    "Search.",
    {"type": "object", "properties": {"self": {}, "t_self": {}, "config": {}}, "required": ["self"]},
)
NO_OBJECT = Tool("list", "A list.", {"type": "array"})


@pytest.mark.parametrize(("module", "extra"), ADAPTERS.items())
def test_an_adapter_without_its_framework_says_what_to_install(module: str, extra: str):
    with pytest.raises(ImportError, match=rf'not installed\. Run `pip install "toolcrib\[{extra}\]"`') as caught:
        importlib.import_module(f"toolcrib.adapters.{module}")

    assert isinstance(caught.value, CallerError)


async def test_names_that_are_not_legal_or_taken_by_the_framework_lead_back_to_the_tool():
    box = Box(NOW, ODD)

    _, search = await offer_tools(box, PLAIN)
    self_name, plain, config = search.schema["properties"]
    result = await search.run({self_name: 1, plain: 2, config: 3})

    assert (search.name, plain, config) == ("kb_search", "t_self", "t_config")
    assert self_name not in ("self", "t_self")
    assert search.schema["required"] == [self_name]
    assert box.called == [("kb.search", {"self": 1, "t_self": 2, "config": 3}, LOCAL_USER)]
    assert result.structured == {"hour": 12}


async def test_only_the_named_tools_are_offered_in_the_order_they_are_named():
    offered = await offer_tools(Box(NOW, ODD, replace(NOW, name="other")), PLAIN, ["kb.search", "time__now"])

    assert [one.name for one in offered] == ["kb_search", "time__now"]


async def test_a_name_that_no_tool_has_is_refused():
    with pytest.raises(UnknownTool, match="Did you mean 'time__now'"):
        await offer_tools(Box(NOW, ODD), PLAIN, ["time__nwo"])


async def test_a_tool_no_model_can_call_is_left_out_unless_it_is_asked_for():
    box = Box(NOW, NO_OBJECT)

    assert [one.name for one in await offer_tools(box, PLAIN)] == ["time__now"]
    with pytest.raises(CallerError, match=r"list cannot be offered to a model: its arguments are not an object"):
        await offer_tools(box, PLAIN, ["list"])


async def test_the_caller_decides_what_is_offered_and_is_the_one_who_calls():
    box, ann = Box(NOW, ODD), Caller("ann")

    (now,) = await offer_tools(box, PLAIN, caller=ann)
    answer = await now.answer({})

    assert (answer.text, answer.is_error) == ("noon", False)
    assert box.called == [("time__now", {}, ann)]


async def test_an_offering_follows_the_catalogue_and_is_worked_out_only_when_that_changes():
    box = Box(NOW)
    offering = FrameworkOffer(box, PLAIN, None, LOCAL_USER)

    first, again = await offering.current(), await offering.current()
    box.replace(NOW, ODD)
    grown = await offering.current()

    assert first[0] is again[0]
    assert [one.name for one in grown] == ["time__now", "kb_search"]


class Wiki:
    """What has prompts and resources; as a Crib has them."""

    async def offers(self, kind: OfferKind, *, caller: Caller) -> list[Offer]:
        known = (Prompt("wiki__plan"), Resource("wiki__docs://a"), ResourceTemplate("wiki__docs://{x}"))
        return [offer for offer in known if offer.kind is kind and caller is LOCAL_USER]

    async def get(self, name: str, arguments: Any, *, caller: Caller) -> Result:
        if name != "wiki__plan":
            return Result.failed(UnknownTool(name))
        said = [("assistant", "Hello."), ("user", f"Plan {dict(arguments or {})}.")]
        return Result({"messages": [{"role": who, "content": {"type": "text", "text": text}} for who, text in said]})

    async def read(self, name: str, *, caller: Caller) -> Result:
        if name == "none":
            return Result.failed(UnknownTool(name))
        parts = [{"text": "words"}, {"mimeType": "image/png", "blob": "aGk="}, {"uri": "u", "blob": "aGk="}]
        return Result({"contents": parts})


async def test_prompts_and_resources_are_had_without_any_framework():
    """As turns, words and images; what cannot be had is an error that says why."""
    wiki = Wiki()
    prompts, resources = await list_prompts(wiki), await list_resources(wiki)
    turns = await get_prompt(wiki, "wiki__plan", {"a": "b"})
    read = await read_resource(wiki, "docs://wiki/a")
    with pytest.raises(CallerError, match="No tool named 'wiki__none'"):
        await get_prompt(wiki, "wiki__none")
    with pytest.raises(CallerError):
        await read_resource(wiki, "none")

    assert [offer.name for offer in (*prompts, *resources)] == ["wiki__plan", "wiki__docs://a", "wiki__docs://{x}"]
    assert [(turn.role, turn.text) for turn in turns] == [("assistant", "Hello."), ("user", "Plan {'a': 'b'}.")]
    assert read == [TextPart("words"), Picture("image/png", "aGk="), TextPart("[resource u]")]
    assert await list_prompts(wiki, caller=Caller("other")) == []
