"""The proof that a process wrote its run file: what is answered, until when, and to whom."""

import msgspec
import pytest

from toolcrib.core.access import EVERYTHING, Caller
from toolcrib.server.identity.run_proof import DIGITS_MAX, KEPT_S, NUMBER_MAX, RunProof
from toolcrib.stores.run_files import RunFile
from toolcrib.transports.http.message import HttpRequest

OWNER = Caller("owner", "local", EVERYTHING)
NOW = 1_000_000.0
RUN = RunFile(
    url="http://127.0.0.1:7337",
    directory="/work",
    config="/work/toolcrib.toml",
    pid=1,
    began="1",
    system="here",
    secret="s" * 64,
    version="1",
)


class Kept:
    """An exchange that keeps its answer."""

    def __init__(self) -> None:
        self.status, self.body = 0, b""

    def answer(self, status: int, body: bytes = b"", *_: object, **__: object) -> None:
        self.status, self.body = status, body


@pytest.fixture
def proof() -> RunProof:
    opened = RunProof(OWNER, lambda: NOW)
    opened.open(RUN)
    return opened


def presented(number: str, side: str = "client") -> bytes:
    """What a command sends after ``Bearer``."""
    return f"run.{number}.{RUN.code(side, number)}".encode()


def until(end: float) -> str:
    return f"{int(end)}-abc"


@pytest.mark.parametrize(
    ("end", "caller"),
    [(NOW, None), (NOW + 1, OWNER), (NOW + KEPT_S, OWNER), (NOW + KEPT_S + 1, None), (NOW - 1, None)],
)
def test_a_number_counts_until_its_end_and_none_counts_longer_than_was_given(proof, end, caller):
    assert proof.identify(presented(until(end))) is caller


@pytest.mark.parametrize(
    "sent",
    [
        presented(until(NOW + 60), side="server"),
        presented(until(NOW + 60))[:-1],
        b"run." + until(NOW + 60).encode() + b".",
        b"run.",
        b"",
        presented("-abc"),
        presented("x-abc"),
        presented("\xb2-abc"),
        presented("1" * (DIGITS_MAX + 1) + "-abc"),
        b"run." + until(NOW + 60).encode() + b".\xff\xff",
    ],
)
def test_nothing_else_is_the_owner(proof, sent):
    assert proof.identify(sent) is None


def test_digits_are_read_up_to_their_bound_and_not_beyond():
    """A very long number would take long to read."""
    far = 10.0**DIGITS_MAX - 1
    late = RunProof(OWNER, lambda: far - 1)
    later = RunProof(OWNER, lambda: far)
    late.open(RUN)
    later.open(RUN)

    assert late.identify(presented("9" * DIGITS_MAX + "-abc")) is OWNER
    assert later.identify(presented("1" + "0" * DIGITS_MAX + "-abc")) is None


def test_without_a_run_file_nobody_is_the_owner():
    assert RunProof(OWNER, lambda: NOW).identify(presented(until(NOW + 60))) is None


def asked(proof: RunProof, query: bytes, method: bytes = b"GET") -> Kept:
    kept = Kept()
    proof.handle(HttpRequest(method, b"/prove?" + query, {}, None), kept)
    return kept


@pytest.mark.parametrize("number", ["a1", "9" * NUMBER_MAX])
def test_whoever_asks_gets_the_code_of_the_number_and_one_to_answer_with(proof, number):
    kept = asked(proof, f"number={number}".encode())

    proven = msgspec.json.decode(kept.body)
    assert (kept.status, proven["code"]) == (200, RUN.code("server", number))
    assert proven["number"].partition("-")[0] == str(int(NOW + KEPT_S))
    assert proof.identify(presented(proven["number"])) is OWNER


@pytest.mark.parametrize("query", [b"", b"number=", b"other=1", b"number=a-b", b"number=" + b"9" * (NUMBER_MAX + 1)])
def test_any_other_question_is_refused(proof, query):
    assert asked(proof, query).status == 400


def test_only_get_is_answered_and_only_with_a_run_file(proof):
    assert asked(proof, b"number=1", b"POST").status == 400
    assert asked(RunProof(OWNER, lambda: NOW), b"number=1").status == 400


def test_the_bounds_are_as_documented():
    assert (KEPT_S, NUMBER_MAX, DIGITS_MAX) == (600.0, 128, 15)
