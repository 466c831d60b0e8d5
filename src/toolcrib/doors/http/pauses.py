"""News for a stream that has to say something even when there are none."""

import asyncio
from collections.abc import AsyncGenerator

from toolcrib.core.news import News


async def with_pauses(news: AsyncGenerator[News, None], pause_s: float) -> AsyncGenerator[News | None, None]:
    """The news, and ``None`` whenever there was none for a while; who reads them lets go of them at the end."""
    coming = asyncio.ensure_future(anext(news, None))
    try:
        while True:
            done, _ = await asyncio.wait({coming}, timeout=pause_s)
            if not done:
                yield None
                continue
            item = coming.result()
            if item is None:
                return
            yield item
            coming = asyncio.ensure_future(anext(news, None))
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        await news.aclose()
