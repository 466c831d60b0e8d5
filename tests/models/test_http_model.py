"""Models behind HTTP: each API is spoken as its provider does, by a double on loopback."""

import json

import pytest
from tests.doubles.llm import LlmDouble, Step

from toolcrib.core.errors import ConfigError, SourceError, SourceUnavailable
from toolcrib.models.api import Lines, ModelSettings
from toolcrib.models.choose import APIS
from toolcrib.models.http_model import HttpModel
from toolcrib.models.talk import (
    ModelReply,
    ModelRequest,
    Picture,
    TextPart,
    TokenUsage,
    ToolAnswer,
    ToolRequest,
    Turn,
    user,
)

PROVIDERS = list(APIS)
PATHS = {
    "openai": "/chat/completions",
    "openai-responses": "/responses",
    "anthropic": "/messages",
    "ollama": "/api/chat",
}
SECRET = "sk-very-secret"
HI = ModelRequest([user("Hi")], "Be kind.", max_tokens=99)
CALLS = Step("Looking.", (("files__read", {"path": "a", "deep": {"n": [1, 2]}}), ("clock_now", {})))


def model(provider, llm, timeout_s=150.0, **limits):
    return HttpModel(ModelSettings(provider, "small", llm.url, SECRET, timeout_s), **limits)


async def said(model, request=HI):
    *pieces, reply = [piece async for piece in model.ask(request)]
    assert isinstance(reply, ModelReply)
    return pieces, reply


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_each_api_is_spoken_and_streams(provider):
    with LlmDouble(Step("Hello there")) as llm:
        pieces, reply = await said(model(provider, llm))
    asked = json.dumps(llm.asked[0])

    assert pieces == ["Hello", " there"]
    assert (reply.turn.text, reply.stop, reply.usage.input, reply.usage.output) == ("Hello there", "end", 11, 7)
    assert llm.paths == [PATHS[provider]]
    assert SECRET in json.dumps(llm.heads)
    assert llm.asked[0]["model"] == "small"
    assert all(word in asked for word in ("Be kind.", '"Hi"', "99"))


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_tool_calls_come_whole_and_are_told_apart(provider, stream):
    with LlmDouble(CALLS) as llm:
        _, reply = await said(model(provider, llm), ModelRequest([user("Go")], stream=stream))
    first, second = reply.turn.uses

    assert (first.name, first.arguments) == ("files__read", {"path": "a", "deep": {"n": [1, 2]}})
    assert (second.name, second.arguments) == ("clock_now", {})
    assert first.id != second.id
    assert (reply.turn.text, reply.stop) == ("Looking.", "tools")


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic"])
async def test_a_call_that_is_cut_off_has_a_problem_and_can_be_sent_back(provider):
    """What goes back has arguments again: no API takes half an object."""
    cut = Step("", (("write", {"path": "a"}), ("write", {"path": "b", "text": "long " * 20})), cut=True)
    with LlmDouble(cut, Step("Sorry.")) as llm:
        speaker = model(provider, llm)
        _, reply = await said(speaker)
        whole, half = reply.turn.uses
        answers = Turn(
            "user", tuple(ToolAnswer(use.id, use.name, (TextPart("no"),), is_error=True) for use in (whole, half))
        )
        await said(speaker, ModelRequest([user("Hi"), reply.turn, answers]))

    assert (whole.problem, "no complete JSON" in half.problem, reply.stop) == ("", True, "length")
    assert "long long" not in json.dumps(llm.asked[1])


CONVERSATION = [
    user("Look."),
    Turn("assistant", (TextPart("I look."), ToolRequest("c1", "look", {"at": "sky"}), ToolRequest("c2", "fail", {}))),
    Turn(
        "user",
        (
            ToolAnswer("c1", "look", (TextPart("blue"), Picture("image/png", "aWNvbg=="))),
            ToolAnswer("c2", "fail", (TextPart("it broke"),), is_error=True),
        ),
    ),
]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_conversation_begun_elsewhere_is_told_in_each_apis_own_words(provider):
    with LlmDouble(Step("Blue.")) as llm:
        await said(model(provider, llm), ModelRequest(CONVERSATION))
    sent = llm.asked[0]

    assert SHOWN[provider](sent) == {
        "ids": ["c1", "c2"],
        "words": ["blue", "it broke"],
        "failed": ["c2"],
        "images": 1,
    }


def _anthropic(sent):
    results = sent["messages"][-1]["content"]
    return {
        "ids": [result["tool_use_id"] for result in results],
        "words": [result["content"][0]["text"] for result in results],
        "failed": [result["tool_use_id"] for result in results if result["is_error"]],
        "images": sum(block["type"] == "image" for result in results for block in result["content"]),
    }


def _chat(sent):
    results = [message for message in sent["messages"] if message["role"] == "tool"]
    *_, last = sent["messages"]
    return {
        "ids": [result["tool_call_id"] for result in results],
        "words": [result["content"].removeprefix("Error: ") for result in results],
        "failed": [result["tool_call_id"] for result in results if result["content"].startswith("Error: ")],
        "images": sum(block["type"] == "image_url" for block in last["content"] if last["role"] == "user"),
    }


def _responses(sent):
    results = [item for item in sent["input"] if item.get("type") == "function_call_output"]
    words = [item["output"] if isinstance(item["output"], str) else item["output"][0]["text"] for item in results]
    return {
        "ids": [item["call_id"] for item in results],
        "words": [word.removeprefix("Error: ") for word in words],
        "failed": [item["call_id"] for item, word in zip(results, words, strict=True) if word.startswith("Error: ")],
        "images": json.dumps(results).count("input_image"),
    }


def _ollama(sent):
    results = [message for message in sent["messages"] if message["role"] == "tool"]
    return {
        "ids": [result["tool_call_id"] for result in results],
        "words": [result["content"].removeprefix("Error: ") for result in results],
        "failed": [result["tool_call_id"] for result in results if result["content"].startswith("Error: ")],
        "images": sum(len(result.get("images", [])) for result in results),
    }


SHOWN = {"anthropic": _anthropic, "openai": _chat, "openai-responses": _responses, "ollama": _ollama}


async def test_a_refusal_is_told_without_the_key():
    refusal = Step(status=401, body={"error": {"message": f"wrong key {SECRET}"}})
    with LlmDouble(refusal) as llm, pytest.raises(SourceUnavailable, match="HTTP 401: wrong key …") as caught:
        await said(model("openai", llm))

    assert SECRET not in str(caught.value)
    assert SECRET not in repr(ModelSettings("openai", "small", llm.url, SECRET))


async def test_a_busy_provider_is_asked_again():
    busy = Step(status=429, body={"error": {"message": "slow down"}}, headers={"retry-after": "0.01"})
    with LlmDouble(busy, busy, Step("Here.")) as llm:
        _, reply = await said(model("anthropic", llm))

    assert (reply.turn.text, len(llm.asked)) == ("Here.", 3)


async def test_a_field_that_a_model_does_not_take_is_left_out_from_then_on():
    """Newer models of OpenAI want another name for the limit, and no temperature."""
    hint = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    steps = (
        Step(status=400, body={"error": {"message": hint}}),
        Step(status=400, body={"error": {"message": "'temperature' does not support 0 with this model."}}),
        Step("Now."),
        Step("Again."),
    )
    with LlmDouble(*steps) as llm:
        speaker = model("openai", llm)
        request = ModelRequest([user("Hi")], max_tokens=99, extra={"temperature": 0})
        assert (await said(speaker, request))[1].turn.text == "Now."
        await said(speaker, request)

    for asked in llm.asked[2:]:
        assert (asked["max_completion_tokens"], asked.keys() & {"max_tokens", "temperature"}) == (99, set())
    assert len(llm.asked) == 4


async def test_a_provider_that_stays_busy_is_told():
    busy = Step(status=529, body={"type": "error", "error": {"message": "overloaded"}}, headers={"retry-after": "0.01"})
    with LlmDouble(*[busy] * 9) as llm, pytest.raises(SourceUnavailable, match="HTTP 529: overloaded"):
        await said(model("anthropic", llm))

    assert len(llm.asked) == 3


@pytest.mark.parametrize("lost", [True, False], ids=["connection lost", "ended too soon"])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_answer_that_breaks_off_is_a_failure_and_is_not_asked_for_again(provider, lost):
    begun = Step("Hello there", broken_after=1, is_lost=lost)
    with LlmDouble(begun, Step("Again")) as llm, pytest.raises(SourceUnavailable):
        await said(model(provider, llm))

    assert len(llm.asked) == 1


async def test_an_error_in_the_middle_of_a_stream_is_told():
    crash = Step(body={"error": "model runner crashed"})
    with LlmDouble(crash) as llm, pytest.raises(SourceUnavailable, match="model runner crashed"):
        await said(model("ollama", llm))


STRANGE = {
    "openai": [{"choices": [5]}, {"choices": {"a": 1}}, {"choices": [{"message": {"tool_calls": [1]}}]}, {"usage": 7}],
    "openai-responses": [{"response": [1]}, {"output": [3], "status": "completed"}, {"output": 3, "usage": "x"}],
    "anthropic": [{"content": 5}, {"content": [7]}, {"type": "content_block_delta"}, {"usage": [1]}],
    "ollama": [{"message": "hi"}, {"message": {"tool_calls": [4]}}, {"done": True, "eval_count": "many"}],
}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(("provider", "body"), [(name, body) for name, bodies in STRANGE.items() for body in bodies])
async def test_an_answer_of_another_shape_is_a_failure_in_words(provider, body, stream):
    with LlmDouble(Step(body=body)) as llm, pytest.raises(SourceError) as caught:
        await said(model(provider, llm), ModelRequest([user("Hi")], stream=stream))

    assert f"The model {provider}:small" in str(caught.value)


async def test_what_a_provider_repeats_of_the_key_is_not_told():
    with LlmDouble(Step(body=SECRET)) as llm, pytest.raises(SourceError, match="no JSON") as caught:
        await said(model("openai", llm), ModelRequest([user("Hi")], stream=False))

    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_an_answer_without_end_is_ended(stream):
    with LlmDouble(Step("word " * 1000)) as llm, pytest.raises(SourceError, match="more than 2000 bytes"):
        await said(model("anthropic", llm, answer_max=2000), ModelRequest([user("Hi")], stream=stream))


async def test_a_busy_provider_that_names_no_number_of_seconds_is_asked_again():
    busy = Step(status=429, body={}, headers={"retry-after": "nan"})
    with LlmDouble(busy, Step("Here.")) as llm:
        assert (await said(model("anthropic", llm)))[1].turn.text == "Here."


async def test_a_model_that_is_not_there_is_told():
    with LlmDouble() as llm:
        pass
    with pytest.raises(SourceUnavailable, match="refused"):
        await said(model("openai", llm))


def test_an_unknown_provider_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="anthropic"):
        HttpModel(ModelSettings("antropic", "small"))


def test_usage_adds_up():
    assert TokenUsage(1, 2, 1) + TokenUsage(10, 20) == TokenUsage(11, 22, 1)
    assert TokenUsage(1, 2, 1).total == 3


def test_events_survive_any_way_the_network_cuts_them():
    stream = b'event: a\ndata: {"n": 1}\n\ndata: {"n": 2}\r\n\r\ndata: [DONE]\n\n'
    for cut in range(len(stream)):
        lines = Lines(is_lines=False)
        assert [*lines.feed(stream[:cut]), *lines.feed(stream[cut:])] == [b'{"n": 1}', b'{"n": 2}']
