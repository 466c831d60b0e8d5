"""The ``Coordination`` of ``core`` over Redis or Valkey."""

from toolcrib.stores.coordination.coordinator import Coordinator
from toolcrib.stores.coordination.engine import EpochMemory, Habits
from toolcrib.stores.redis.connections import RedisSettings
from toolcrib.stores.redis.engine import RedisEngine


async def open_redis_coordination(
    settings: RedisSettings, habits: Habits | None = None, memory: EpochMemory | None = None
) -> Coordinator:
    """One replica's part, in contact with the engine or trying to be."""
    own = habits or Habits()
    return await Coordinator(RedisEngine(settings, own), own, memory).open()
