"""Proves to a command of the same user that this process wrote its run file, and knows the command in return.

``GET /prove?number=N`` answers with the code of ``N`` and a number of its own, which says until when it counts. Whoever
makes the code of that number can read the run file, so it is the owner: ``Authorization: Bearer run.NUMBER.CODE``.
Neither the owner's token nor the secret of the run file is ever sent, and nothing has to be remembered.
"""

import hmac
from collections.abc import Callable

import msgspec

from toolcrib.core.access import Caller
from toolcrib.server.answers import HttpProblem, json_answer
from toolcrib.stores.run_files import RunFile, new_number
from toolcrib.transports.http.server import Exchange, HttpRequest

PATH = "/prove"
PREFIX = b"run."
KEPT_S = 600.0
NUMBER_MAX = 128
DIGITS_MAX = 15


class Proven(msgspec.Struct):
    """What a listener answers."""

    code: str
    number: str


class RunProof:
    """Answers for the run file of this process once there is one."""

    def __init__(self, owner: Caller, now: Callable[[], float]) -> None:
        self._owner, self._now = owner, now
        self._run: RunFile | None = None

    def open(self, run: RunFile) -> None:
        """Begin to answer."""
        self._run = run

    def handle(self, request: HttpRequest, exchange: Exchange) -> None:
        """Prove that this process wrote its run file."""
        number = _number(request)
        if self._run is None or not number:
            problem = HttpProblem(400, "HTTP_NOT_PROVEN", "Send GET with a `number` of 1 to 128 letters and digits.")
            problem.to_answer().send(exchange)
            return
        own = f"{int(self._now() + KEPT_S)}-{new_number()}"
        json_answer(Proven(self._run.code("server", number), own)).send(exchange)

    def identify(self, presented: bytes) -> Caller | None:
        """The owner, if what follows ``Bearer`` was made with the run file."""
        _, _, rest = presented.partition(b".")
        number, _, code = rest.decode("latin-1").partition(".")
        end = number.partition("-")[0]
        if self._run is None or not (end.isascii() and end.isdigit() and len(end) <= DIGITS_MAX):
            return None
        if not self._now() < int(end) <= self._now() + KEPT_S:
            return None
        is_right = hmac.compare_digest(code.encode("latin-1"), self._run.code("client", number).encode())
        return self._owner if is_right else None


def _number(request: HttpRequest) -> str:
    name, _, value = request.query.partition(b"=")
    is_number = request.method == b"GET" and name == b"number" and len(value) <= NUMBER_MAX and value.isalnum()
    return value.decode() if is_number else ""
