"""Models behind an HTTP API."""

import asyncio
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Set
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any, TypeVar

import msgspec

from toolcrib.core.errors import ProtocolError
from toolcrib.core.network import Network
from toolcrib.models.api import AnswerReader, Api, Event, Lines, ModelFailed, ModelSettings
from toolcrib.models.choose import find_api
from toolcrib.models.talk import ModelReply, ModelRequest, TokenUsage
from toolcrib.transports.http.client import HttpFailure, HttpPool, PoolLimits, Receive, Response
from toolcrib.transports.http.dial import encode_own_headers

ANSWER_MAX = 64 << 20
ERROR_SHOWN = 300
ATTEMPTS = 3
WAIT_S = 1.0
LONGEST_WAIT_S = 30.0
UNFIT = 400
NEGOTIABLE = {"max_tokens": "max_completion_tokens", "temperature": "", "stream_options": ""}
"""Fields that some models refuse, and what they want instead; nothing of what is asked depends on them."""
BUSY = frozenset({408, 409, 429, 500, 502, 503, 504, 529})

Taken = TypeVar("Taken")


class HttpModel:
    """A model that is reached over HTTP; a busy one is asked again, as long as it has not begun to answer."""

    def __init__(
        self, settings: ModelSettings, network: Network | None = None, *, answer_max: int = ANSWER_MAX
    ) -> None:
        self.name = f"{settings.provider}:{settings.model}"
        self.api: Api = find_api(settings.provider)
        self._settings, self._network, self._answer_max = settings, network, answer_max
        self._url = (settings.url or self.api.base_url).rstrip("/") + self.api.path
        self._unwanted: set[str] = set()
        """Fields of requests that this model does not take, as it has said."""

    async def ask(self, request: ModelRequest) -> AsyncGenerator[str | ModelReply, None]:
        """The words in pieces, then the whole turn; raises ``ModelFailed`` if there is none."""
        for attempt in range(1, ATTEMPTS + 1):
            body = without_fields(self.api.body(self._settings.model, request), self._unwanted)
            try:
                async with aclosing(self._answer(msgspec.json.encode(body), is_streamed=request.stream)) as pieces:
                    async for piece in pieces:
                        yield piece
            except _Unfit as unfit:
                unwanted = {name for name in NEGOTIABLE if name in body and _names(unfit.said, name)}
                if not unwanted:
                    raise self._refusal(unfit.said) from None
                self._unwanted |= unwanted
            except _Busy as busy:
                if attempt == ATTEMPTS:
                    raise self._refusal(busy.said) from None
                await asyncio.sleep(busy.wait_s or WAIT_S * 2 ** (attempt - 1))
            else:
                return

    async def _answer(self, body: bytes, *, is_streamed: bool) -> AsyncGenerator[str | ModelReply, None]:
        reader = self.api.reader()
        lines = Lines(is_lines=self.api.is_lines)
        received = bytearray()
        async with aclosing(self._pieces(body)) as pieces:
            async for piece in pieces:
                if not is_streamed:
                    received += piece
                    continue
                for document in lines.feed(piece):
                    if text := self._take(reader.feed, document):
                        yield text
        if is_streamed:
            for document in lines.feed(b"\n"):  # the last line may lack its end
                self._take(reader.feed, document)
        else:
            self._take(reader.whole, bytes(received))
        yield self._reply(reader)

    def _take(self, read: Callable[[Event], Taken], document: bytes) -> Taken:
        with self._foreign():
            return read(self._event(document))

    @contextmanager
    def _foreign(self) -> Iterator[None]:
        """Where a provider's data is taken apart: whatever has another shape than its API says is its failure."""
        try:
            yield
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ProtocolError(
                f"The model {self.name} answered in another form than its API has ({type(error).__name__}).",
                hint=f"Check {self._settings.setting} provider and url.",
            ) from None

    def _reply(self, reader: AnswerReader) -> ModelReply:
        with self._foreign():
            reply = reader.reply()
            TokenUsage() + reply.usage  # numbers, or it cannot be added up
        if not reply.stop:
            raise self._refusal("its answer broke off")
        return reply

    def _event(self, document: bytes) -> Event:
        try:
            event = msgspec.json.decode(document, type=dict)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            shown = self._masked(document[:ERROR_SHOWN].decode(errors="replace"))[:80]
            raise ProtocolError(f"The model {self.name} sent what is no JSON: {shown!r}") from None
        error = event.get("error") or (event.get("response") or {}).get("error")
        if error or event.get("type") == "error":
            raise self._refusal(_message(error or event))
        return event

    async def _pieces(self, body: bytes) -> AsyncGenerator[bytes, None]:
        arrived: asyncio.Queue[bytes | None] = asyncio.Queue()
        async with _pool(self._url, self._network) as pool:
            headers = {"content-type": "application/json", **self.api.headers(self._settings.key)}
            head = pool.encode_head("POST", pool.origin.target, encode_own_headers(self.name, headers))

            def choose(response: Response) -> Receive | None:
                return arrived.put_nowait if response.status == 200 else None

            asking = asyncio.ensure_future(pool.exchange(head, body, choose))
            asking.add_done_callback(lambda _: arrived.put_nowait(None))
            try:
                size = 0
                while (piece := await self._next(arrived)) is not None:
                    if (size := size + len(piece)) > self._answer_max:
                        raise self._refusal(f"it sent more than {self._answer_max} bytes")
                    yield piece
                response = await self._ended(asking)
            finally:
                asking.cancel()
        self._judge(response)

    async def _next(self, arrived: "asyncio.Queue[bytes | None]") -> bytes | None:
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return await arrived.get()
        except TimeoutError:
            raise self._refusal(f"it was silent for {self._settings.timeout_s:g} s") from None

    async def _ended(self, asking: "asyncio.Future[Response]") -> Response:
        try:
            return await asking
        except HttpFailure as failure:
            raise self._refusal(failure.message) from None

    def _judge(self, response: Response) -> None:
        if response.status == 200:
            return
        said = f"HTTP {response.status}: {_body_message(response.body)}"
        if response.status in BUSY:
            raise _Busy(said, _retry_after(response))
        if response.status == UNFIT:
            raise _Unfit(said)
        raise self._refusal(said)

    def _refusal(self, said: str) -> ModelFailed:
        shown, where = self._masked(said)[:ERROR_SHOWN], self._settings.setting
        return ModelFailed(f"The model {self.name} gave no answer: {shown}", hint=f"Check {where} model, url and key.")

    def _masked(self, said: str) -> str:
        return said.replace(self._settings.key, "…") if self._settings.key else said


class _Unfit(Exception):
    """The server does not take the request as it is."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


class _Busy(Exception):
    """The server has no time now."""

    def __init__(self, said: str, wait_s: float) -> None:
        super().__init__(said)
        self.said, self.wait_s = said, wait_s


def without_fields(body: dict[str, Any], unwanted: Set[str]) -> dict[str, Any]:
    """The request without what its model does not take, or with the newer name for it."""
    renamed = {NEGOTIABLE[name]: body[name] for name in unwanted if name in body and NEGOTIABLE[name]}
    return {name: value for name, value in body.items() if name not in unwanted} | renamed


def _names(said: str, field: str) -> bool:
    return re.search(rf"(?<![a-z_]){field}(?![a-z_])", said) is not None


def _retry_after(response: Response) -> float:
    try:
        wished = float(response.header(b"retry-after") or b"0")
    except ValueError:
        return 0.0
    return 0.0 if math.isnan(wished) else min(max(wished, 0.0), LONGEST_WAIT_S)


def _body_message(body: bytes) -> str:
    """What the provider says, without its wrapping where it has the usual one."""
    try:
        return _message(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return body[:ERROR_SHOWN].decode(errors="replace")


def _message(said: object) -> str:
    while isinstance(said, dict):
        said = said.get("message") or said.get("error") or msgspec.json.encode(said).decode()
    return str(said)


@asynccontextmanager
async def _pool(url: str, network: Network | None) -> AsyncIterator[HttpPool]:
    pool = HttpPool(url, network=network, limits=PoolLimits(connections=1))
    try:
        yield pool
    finally:
        await pool.close()
