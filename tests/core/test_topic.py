"""Talking to other replicas without waiting for them."""

from tests.doubles.coordination import MemoryHub
from tests.doubles.replicas import so

from toolcrib.core import topic
from toolcrib.core.topic import Topic


async def listening(hub: MemoryHub, name: str) -> tuple[list[bytes], list[str], Topic]:
    heard, gaps = [], []
    one = Topic(hub.join(name), "news", heard.append, lambda: gaps.append(name))
    await one.open()
    return heard, gaps, one


async def test_what_is_said_is_heard_by_the_others_in_order():
    hub = MemoryHub()
    own, _, one = await listening(hub, "one")
    heard, _, two = await listening(hub, "two")
    for number in range(50):
        one.say(b"%d" % number)
    await so(lambda: len(heard) == 50)

    assert (heard, own) == ([b"%d" % number for number in range(50)], [])
    await one.close()
    await two.close()


async def test_what_could_not_be_said_is_a_gap_for_whoever_said_it(monkeypatch):
    """It keeps what matters, and says it anew."""
    monkeypatch.setattr(topic, "RETRY_S", 0.01)
    hub = MemoryHub()
    _, gaps, one = await listening(hub, "one")
    heard, _, two = await listening(hub, "two")
    hub.members[0].cut()
    one.say(b"lost")
    await so(lambda: not one._wake.is_set())
    hub.members[0]._problem = ""  # its own connection was never lost, so only the sender knows
    await so(lambda: gaps)
    one.say(b"heard")
    await so(lambda: heard)

    assert heard == [b"heard"]
    await one.close()
    await two.close()


async def test_who_cannot_reach_the_others_at_first_listens_as_soon_as_it_can(monkeypatch):
    monkeypatch.setattr(topic, "RETRY_S", 0.01)
    hub = MemoryHub()
    member, heard, gaps = hub.join("late"), [], []
    member.cut()
    late = Topic(member, "news", heard.append, lambda: gaps.append(1))
    await late.open()
    member.mend()
    await so(lambda: gaps)
    await hub.join("other").publish("news", b"hello")
    await so(lambda: heard)

    assert heard == [b"hello"]
    await late.close()


async def test_what_is_said_last_is_still_said():
    """A command that runs once ends right after it."""
    hub = MemoryHub()
    heard, _, two = await listening(hub, "two")
    _, _, one = await listening(hub, "one")
    one.say(b"accepted")
    await one.close()
    await so(lambda: heard)

    assert heard == [b"accepted"]
    await two.close()
