"""One place composes all headers."""

from types import SimpleNamespace

from tests.platform.fake_gateway import jwt

from toolcrib.platform.headers import ConversationTurn, compose_headers, turn_of, user_agent
from toolcrib.version import VERSION


def test_all_six_headers_are_there():
    token = jwt()
    headers = compose_headers(token, ConversationTurn("msteams", "email", "agent", "c-1"), "Claude")

    assert headers == {
        "Authorization": f"Bearer {token}",
        "x-ms-channel-id": "msteams",
        "x-ms-subchannel-id": "email",
        "User-Agent": user_agent("Claude"),
        "x-ms-agentid": "agent",
        "x-ms-correlation-id": "c-1",
    }


def test_the_user_agent_names_the_orchestrator_and_nothing_slips_through_it():
    assert user_agent("Claude").startswith(f"toolcrib/{VERSION} (")
    assert user_agent("Claude").endswith("; Claude)")
    assert "\n" not in user_agent("a\r\nX-Evil: (1); b")


def test_the_agent_is_known_by_the_turn_then_the_token_then_the_application():
    token = jwt(appid="from-token", azp="later")

    assert compose_headers(token, ConversationTurn(agent_id="from-turn"))["x-ms-agentid"] == "from-turn"
    assert compose_headers(token)["x-ms-agentid"] == "from-token"
    assert compose_headers("opaque", application="app")["x-ms-agentid"] == "app"
    assert "x-ms-agentid" not in compose_headers("opaque")


def test_a_turn_is_read_from_objects_and_from_plain_data():
    activity = SimpleNamespace(
        id="m1",
        text="hi",
        channel_id=SimpleNamespace(channel="msteams", sub_channel="email"),
        conversation=SimpleNamespace(id="c1"),
        recipient=SimpleNamespace(agentic_app_blueprint_id="bp"),
    )
    expected = ConversationTurn("msteams", "email", "bp", "m1", "c1", "m1", "hi")
    plain = {
        "activity": {
            "id": "m1",
            "text": "hi",
            "channelId": "msteams:email",
            "conversation": {"id": "c1"},
            "recipient": {"agenticAppBlueprintId": "bp"},
        }
    }

    assert turn_of(SimpleNamespace(activity=activity)) == expected
    assert turn_of(plain) == expected
    assert turn_of(None) == ConversationTurn()
