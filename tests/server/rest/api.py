"""A served toolcrib and a client that holds every answer to the description: nothing missing, nothing undescribed."""

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs
from tests.cli.program import Program, Serving

ROOT = "/api/v1"


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Description:
    """``openapi.json``, made strict: what is not described may not be answered either."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._schemas = {
            name: {**schema, "additionalProperties": False} if "properties" in schema else schema
            for name, schema in document["components"]["schemas"].items()
        }

    @property
    def operations(self) -> set[tuple[str, str]]:
        paths = self.document["paths"]
        return {(method.upper(), path.removeprefix(ROOT)) for path in paths for method in paths[path]}

    def find(self, method: str, path: str) -> dict[str, Any] | None:
        """Exact parts come before named ones."""
        matching = [known for known in self.document["paths"] if re.fullmatch(re.sub(r"{\w+}", "[^/]+", known), path)]
        best = min(matching, key=lambda known: known.count("{"), default=None)
        return self.document["paths"][best].get(method.lower()) if best else None

    def check(self, method: str, path: str, reply: Reply) -> None:
        operation = self.find("GET" if method == "HEAD" else method, path.partition("?")[0])
        if operation is None or method == "HEAD":
            return
        response = operation["responses"].get(str(reply.status), operation["responses"]["default"])
        if "content" not in response:
            assert reply.body == b"", (method, path)
            return
        media = reply.headers["content-type"].partition(";")[0]
        assert media in response["content"], (method, path, reply.status, media)
        if media.endswith("json"):
            schema = {**response["content"][media]["schema"], "components": {"schemas": self._schemas}}
            if problem := next(jsonschema_rs.validator_for(schema).iter_errors(reply.json), None):
                raise AssertionError(f"{method} {path}: {problem}")


@dataclass
class Api:
    """Talks to a served toolcrib as its owner, unless told otherwise."""

    program: Program
    serving: Serving
    token: str = ""
    description: Description = field(init=False)

    def __post_init__(self) -> None:
        self.description = Description(self.raw("GET", "/openapi.json", token=self.token).json)

    def raw(self, method: str, path: str, body: bytes | None = None, *, token: str = "", **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.serving.port, timeout=150)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["authorization"] = f"Bearer {token}"
        connection.request(method, ROOT + path, body, sent)
        response = connection.getresponse()
        told = {name.lower(): value for name, value in response.getheaders()}
        reply = Reply(response.status, told, response.read())
        connection.close()
        return reply

    def send(self, method: str, path: str, body: Any = None, *, token: str | None = None, **headers: str) -> Reply:
        """One request; its answer is what the description says."""
        encoded = None if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"content_type": "application/json"}
        reply = self.raw(method, path, encoded, token=self.token if token is None else token, **kind, **headers)
        self.description.check(method, ROOT + path, reply)
        return reply

    def get(self, path: str, **more: str) -> Any:
        """What a good answer says."""
        reply = self.send("GET", path, **more)
        assert reply.status == 200, reply.body
        return reply.json

    def call(self, tool: str, arguments: dict[str, Any] | None = None, **more: Any) -> Reply:
        return self.send("POST", f"/tools/{tool}/call", {"arguments": arguments or {}}, **more)


@contextmanager
def serving_api(program: Program, *words: str) -> Iterator[Api]:
    """toolcrib served, and its owner."""
    with program.serving("serve", *words) as serving:
        yield Api(program, serving, owner_token(program, serving))


def owner_token(program: Program, serving: Serving) -> str:
    """The owner's token; it is made when somebody first shows one."""
    serving.request("GET", f"{ROOT}/version", authorization="Bearer anything").read()
    return (program.home / "state" / "toolcrib" / "token").read_text().strip()
