"""Redis or Valkey as the engine of replicas.

All keys of a fleet carry its name in braces, so that a cluster keeps them together.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha1
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from toolcrib.config.model import Config
from toolcrib.config.references import resolve
from toolcrib.core.coordination import EpochMemory
from toolcrib.core.errors import ConfigError, CoordinationUnavailable
from toolcrib.stores.coordination.coordinator import Coordinator
from toolcrib.stores.coordination.engine import PART, EngineMemory, EngineVerdict, Habits, Heard, Wish
from toolcrib.stores.shared import PERCENT

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from redis.asyncio.connection import AbstractConnection


CONNECTIONS_MAX = 32


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """Where the engine is, and how it is used; the address holds no references any more."""

    url: str = field(repr=False)
    name: str = "main"
    """Replicas with the same name share everything."""
    timeout_s: float = 2.0


def find_redis(config: Config, env: Mapping[str, str]) -> RedisSettings:
    """The Redis of a configuration; nothing is opened."""
    if find_spec("redis") is None:
        raise ConfigError("[redis] needs redis-py.", hint="Run `toolcrib extras add redis`.")
    url = resolve(config.redis.url, env, field="[redis] url")
    if not url.startswith(("redis://", "rediss://", "unix://")):
        hint = "It begins with redis://, rediss:// or unix://."
        raise ConfigError("[redis] url does not lead to an address of Redis.", hint=hint)
    try:
        urlsplit(url).port  # noqa: B018 - asking is what finds out
    except ValueError:
        raise ConfigError("[redis] url cannot be read.", hint=PERCENT) from None
    return RedisSettings(url, config.store.name, config.redis.timeout_s)


def make_client(settings: RedisSettings) -> "Redis":
    """A client whose connections fail at once instead of trying again; nothing is opened yet."""
    from redis.asyncio import BlockingConnectionPool, Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    try:
        pool = BlockingConnectionPool.from_url(
            settings.url,
            max_connections=CONNECTIONS_MAX,
            timeout=settings.timeout_s,
            protocol=2,
            client_name="toolcrib",
            socket_timeout=None,
            socket_connect_timeout=settings.timeout_s,
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError:
        raise ConfigError("[redis] url cannot be read.", hint=PERCENT) from None
    return Redis.from_pool(pool)


async def make_connection(client: "Redis", timeout_s: float) -> "AbstractConnection":
    """A connection of one's own."""
    connection: AbstractConnection = client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
    async with trouble(timeout_s):
        await connection.connect()  # type: ignore[no-untyped-call]
    return connection


async def ask(connection: "AbstractConnection", *command: Any) -> Any:
    """One command and its answer; the caller translates trouble."""
    await connection.send_command(*command, check_health=False)
    return await connection.read_response()


@asynccontextmanager
async def trouble(timeout_s: float) -> AsyncIterator[None]:
    """Whatever goes wrong inside is ``CoordinationUnavailable``, at the latest after that time."""
    import redis.exceptions as foreign

    try:
        async with asyncio.timeout(timeout_s):
            yield
    except (foreign.RedisError, OSError, TimeoutError) as error:
        raise unavailable(error) from error


def unavailable(error: Exception) -> CoordinationUnavailable:
    """The trouble in plain words, without the address: it may hold a password."""
    reason = reason_of(error)
    return CoordinationUnavailable(
        f"Redis cannot be used: {reason}.",
        hint="Try again shortly. If it lasts, check [redis] url and that Redis runs.",
        details={"reason": reason, "was_cut": type(error).__name__ == "ConnectionError"},
    )


def reason_of(error: Exception) -> str:
    """The trouble in plain words."""
    kind, said = type(error).__name__, str(error)
    return next((words for mark, words in _REASONS.items() if mark == kind or said.startswith(mark)), _DUMB)


_DUMB = "it does not answer"
_REASONS = {
    "AuthenticationError": "it does not let us in",
    "AuthenticationWrongNumberOfArgsError": "it does not let us in",
    "NOAUTH": "it does not let us in",
    "WRONGPASS": "it does not let us in",
    "NoPermissionError": "we may not do this there",
    "NOPERM": "we may not do this there",
    "OutOfMemoryError": "its memory is full",
    "OOM": "its memory is full",
    "ReadOnlyError": "it may only be read",
    "READONLY": "it may only be read",
    "BusyLoadingError": "it is starting",
    "LOADING": "it is starting",
    "MovedError": "it is part of a cluster; toolcrib needs a single Redis",
    "MOVED": "it is part of a cluster; toolcrib needs a single Redis",
    "MISCONF": "it cannot write to its disk",
    "BUSY": "it is busy with a script",
    "ResponseError": "it does not understand us; Redis 6.2 or newer is needed",
}


_LUA = Path(__file__).with_name("lua")
_PART = PART.encode()
_HEADING = ("sender", "topic", "body")


def read_lua(name: str) -> tuple[str, str]:
    """One of the scripts, and what the engine knows it by."""
    text = (_LUA / f"{name}.lua").read_text()
    return text, sha1(text.encode(), usedforsecurity=False).hexdigest()


class RedisEngine:
    """One connection for decisions, one for news, a few for the rest."""

    name = "redis"

    def __init__(self, settings: RedisSettings, habits: Habits) -> None:
        self._settings, self._habits = settings, habits
        self._client = make_client(settings)
        self._line: AbstractConnection | None = None
        self._script, self._sha = read_lua("coordinate")
        self._lease, self._end_lease = read_lua("lease")[0], read_lua("end_lease")[0]
        self._prefix = f"toolcrib:{{{settings.name}}}:"
        database = self._client.connection_pool.connection_kwargs.get("db") or 0  # channels know no databases
        self._channel = f"{self._prefix}news:{database}"
        self._always = {
            "replica": habits.replica,
            "settle": _us(habits.settle_s),
            "whole": _us(habits.whole_window_s),
            "lease": _us(habits.lease_s),
            "patience": _us(habits.patience_s),
        }

    async def connect(self) -> EngineMemory:
        """Make the connection for decisions anew; a young engine, or one others listen to, may have forgotten."""
        old, self._line = self._line, None
        if old is not None:
            await old.disconnect(nowait=True)
        line = await make_connection(self._client, self._settings.timeout_s)
        async with trouble(self._settings.timeout_s):
            about = _fields(await _if_allowed(line, "INFO", "server"))
            listening = await _if_allowed(line, "PUBSUB", "NUMSUB", self._channel)
        self._line = line
        is_young = float(about.get("uptime_in_seconds", 0)) < self._habits.settle_s
        return EngineMemory(run=about.get("run_id", ""), is_unsure=is_young or not listening or listening[1] > 1)

    async def decide(self, known: EngineMemory, wishes: Sequence[Wish]) -> EngineVerdict:
        """One round trip."""
        if self._line is None:
            raise CoordinationUnavailable("Redis is not connected.", details={"was_cut": True})
        keys, request = self._encode(known, wishes)
        try:
            async with trouble(self._settings.timeout_s):
                answer = await self._run(self._line, len(keys), *keys, request, self._channel)
        except BaseException:
            line, self._line = self._line, None  # its answer may still come: nobody else may read it
            await line.disconnect(nowait=True)
            raise
        epoch, number, now, lost, shut, *rest = answer
        return EngineVerdict(epoch.decode(), number, now, lost, shut, rest)

    async def _run(self, line: "AbstractConnection", *arguments: Any) -> Any:
        from redis.exceptions import NoScriptError

        try:
            return await ask(line, "EVALSHA", self._sha, *arguments)
        except NoScriptError:
            return await ask(line, "EVAL", self._script, *arguments)

    def _encode(self, known: EngineMemory, wishes: Sequence[Wish]) -> tuple[list[str], bytes]:
        book = _KeyBook(self._prefix)
        written = [_WRITERS[wish[0]](book, wish) for wish in wishes]
        request = {
            **self._always,
            "known": known.epoch,
            "seen": known.seen,
            "run": known.run,
            "unsure": known.is_unsure,
            "fresh": token_hex(8),
            "gates": {str(number): gate for gate, number in book.gates.items()},
            "wishes": written,
        }
        return book.keys, msgspec.json.encode(request)

    @asynccontextmanager
    async def tune(self) -> AsyncIterator[AsyncIterator[Heard]]:
        """A connection that hears the one channel of this fleet."""
        line = await make_connection(self._client, self._settings.timeout_s)
        try:
            async with trouble(self._settings.timeout_s):
                await ask(line, "SUBSCRIBE", self._channel)
            yield self._hear(line)
        finally:
            await line.disconnect(nowait=True)

    async def _hear(self, line: "AbstractConnection") -> AsyncIterator[Heard]:
        """What is said; a connection that does not even answer a ping is dead."""
        while True:
            message = await self._next(line)
            parts: list[bytes] = message[2].split(_PART, 2) if message[0] == b"message" else []
            if len(parts) == len(_HEADING):
                sender, topic, body = parts
                yield Heard(sender.decode(), topic.decode(), body)

    async def _next(self, line: "AbstractConnection") -> Any:
        read = asyncio.ensure_future(line.read_response())
        try:
            async with trouble(self._habits.beat_s + self._settings.timeout_s):
                done, _ = await asyncio.wait([read], timeout=self._habits.beat_s)
                if not done:
                    await line.send_command("PING", check_health=False)
                return await read
        finally:
            read.cancel()

    async def publish(self, topic: str, body: bytes) -> None:
        """Tell all who listen; who it is from stands before it."""
        await self._do("PUBLISH", self._channel, _PART.join((self._habits.replica.encode(), topic.encode(), body)))

    async def lease(self, name: str, token: str, for_s: float) -> bool:
        """Take a lease, or keep it."""
        return bool(await self._do("EVAL", self._lease, 1, f"{self._prefix}lease:{name}", token, _ms(for_s)))

    async def end_lease(self, name: str, token: str) -> None:
        """Give a lease back, if it is still ours."""
        await self._do("EVAL", self._end_lease, 1, f"{self._prefix}lease:{name}", token)

    async def put(self, key: str, value: bytes, ttl_s: float) -> None:
        """Keep a value for a while."""
        await self._do("SET", f"{self._prefix}value:{key}", value, "PX", _ms(ttl_s))

    async def get(self, key: str) -> bytes | None:
        """The value, if it is still kept."""
        value: bytes | None = await self._do("GET", f"{self._prefix}value:{key}")
        return value

    async def forget(self, key: str) -> None:
        """Keep a value no longer."""
        await self._do("DEL", f"{self._prefix}value:{key}")

    async def _do(self, *command: Any) -> Any:
        async with trouble(self._settings.timeout_s):
            return await self._client.execute_command(*command)  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        """Let go of all connections."""
        line, self._line = self._line, None
        if line is not None:
            await line.disconnect(nowait=True)
        await self._client.aclose()


class _KeyBook:
    """The keys that one request names, each once."""

    def __init__(self, prefix: str) -> None:
        self.keys = [f"{prefix}epoch", f"{prefix}marks"]
        self.gates: dict[str, int] = {}
        self._prefix = prefix
        self._counts: dict[str, int] = {}

    def count(self, name: str) -> int:
        number = self._counts.get(name)
        if number is None:
            self.keys.append(f"{self._prefix}count:{name}")
            number = self._counts[name] = len(self.keys)
        return number

    def gate(self, name: str) -> int:
        number = self.gates.get(name)
        if number is None:
            gate = f"{self._prefix}gate:{name}"
            self.keys += (gate, f"{gate}:line", f"{gate}:seen")
            number = self.gates[name] = len(self.keys) - 2
        return number


_WRITERS: dict[str, Any] = {
    "use": lambda book, wish: ("use", *((book.count(key), count, window) for key, count, window in wish[1:])),
    "back": lambda book, wish: ("back", book.count(wish[1]), *wish[2:]),
    "take": lambda book, wish: ("take", book.gate(wish[1]), *wish[2:]),
    "give": lambda book, wish: ("give", book.gate(wish[1]), wish[2]),
    "leave": lambda book, wish: ("leave", book.gate(wish[1])),
    "keep": lambda book, wish: ("keep", *((book.gate(gate), ticket) for gate, ticket in wish[1:])),
}


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1e3))


async def _if_allowed(line: "AbstractConnection", *command: Any) -> Any:
    """An answer that can be done without: many a hosted Redis does not give it."""
    from redis.exceptions import ResponseError

    try:
        return await ask(line, *command)
    except ResponseError:
        return None


def _fields(text: bytes | None) -> dict[str, str]:
    lines = (text or b"").decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


async def open_redis_coordination(
    settings: RedisSettings, habits: Habits | None = None, memory: EpochMemory | None = None
) -> Coordinator:
    """One replica's part, in contact with the engine or trying to be."""
    own = habits or Habits()
    return await Coordinator(RedisEngine(settings, own), own, memory).open()
