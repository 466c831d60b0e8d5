"""The description: valid, complete, true under fire, and readable."""

import base64
import hashlib
import importlib
import json
import pkgutil
import re
from html.parser import HTMLParser

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode, checks
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR
from tests.cli.program import Program
from tests.server.rest.api import ROOT, serving_api

from toolcrib.core.access import Caller
from toolcrib.core.view import View
from toolcrib.server import rest
from toolcrib.server.answers import HttpAnswer, json_answer
from toolcrib.server.rest.about import About, RestResource
from toolcrib.server.rest.api import RESOURCES
from toolcrib.server.rest.openapi import describe
from toolcrib.server.rest.reference import render
from toolcrib.server.visit import PageRequest

CHECKS = (
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
)
STREAMS = ("/api/v1/events",)
"""They do not end by themselves; they have tests of their own."""
EXAMPLES = 15


def test_the_description_is_valid_openapi_with_real_schemas(api):
    """By the schema of OpenAPI 3.1; every body and answer has a shape."""
    document = api.get("/openapi.json", token="")
    OPENAPI_31_VALIDATOR.validate(document)
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]

    assert len(names) == len(set(names))
    assert set(document["components"]["securitySchemes"]) == {"bearer", "cookie"}
    for methods in document["paths"].values():
        for method, operation in methods.items():
            assert operation["summary"]
            assert ("requestBody" in operation) <= (method in ("post", "put", "patch"))
            assert "example" in operation.get("requestBody", {}).get("content", {}).get(
                "application/json", {"example": 1}
            )


def test_the_description_says_nothing_of_this_toolcrib(program):
    """No server, no path, no token."""
    program.write(program.tiny("very_private"))
    with serving_api(program) as api:
        text = api.raw("GET", "/openapi.json").body.decode()

    assert "very_private" not in text
    assert str(program.home) not in text


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """A toolcrib that can stand anything: servers that run a command cannot be added."""
    program = Program(tmp_path_factory.mktemp("target"))
    program.project.mkdir()
    program.write("[serve]\nport = 0", program.tiny(more='connect_timeout = "1s"'))
    with serving_api(program) as api:
        api.send("POST", "/servers/tiny/refresh")
        yield api


def real(case):
    """The same request, for something that is there."""
    kind = case.path.split("/")[3]
    names = {"servers": "tiny", "tools": "tiny__echo", "policies": "tiny__p*"}
    if kind in names and case.method != "DELETE" and not case.path.endswith("disable"):
        case.path_parameters = dict.fromkeys(case.path_parameters, names[kind])
    return case


def operations():
    """The routes, as the table of who may do what has them."""
    from tests.server.rest.test_matrix import MATRIX

    return sorted((method, ROOT + path) for method, path in MATRIX if ROOT + path not in STREAMS)


@pytest.mark.parametrize("route", operations(), ids=" ".join)
def test_every_answer_is_as_described_whatever_is_sent(target, route):
    """Good requests and bad ones, the same each time: no fault of ours, and nothing undescribed."""
    url = f"http://127.0.0.1:{target.serving.port}"
    schema = schemathesis.openapi.from_dict(target.description.document)
    method, path = route
    operation = schema[path][method]
    good, bad = (operation.as_strategy(generation_mode=mode) for mode in GenerationMode)

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=good | good.map(real) | bad if operation.body or len(operation.query) else good | good.map(real))
    def attack(case):
        if isinstance(case.query.get("wait"), int | float):
            case.query["wait"] = 0
        response = case.call(base_url=url, headers={"authorization": f"Bearer {target.token}"}, timeout=150)
        assert response.status_code < 500, response.content
        case.validate_response(response, checks=CHECKS)

    attack()


def test_the_reference_is_a_page_without_scripts(api):
    """Every route is on it; nothing is fetched, nothing is run."""
    reply = api.send("GET", "/reference", token="")
    page = reply.body.decode()
    tags: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append(tag)
    parser.feed(page)
    links = set(re.findall(r'href="#([^"]+)"', page))
    places = set(re.findall(r'id="([^"]+)"', page))

    [style] = re.findall("<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

    assert f"style-src 'sha256-{digest}'" in reply.headers["content-security-policy"]
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert not {"script", "img", "iframe", "link", "form"} & set(tags)
    assert links <= places
    for path in api.description.document["paths"]:
        assert f"<code>{path}</code>" in page


def test_pages_of_other_origins_are_told_which_methods_there_are(api):
    """A preflight is answered before anybody asks for a token."""
    origin = f"http://127.0.0.1:{api.serving.port}"
    reply = api.raw("OPTIONS", "/policies/x", origin=origin, access_control_request_method="PUT")

    assert (reply.status, reply.headers["access-control-allow-methods"]) == (204, "GET, POST, PUT, PATCH, DELETE")


def test_every_address_takes_head_and_says_which_methods_it_takes(api):
    """A head has no body; another method is told which ones there are."""
    head, wrong = api.send("HEAD", "/version"), api.send("PATCH", "/version")

    assert (head.status, head.body, int(head.headers["content-length"]) > 0) == (200, b"", True)
    assert (wrong.status, wrong.headers["allow"]) == (405, "GET, HEAD")
    assert api.send("GET", "/nothing").json["code"] == "HTTP_NOT_FOUND"


class Lamp(View):
    """Something that gives light."""

    id: str
    is_lit: bool


async def test_a_resource_is_described_by_what_it_is_written_with():
    """Three files: its value in ``server/views``, its routes in a module of ``server/rest``, a name in ``rest/api``."""
    lamps = RestResource("lamps", "What gives light.")

    @lamps.route("GET", "/lamps/{id}", About("Show one lamp", Lamp, problems=(404,)))
    async def _show(visit: PageRequest) -> HttpAnswer:
        return json_answer(Lamp(visit.params["id"], is_lit=True))

    document = describe(lamps.routes)
    operation = document["paths"]["/api/v1/lamps/{id}"]["get"]
    page, _ = render(document)
    asked = PageRequest(None, None, Caller("x"), is_known=True, params={"id": "7"})  # type: ignore[arg-type]

    OPENAPI_31_VALIDATOR.validate(json.loads(json.dumps(document)))
    assert document["tags"] == [{"name": "lamps", "description": "What gives light."}]
    assert document["components"]["schemas"]["Lamp"]["required"] == ["id", "isLit"]
    assert [found["name"] for found in operation["parameters"]] == ["id"]
    assert sorted(operation["responses"]) == ["200", "400", "401", "404", "413", "default"]
    assert b"/api/v1/lamps/{id}" in page
    assert (await lamps.routes[0].respond(asked)).body == b'{"id":"7","isLit":true}'


def test_no_resource_is_forgotten():
    """Each that a module of the room makes is in the list that is served."""
    modules = [
        importlib.import_module(f"{rest.__name__}.{found.name}") for found in pkgutil.iter_modules(rest.__path__)
    ]
    made = {value.name for module in modules for value in vars(module).values() if isinstance(value, RestResource)}

    assert made == {resource.name for resource in RESOURCES}
