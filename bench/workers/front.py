"""``front.py``: toolcrib's HTTP server with a handler that echoes, and a clock that watches its event loop.

Prints its port. ``GET /watch`` tells, since it was asked last, the most CPU the loop spent between two ticks of the
clock, and the CPU spent in all; both in milliseconds, both untouched by whoever else uses the machine.
"""

import asyncio
import json
import sys
import time

import uvloop

from toolcrib.transports.http.server import Exchange, HttpRequest, HttpServer

TICK_S = 0.001


class Watch:
    """The longest the loop was held since it was asked last."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.last = self.began = time.thread_time()

    def tick(self) -> None:
        now = time.thread_time()
        self.longest_s, self.last = max(self.longest_s, now - self.last), now
        asyncio.get_running_loop().call_later(TICK_S, self.tick)

    def answer(self, _request: HttpRequest, exchange: Exchange) -> None:
        now = time.thread_time()
        told = {"gap_ms": self.longest_s * 1e3, "cpu_ms": (now - self.began) * 1e3}
        self.longest_s, self.began = 0.0, now
        exchange.answer(200, json.dumps(told).encode())


def echo(request: HttpRequest, exchange: Exchange) -> None:
    exchange.answer(200, request.body)


async def main() -> None:
    watch = Watch()
    server = HttpServer({"/": echo, "/watch": watch.answer})
    await server.start("127.0.0.1", 0)
    watch.tick()
    print(server.port, flush=True)
    await asyncio.to_thread(sys.stdin.read)  # ends with whoever started it
    await server.close(0)


uvloop.run(main())
