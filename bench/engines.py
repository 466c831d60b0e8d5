"""The engines that replicas share, beside a figure."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench import environments

START_S = 60.0


@dataclass(frozen=True)
class Engines:
    postgres: str
    redis: str


@asynccontextmanager
async def engines() -> AsyncIterator[Engines]:
    """A PostgreSQL with our tables and a Redis, for as long as the block lasts."""
    worker = str(environments.HERE / "workers" / "engines.py")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        os.environ[environments.PROJECT_PYTHON], worker, stdin=pipe, stdout=pipe
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), START_S)
        yield Engines(**json.loads(line))
    finally:
        process.stdin.close()
        await process.wait()
