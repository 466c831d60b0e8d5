"""From configuration to what replicas share."""

import asyncio
import os
import re
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fleet.engines import a_redis

import toolcrib
from toolcrib.calls.metrics import exposition
from toolcrib.config.model import Config
from toolcrib.config.sections import RedisConfig, StoreConfig
from toolcrib.core.coordination import Claim
from toolcrib.core.errors import ConfigError, CoordinationUnavailable
from toolcrib.core.limits import Rate
from toolcrib.crib.backend import find_backend, replica_name
from toolcrib.crib.builder import open_crib
from toolcrib.stores.paths import Environment
from toolcrib.stores.postgres.database import find_store
from toolcrib.stores.redis.engine import RedisSettings, find_redis


def test_the_address_of_redis_may_be_a_reference():
    found = find_redis(Config(redis=RedisConfig("${QUICK}", 0.5)), {"QUICK": "rediss://somewhere/3"})

    assert found == RedisSettings("rediss://somewhere/3", "main", 0.5)


def test_an_address_of_something_else_is_refused_and_not_repeated():
    with pytest.raises(ConfigError, match="begins with redis://") as caught:
        find_redis(Config(redis=RedisConfig("${QUICK}")), {"QUICK": "http://me:hunter2@somewhere"})

    assert "hunter2" not in str(caught.value)


def test_pods_of_a_long_name_are_told_apart(monkeypatch):
    """Their names differ at the end."""
    names = []
    for pod in ("the-tools-of-our-department-7d9f6c5b8-x2x4q", "the-tools-of-our-department-7d9f6c5b8-k8s9z"):
        monkeypatch.setattr(socket, "gethostname", lambda pod=pod: f"{pod}.pods.cluster.local")
        names.append(replica_name(Config()))

    assert names == [f"partment-7d9f6c5b8-{end}-{os.getpid()}" for end in ("x2x4q", "k8s9z")]


async def test_without_store_and_redis_nothing_is_shared():
    backend = await find_backend(Config(), Environment()).open()

    assert (backend.look, backend.place, backend.coordination, backend.sessions()) == (None, "", None, None)
    assert await backend.secret() == b""


async def test_redis_counts_if_there_is_one_and_the_store_otherwise(redis, store_settings):
    store, quick = StoreConfig(store_settings.url), RedisConfig(redis.fresh_database())
    engines = []
    for config in (Config(store=store), Config(redis=quick), Config(store=store, redis=quick)):
        backend = await find_backend(config, Environment()).open()
        engines.append(backend.coordination.status().engine)
        await backend.close()

    assert engines == ["postgresql", "redis", "redis"]


async def test_a_crib_says_when_its_redis_is_away():
    with a_redis() as engine:
        config = replace(Config(), redis=RedisConfig(engine.url(), 0.5))
        async with open_crib(config) as crib:
            before = crib.health().fleet
            engine.stop()
            with pytest.raises(CoordinationUnavailable):
                await crib.fleet.coordination.use([Claim("tool read", Rate(1, 1.0))])
            health, samples = crib.health(), exposition(crib.metrics, crib.health(), "1", 0.0)

    assert (before["engine"], before["problem"]) == ("redis", "")
    assert health.fleet["problem"] == "Redis cannot be used: it does not answer."
    assert 'toolcrib_fleet_up{engine="redis"} 0' in samples


@pytest.mark.parametrize("password", ["Zm9v/YmFyc2Vj", "S3cr%zzet", "a/b%zz"])
def test_a_password_that_breaks_its_address_is_not_shown(password):
    store, quick = StoreConfig(f"postgresql://u:{password}@h/db"), RedisConfig(f"redis://:{password}@h/0")
    told = []
    for find in (lambda: find_store(store, {}), lambda: find_redis(Config(redis=quick), {})):
        try:
            find()
        except ConfigError as error:
            told.append(str(error))

    assert told
    assert all("%2F" in words and password[:4] not in words for words in told)


async def test_a_crib_with_redis_alone_starts_while_redis_is_away():
    config = replace(Config(), redis=RedisConfig("redis://127.0.0.1:1/0", 0.3))
    async with open_crib(config, tools=[shout]) as crib:
        result = await crib.call("shout", {"text": "a"})

    assert result.error is None


def shout(text: str) -> str:
    """Loudly."""
    return text.upper()


async def test_a_crib_that_cannot_be_made_lets_go_of_what_it_shares(redis):
    config = replace(Config(), redis=RedisConfig(redis.fresh_database()), native=("no_such_module_at_all",))
    before = len(asyncio.all_tasks())
    for _ in range(3):
        with pytest.raises(ConfigError):
            async with open_crib(config):
                pass

    assert len(asyncio.all_tasks()) == before


def test_engines_are_named_where_one_is_chosen_and_by_the_commands_that_look_after_them():
    """Whatever else keeps something asks the backend for it."""
    package = Path(toolcrib.__file__).parent
    rooms = ("stores/postgres/", "stores/redis/", "stores/coordination/")
    naming = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"toolcrib\.stores\.(postgres|redis|coordination)", path.read_text("utf-8"))
    }

    assert {name for name in naming if not name.startswith(rooms)} == {
        "crib/backend.py",
        "crib/database.py",
        "cli/commands/db.py",
    }


@pytest.mark.parametrize(("room", "other"), [("postgres", "redis"), ("redis", "postgres")])
def test_an_engine_does_not_know_the_other(room, other):
    """Adding one is a room of its own and a word in the place that chooses."""
    texts = [path.read_text("utf-8") for path in (Path(toolcrib.__file__).parent / "stores" / room).glob("*.py")]

    assert texts
    assert not any(f"toolcrib.stores.{other}" in text for text in texts)
