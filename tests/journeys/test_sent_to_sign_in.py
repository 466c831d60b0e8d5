"""A call that came before somebody signed in: what its client is asked, in both eras, and where that leads."""

import html
import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from tests.cli.program import Program, Serving
from tests.fleet.oauth import OAuthProvider, oauth_provider, sign_in

Json = dict[str, Any]
CAN_VISIT = {"elicitation": {"form": {}, "url": {}}}
MODERN = "2026-07-28"


@pytest.fixture
def provider() -> Iterator[OAuthProvider]:
    with oauth_provider() as started:
        yield started


@pytest.fixture
def program(tmp_path: Path, provider: OAuthProvider) -> Program:
    """Its tools are known from an earlier run; nobody is signed in any more."""
    made = Program(tmp_path)
    made.project.mkdir()
    made.write(f'[servers.tracker]\nurl = "{provider.url}"', "[expose]\nmode = 'all'")
    made.log_in()
    assert made.run("logout", "tracker").returncode == 0
    return made


class Visitor:
    """Somebody with a browser on this machine, by the requests it sends."""

    def __init__(self, serving: Serving) -> None:
        self._serving, self._cookies = serving, {}

    def get(self, url: str) -> tuple[int, str]:
        """The page at an address, where redirects end; or what is asked there."""
        for _ in range(5):
            answer = self._send("GET", url)
            text = answer.read().decode()
            if answer.status != 303:
                return answer.status, text
            place = answer.headers["location"]
            url = place if "://" in place else f"http://{urlsplit(url).netloc}{place}"
        raise AssertionError(f"still not there: {url}")

    def post(self, url: str, page: str) -> str:
        """Press the button of a page."""
        csrf = re.search(r'name="csrf" value="([^"]+)"', page)
        assert csrf, page
        answer = self._send("POST", url, urlencode({"csrf": csrf[1]}))
        assert answer.status == 200
        return answer.read().decode()

    def _send(self, method: str, url: str, body: str | None = None) -> http.client.HTTPResponse:
        parts = urlsplit(url)
        jar = self._cookies.setdefault(parts.netloc, {})
        headers = {"host": parts.netloc, "cookie": "; ".join(f"{name}={value}" for name, value in jar.items())}
        if body is not None:
            form = "application/x-www-form-urlencoded"
            headers |= {"content-type": form, "origin": f"http://{parts.netloc}"}
        connection = http.client.HTTPConnection("127.0.0.1", self._serving.port, timeout=150)
        connection.request(method, f"{parts.path}?{parts.query}", body, headers)
        answer = connection.getresponse()
        for cookie in answer.headers.get_all("set-cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            jar[name] = value
        return answer


def sign_in_on_the_page(serving: Serving, program: Program, link: str) -> str:
    """From a link over the page, by somebody who is signed in there, to the provider and back; the last page."""
    visitor = Visitor(serving)
    told = program.run("open", "--print")
    way_in = re.search(r"http://\S+/signin\?link=\S+", told.stdout + told.stderr)
    assert way_in, told
    visitor.get(way_in.group())
    place = f"http://{urlsplit(way_in.group()).netloc}{urlsplit(link).path}"
    _, page = visitor.get(place)
    gone = visitor.post(place, page)
    elsewhere = re.search(r'href="(http[^"]+/auth\?[^"]+)"', gone)
    assert elsewhere, gone
    _, last = visitor.get(sign_in(html.unescape(elsewhere[1])))
    return last


def ask(serving: Serving, params: Json, *, capabilities: Json = CAN_VISIT) -> Json:
    """A call of a stateless client."""
    about = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    asked = {"name": "tracker__whoami", "arguments": {}, **params, "_meta": about}
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "tracker__whoami"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
    answer = serving.request("POST", "/mcp", body, **headers).read().decode()
    text = answer if answer.startswith("{") else answer.rpartition("data: ")[2]
    return json.loads(text)["result"]


def test_a_stateless_client_is_sent_to_our_page_and_comes_back_with_the_answer_to_its_call(program: Program):
    with program.serving("serve") as serving:
        asked = ask(serving, {})
        [(key, question)] = asked["inputRequests"].items()
        link = question["params"]["url"]
        stranger = Visitor(serving).get(link)
        last = sign_in_on_the_page(serving, program, link)
        agreed = {"requestState": asked["requestState"], "inputResponses": {key: {"action": "accept"}}}
        called = ask(serving, agreed)

    assert asked["resultType"] == "input_required"
    assert question["method"] == "elicitation/create"
    assert set(question["params"]) == {"mode", "url", "message"}
    assert question["params"]["mode"] == "url"
    assert "needs somebody to sign in" in question["params"]["message"]
    assert link == f"http://127.0.0.1:{serving.port}/oauth/start/tracker"
    assert "You are signed in at tracker" in last
    assert called["content"][0]["text"].startswith("ada")
    # Whoever is sent there by somebody else is nobody yet: the page asks who they are, and leads no further.
    assert "token" in stranger[1]
    assert "/auth?" not in stranger[1]


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_who_does_not_want_to_sign_in_is_told_where_it_could_be_done(program: Program, action: str):
    with program.serving("serve") as serving:
        asked = ask(serving, {})
        [key] = asked["inputRequests"]
        refused = ask(serving, {"requestState": asked["requestState"], "inputResponses": {key: {"action": action}}})

    assert refused["isError"]
    assert "needs somebody to sign in" in refused["content"][0]["text"]
    assert f"http://127.0.0.1:{serving.port}/oauth/start/tracker" in refused["content"][0]["text"]


def test_a_client_that_can_open_nothing_is_told_at_once(program: Program):
    with program.serving("serve") as serving:
        refused = ask(serving, {}, capabilities={"elicitation": {"form": {}}})

    assert refused["isError"]
    assert "toolcrib login tracker" in refused["content"][0]["text"]


class Session:
    """A client of the handshake era, with one call under way."""

    def __init__(self, serving: Serving) -> None:
        self._serving, self._headers = serving, {}
        about = {
            "protocolVersion": "2025-11-25",
            "capabilities": CAN_VISIT,
            "clientInfo": {"name": "t", "version": "1"},
        }
        answer = self.send({"id": 1, "method": "initialize", "params": about})
        self._headers = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        answer.read()
        self.send({"method": "notifications/initialized"}).read()

    def send(self, message: Json) -> http.client.HTTPResponse:
        return self._serving.request("POST", "/mcp", {"jsonrpc": "2.0", **message}, **self._headers)

    def call(self) -> Iterator[Json]:
        """The messages that come before the answer to a call, and it."""
        answer = self.send({"id": 2, "method": "tools/call", "params": {"name": "tracker__whoami", "arguments": {}}})
        assert answer.headers["content-type"].startswith("text/event-stream"), answer.read()
        while line := answer.readline():
            if line.startswith(b"data: {"):
                yield json.loads(line.removeprefix(b"data: "))


def test_a_client_with_a_session_is_asked_in_the_middle_of_its_call_and_told_when_it_is_done(
    program: Program, provider: OAuthProvider
):
    with program.serving("serve") as serving:
        session = Session(serving)
        messages = session.call()
        question = next(messages)
        assert session.send({"id": question["id"], "result": {"action": "accept"}}).status == 202
        sign_in_on_the_page(serving, program, question["params"]["url"])
        rest = list(messages)

    assert question["method"] == "elicitation/create"
    assert question["params"]["mode"] == "url"
    assert question["params"]["elicitationId"]
    done, answer = rest
    told = {"elicitationId": question["params"]["elicitationId"]}
    assert (done["method"], done["params"]) == ("notifications/elicitation/complete", told)
    assert answer["result"]["content"][0]["text"].startswith("ada")
    assert provider.seen()["calls"] == 1


def test_it_does_not_matter_where_somebody_signs_in_at_last(program: Program):
    """In a terminal, by another process: the call goes on all the same."""
    with program.serving("serve") as serving:
        session = Session(serving)
        messages = session.call()
        question = next(messages)
        session.send({"id": question["id"], "result": {"action": "accept"}})
        program.log_in()
        answer = list(messages)[-1]

    assert answer["result"]["content"][0]["text"].startswith("ada")
