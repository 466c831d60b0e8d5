"""Audit: one entry for each end, one before each beginning that matters, and nothing of what the arguments say."""

import asyncio

import pytest
from msgspec.structs import replace

from toolcrib.calls.layers.audit import (
    KEY_MAX,
    KEYS_MAX,
    LOOKED_THROUGH,
    REPAIR_MAX,
    VALUES_MAX,
    facts_of,
    size_of,
    told_repairs,
    trace_id_of,
    trace_ids,
    unknown_call,
    witness,
)
from toolcrib.calls.layers.observe import Told, Watchers, observe
from toolcrib.calls.metrics import Metrics
from toolcrib.calls.pipeline import Subject, compose
from toolcrib.core.access import EVERYTHING, Caller, Grants
from toolcrib.core.audit import AuditEntry, NoAudit
from toolcrib.core.errors import AuditUnavailable, CallTimeout, PermissionDenied
from toolcrib.core.offers import SecurityLevel, Tool
from toolcrib.core.requests import ErrorInfo, Request, RequestContext, Result
from toolcrib.testing import ManualClock, MemoryAudit


def given(arguments: dict) -> Request:
    return Request("srv__work", "work", arguments)


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
FACTS = {"arguments_size": 18, "arguments": {"secret": "string 5"}}


class Audited:
    """Both layers around a source that ends as it is told."""

    def __init__(self, level: SecurityLevel = SecurityLevel.WRITE, log: MemoryAudit | None = None) -> None:
        self.log, self.clock, self.ran, self.outcome = log or MemoryAudit(), ManualClock(), 0, Result(raw=b"{}")
        told = Told(self.clock, lambda: "fresh")
        layers = [observe(Watchers(Metrics(), log=self.log), told), witness(self.log)]
        self._step = compose(layers, Subject("srv__work", "srv", Tool("work", security_level=level)), self._source)

    async def _source(self, call: Request) -> Result:
        self.ran += 1
        self.clock.advance(0.25)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome

    async def run(self, outcome: object = Result(raw=b"{}"), **more: object) -> object:
        self.outcome = outcome
        call = Request("srv__work", "work", {"secret": "value"}, "id-1", Caller("me", "token"), **more)
        try:
            return await self._step(call)
        except BaseException as error:
            return error


def ended(**changed: object) -> AuditEntry:
    usual = {
        "event": "call",
        "tool": "srv__work",
        "server": "srv",
        "caller": "me",
        "caller_kind": "token",
        "execution_id": "id-1",
        "trace_id": "fresh",
        "level": "write",
        "decision": "allowed",
        "outcome": "success",
        "duration_ms": 250.0,
        "details": FACTS | {"result_size": 2},
    }
    return AuditEntry(**usual | changed)


async def test_a_call_leaves_who_what_when_and_how_it_ended():
    """The whole entry: sizes and shape, not a word of the values."""
    audited = Audited()

    await audited.run()

    assert audited.log.noted == [ended()]


async def test_what_may_change_the_world_is_written_down_before_it_begins():
    """Committed, with the same ids, before the source is asked."""
    audited = Audited()

    await audited.run()

    begun = ended(event="call.begun", outcome="", duration_ms=None, details=FACTS)
    assert audited.log.committed == [begun]


async def test_what_only_reads_is_not_held_up():
    """One entry, for the end."""
    audited = Audited(SecurityLevel.READ_ONLY)

    await audited.run()

    assert audited.log.committed == []
    assert [entry.level for entry in audited.log.noted] == ["read_only"]


@pytest.mark.parametrize("level", [level for level in SecurityLevel if level is not SecurityLevel.READ_ONLY])
async def test_nothing_above_read_only_runs_unrecorded(level: SecurityLevel):
    """A log that cannot be written refuses the call, and the refusal is noted for later."""
    audited = Audited(level, MemoryAudit(problem="the disk is full"))

    refused = await audited.run()

    assert isinstance(refused, AuditUnavailable)
    assert str(refused) == (
        "srv__work was not run: nothing above read_only runs unrecorded. "
        "The audit log cannot be written: the disk is full."
    )
    assert audited.ran == 0
    assert [entry.outcome for entry in audited.log.noted] == ["TOOL_UNAVAILABLE"]


async def test_reading_goes_on_while_the_log_cannot_be_written():
    """A full disk is no reason to be blind."""
    audited = Audited(SecurityLevel.READ_ONLY, MemoryAudit(problem="the disk is full"))

    result = await audited.run()

    assert result.success
    assert audited.ran == 1


@pytest.mark.parametrize(
    ("outcome", "code", "decision"),
    [
        (CallTimeout("late"), "TOOL_TIMEOUT", "allowed"),
        (asyncio.CancelledError(), "TOOL_CANCELLED", "allowed"),
        (ZeroDivisionError(), "TOOL_INTERNAL", "allowed"),
        (PermissionDenied("no"), "TOOL_PERMISSION_DENIED", "denied"),
    ],
)
async def test_whatever_ends_a_call_is_noted(outcome: BaseException, code: str, decision: str):
    """Timeouts, cancellation, crashes and refusals leave an entry each, and go on as they were."""
    audited = Audited()

    raised = await audited.run(outcome)

    assert raised is outcome
    assert audited.log.noted == [ended(outcome=code, decision=decision, details=FACTS)]


async def test_a_failed_result_is_noted_with_its_code():
    """A tool that reports failure did not succeed."""
    audited = Audited()

    await audited.run(Result({"content": [{"type": "text", "text": "no"}]}, error=ErrorInfo("TOOL_X", "no")))

    assert audited.log.noted == [ended(outcome="TOOL_X")]


async def test_what_the_rules_said_is_kept():
    """The layers that decide have the word."""
    audited = Audited()

    await audited.run(PermissionDenied("no"), context=RequestContext(decision="held"))

    assert [entry.decision for entry in (*audited.log.committed, *audited.log.noted)] == ["held", "held"]


async def test_a_call_belongs_to_its_callers_trace():
    """The id comes from a valid ``traceparent``, for both entries."""
    audited = Audited()

    await audited.run(meta={"traceparent": PARENT})

    assert [entry.trace_id for entry in (*audited.log.committed, *audited.log.noted)] == [TRACE, TRACE]


@pytest.mark.parametrize(
    "parent",
    [
        None,
        7,
        "",
        PARENT[:-1],
        PARENT + "0",
        PARENT.upper(),
        "ff" + PARENT[2:],
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-{'0' * 16}-01",
        PARENT.replace("-", "_"),
        "0g" + PARENT[2:],
        "g0" + PARENT[2:],
        PARENT[:53] + "g1",
        PARENT[:54] + "g",
        PARENT[:36] + "g" + PARENT[37:],
        PARENT[:51] + "g" + PARENT[52:],
        "01" + PARENT[2:] + "x",
        PARENT + "-extra",
    ],
)
def test_a_bad_traceparent_counts_for_nothing(parent: object):
    """What breaks the W3C's rules begins a trace of its own."""
    assert trace_id_of({"traceparent": parent}) == ""


def test_a_later_version_of_traceparent_may_say_more():
    """As the W3C asks for."""
    assert trace_id_of({"traceparent": "01" + PARENT[2:] + "-more"}) == TRACE


def test_a_shape_tells_kinds_and_lengths():
    """Enough to see what was asked, nothing of what was said."""
    arguments = {"s": "secret", "n": 1, "f": 1.5, "b": True, "z": None, "l": [1, 2], "o": {"a": 1}, "t": object()}

    shape = facts_of(given(arguments | {"p": (1, 2, 3)}), None)["arguments"]

    assert shape == {
        "s": "string 6",
        "n": "integer",
        "f": "number",
        "b": "boolean",
        "z": "null",
        "l": "array 2",
        "o": "object 1",
        "t": "other",
        "p": "array 3",
    }


def test_a_shape_stays_small_and_printable():
    """Names are a stranger's, too: few, short, and nothing a terminal obeys."""
    many = facts_of(given({f"key{number}": 1 for number in range(100)}), None)["arguments"]
    odd = facts_of(given({"x" * 100: 1, "a\x1b[31m\nb": 2, "\ud800": 3}), None)

    assert len(many) == KEYS_MAX
    assert list(odd["arguments"]) == ["x" * KEY_MAX, "a\nb", "\\u{d800}"]
    assert "arguments_size" not in odd


def test_values_are_written_only_redacted_and_cut():
    """What the redactor leaves, up to a limit."""
    facts = facts_of(given({"token": "hush", "text": "x" * 5000}), lambda text: text.replace("hush", "***"))

    assert facts["values"].startswith('{"token":"***","text":"xxx')
    assert len(facts["values"]) == VALUES_MAX + 1


def test_of_large_values_only_the_beginning_is_looked_through():
    """More than is shown; where so much of it is secret that the end would show, all is withheld."""
    looked_at = []
    facts = facts_of(given({"text": "x" * 1_000_000}), lambda text: looked_at.append(len(text)) or text)
    secret = facts_of(given({"text": "s" * 1_000_000}), lambda text: text.replace("s" * 100, "*"))

    assert looked_at == [LOOKED_THROUGH]
    assert len(facts["values"]) == VALUES_MAX + 1
    assert secret["values"] == "***"


def test_values_too_deep_to_be_looked_through_are_withheld():
    """Whatever the redactor cannot do must not end the call."""

    def give_up(text: str) -> str:
        raise RecursionError

    assert facts_of(given({"a": 1}), give_up)["values"] == "***"


def test_without_a_log_nothing_is_held_up():
    """The layer that waits for it is not there."""

    async def source(call: Request) -> Result:
        return Result({})

    layers = [witness(NoAudit())]

    assert compose(layers, Subject("a", "", Tool("a")), source) is source


def test_made_up_trace_ids_are_well_formed_and_each_is_another():
    """Also from one block of them to the next."""
    made = trace_ids()
    ids = [next(made) for _ in range(300)]

    assert {len(one) for one in ids} == {32}
    assert len(set(ids)) == 300
    assert all(trace_id_of({"traceparent": f"00-{one}-00f067aa0ba902b7-01"}) == one for one in ids)


@pytest.mark.parametrize(("extra", "told"), [(0, ""), (1, "…")])
def test_values_of_exactly_the_longest_length_are_not_cut(extra, told):
    text = "x" * (VALUES_MAX - len('{"a":""}') + extra)

    assert facts_of(given({"a": text}), str)["values"] == f'{{"a":"{text}"}}'[:VALUES_MAX] + told


@pytest.mark.parametrize("length", [KEY_MAX, KEY_MAX + 1])
def test_a_name_is_cut_beyond_the_longest_length(length):
    assert list(facts_of(given({"x" * length: 1}), None)["arguments"]) == ["x" * KEY_MAX]


@pytest.mark.parametrize(
    ("result", "size"),
    [
        (Result(raw=b"12345"), 5),
        (Result({"content": [{"type": "text", "text": "abc"}, {"type": "image"}, {"text": None}]}), 3),
        (Result({"content": [{"text": "abc"}, "no block", 5]}), 3),
        (Result({"content": []}), 0),
        (Result({"content": "abc"}), 0),
        (Result({}), 0),
    ],
)
def test_the_size_of_a_result_is_told_whatever_it_looks_like(result, size):
    assert size_of(result) == size


@pytest.mark.parametrize(("server", "told"), [("srv", "srv"), ("", "native")])
async def test_what_is_about_to_happen_is_written_with_its_server(server, told):
    log = MemoryAudit()

    async def source(call: Request) -> Result:
        return Result(raw=b"{}")

    subject = Subject("work", server, Tool("work", security_level=SecurityLevel.WRITE))
    await witness(log)(subject, source)(Request("work", "work", {}))

    assert [entry.server for entry in log.committed] == [told]


@pytest.mark.parametrize(("extra", "values"), [(0, "short"), (1, "***")])
def test_values_looked_through_to_their_end_are_shown_however_much_was_taken_out(extra, values):
    """Those that go on beyond what was looked through are withheld."""
    arguments = {"x": "a" * (LOOKED_THROUGH - len('{"x":""}') + extra)}

    assert facts_of(given(arguments), lambda _: "short")["values"] == values


@pytest.mark.parametrize(
    ("grants", "meta", "decision", "trace_id"),
    [
        (EVERYTHING, {"traceparent": PARENT}, "unknown", TRACE),
        (Grants(SecurityLevel.WRITE), {"traceparent": PARENT}, "hidden", TRACE),
        (EVERYTHING, {}, "unknown", None),
    ],
)
def test_a_call_of_no_tool_is_noted_with_its_caller_and_its_trace(grants, meta, decision, trace_id):
    """Without a trace of its caller's it gets one of its own; a long name is cut, and values are not written."""
    call = Request("n" * 201, "", {"a": "value"}, "id-1", Caller("me", "token", grants), meta=meta)

    entry = unknown_call(call, "TOOL_NOT_FOUND")

    told = {"arguments_size": 13, "arguments": {"a": "string 5"}}
    whole = AuditEntry("call", "n" * 200, "", "me", "token", "id-1", trace_id or entry.trace_id)
    assert entry == replace(whole, decision=decision, outcome="TOOL_NOT_FOUND", details=told)
    assert len(entry.trace_id) == 32


def test_what_was_put_right_is_told_up_to_a_length_and_a_number():
    repairs = ("x" * (REPAIR_MAX + 1),) * (KEYS_MAX + 1)

    assert told_repairs(repairs) == ["x" * REPAIR_MAX] * KEYS_MAX
