"""Errors over REST: problem details (RFC 9457) with our codes."""

import msgspec

from toolcrib.transports.http_server import Exchange

PROBLEM = b"application/problem+json"


class Problem(Exception):
    """A request that gets no further: its status, its code, and what to do."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


def answer_problem(exchange: Exchange, problem: Problem) -> None:
    """Say what is wrong."""
    body = {"type": "about:blank", "status": problem.status, "code": problem.code, "detail": problem.detail}
    headers = ((b"www-authenticate", b'Bearer realm="toolcrib"'),) if problem.status == 401 else ()
    exchange.answer(problem.status, msgspec.json.encode(body), PROBLEM, headers)
