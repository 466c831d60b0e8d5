"""Two programs, each with a Crib of its own, one Redis between them."""

import asyncio
import json
import sys
import time
from pathlib import Path

from tests.fleet import launcher
from tests.fleet.engines import Redis
from tests.fleet.running import homely

from toolcrib.stores.redis.engine import RedisSettings, make_client

PROGRAM = """
import asyncio, json, sys, time
from toolcrib import open_crib

def tick() -> str:
    return "done"

async def main() -> None:
    ended = []
    async with open_crib(sys.argv[1], tools=[tick]) as crib:
        end = time.time() + 2.5
        while time.time() < end or len(ended) < 6:
            results = await asyncio.gather(*(crib.call("tick", {}) for _ in range(5)))
            ended += [time.time() for result in results if result.success]
            refusals = {result.error.code for result in results if not result.success}
            assert refusals <= {"TOOL_RATE_LIMITED"}, refusals
            await asyncio.sleep(0.01)
        print(json.dumps({"ended": ended, "fleet": crib.health().fleet}))

asyncio.run(main())
"""


async def run(config: Path) -> dict[str, object]:
    arguments = [sys.executable, "-c", PROGRAM, str(config)]
    env = homely(config.parent)
    done = await asyncio.to_thread(launcher.run, arguments, stdin="", timeout_s=150, env=env)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


async def test_a_rate_of_ten_calls_a_second_is_that_of_both_programs_together(redis: Redis, tmp_path: Path):
    """Each goes on for more than two seconds, and until it had its part, and asks for far more."""
    url = redis.fresh_database()
    client = make_client(RedisSettings(url))
    while (await client.info("server"))["uptime_in_seconds"] < 6:  # too young to be trusted, without a store
        await asyncio.sleep(0.1)
    await client.aclose()
    config = tmp_path / "toolcrib.toml"
    config.write_text(
        f'[redis]\nurl = "{url}"\n[store]\nname = "two-programs"\n[limits]\ncaller_rate = "10/1s"\n'
        "[kb]\nenabled = false\n[audit]\nenabled = false\n"
    )
    began = time.time()

    one, other = await asyncio.gather(run(config), run(config))

    ended = sorted([*one["ended"], *other["ended"]])
    assert 10 < len(ended) <= 10 * (int(ended[-1] - began) + 1)
    assert one["fleet"]["engine"] == "redis"
    assert one["fleet"]["replica"] != other["fleet"]["replica"]
