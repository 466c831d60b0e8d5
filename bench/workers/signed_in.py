"""A certified OpenID provider with an MCP server behind it, and PostgreSQL where that is wanted, for a figure: takes
orders as lines of JSON, answers each by one, and ends when its input does."""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fleet.engines import a_postgres
from tests.fleet.oauth import oauth_provider, sign_in

from toolcrib import open_crib
from toolcrib.crib.crib import Crib
from toolcrib.stores.paths import Environment

BACK = "http://127.0.0.1:9/oauth/callback"
SETTINGS = ("max_connections=200", "shared_buffers=64MB")
CALLS, CALL_S = 4, 0.5
LIFE_S, RENEWAL_S = 8, 3
"""A token that lives so long is renewed after about four seconds; that takes longer than the calls."""
Order = Callable[..., Coroutine[Any, Any, Mapping[str, Any]]]


class Stage:
    """What there is for the figure."""

    def __init__(self, life: ExitStack, wishes: Mapping[str, Any], *, is_shared: bool) -> None:
        self.provider = life.enter_context(oauth_provider(full=True, **wishes))
        self.postgres = life.enter_context(a_postgres(SETTINGS)) if is_shared else None
        self.store = self.postgres.fresh_database() if self.postgres is not None else ""

    async def about(self) -> Mapping[str, Any]:
        return {"url": self.provider.url, "store": self.store}

    async def seen(self) -> Mapping[str, Any]:
        return self.provider.seen()

    async def sign_in(self, home: str, key: str = "") -> Mapping[str, Any]:
        """Sign the owner of a home in, by its configuration; the token that came of it."""
        sealed_by = {"TOOLCRIB_VAULT_KEY": key} if key else {}
        around = Environment(Path(home), {"HOME": home, "XDG_STATE_HOME": home, **sealed_by})
        async with open_crib(Path(home) / "toolcrib.toml", surroundings=around) as crib:
            await _sign_in(crib)
            [account] = await _accounts(crib)
            return {"token": account.tokens.access_token, "client": account.client.client_id}

    async def parallel(self, home: str) -> Mapping[str, Any]:
        """Some calls at once through one account while its token is being renewed, and how long they take."""
        around = Environment(Path(home), {"HOME": home, "XDG_STATE_HOME": home})
        self.provider.wish(accessS=LIFE_S)
        try:
            async with open_crib(Path(home) / "toolcrib.toml", surroundings=around) as crib:
                await _sign_in(crib)
                self.provider.wish(tokenDelayS=RENEWAL_S)
                while not self.provider.seen()["refreshing"]:
                    await asyncio.sleep(0.05)
                began = time.perf_counter()
                calls = [crib.call("s0__wait", {"seconds": CALL_S}) for _ in range(CALLS)]
                results = await asyncio.gather(*calls)
                took_s = time.perf_counter() - began
                is_renewing = self.provider.seen()["refreshing"]
        finally:
            self.provider.wish(accessS=3600, tokenDelayS=0)
        if not all(result.success for result in results) or not is_renewing:
            raise RuntimeError(f"renewing: {is_renewing}; {[result.text for result in results]}")
        return {"s": took_s}

    async def restart(self) -> Mapping[str, Any]:
        """PostgreSQL is gone, and comes back."""
        assert self.postgres is not None
        began = time.perf_counter()
        await asyncio.to_thread(self.postgres.stop)
        await asyncio.to_thread(self.postgres.start)
        return {"s": time.perf_counter() - began}


async def _sign_in(crib: Crib) -> None:
    assert crib.sign_ins is not None
    begun = await crib.sign_ins.begin("s0", "", redirect_uri=BACK)
    back = await asyncio.to_thread(sign_in, begun.url)
    await crib.sign_ins.answer(dict(parse_qsl(urlsplit(back).query)))
    await crib.servers.refresh("s0")


async def _accounts(crib: Crib) -> list[Any]:
    assert crib.sign_ins is not None
    return await crib.sign_ins.kept()


async def main() -> None:
    wanted = json.loads(sys.argv[1])
    with ExitStack() as life:
        stage = Stage(life, wanted["wishes"], is_shared=wanted["shared"])
        orders: dict[str, Order] = {
            "open": stage.about,
            "seen": stage.seen,
            "sign_in": stage.sign_in,
            "parallel": stage.parallel,
            "restart": stage.restart,
        }
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            order = json.loads(line)
            try:
                reply = dict(await orders[order.pop("do")](**order))
            except Exception as error:  # whatever went wrong is the answer to the order
                reply = {"error": repr(error)[:500]}
            print("@@" + json.dumps(reply), flush=True)


asyncio.run(main())
