"""The pipeline: layers around a source, in the order they are listed."""

from toolcrib.calls.layers.deadline import freshen
from toolcrib.calls.pipeline import Layer, Step, Subject, compose
from toolcrib.core.offers import Tool
from toolcrib.core.requests import Request, Result

SUBJECT = Subject("files__read", "files", Tool("read"))


def noting(name: str, seen: list[str]) -> Layer:
    """A layer that notes when a call comes by, on its way in and out."""

    def layer(subject: Subject, following: Step) -> Step:
        async def step(call: Request) -> Result:
            seen.append(f"{name} in")
            result = await following(call)
            seen.append(f"{name} out")
            return result

        return step

    return layer


async def test_the_first_layer_listed_sees_each_call_first_and_each_result_last():
    """The list reads as a call travels."""
    seen: list[str] = []

    async def source(call: Request) -> Result:
        seen.append("source")
        return Result({})

    await compose([noting("a", seen), noting("b", seen)], SUBJECT, source)(Request("files__read", "read", {}))

    assert seen == ["a in", "b in", "source", "b out", "a out"]


async def test_a_layer_with_nothing_to_do_costs_nothing():
    """It hands back the next step itself."""

    async def source(call: Request) -> Result:
        return Result({})

    assert compose([lambda subject, following: following], SUBJECT, source) is source


def test_layers_are_built_once_per_tool():
    """Each is told which tool it is built for, innermost first."""
    built: list[tuple[str, str, str]] = []

    def layer(subject: Subject, following: Step) -> Step:
        built.append((subject.name, subject.server, subject.offer.name))
        return following

    async def source(call: Request) -> Result:
        return Result({})

    compose([layer, layer], SUBJECT, source)

    assert built == [("files__read", "files", "read")] * 2


async def test_behind_each_call_the_listing_of_its_server_is_renewed_where_that_can_be():
    """For clients that call and never list; a tool of this process has nothing to renew."""
    renewed: list[str] = []

    async def source(call: Request) -> Result:
        renewed.append(call.target)
        return Result({})

    subject = Subject("files__read", "files", Tool("read"), renew=lambda: renewed.append("renew"))
    await freshen()(subject, source)(Request("files__read", "read", {}))

    assert renewed == ["renew", "read"]
    assert freshen()(SUBJECT, source) is source
