"""Routes: found by method and path, answered as values, trouble as problem details."""

import asyncio

import pytest

from toolcrib.core.errors import UnknownServer
from toolcrib.server.answers import HttpProblem, json_answer
from toolcrib.server.router import RouteSpec


async def show(visit):
    return json_answer({"params": dict(visit.params), "query": dict(visit.query), "caller": visit.caller.id})


ROUTES = [
    RouteSpec("GET", "/servers", show),
    RouteSpec("GET", "/servers/{name}", show),
    RouteSpec("GET", "/servers/{name}/logs", show),
    RouteSpec("GET", "/servers/all", show),
    RouteSpec("GET", "/static/{path...}", show),
]


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/servers", {}),
        ("/servers/time", {"name": "time"}),
        ("/servers/all", {}),
        ("/servers/a%2Fb", {"name": "a/b"}),
        ("/servers/%C3%A9/logs", {"name": "é"}),
        ("/static/a/b.css", {"path": "a/b.css"}),
    ],
)
async def test_a_path_is_found_with_its_named_parts(serve, path, params):
    async with serve(ROUTES) as browser:
        reply = await browser.send("GET", path)

        assert (reply.status, reply.json["params"]) == (200, params)


@pytest.mark.parametrize("path", ["/", "/server", "/servers/", "/servers/a/b/c", "/servers/{}", "/servers/%ff", "//"])
async def test_what_is_not_there_is_said_as_problem_details(serve, path):
    async with serve([*ROUTES[:1], *ROUTES[2:3]]) as browser:
        reply = await browser.send("GET", path)

        assert (reply.status, reply.headers["content-type"]) == (404, "application/problem+json")
        assert reply.json["code"] == "HTTP_NOT_FOUND"


async def test_another_method_is_told_which_ones_there_are(serve):
    async with serve(ROUTES) as browser:
        reply = await browser.send("POST", "/servers")

        assert (reply.status, reply.json["detail"]) == (405, "This address takes GET, HEAD.")


async def test_the_query_is_decoded_once(serve):
    async with serve(ROUTES) as browser:
        reply = await browser.send("GET", "/servers?q=a%2Bb&empty=&q=last")

        assert reply.json["query"] == {"q": "last", "empty": ""}


async def test_trouble_becomes_a_problem_with_its_code(serve):
    """Ours with its words, anybody else's without."""

    async def unknown(visit):
        raise UnknownServer("tme", known=["time"])

    async def broken(visit):
        raise RuntimeError("the secret is 1234")

    async def limited(visit):
        raise HttpProblem(429, "TOOL_RATE_LIMITED", "Too often.", retryAfterSeconds=2.4)

    routes = [RouteSpec("GET", f"/{each.__name__}", each) for each in (unknown, broken, limited)]
    async with serve(routes) as browser:
        found, failed, late = [await browser.send("GET", f"/{name}") for name in ("unknown", "broken", "limited")]

        assert (found.status, found.json["code"]) == (404, "TOOL_NOT_FOUND")
        assert "time" in found.json["detail"]
        assert (failed.status, failed.json["code"]) == (500, "TOOL_INTERNAL")
        assert b"1234" not in failed.body
        assert (late.status, late.headers["retry-after"]) == (429, "2")


async def test_a_client_that_leaves_ends_the_work(serve):
    ended, began = asyncio.Event(), asyncio.Event()

    async def slow(visit):
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with serve([RouteSpec("GET", "/slow", slow)]) as browser:
        host, _, port = browser.address.partition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await began.wait()
        writer.close()

        await asyncio.wait_for(ended.wait(), 150)
