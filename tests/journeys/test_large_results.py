"""Results too large for a model, from a server to real clients: previewed, kept whole, read back byte for byte."""

import base64
import functools
import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fleet import launcher, servers
from tests.fleet.clients import Place, SdkClient
from tests.fleet.gateway import TOOLCRIB, serving, stdio_command
from tests.fleet.running import homely, until
from tests.journeys import large_server

import toolcrib
from toolcrib.core.access import EVERYTHING, Caller

pytestmark = pytest.mark.timeout(600)  # the first run installs the fleet

Json = dict[str, Any]
DOORS = ("stdio", "http")
CLIENTS = {"sdk2-legacy": SdkClient(2, "legacy"), "sdk2-modern": SdkClient(2, "modern"), "sdk1": SdkClient(1, "legacy")}
KEPT = "toolcrib/kept"
LARGE = servers.Launch(sys.executable, (str(Path(large_server.__file__)),))
SMALLER_LINES = 7_000
SMALLER = servers.Launch(LARGE.command, (*LARGE.args, str(SMALLER_LINES)))
THE_LARGE = large_server.content_of(large_server.LARGE)
THE_SMALLER = large_server.content_of(SMALLER_LINES)
FULL = ("http", "sdk2-modern")
"""Who reads results of full size. What a client gets is a preview and parts, whatever the size of the result."""
SCRIPT: dict[str, Json] = {
    "text": {"op": "read_on", "part": {"length": 150_000}},
    "data": {"op": "read_on", "part": {"path": "rows", "length": 2000}},
    "table": {"op": "read_on", "part": {"path": "$.content[0].text", "length": 200_000}},
    "strict_table": {"op": "read_on", "part": {"path": "rows", "length": 2000}},
    "words": {"op": "read_on", "part": {"path": "words", "length": 150_000}},
    "picture": {"op": "read_on", "part": {"path": "$.content[0].data", "length": 200_000}},
    "failure": {"op": "read_on", "part": {"line": 1, "count": 2000}},
}


@pytest.fixture(scope="module")
def config(fleet: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("large").resolve()
    return servers.write_config(home / "servers.json", {"large": LARGE, "smaller": SMALLER})


@pytest.fixture(scope="module")
def large_places(config: Path) -> Iterator[dict[str, Place]]:
    with serving(config) as (url, _):
        yield {"stdio": Place(config.parent, argv=stdio_command(config)), "http": Place(config.parent, url=url)}


@pytest.fixture(scope="module")
def converse(large_places: dict[str, Place]) -> Callable[[str, str], Json]:
    """Read every large result on, once for each client and door."""

    @functools.cache
    def hold(door: str, client: str) -> Json:
        server = "large" if (door, client) == FULL else "smaller"
        script = [{"tool": f"{server}__{name}", "arguments": {}, **operation} for name, operation in SCRIPT.items()]
        answer = CLIENTS[client].converse(large_places[door], [{"op": "list"}, *script])
        return dict(zip(SCRIPT, answer["outcomes"][1:], strict=True))

    return hold


every_client = pytest.mark.parametrize("client", CLIENTS)
every_door = pytest.mark.parametrize("door", DOORS)


def content_for(door: str, client: str) -> large_server.Content:
    return THE_LARGE if (door, client) == FULL else THE_SMALLER


@every_client
@every_door
def test_a_text_is_read_back_whole(converse, door, client):
    """By slices, the same by lines, the same out of structured content."""
    outcomes, text = converse(door, client), content_for(door, client).text

    assert "".join(outcomes["text"]["parts"]) == text
    assert "".join(outcomes["words"]["parts"]) == text
    assert "\n".join(outcomes["failure"]["parts"]) == text


@every_client
@every_door
def test_json_is_read_back_whole(converse, door, client):
    """By rows, with structured content or with text alone."""
    outcomes, rows = converse(door, client), content_for(door, client).rows

    for name in ("data", "strict_table"):
        assert [row for part in outcomes[name]["parts"] for row in json.loads(part)] == rows
    assert "".join(outcomes["table"]["parts"]) == json.dumps({"rows": rows})


def test_what_is_read_back_is_large():
    """Beyond the size up to which a result is checked item by item; for most clients beyond what is checked at once."""
    assert len(THE_LARGE.text.encode()) > 4 << 20
    assert len(json.dumps(THE_LARGE.rows)) > 2_500_000
    assert min(len(THE_SMALLER.text.encode()), len(json.dumps(THE_SMALLER.rows))) > 256 << 10


@every_client
@every_door
def test_a_picture_is_read_back_whole(converse, door, client):
    """By its base64; the preview names what it is."""
    outcome = converse(door, client)["picture"]

    assert base64.b64decode("".join(outcome["parts"])) == large_server.PICTURE
    assert "image/png, 1.0 MB" in outcome["preview"]["content"][0]["text"]


@every_client
@every_door
def test_previews_are_small_and_no_client_stumbles_over_them(converse, door, client):
    """Clients hold results against the output schemas they were told, and none raised; only what failed, or would be
    taken for the whole, is marked as an error."""
    previews = {name: outcome["preview"] for name, outcome in converse(door, client).items()}

    assert max(len(json.dumps(preview)) for preview in previews.values()) < 20_000
    assert {name for name, preview in previews.items() if preview.get("isError")} == {"strict_table", "failure"}
    assert {name for name, preview in previews.items() if "structuredContent" in preview} == {"table", "words"}
    assert previews["table"]["structuredContent"][KEPT]["handle"] == previews["table"]["_meta"][KEPT]["handle"]


ANN, BOB = (Caller(name, grants=EVERYTHING) for name in ("ann", "bob"))


async def test_another_caller_gets_nothing():
    """A handle alone is not enough, and what is said does not tell it from one that never was."""
    config = {"mcpServers": {"large": LARGE.entry()}}
    async with toolcrib.open_crib(config) as crib:
        preview = await crib.call("large__text", caller=ANN)
        handle = preview.mcp["_meta"][KEPT]["handle"]

        own = await crib.call("result_read", {"handle": handle}, caller=ANN)
        foreign = await crib.call("result_read", {"handle": handle}, caller=BOB)
        unknown = await crib.call("result_read", {"handle": handle[::-1]}, caller=BOB)

    assert own.success
    assert foreign.error.code == "TOOL_INVALID_INPUT"
    assert foreign.error.message.replace(handle, "H") == unknown.error.message.replace(handle[::-1], "H")


async def test_a_program_may_take_results_of_any_size():
    """``keep_results=False``: nothing is kept, nothing is listed."""
    config = {"mcpServers": {"large": LARGE.entry()}}
    async with toolcrib.open_crib(config, keep_results=False) as crib:
        result = await crib.call("large__text")
        names = set(crib.catalog.routes)

    assert result.text == THE_LARGE.text
    assert "result_read" not in names


def test_a_command_that_makes_one_call_prints_the_whole_result(config):
    """Nobody could come back for the rest."""
    argv = [*TOOLCRIB, "call", "large__text", "--config", str(config)]

    done = launcher.run(argv, stdin="", timeout_s=150, env=homely(config.parent))

    assert done.stdout == f"{THE_LARGE.text}\n"


def test_what_a_killed_gateway_kept_is_swept_by_the_next_one(config, large_places, tmp_path):
    """And what one that ended in good order kept is gone at once."""
    kept = tmp_path / ".cache" / "toolcrib" / "results"
    own = servers.write_config(tmp_path / "servers.json", {"large": LARGE})
    calls = [{"op": "call", "tool": "large__text", "arguments": {}}]

    with serving(own) as (url, program):
        CLIENTS["sdk2-modern"].converse(Place(tmp_path, url=url), calls)
        assert len(list(kept.glob("run-*/*"))) == 1
        program.process.send_signal(signal.SIGKILL)
        program.process.wait()
        assert len(list(kept.glob("run-*/*"))) == 1
    with serving(own) as (url, program):
        assert list(kept.iterdir()) == []
        CLIENTS["sdk2-modern"].converse(Place(tmp_path, url=url), calls)
        assert len(list(kept.glob("run-*/*"))) == 1
        program.process.send_signal(signal.SIGTERM)
        until(lambda: program.process.poll() is not None, deadline_s=150, what="the end")

    assert list(kept.iterdir()) == []
