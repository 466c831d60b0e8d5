"""Approval through the client: the form it is shown, what its answers mean, and what it brings back sealed."""

import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.calls.approvals import ApprovalAnswer, ApprovalQuestion, ApprovalReply
from toolcrib.calls.elicit import (
    ELICIT,
    REQUEST,
    ApprovalSeal,
    ClientSurface,
    can_elicit,
    elicitation,
    read_reply,
    without_answer,
)
from toolcrib.core import seal as core_seal
from toolcrib.core.access import Caller
from toolcrib.core.errors import PermissionDenied
from toolcrib.core.requests import Request
from toolcrib.core.seal import Seal
from toolcrib.testing import ManualClock, RecordingChannel

ANN = Caller("ann", session="s1")
QUESTION = ApprovalQuestion("q1", "files__write", "files", "write", "ann", {"path": "x"}, 60.0)
LIFETIME_S = 60.0


def call(caller: Caller = ANN, **changes: object) -> Request:
    return Request(
        **({"name": "files__write", "target": "write", "arguments": {"path": "x"}, "caller": caller} | changes)
    )


def answer(state: object, reply: object = "once", **changes: object) -> Request:
    """The same call again, with an answer to the question."""
    responses = {REQUEST: {"action": "accept", "content": {"answer": reply}}}
    return call(**({"more": {"requestState": state, "inputResponses": responses}} | changes))


def new_seal() -> ApprovalSeal:
    return ApprovalSeal(Seal(ManualClock()), LIFETIME_S)


def asked(seal: ApprovalSeal, first: Request | None = None) -> str:
    return seal.ask(QUESTION, first or call()).mcp["requestState"]


def test_the_form_shows_tool_level_caller_and_arguments_and_four_answers():
    """As MCP's ``elicitation/create`` wants it."""
    form = elicitation(QUESTION)

    assert form["message"] == 'ann wants to call files__write (level: write) with "path": "x"'
    assert form["requestedSchema"]["properties"]["answer"]["enum"] == ["once", "session", "always", "no"]


def test_nothing_in_the_arguments_can_disguise_the_question():
    """Control characters, invisible and reversing ones are shown for what they are; what is too long is cut, with its
    length."""
    tricky = elicitation(replace(QUESTION, arguments={"a": "\x1b[2J\u202eoops\u200b\nAllow: yes"}))["message"]
    long = elicitation(replace(QUESTION, arguments={"a": "x" * 5000}))["message"]
    behind = elicitation(replace(QUESTION, arguments={"a": "x" * 5000, "path": "/etc/passwd"}))["message"]

    assert not any(char in tricky for char in "\x1b\u202e\u200b\n")
    assert long.endswith("x … (5,002 characters)")
    assert len(long) < 2200
    assert behind.endswith('"path": "/etc/passwd"')


@pytest.mark.parametrize(
    ("capabilities", "kind", "expected"),
    [
        ({"elicitation": {}}, "local", True),
        ({"elicitation": {"form": {}}}, "token", True),
        ({"elicitation": {"url": {}}}, "local", False),
        ({"elicitation": True}, "local", False),
        ({"sampling": {}}, "local", False),
        ({}, "local", False),
        ({"elicitation": {}}, "agent", False),
    ],
)
def test_only_a_client_that_shows_forms_to_a_person_is_asked(capabilities, kind, expected):
    """An agent that works on its own would only ask itself."""
    channel = RecordingChannel(capabilities=capabilities)
    asking = call(Caller("x", kind), channel=channel)

    assert can_elicit(asking) is expected
    assert ClientSurface().reaches(asking) is expected


@pytest.mark.parametrize(
    ("response", "reply"),
    [
        *(({"action": "accept", "content": {"answer": str(reply)}}, reply) for reply in ApprovalReply),
        ({"action": "decline"}, ApprovalReply.NO),
        ({"action": "decline", "content": {"answer": "always"}}, ApprovalReply.NO),
        ({"action": "cancel", "content": {"answer": "always"}}, None),
        ({"action": "accept"}, None),
        ({"action": "accept", "content": {"answer": "ALWAYS"}}, None),
        ({"action": "accept", "content": {"answer": ["once"]}}, None),
        ({"action": "accept", "content": {"answer": {"once": 1}}}, None),
        ({"action": "accept", "content": ["once"]}, None),
        ({"content": {"answer": "once"}}, ApprovalReply.NO),
        (None, None),
        ("once", None),
    ],
)
def test_only_a_plain_accepted_choice_allows(response, reply):
    """Whatever else a client sends allows nothing, and breaks nothing."""
    assert read_reply(response) is reply


@pytest.mark.parametrize(("action", "expected"), [("accept", ApprovalAnswer(ApprovalReply.ONCE)), ("cancel", None)])
async def test_a_client_is_shown_the_form_and_says_what_the_person_chose(action, expected):
    channel = RecordingChannel({ELICIT: {"action": action, "content": {"answer": "once"}}})

    assert await ClientSurface().put(QUESTION, call(channel=channel)) == expected
    assert channel.asked == [("elicitation/create", elicitation(QUESTION))]


@given(st.recursive(st.none() | st.booleans() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=2)))
def test_no_nonsense_is_taken_for_an_answer(nonsense):
    """Only the exact words count."""
    found = read_reply({"action": "accept", "content": {"answer": nonsense}})

    assert found is (ApprovalReply(nonsense) if nonsense in ("once", "session", "always", "no") else None)


# The seal


def test_a_sealed_answer_counts_once_and_goes_no_further():
    """The tool's server sees nothing of it."""
    seal = new_seal()
    state = asked(seal)
    back = answer(state)

    assert seal.is_ours(back)
    assert seal.open(back)[0] is ApprovalReply.ONCE
    assert without_answer(back).more == {}
    with pytest.raises(PermissionDenied, match="not valid"):
        seal.open(answer(state))


def test_a_reply_that_was_put_away_spends_the_seal_too():
    """Nobody answers twice."""
    seal = new_seal()
    state = asked(seal)

    assert seal.open(answer(state, "no"))[0] is ApprovalReply.NO
    with pytest.raises(PermissionDenied):
        seal.open(answer(state, "always"))


@pytest.mark.parametrize(
    "changes",
    [
        {"caller": Caller("bob", session="s1")},
        {"caller": Caller("ann", session="s2")},
        {"name": "files__delete"},
        {"arguments": {"path": "y"}},
        {"arguments": {"path": "x", "force": True}},
        {"arguments": {}},
    ],
)
def test_an_answer_counts_only_for_that_caller_session_tool_and_arguments(changes):
    """Anything else is refused; the order of arguments does not matter."""
    seal = new_seal()
    state = asked(seal)
    with pytest.raises(PermissionDenied, match="not valid"):
        seal.open(answer(state, **changes))

    two = asked(seal, call(arguments={"a": 1, "b": 2}))
    assert seal.open(answer(two, arguments={"b": 2, "a": 1}))[0] is ApprovalReply.ONCE


def test_an_answer_that_comes_too_late_is_refused():
    """The time limit travels in the seal, and cannot be changed there."""
    clock = ManualClock(1000.0)
    seal = ApprovalSeal(Seal(clock), LIFETIME_S)
    late, last = asked(seal), asked(seal)
    clock.advance(LIFETIME_S)
    assert seal.open(answer(last))[0] is ApprovalReply.ONCE
    clock.advance(1.5)
    due, nonce, signature, _ = base64.urlsafe_b64decode(late.removeprefix("toolcrib.approve.")).decode().split(".")
    longer = base64.urlsafe_b64encode(f"{int(due) + 999}.{nonce}.{signature}.".encode()).decode()

    for state in (late, f"toolcrib.approve.{longer}"):
        with pytest.raises(PermissionDenied, match="not valid"):
            seal.open(answer(state))


def test_another_process_makes_seals_of_its_own():
    """What one signed, another does not take."""
    with pytest.raises(PermissionDenied):
        new_seal().open(answer(asked(new_seal())))


@pytest.mark.parametrize(
    "rubbish",
    ["", "!", "é", "AAAA", "....", base64.urlsafe_b64encode("1.2.é".encode()).decode(), "=" * 5, "MS4yLjM=" * 9],
)
def test_rubbish_is_refused_like_any_other_forgery(rubbish):
    """With the same words, and no failure of ours."""
    with pytest.raises(PermissionDenied, match="not valid"):
        new_seal().open(answer(f"toolcrib.approve.{rubbish}"))


@given(st.data())
def test_no_changed_byte_is_accepted(data):
    """Wherever the state is touched, except where base64 reads the same bytes: then it is still the same answer."""
    seal = new_seal()
    state = asked(seal)
    body = state.removeprefix("toolcrib.approve.")
    place = data.draw(st.integers(0, len(body) - 1))
    other = body[:place] + data.draw(st.characters(codec="utf-8")) + body[place + 1 :]
    try:
        found, _ = seal.open(answer(f"toolcrib.approve.{other}"))
    except PermissionDenied:
        return

    assert found is ApprovalReply.ONCE
    with pytest.raises(PermissionDenied):
        seal.open(answer(state))


def test_what_was_used_is_not_forgotten_while_it_could_be_used_again(monkeypatch):
    """A full memory refuses new answers rather than forgetting old ones; time makes room."""
    monkeypatch.setattr(core_seal, "SPENT_KEPT", 2)
    clock = ManualClock()
    seal = ApprovalSeal(Seal(clock), LIFETIME_S)
    states = [asked(seal) for _ in range(3)]
    for state in states[:2]:
        seal.open(answer(state))
    for state in states:
        with pytest.raises(PermissionDenied):
            seal.open(answer(state))
    clock.advance(LIFETIME_S + 1)

    assert seal.open(answer(asked(seal)))[0] is ApprovalReply.ONCE


@pytest.mark.parametrize("state", [None, 5, "other", "", {"toolcrib.approve.": 1}])
def test_states_of_others_are_not_taken_for_ours(state):
    """They belong to the tool."""
    assert not new_seal().is_ours(answer(state))


def test_what_was_used_is_remembered_up_to_the_very_moment_it_ends(monkeypatch):
    """At that moment it could still be used again."""
    monkeypatch.setattr(core_seal, "SPENT_KEPT", 1)
    clock = ManualClock(1000.0)
    seal = ApprovalSeal(Seal(clock), LIFETIME_S)
    first, second = asked(seal), asked(seal)
    seal.open(answer(first))
    clock.advance(LIFETIME_S)

    for state in (second, first):
        with pytest.raises(PermissionDenied):
            seal.open(answer(state))


@pytest.mark.parametrize(
    ("sessions", "offered"), [(True, ["once", "session", "always", "no"]), (False, ["once", "always", "no"])]
)
def test_without_sessions_nothing_is_offered_for_one(sessions, offered):
    """Each answer with its words beside it."""
    form = elicitation(QUESTION, sessions=sessions)["requestedSchema"]

    answer = form["properties"]["answer"]
    assert (answer["enum"], len(answer["enumNames"]), form["required"]) == (offered, len(offered), ["answer"])


def test_what_is_different_in_every_question_comes_with_the_answer():
    """So that all replicas can tell whether it was used."""
    seal = new_seal()
    states = [asked(seal), asked(seal)]
    inside = [base64.urlsafe_b64decode(state.removeprefix("toolcrib.approve.")).decode() for state in states]

    nonces = [seal.open(answer(state))[1] for state in states]

    assert nonces == [text.split(".")[1] for text in inside]
    assert len({*nonces}) == 2


def test_whoever_has_the_same_key_can_open_what_another_one_asked():
    """And nobody who has another."""
    asking, same, other = (
        ApprovalSeal(Seal(ManualClock(), key), LIFETIME_S) for key in (b"k" * 32, b"k" * 32, b"o" * 32)
    )
    state = asked(asking)

    assert same.open(answer(state))[0] is ApprovalReply.ONCE
    with pytest.raises(PermissionDenied):
        other.open(answer(state))
