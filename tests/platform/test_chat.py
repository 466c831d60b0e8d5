"""The history of a conversation goes to the platform, without a token, and never stops the conversation."""

import json
from datetime import UTC, datetime

import pytest

from toolcrib.core.errors import InvalidArguments
from toolcrib.platform.client_tools import ChatMessage, send_chat_history
from toolcrib.platform.gateway import Patience
from toolcrib.platform.headers import ConversationTurn
from toolcrib.platform.settings import PlatformSettings

TURN = ConversationTurn("msteams", "email", conversation_id="c1", message_id="m1", text="hi")
SOON = Patience(2.0, 5.0, delays_s=(0.0,))


async def send(gateway, *history, turn=TURN):
    return await send_chat_history(
        turn, history, orchestrator_name="Claude", settings=PlatformSettings(gateway.url, env={}), patience=SOON
    )


async def test_a_conversation_is_sent_as_the_platform_reads_it(gateway):
    moment = datetime(2026, 1, 2, tzinfo=UTC)

    sent = await send(gateway, ChatMessage("user", "x", "1", moment), ChatMessage("tool", "y"))

    asked = gateway.asked[0]
    assert sent.succeeded
    assert (asked.method, asked.path) == ("POST", "/agents/real-time-threat-protection/chat-message")
    assert json.loads(asked.body) == {
        "conversationId": "c1",
        "messageId": "m1",
        "userMessage": "hi",
        "chatHistory": [
            {"id": "1", "role": "user", "content": "x", "timestamp": "2026-01-02T00:00:00+00:00"},
            {"id": None, "role": "tool", "content": "y", "timestamp": None},
        ],
    }
    assert (asked.headers["x-ms-channel-id"], asked.headers["x-ms-subchannel-id"]) == ("msteams", "email")
    assert asked.headers["user-agent"].endswith("; Claude)")
    assert "authorization" not in asked.headers


async def test_a_platform_that_does_not_take_it_is_a_result(gateway):
    gateway.answers = [(500, {}, b'{"oops": "x"}')] * 2

    sent = await send(gateway, ChatMessage("user", "x"))

    assert not sent.succeeded
    assert str(sent.error) == "Failed to send chat history: HTTP 500 Internal Server Error. Try again later."


async def test_nobody_there_is_a_result(gateway):
    gateway.url = "http://127.0.0.1:9"

    assert not (await send(gateway, ChatMessage("user", "x"))).succeeded


async def test_a_turn_that_does_not_say_which_conversation_is_an_error(gateway):
    with pytest.raises(InvalidArguments, match="lacks conversation_id, text"):
        await send(gateway, turn=ConversationTurn(message_id="m1"))
