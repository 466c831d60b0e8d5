"""A running toolcrib, as another command of the same user reaches it: over its REST door.

Which one it is, its run file says, and it proves itself before anything is asked. A token is only ever sent to an
address that was given by hand.
"""

import hmac
import os
from pathlib import Path
from typing import Any, Protocol

import msgspec

from toolcrib.core.errors import PermissionDenied, SourceUnavailable
from toolcrib.project.project import project_file
from toolcrib.server.identity.owner_token import VARIABLE, kept_token, token_path
from toolcrib.server.identity.run_proof import PATH as PROOF_PATH
from toolcrib.server.identity.run_proof import Proven
from toolcrib.stores.paths import Environment
from toolcrib.stores.run_files import RunFile, RunFiles, choose, new_number
from toolcrib.transports.http.client import HttpFailure, HttpPool, Response

START = "Start one with `toolcrib up`, or give its --url."


class Credentials(Protocol):
    """What is said to a listener so that it knows who asks."""

    async def bearer(self, pool: HttpPool) -> str:
        """What follows ``Bearer``; raises for a listener that may not have it."""


class ByToken:
    """The owner's token, for an address that was given by hand."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def bearer(self, pool: HttpPool) -> str:  # noqa: ARG002 - whoever listens there was chosen by the user
        """The token."""
        return self._token


class ByRunFile:
    """A code that only readers of the run file can make, for the listener that proved that it wrote it."""

    def __init__(self, run: RunFile) -> None:
        self._run = run

    async def bearer(self, pool: HttpPool) -> str:
        """The code of a number the listener chose."""
        number = new_number()
        response = await pool.request("GET", f"{PROOF_PATH}?number={number}".encode())
        try:
            proven = msgspec.json.decode(response.body, type=Proven)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise stranger(self._run) from None
        if not hmac.compare_digest(proven.code.encode(), self._run.code("server", number).encode()):
            raise stranger(self._run)
        return f"run.{proven.number}.{self._run.code('client', proven.number)}"


def stranger(run: RunFile) -> SourceUnavailable:
    """Somebody listens where a toolcrib should, and is none."""
    return SourceUnavailable(
        f"What answers at {run.url} is not the toolcrib that said so; nothing was sent.", hint=START
    )


class Remote:
    """The REST door of a running toolcrib."""

    def __init__(self, url: str, credentials: Credentials) -> None:
        self.url = url
        self._pool = HttpPool(url, connect_timeout_s=2)
        self._credentials = credentials
        self._bearer = ""

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        """One request; the decoded answer. Refusals are errors in the server's own words."""
        content = b"" if body is None else msgspec.json.encode(body)
        try:
            response = await self._request(method, path, content)
            if response.status == 401:  # what was proven is forgotten after a while
                self._bearer = ""
                response = await self._request(method, path, content)
        except HttpFailure as failure:
            raise SourceUnavailable(f"No toolcrib answers at {self.url}: {failure}.", hint=START) from None
        try:
            answer = msgspec.json.decode(response.body or b"null")
        except msgspec.DecodeError:
            hint = "Give the address of a running toolcrib with --url."
            raise SourceUnavailable(f"What answers at {self.url} is no toolcrib.", hint=hint) from None
        if response.status >= 400:
            raise _refused(response.status, answer)
        return answer

    async def _request(self, method: str, path: str, content: bytes) -> Response:
        self._bearer = self._bearer or await self._credentials.bearer(self._pool)
        headers = ((b"authorization", b"Bearer " + self._bearer.encode()), (b"content-type", b"application/json"))
        return await self._pool.request(method, path.encode(), headers, content)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._pool.close()


def _refused(status: int, answer: Any) -> PermissionDenied:
    error = answer.get("error") if isinstance(answer, dict) else None
    told = answer.get("detail", "") if isinstance(answer, dict) else ""
    told = told or (error.get("message", "") if isinstance(error, dict) else "")
    return PermissionDenied(f"toolcrib refused (HTTP {status}): {told}")


def open_remote(address: str | None, chosen: str | None, around: Environment) -> Remote:
    """The toolcrib at that address, or else the one that serves the project here, or the file that was chosen."""
    if not address:
        run = run_here(chosen, around)
        return Remote(run.url, ByRunFile(run))
    url = address.rstrip("/").removesuffix("/mcp")
    known = next((run for run in RunFiles(around.env).read() if run.url == url), None)
    return Remote(url, ByRunFile(known) if known is not None else ByToken(_token()))


def run_here(chosen: str | None, around: Environment) -> RunFile:
    """Who serves the project here, or the file that was chosen."""
    running = RunFiles(around.env).read()
    file = project_file(chosen, around).absolute()
    found = choose(running, file.resolve(), is_project=file.is_file())
    if not found:
        raise nobody_serves(file.parent, running)
    return found[0]


def nobody_serves(directory: Path, running: list[RunFile]) -> SourceUnavailable:
    """No run file is for the project here."""
    others = ", ".join(f"{run.url} for {run.directory}" for run in running[:5])
    hint = f"{START} Running: {others}." if others else START
    return SourceUnavailable(f"No toolcrib serves {directory}.", hint=hint)


def _token() -> str:
    return os.environ.get(VARIABLE) or kept_token(token_path(os.environ)).value
