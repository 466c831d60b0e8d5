"""The engines that contracts are held against."""

from collections.abc import AsyncIterator, Callable

import pytest
from tests.contracts.ledgers import Ledgers


@pytest.fixture
async def ledgers_of(request, tmp_path) -> AsyncIterator[Callable[[str], Ledgers]]:
    """Ledgers over a file or a database, by its kind."""
    made: list[Ledgers] = []

    def make(kind: str) -> Ledgers:
        settings = request.getfixturevalue("store_settings") if kind == "postgres" else None
        made.append(Ledgers(tmp_path / "toolcrib.lock", settings))
        return made[-1]

    yield make
    for each in made:
        await each.close()


@pytest.fixture(params=["file", "postgres"])
def ledgers(request, ledgers_of) -> Ledgers:
    return ledgers_of(request.param)
