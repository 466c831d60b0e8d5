"""Everything but the plain tools of the reference server, for every client at every door: resources, prompts,
subscriptions, completion, log messages, and its questions.

Each pair of door and client holds one conversation; the tests look at its parts. The server behind the gateway is of
the handshake era, the clients of both.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.fleet import servers
from tests.fleet.clients import InspectorClient, Place, SdkClient, TypeScriptClient
from tests.fleet.gateway import joining_command, serving

from toolcrib.wire.messages import LOG_LEVELS

pytestmark = pytest.mark.timeout(600)  # the first run installs the fleet

Json = dict[str, Any]
Converse = Callable[[str, str], Json]

DOORS = ("stdio", "http")
CLIENTS = {
    "sdk1": SdkClient(1, "legacy", answers=True),
    "sdk2-legacy": SdkClient(2, "legacy", answers=True),
    "sdk2-modern": SdkClient(2, "modern", answers=True),
    "ts1": TypeScriptClient(1, "legacy"),
    "ts2-legacy": TypeScriptClient(2, "legacy"),
    "ts2-modern": TypeScriptClient(2, "modern"),
}
INSPECTORS = {"legacy": InspectorClient("legacy"), "modern": InspectorClient("modern")}
GUIDE = "demo://all/resource/static/document/features.md"
COUNTED = "demo://all/resource/dynamic/text/{resourceId}"
SCRIPT: dict[str, Json] = {
    "resources": {"op": "offers", "kind": "resources"},
    "templates": {"op": "offers", "kind": "templates"},
    "prompts": {"op": "offers", "kind": "prompts"},
    "guide": {"op": "read", "uri": GUIDE},
    "counted": {"op": "read", "uri": COUNTED.replace("{resourceId}", "7")},
    "missing": {"op": "read", "uri": "demo://all/resource/none"},
    "greeting": {"op": "get", "prompt": "all__args-prompt", "arguments": {"city": "Ulm"}},
    "embedded": {
        "op": "get",
        "prompt": "all__resource-prompt",
        "arguments": {"resourceType": "Text", "resourceId": "3"},
    },
    "unknown prompt": {"op": "get", "prompt": "all__none"},
    "department": {
        "op": "complete",
        "ref": {"type": "ref/prompt", "name": "all__completable-prompt"},
        "argument": {"name": "department", "value": "E"},
    },
    "number": {
        "op": "complete",
        "ref": {"type": "ref/resource", "uri": COUNTED},
        "argument": {"name": "resourceId", "value": "4"},
    },
    "links": {"op": "call", "tool": "all__get-resource-links", "arguments": {"count": 2}},
    "watched": {"op": "watch", "uri": GUIDE, "tool": "all__toggle-subscriber-updates"},
    "logged": {"op": "log", "level": "debug", "tool": "all__toggle-simulated-logging"},
    "elicited": {"op": "call", "tool": "all__trigger-elicitation-request"},
    "sampled": {"op": "call", "tool": "all__trigger-sampling-request", "arguments": {"prompt": "Hi."}},
    "rooted": {"op": "call", "tool": "all__get-roots-list"},
}


@pytest.fixture(scope="module")
def everywhere(fleet: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Place]]:
    """The reference server behind each door of a gateway of its own."""
    home = tmp_path_factory.mktemp("offers").resolve()
    config = servers.write_config(home / "servers.json", {"all": servers.everything()})
    with serving(config) as (url, _):
        yield {"stdio": Place(home, argv=joining_command(config)), "http": Place(home, url=url)}


@pytest.fixture(scope="module")
def converse(everywhere: dict[str, Place]) -> Converse:
    """Hold the whole conversation of a client with a door, once, and return its outcomes by name."""

    @functools.cache
    def hold(door: str, client: str) -> Json:
        answer = CLIENTS[client].converse(everywhere[door], list(SCRIPT.values()))
        return dict(zip(SCRIPT, answer["outcomes"], strict=True))

    return hold


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=CLIENTS)
def talk(request: pytest.FixtureRequest, door: str, converse: Converse) -> Json:
    return converse(door, request.param)


def test_every_client_sees_what_there_is_besides_tools(talk):
    """Each with the server's name in its URI, or before its own name."""
    found = {kind: talk[kind]["offers"] for kind in ("resources", "templates", "prompts")}

    assert GUIDE in [resource["uri"] for resource in found["resources"]]
    assert len(found["resources"]) == 7
    assert COUNTED in [template["uriTemplate"] for template in found["templates"]]
    assert [prompt["name"] for prompt in found["prompts"]] == [
        f"all__{name}-prompt" for name in ("args", "completable", "resource", "simple")
    ]


def test_every_client_reads_resources_and_those_of_templates(talk):
    """Under the URI it asked for; what is not there is an error."""
    guide, counted = talk["guide"]["result"]["contents"][0], talk["counted"]["result"]["contents"][0]

    assert (guide["uri"], "Everything" in guide["text"]) == (GUIDE, True)
    assert (counted["uri"], "Resource 7" in counted["text"]) == (COUNTED.replace("{resourceId}", "7"), True)
    assert talk["missing"]["error"]["code"] in (-32002, -32602)


def test_every_client_gets_prompts(talk):
    """With its arguments in them, and the resources they speak of as clients know them."""
    said = talk["greeting"]["result"]["messages"][0]["content"]["text"]
    embedded = [message["content"] for message in talk["embedded"]["result"]["messages"]]
    uris = [content["resource"]["uri"] for content in embedded if content["type"] == "resource"]

    assert "Ulm" in said
    assert uris == ["demo://all/resource/dynamic/text/3"]
    assert talk["unknown prompt"]["error"]["code"] == -32602


def test_every_client_has_arguments_completed(talk):
    """Of prompts and of templates."""
    completed = [talk[name]["result"]["completion"]["values"] for name in ("department", "number")]

    assert completed == [["Engineering"], ["4"]]


def test_the_links_of_a_result_are_those_that_can_be_read(talk):
    """They are namespaced like the lists."""
    links = [block for block in talk["links"]["result"]["content"] if block["type"] == "resource_link"]

    assert len(links) == 2
    assert all(link["uri"].startswith("demo://all/resource/dynamic/") for link in links)


def test_every_client_hears_of_what_it_watches(talk):
    """Under the URI it subscribed to, in the way of its era."""
    assert talk["watched"]["told"] == GUIDE


def test_every_client_hears_what_the_server_logs(talk):
    """At the level it asked for, in the way of its era; the server also logs who subscribes to what, and its roots."""
    message = talk["logged"]["message"]

    assert message["level"] in LOG_LEVELS
    assert any(word in message["data"].lower() for word in ("message", "subscribe", "roots updated"))


def test_every_client_is_asked_what_the_server_asks(talk):
    """A form, a sample and its roots, by a server that asks in the middle of a call; each in the way of its era."""
    said = {name: str(talk[name]["result"]["content"]) for name in ("elicited", "sampled", "rooted")}

    assert "Name: Ann" in said["elicited"]
    assert "a sample" in said["sampled"]
    assert "journey" in said["rooted"]


@pytest.mark.parametrize("era", INSPECTORS)
def test_the_inspector_sees_reads_and_gets_everything(everywhere, door, era):
    """In both eras, a connection for each request."""
    inspector, place = INSPECTORS[era], everywhere[door]

    resources = inspector.list_offers(place, "resources")["result"]["resources"]
    templates = inspector.list_offers(place, "resources/templates")["result"]["resourceTemplates"]
    prompts = inspector.list_offers(place, "prompts")["result"]["prompts"]
    read = inspector.read(place, GUIDE)["result"]["contents"][0]
    got = inspector.get(place, "all__args-prompt", {"city": "Ulm"})["result"]["messages"][0]["content"]["text"]

    assert (len(resources), len(templates), len(prompts)) == (7, 2, 4)
    assert read["uri"] == GUIDE
    assert "Ulm" in got
