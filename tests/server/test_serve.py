"""An open Crib on our own HTTP server, from a program: the same doors and the same care as the command."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import toolcrib
from toolcrib.core.errors import ConfigError
from toolcrib.server.serve import Serving
from toolcrib.stores.paths import Environment
from toolcrib.transports.http.client import HttpPool

TOKEN = "a-token-of-my-own-choosing"
BEARER = (b"authorization", f"Bearer {TOKEN}".encode())
SERVER = msgspec.json.encode({"name": "new", "url": "http://127.0.0.1:1/mcp"})


def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"


@asynccontextmanager
async def served(home: Path, config: Any = None, **wishes: Any) -> AsyncIterator[Serving]:
    around = Environment(home, {"HOME": str(home)})
    opened = toolcrib.open_crib(config or {"mcpServers": {}}, tools=[greet], surroundings=around)
    async with opened as crib, toolcrib.serve(crib, port=0, **wishes) as serving:
        yield serving


async def ask(serving: Serving, method: str, path: str, body: bytes = b"", *headers: tuple[bytes, bytes]) -> Any:
    pool = HttpPool(serving.server.local_url)
    try:
        kinds = ((b"content-type", b"application/json"), *headers)
        answer = await pool.request(method, path.encode(), kinds, body)
        return answer.status, answer.body
    finally:
        await pool.close()


async def test_a_program_serves_its_crib(tmp_path):
    """Without a token on this machine, as the command does; the page has its own name."""
    async with served(tmp_path) as serving:
        status, body = await ask(serving, "POST", "/api/v1/tools/greet/call", b'{"arguments": {"name": "Ada"}}')

        assert serving.url == f"http://127.0.0.1:{serving.server.port}/mcp"
        assert (status, b"Hello Ada" in body) == (200, True)
        assert ".localhost:" in serving.sign_in
        assert await ask(serving, "GET", "/healthz") == (200, b'{"status":"healthy","version":"0.1.0","away":[]}')
    assert not (tmp_path / ".local" / "state" / "toolcrib" / "run").exists()


async def test_a_token_that_is_given_is_asked_for(tmp_path):
    """Of MCP, REST and everything else that is no probe."""
    async with served(tmp_path, token=TOKEN) as serving:
        assert (await ask(serving, "GET", "/api/v1/tools"))[0] == 401
        assert (await ask(serving, "GET", "/api/v1/tools", b"", BEARER))[0] == 200


async def test_what_would_be_open_by_mistake_is_an_error(tmp_path):
    """As for the command: an address that others reach needs tokens, or somebody who says otherwise."""
    with pytest.raises(ConfigError, match="Without tokens"):
        async with served(tmp_path, host="0.0.0.0", auth="none"):
            pass


async def test_what_a_program_set_up_is_changed_by_the_program(tmp_path):
    """There is no file to write a server into, and none of the working directory is touched or read."""
    (tmp_path / "toolcrib.toml").write_text('[servers.other]\nurl = "http://127.0.0.1:1/mcp"\n')
    async with served(tmp_path, token=TOKEN) as serving:
        status, body = await ask(serving, "POST", "/api/v1/servers", SERVER, BEARER)

        assert status >= 400
        assert b"set up by a program" in body
        assert not serving.crib.shelves
    assert "new" not in (tmp_path / "toolcrib.toml").read_text()


async def test_a_crib_of_files_is_changed_in_its_files(tmp_path):
    """The file that was named when it was opened."""
    path = tmp_path / "mine.toml"
    path.write_text("")
    async with served(tmp_path, path, token=TOKEN) as serving:
        status, _ = await ask(serving, "POST", "/api/v1/servers", SERVER, BEARER)

        assert status == 201
        assert "new" in serving.crib.shelves
    assert "[servers.new]" in path.read_text()
