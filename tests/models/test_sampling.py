"""Sampling: what a server asks a model, in MCP's words and the model's."""

from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from toolcrib.core.errors import InvalidArguments
from toolcrib.models.api import Model
from toolcrib.models.sampling import sample_model, to_request
from toolcrib.models.talk import ModelReply, ModelRequest, Picture, TextPart, Turn

HI = {"role": "user", "content": {"type": "text", "text": "hi"}}


class Echo:
    """A model that says what it was asked."""

    name = "echo"

    def __init__(self, stop: str = "end") -> None:
        self.stop = stop

    async def ask(self, request: ModelRequest) -> AsyncGenerator[str | ModelReply, None]:
        yield "…"
        yield ModelReply(Turn("assistant", (TextPart(request.turns[-1].text),)), self.stop)


@pytest.mark.parametrize(("stop", "told"), [("end", "endTurn"), ("length", "maxTokens"), ("refusal", "refusal")])
async def test_a_model_answers_in_mcps_words(stop, told):
    """With its name, and why it stopped."""
    answer = await sample_model(cast("Model", Echo(stop)), {"messages": [HI], "maxTokens": 5}, 100)

    assert answer == {
        "role": "assistant",
        "content": {"type": "text", "text": "hi"},
        "model": "echo",
        "stopReason": told,
    }


def test_texts_and_images_are_passed_on_with_what_holds_for_them():
    """No more words than configured."""
    picture = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    params = {
        "messages": [HI, {"role": "assistant", "content": [picture]}],
        "systemPrompt": "Be brief.",
        "maxTokens": 9000,
    }

    request = to_request(params, 100)

    assert [turn.parts for turn in request.turns] == [(TextPart("hi"),), (Picture("image/png", "AA=="),)]
    assert (request.system, request.max_tokens, request.stream) == ("Be brief.", 100, False)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"messages": []},
        {"messages": [HI] * 201},
        {"messages": ["hi"]},
        {"messages": [{"role": "system", "content": HI["content"]}]},
        {"messages": [{"role": "user", "content": {"type": "audio"}}]},
        {"messages": [{"role": "user", "content": None}]},
    ],
)
def test_what_cannot_be_sampled_is_refused(params: dict[str, Any]):
    """With words for the server."""
    with pytest.raises(InvalidArguments):
        to_request(params, 100)
