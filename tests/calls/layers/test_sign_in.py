"""Sign in: who came too early is sent to our page once, if they may go there and have a client that can."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from toolcrib.calls.elicit import ELICIT
from toolcrib.calls.layers.sign_in import COMPLETE, sign_in
from toolcrib.calls.pipeline import Step, Subject
from toolcrib.core.access import EVERYTHING, LOCAL_USER, Caller
from toolcrib.core.errors import RemoteError, SignInNeeded
from toolcrib.core.offers import RequestKind, Tool
from toolcrib.core.requests import Request, Result
from toolcrib.testing import RecordingChannel

LINK = "http://127.0.0.1:1/oauth/start/far"
CAN_VISIT = {"elicitation": {"url": {}}}
ACCEPT, DECLINE = {"action": "accept"}, {"action": "decline"}
AGENT = Caller("agent", "agent", EVERYTHING)
DONE = Result({"content": []})


class Watch:
    """Somebody signs in as soon as that is waited for, or never does."""

    def __init__(self, *, may: bool = True, comes: bool = True, wanted: bool = True) -> None:
        self.may, self.comes, self.wanted, self.waits = may, comes, wanted, 0

    def is_wanted_at(self, server: str) -> bool:
        return self.wanted and server == "far"

    async def last(self, server: str, caller: Caller) -> float | None:
        return 0.0 if self.may else None

    async def wait(self, server: str, caller: Caller, after: float) -> None:
        self.waits += 1
        if not self.comes:
            await asyncio.Event().wait()


def refusing(watch: Watch, link: str = LINK) -> Step:
    """A server that lets nobody in before they have signed in."""

    async def step(call: Request) -> Result:
        if not watch.waits:
            raise SignInNeeded("Server 'far' needs somebody to sign in.", details={"server": "far", "link": link})
        return DONE

    return step


async def run(watch: Watch, channel: RecordingChannel, caller: Caller = LOCAL_USER, link: str = LINK) -> Result:
    subject = Subject("far__tool", "far", Tool("tool", {}))
    call = Request("far__tool", "tool", {}, caller=caller, channel=channel)
    return await sign_in(watch, 0.05)(subject, refusing(watch, link))(call)


def client(answer: object, *, modern: bool = False, capabilities: object = CAN_VISIT) -> RecordingChannel:
    return RecordingChannel({ELICIT: answer}, capabilities=capabilities, takes_input_required=modern)


@pytest.mark.parametrize("modern", [False, True])
async def test_the_call_goes_on_when_somebody_has_signed_in(modern: bool):
    """Before 2026 the question has an id, and the client hears when it is done; since then neither."""
    channel = client(ACCEPT, modern=modern)

    assert await run(Watch(), channel) is DONE
    [(_, question)] = channel.asked
    assert (question["mode"], question["url"]) == ("url", LINK)
    told = [(method, said["elicitationId"]) for method, said in channel.told]
    assert told == ([] if modern else [(COMPLETE, question["elicitationId"])])
    assert ("elicitationId" in question) is not modern


@pytest.mark.parametrize(
    ("watch", "make", "caller", "link"),
    [
        (Watch(), lambda: client(ACCEPT, capabilities={"elicitation": {"form": {}}}), LOCAL_USER, LINK),
        (Watch(), lambda: client(ACCEPT, capabilities={}), LOCAL_USER, LINK),
        (Watch(), lambda: client(ACCEPT), AGENT, LINK),
        (Watch(), lambda: client(ACCEPT), LOCAL_USER, ""),
        (Watch(may=False), lambda: client(ACCEPT), LOCAL_USER, LINK),
    ],
    ids=["forms only", "no questions", "an agent", "no page", "who may not"],
)
async def test_who_cannot_be_sent_there_is_told_at_once(
    watch: Watch, make: Callable[[], RecordingChannel], caller: Caller, link: str
):
    channel = make()

    with pytest.raises(SignInNeeded):
        await run(watch, channel, caller, link)
    assert channel.asked == []
    assert watch.waits == 0


@pytest.mark.parametrize(
    ("answer", "comes"),
    [(DECLINE, True), ({"action": "cancel"}, True), ("nonsense", True), (RemoteError(-1, "no"), True), (ACCEPT, False)],
    ids=["declined", "cancelled", "nonsense", "refused", "never signed in"],
)
async def test_whoever_does_not_sign_in_after_all_gets_the_error(answer: object, comes: bool):
    """The time it took is not the call's own."""
    watch = Watch(comes=comes)
    channel = client(answer)
    subject = Subject("far__tool", "far", Tool("tool", {}))
    call = Request("far__tool", "tool", {}, channel=channel)

    with pytest.raises(SignInNeeded):
        await sign_in(watch, 0.05)(subject, refusing(watch))(call)
    assert len(channel.asked) == 1
    assert channel.told == []
    assert call.context.asking == 0
    assert comes or call.context.asked_s >= 0.05


def test_where_nobody_signs_in_a_call_does_not_pass_the_layer():
    """Other servers, native tools, and what no client can be answered with a question."""
    following, layer = refusing(Watch()), sign_in(Watch(), 1)
    tool = Tool("tool", {})

    assert layer(Subject("tool", "", tool), following) is following
    assert layer(Subject("near__tool", "near", tool), following) is following
    assert layer(Subject("far__tool", "far", tool, kind=RequestKind.COMPLETE), following) is following
    assert layer(Subject("far__tool", "far", tool), following) is not following


async def test_an_answer_that_is_no_object_is_none():
    channel = client(msgspec.UNSET)
    channel.answers[ELICIT] = None

    with pytest.raises(SignInNeeded):
        await run(Watch(), channel)
