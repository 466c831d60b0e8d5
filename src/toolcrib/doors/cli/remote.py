"""A running toolcrib, as another command of the same user reaches it: over its REST door, with the owner's token."""

import os
from typing import Any

import msgspec

from toolcrib.core.errors import PermissionDenied, SourceUnavailable
from toolcrib.doors.cli.invoke import Options, Parser
from toolcrib.doors.cli.opening import load_here
from toolcrib.doors.cli.tokens import VARIABLE, kept_token, token_path
from toolcrib.transports.http_client import HttpFailure, HttpPool


def add_remote(parser: Parser) -> None:
    """The option of commands that talk to a running toolcrib."""
    parser.add_argument("--url", help="where toolcrib serves [http://127.0.0.1:7337, or what is configured]")


class Remote:
    """The REST door of a running toolcrib."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._pool = HttpPool(url, connect_timeout_s=2)
        self._headers = ((b"authorization", b"Bearer " + token.encode()), (b"content-type", b"application/json"))

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        """One request; the decoded answer. Refusals are errors in the server's own words."""
        content = b"" if body is None else msgspec.json.encode(body)
        try:
            response = await self._pool.request(method, path.encode(), self._headers, content)
        except HttpFailure as failure:
            raise SourceUnavailable(
                f"No toolcrib answers at {self.url}: {failure}.",
                hint="Start one with `toolcrib up`, or give its --url.",
            ) from None
        try:
            answer = msgspec.json.decode(response.body or b"null")
        except msgspec.DecodeError:
            hint = "Give the address of a running toolcrib with --url."
            raise SourceUnavailable(f"What answers at {self.url} is no toolcrib.", hint=hint) from None
        if response.status >= 400:
            raise _refused(response.status, answer)
        return answer

    async def close(self) -> None:
        """Let go of the connections."""
        await self._pool.close()


def _refused(status: int, answer: Any) -> PermissionDenied:
    error = answer.get("error") if isinstance(answer, dict) else None
    told = answer.get("detail", "") if isinstance(answer, dict) else ""
    told = told or (error.get("message", "") if isinstance(error, dict) else "")
    return PermissionDenied(f"toolcrib refused (HTTP {status}): {told}")


def open_remote(options: Options) -> Remote:
    """The toolcrib that serves what is configured here."""
    config = load_here(options).config
    host = "127.0.0.1" if config.host in ("0.0.0.0", "::", "") else config.host  # noqa: S104 - recognised, not bound
    url = options.url or f"http://{f'[{host}]' if ':' in host else host}:{config.port}"
    token = os.environ.get(VARIABLE) or kept_token(token_path(os.environ)).value
    return Remote(url.removesuffix("/mcp"), token)
