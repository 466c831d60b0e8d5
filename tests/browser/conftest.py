"""One browser and one demonstration for the tests of a module."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from tests.browser.chromium import open_chromium
from tests.browser.demo import Demo, open_demo


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Browser]:
    async with open_chromium() as started:
        yield started


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    home: Path = tmp_path_factory.mktemp("demo")
    with open_demo(home) as opened:
        yield opened
