"""Servers that ask, in every pair of protocol eras: official SDKs of both generations as servers and as clients."""

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.fleet import servers
from tests.fleet.clients import Place, SdkClient
from tests.fleet.gateway import joining_command, serving

import toolcrib
from toolcrib.testing import RecordingChannel

pytestmark = pytest.mark.timeout(600)

Json = dict[str, Any]
SERVER = Path(__file__).with_name("asking_server.py")
CLIENTS = {
    "sdk1": SdkClient(1, "legacy", answers=True),
    "sdk2-legacy": SdkClient(2, "legacy", answers=True),
    "sdk2-modern": SdkClient(2, "modern", answers=True),
}
DOORS = ("stdio", "http")
ANSWERS = {
    "form": "accept Ann, accept",
    "link": "accept",
    "sample": "a sample",
    "roots": "['file:///journey']",
    "modern_form": "accept Ann",
}
OLD = ("old", "old_http", "both", "both_http")
"""Servers that are spoken to in the handshake era."""
NEW = ("new", "new_http")
SCRIPT = {
    **{f"{name}__{tool}": ANSWERS[tool] for name in OLD for tool in ("form", "link", "sample", "roots")},
    **{f"{name}__modern_form": ANSWERS["modern_form"] for name in (*NEW, "both", "both_http")},
}


@pytest.fixture(scope="module")
def gates(fleet: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Place]]:
    """toolcrib before servers of both generations, over pipes and over HTTP, in each era that they speak."""
    home = tmp_path_factory.mktemp("questions").resolve()
    with ExitStack() as life:
        urls = {major: life.enter_context(servers.over_http(major, SERVER)) for major in (1, 2)}
        launch = {major: servers.Launch(servers.sdk_python(major), (str(SERVER),)).entry() for major in (1, 2)}
        entries = {
            "old": launch[1],
            "old_http": {"url": urls[1]},
            "new": launch[2] | {"era": "stateless"},
            "new_http": {"url": urls[2], "era": "stateless"},
            "both": launch[2] | {"era": "handshake"},
            "both_http": {"url": urls[2], "era": "handshake"},
        }
        config = home / "toolcrib.toml"
        config.write_text("[audit]\nenabled = false\n\n" + "\n\n".join(_table(*entry) for entry in entries.items()))
        url, _ = life.enter_context(serving(config))
        yield {"stdio": Place(home, argv=joining_command(config)), "http": Place(home, url=url)}


def _table(name: str, entry: Json) -> str:
    env = {key: value for key, value in entry.items() if key != "env"}
    return f"[servers.{name}]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in env.items())


@pytest.fixture(scope="module")
def converse(gates: dict[str, Place]) -> Callable[[str, str], Json]:
    """What came of every question of every server, to one client by one door; asked once."""

    @functools.cache
    def hold(door: str, client: str) -> Json:
        script = [{"op": "call", "tool": tool} for tool in SCRIPT]
        outcomes = CLIENTS[client].converse(gates[door], [{"op": "list"}, *script])["outcomes"]
        return dict(zip(SCRIPT, outcomes[1:], strict=True))

    return hold


@pytest.mark.parametrize("tool", SCRIPT)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("door", DOORS)
def test_a_question_reaches_the_client_and_its_answer_the_server(converse, door: str, client: str, tool: str):
    """Whatever era either of them speaks: forms, addresses, samples, roots."""
    outcome = converse(door, client)[tool]

    assert outcome["result"]["content"][0]["text"] == SCRIPT[tool]


MUTE = {"sdk1": SdkClient(1, "legacy"), "sdk2-modern": SdkClient(2, "modern")}


@pytest.mark.parametrize("client", MUTE)
def test_a_client_that_cannot_be_asked_is_shown_the_tools_and_nothing_happens_unasked(gates, client: str):
    """Forms are put away where nobody is there; roots are none; nobody samples without a model."""
    tools = ("old__form", "both_http__roots", "old_http__sample", "new__modern_form")
    script = [{"op": "list"}, *({"op": "call", "tool": tool} for tool in tools)]

    listed, form, roots, sample, modern = MUTE[client].converse(gates["http"], script)["outcomes"]

    assert set(tools) <= {tool["name"] for tool in listed["tools"]}
    assert form["result"]["isError"]  # it does without a name, and fails
    assert roots["result"]["content"][0]["text"] == "[]"
    assert "no model" in json.dumps(sample) or "cannot answer" in json.dumps(sample)
    assert modern["result"]["isError"]


async def test_a_server_of_both_eras_that_asks_in_the_older_way_is_found_out_once(fleet: None, tmp_path: Path):
    """The call whose question was lost says so; the next one goes well, also in the next run."""
    config = tmp_path / "toolcrib.toml"
    launch = servers.Launch(servers.sdk_python(2), (str(SERVER),)).entry()
    config.write_text(f"[audit]\nenabled = false\n\n{_table('both', launch)}\n")
    answer = {"elicitation/create": {"action": "accept", "content": {"name": "Ann"}}}
    said = []
    for calls in (2, 1):
        async with toolcrib.open_crib(config) as crib:
            for _ in range(calls):
                channel = RecordingChannel(answer, capabilities={"elicitation": {}})
                said.append((await crib.call("both__form", channel=channel)).text)
            await crib.refresh("both")

    assert "from now on it is spoken to in the handshake era" in said[0]
    assert said[1:] == ["accept Ann, accept"] * 2
