"""The engines that replicas share, started when the first test needs them and kept for the rest of the run."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from tests.fleet.engines import Postgres, Redis, a_postgres, a_redis, redis_program, valkey_program
from tests.running.plan import QUICK, QUICK_VARIABLE
from tests.running.worker import borrow_engine

from toolcrib.stores.postgres.database import StoreSettings

QUICK_TIMEOUT_S = 150
QUICK_EXAMPLES = 20

settings.register_profile("any machine", deadline=None)  # an example may take as long as a busy machine needs for it
settings.register_profile("quick", deadline=None, max_examples=QUICK_EXAMPLES)
settings.load_profile("quick" if os.environ.get(QUICK_VARIABLE) else "any machine")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test that starts no programs takes milliseconds: one that hangs should not hold up the rest for long."""
    if config.getoption("timeout", None) is not None:
        return
    quick = tuple(config.rootpath / folder for folder in QUICK)
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in quick) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(QUICK_TIMEOUT_S))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL with pgvector that the tests of this run share; none may stop it."""
    if port := borrow_engine("postgres"):
        yield Postgres(Path(), port)
        return
    with a_postgres() as engine:
        yield engine


@pytest.fixture
def store_settings(postgres: Postgres) -> Iterator[StoreSettings]:
    """A database of one's own, up to date and empty."""
    url = postgres.fresh_database()
    yield StoreSettings(url)
    postgres.drop(url)


@pytest.fixture(scope="session")
def redis() -> Iterator[Redis]:
    """A Redis that the tests of this run share; none may stop or flush all of it."""
    if port := borrow_engine("redis"):
        yield Redis(redis_program(), port)
        return
    with a_redis() as engine:
        yield engine


@pytest.fixture(scope="session")
def valkey() -> Iterator[Redis]:
    """A Valkey that the tests of this run share."""
    if port := borrow_engine("valkey"):
        yield Redis(valkey_program(), port)
        return
    with a_redis(valkey_program()) as engine:
        yield engine
