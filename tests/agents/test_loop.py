"""The loop, with each provider's own words at the other end."""

import asyncio
import json

import pytest
from tests.doubles.llm import LlmDouble, Step

from toolcrib import open_crib, tool
from toolcrib.agents.loop import Agent, AgentSettings, Done, ModelSaid, Started, ToolFinished
from toolcrib.config.model import Config
from toolcrib.core.errors import CallerError, SourceUnavailable
from toolcrib.models.api import ModelSettings
from toolcrib.models.choose import APIS
from toolcrib.models.http_model import HttpModel
from toolcrib.models.talk import TextPart

PROVIDERS = list(APIS)
PIXEL = "iVBORw0KGgo="
everywhere = pytest.mark.parametrize("provider", PROVIDERS)
both_ways = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


class Meeting:
    """Tools that wait for each other: they only finish if all run at the same time."""

    def __init__(self, size: int) -> None:
        self._barrier = asyncio.Barrier(size)

    def tools(self):
        @tool(security_level="read_only")
        async def meet(name: str) -> str:
            """Come to the meeting."""
            await asyncio.wait_for(self._barrier.wait(), 150)
            return f"{name} was there"

        return [meet]


@tool(security_level="read_only")
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@tool(security_level="read_only")
def picture() -> list[dict[str, str]]:
    """Show a picture."""
    return [{"type": "text", "text": "a pixel"}, {"type": "image", "mimeType": "image/png", "data": PIXEL}]


@tool(security_level="read_only")
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


def agent(crib, llm, provider, **settings):
    return Agent(crib, HttpModel(ModelSettings(provider, "small", llm.url)), AgentSettings(**settings))


async def happenings(agent, question="Go"):
    return [event async for event in agent.run(question)]


@both_ways
@everywhere
async def test_the_calls_of_a_turn_run_together_and_their_answers_pair_by_id(provider, stream):
    calls = tuple(("meet", {"name": name}) for name in ("Ann", "Bob", "Cy"))
    with LlmDouble(Step("", calls), Step("All met.")) as llm:
        async with open_crib(Config(), tools=Meeting(3).tools()) as crib:
            events = await happenings(agent(crib, llm, provider, stream=stream))

    *_, done = events
    assert isinstance(done, Done)
    assert (done.text, done.reason, done.turns, done.usage.total) == ("All met.", "end", 2, 36)
    answers = {event.id: event.answer.text for event in events if isinstance(event, ToolFinished)}
    begun = {event.id: f"{event.arguments['name']} was there" for event in events if isinstance(event, Started)}
    assert answers == begun
    sent = json.dumps(llm.asked[1])
    assert [sent.index(f"{name} was there") for name in ("Ann", "Bob", "Cy")] == sorted(
        sent.index(f"{name} was there") for name in ("Ann", "Bob", "Cy")
    )
    assert all(answer_id in sent for answer_id in answers)


@both_ways
@everywhere
async def test_errors_images_and_structured_results_reach_the_model(provider, stream):
    calls = (("fail", {"why": "no luck"}), ("picture", {}), ("add", {"a": 2, "b": 3}), ("nowhere", {}))
    with LlmDouble(Step("Trying.", calls), Step("I see.")) as llm:
        async with open_crib(Config(), tools=[fail, picture, add]) as crib:
            events = await happenings(agent(crib, llm, provider, stream=stream))

    answers = {event.tool: event.answer for event in events if isinstance(event, ToolFinished)}
    assert {name for name, answer in answers.items() if answer.is_error} == {"fail", "nowhere"}
    sent = json.dumps(llm.asked[1])
    assert all(word in sent for word in ("no luck", PIXEL, "a pixel", "sum"))
    assert "".join(event.text for event in events if isinstance(event, ModelSaid)) == (
        "Trying.I see." if stream else ""
    )


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-responses"])
async def test_a_call_that_is_cut_off_is_an_error_for_the_model_and_is_not_made(provider):
    cut = Step("", (("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 222_222})), cut=True)
    with LlmDouble(cut, Step("Sorry.")) as llm:
        async with open_crib(Config(), tools=[add]) as crib:
            *events, done = await happenings(agent(crib, llm, provider))

    first, second = sorted((e for e in events if isinstance(e, ToolFinished)), key=lambda event: event.id)
    assert (first.answer.is_error, second.answer.is_error) == (False, True)
    assert "not made" in second.answer.text
    assert done.text == "Sorry."


@pytest.mark.parametrize("written", ["[1, 2]", "{not json", "nonsense"])
async def test_arguments_that_are_no_object_are_an_error_for_the_model(written):
    with LlmDouble(Step("", (("add", written),)), Step("Oh.")) as llm:
        async with open_crib(Config(), tools=[add]) as crib:
            *events, done = await happenings(agent(crib, llm, "openai"))

    (answer,) = [event.answer for event in events if isinstance(event, ToolFinished)]
    assert answer.is_error
    assert done.text == "Oh."


async def test_a_limit_of_turns_ends_it():
    with LlmDouble(*[Step("", (("add", {"a": 1, "b": 1}),))] * 9) as llm:
        async with open_crib(Config(), tools=[add]) as crib:
            done = await agent(crib, llm, "anthropic", max_turns=3).ask("Go on for ever")

    assert (done.reason, done.turns, len(llm.asked)) == ("turns", 3, 3)


async def test_a_budget_of_tokens_ends_it():
    with LlmDouble(*[Step("", (("add", {"a": 1, "b": 1}),))] * 9) as llm:
        async with open_crib(Config(), tools=[add]) as crib:
            done = await agent(crib, llm, "openai", budget=30).ask("Go on for ever")

    assert (done.reason, done.usage.total) == ("budget", 36)


async def test_only_the_chosen_tools_are_offered_and_run():
    with LlmDouble(Step("", (("fail", {"why": "x"}), ("add", {"a": 1, "b": 2}))), Step("ok")) as llm:
        async with open_crib(Config(), tools=[add, fail]) as crib:
            events = await happenings(agent(crib, llm, "anthropic", tools=frozenset({"add"})))

    assert [offered["name"] for offered in llm.asked[0]["tools"]] == ["add"]
    answers = {event.tool: event.answer.text for event in events if isinstance(event, ToolFinished)}
    assert "not one of the tools" in answers["fail"]


async def test_who_stops_listening_stops_the_tools_and_the_conversation_can_go_on():
    began, ended = asyncio.Event(), asyncio.Event()

    @tool(security_level="read_only")
    async def hang() -> str:
        """Never end."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    with LlmDouble(Step("", (("hang", {}),)), Step("Fine.")) as llm:
        async with open_crib(Config(), tools=[hang]) as crib:
            talking = agent(crib, llm, "anthropic")
            asking = asyncio.create_task(talking.ask("Go"))
            await began.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert ended.is_set()
            done = await talking.ask("Never mind")

    results = [block for block in llm.asked[1]["messages"][2]["content"] if block["type"] == "tool_result"]
    assert [result["is_error"] for result in results] == [True]
    assert done.text == "Fine."


async def test_a_question_the_model_never_answered_is_not_part_of_the_conversation():
    with LlmDouble(Step(status=400, body={"error": {"message": "no"}}), Step("Hello.")) as llm:
        async with open_crib(Config()) as crib:
            talking = agent(crib, llm, "openai")
            with pytest.raises(SourceUnavailable):
                await talking.ask("First")
            await talking.ask("Second")

    assert [turn.text for turn in talking.turns] == ["Second", "Hello."]
    assert talking.turns[0].parts == (TextPart("Second"),)


async def test_tools_that_are_not_loaded_are_left_to_the_providers_own_search():
    """The definitions go along, but the model reads them only when it looks for them."""
    with LlmDouble(Step("", (("add", {"a": 1, "b": 2}),)), Step("3")) as llm:
        async with open_crib(Config(), tools=[add, fail]) as crib:
            done = await agent(crib, llm, "anthropic", loaded=frozenset({"fail"})).ask("Add")

    offered = {
        each["name"]: each.get("defer_loading", False) for each in llm.asked[0]["tools"] if "input_schema" in each
    }
    assert offered == {"add": True, "fail": False, "result_read": True}
    assert any(each.get("type", "").startswith("tool_search_tool") for each in llm.asked[0]["tools"])
    assert done.text == "3"


async def test_a_provider_without_a_search_of_its_own_says_so():
    with LlmDouble(Step("?")) as llm:
        async with open_crib(Config(), tools=[add]) as crib:
            with pytest.raises(CallerError, match="cannot load tools later"):
                await agent(crib, llm, "ollama", loaded=frozenset()).ask("Add")
