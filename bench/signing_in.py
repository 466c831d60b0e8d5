"""A provider that people sign in at, and an MCP server that takes its tokens, beside a figure."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench import environments
from bench.running import LOGS
from bench.wire.worker import WorkerWire

SERVER = "s0"
TABLES = "[kb]\nenabled = false\n"


class SignInStage:
    """What the worker of that name holds ready."""

    def __init__(self, worker: WorkerWire, url: str, store: str) -> None:
        self._worker, self.url, self.store = worker, url, store

    def table(self, headers: str = "") -> str:
        """The configuration of a toolcrib in front of the server."""
        shared = f'[store]\nurl = "{self.store}"\n' if self.store else ""
        return f'{TABLES}{shared}[servers.{SERVER}]\nurl = "{self.url}"\n{headers}'

    async def order(self, do: str, **order: Any) -> dict[str, Any]:
        """Have something done there."""
        return await self._worker.order(do=do, **order)

    async def sign_in(self, home: Path, key: str = "") -> dict[str, Any]:
        """Sign the owner of a home in; the token that came of it."""
        (home / "toolcrib.toml").write_text(self.table())
        return await self.order("sign_in", home=str(home), key=key)


@asynccontextmanager
async def sign_in_stage(home: Path, *, is_shared: bool = False, **wishes: Any) -> AsyncIterator[SignInStage]:
    """For as long as the block lasts; with PostgreSQL if it is shared."""
    LOGS.mkdir(parents=True, exist_ok=True)
    script = str(environments.HERE / "workers" / "signed_in.py")
    wanted = json.dumps({"wishes": wishes, "shared": is_shared})
    argv = [str(environments.project_python()), script, wanted]
    worker = WorkerWire(argv, environments.variables(home), home, LOGS / "signed_in.log")
    try:
        await worker.open()
        about = await worker.order(do="open")
        yield SignInStage(worker, about["url"], about["store"])
    finally:
        await worker.close()
