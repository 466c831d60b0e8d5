"""From configuration to what replicas share."""

import os
import socket
from dataclasses import replace

import pytest
from tests.fleet.engines import a_redis

from toolcrib.assemble import open_crib
from toolcrib.config.model import Config
from toolcrib.config.scaling import RedisConfig, StoreConfig
from toolcrib.core.coordination import Claim
from toolcrib.core.errors import ConfigError, CoordinationUnavailable
from toolcrib.core.limits import Rate
from toolcrib.shared import find_redis, open_shared, replica_name
from toolcrib.stores.redis.connections import RedisSettings


def test_the_address_of_redis_may_be_a_reference():
    found = find_redis(RedisConfig("${QUICK}", 0.5), "main", {"QUICK": "rediss://somewhere/3"})

    assert found == RedisSettings("rediss://somewhere/3", "main", 0.5)
    assert find_redis(RedisConfig(), "main", {}) is None


def test_an_address_of_something_else_is_refused_and_not_repeated():
    with pytest.raises(ConfigError, match="begins with redis://") as caught:
        find_redis(RedisConfig("${QUICK}"), "main", {"QUICK": "http://me:hunter2@somewhere"})

    assert "hunter2" not in str(caught.value)


def test_pods_of_a_long_name_are_told_apart(monkeypatch):
    """Their names differ at the end."""
    names = []
    for pod in ("the-tools-of-our-department-7d9f6c5b8-x2x4q", "the-tools-of-our-department-7d9f6c5b8-k8s9z"):
        monkeypatch.setattr(socket, "gethostname", lambda pod=pod: f"{pod}.pods.cluster.local")
        names.append(replica_name(Config()))

    assert names == [f"partment-7d9f6c5b8-{end}-{os.getpid()}" for end in ("x2x4q", "k8s9z")]


async def test_without_store_and_redis_nothing_is_shared():
    shared = await open_shared(Config(), {})

    assert (shared.database, shared.coordination) == (None, None)


async def test_redis_counts_if_there_is_one_and_the_store_otherwise(redis, store_settings):
    store, quick = StoreConfig(store_settings.url), RedisConfig(redis.fresh_database())
    engines = []
    for config in (Config(store=store), Config(redis=quick), Config(store=store, redis=quick)):
        shared = await open_shared(config, {})
        engines.append(shared.coordination.status().engine)
        await shared.close()

    assert engines == ["postgresql", "redis", "redis"]


async def test_a_crib_says_when_its_redis_is_away():
    with a_redis() as engine:
        config = replace(Config(), redis=RedisConfig(engine.url(), 0.5))
        async with open_crib(config) as crib:
            before = crib.health()["fleet"]
            engine.stop()
            with pytest.raises(CoordinationUnavailable):
                await crib.fleet.coordination.use([Claim("tool read", Rate(1, 1.0))])
            health, samples = crib.health(), crib.exposition("1", 0.0)

    assert (before["engine"], before["problem"]) == ("redis", "")
    assert health["fleet"]["problem"] == "Redis cannot be used: it does not answer."
    assert 'toolcrib_fleet_up{engine="redis"} 0' in samples
