"""Trace: one span per call, with the names OpenTelemetry gives such things."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags, use_span

from toolcrib.calls.layers.observe import Told, Watchers, observe
from toolcrib.calls.layers.trace import _named, trace
from toolcrib.calls.metrics import Metrics
from toolcrib.calls.pipeline import Subject, compose
from toolcrib.config.model import Config, TelemetryConfig
from toolcrib.core.access import Caller
from toolcrib.core.errors import CallTimeout
from toolcrib.core.offers import RequestKind, Tool
from toolcrib.core.requests import ErrorInfo, Request, Result
from toolcrib.crib.layers import find_tracer
from toolcrib.testing import ManualClock, MemoryAudit

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
FINE = Result({"content": []})


class Traced:
    """The layer around a source that ends as it is told, with an audit layer inside."""

    def __init__(self) -> None:
        self.exporter, self.log, self.sent = InMemorySpanExporter(), MemoryAudit(), {}
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        layers = [trace(provider.get_tracer("test")), observe(Watchers(Metrics(), log=self.log), Told(ManualClock()))]
        self._step = compose(layers, Subject("srv__work", "srv", Tool("work")), self._source)

    async def _source(self, call: Request) -> Result:
        self.sent = dict(call.meta)
        call.context.decision = "approved once"
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome

    async def run(self, outcome: object = FINE, meta: Mapping[str, object] | None = None) -> ReadableSpan:
        self.outcome = outcome
        call = Request("srv__work", "work", {}, "id-1", Caller("me", session="s1"), meta=meta or {})
        with suppress(BaseException):
            await self._step(call)
        [span] = self.exporter.get_finished_spans()
        return span


async def test_a_call_is_one_span_with_the_conventions_names():
    """GenAI's and MCP's names first, our own for what they do not know."""
    span = await Traced().run()

    assert (span.name, span.kind, span.status.status_code) == (
        "tools/call srv__work",
        SpanKind.SERVER,
        StatusCode.UNSET,
    )
    assert dict(span.attributes) == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "srv__work",
        "gen_ai.tool.type": "extension",
        "gen_ai.tool.call.id": "id-1",
        "mcp.session.id": "s1",
        "toolcrib.server": "srv",
        "toolcrib.level": "write",
        "toolcrib.caller": "me",
        "toolcrib.decision": "approved once",
    }


async def test_the_span_belongs_to_the_callers_trace_and_the_server_to_the_span():
    """The context comes in ``_meta`` and goes on in ``_meta``; the audit log has the same trace."""
    traced = Traced()

    span = await traced.run(meta={"traceparent": f"00-{TRACE}-{PARENT}-01", "other": 1})

    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == PARENT
    assert traced.sent == {"traceparent": f"00-{TRACE}-{span.context.span_id:016x}-01", "other": 1}
    assert traced.log.noted[0].trace_id == TRACE


async def test_without_a_parent_a_trace_begins():
    """And the audit log shares it."""
    traced = Traced()

    span = await traced.run(meta={"traceparent": "nonsense"})

    assert span.parent is None
    assert traced.log.noted[0].trace_id == f"{span.context.trace_id:032x}"


@pytest.mark.parametrize(
    ("outcome", "error_type", "message"),
    [
        (Result({}, error=ErrorInfo("TOOL_EXECUTION_FAILED", "no luck")), "tool_error", "no luck"),
        (Result({}, error=ErrorInfo("TOOL_EXECUTION_FAILED", "x", details={"rpc_code": -32602})), "-32602", "x"),
        (CallTimeout("late"), "TOOL_TIMEOUT", "late"),
        (ZeroDivisionError("secret"), "TOOL_INTERNAL", ""),
        (asyncio.CancelledError(), "TOOL_CANCELLED", ""),
    ],
)
async def test_a_failure_is_told_by_its_type(outcome: object, error_type: str, message: str):
    """``error.type`` and the status; what a stranger's exception says stays inside."""
    span = await Traced().run(outcome)

    assert span.attributes["error.type"] == error_type
    assert (span.status.status_code, span.status.description or "") == (StatusCode.ERROR, message)
    assert span.events == ()


@pytest.mark.parametrize(
    ("wanted", "env"),
    [
        (True, {}),
        (False, {"OTEL_TRACES_EXPORTER": "otlp"}),
        (False, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}),
    ],
)
def test_spans_are_made_where_they_are_wanted(wanted: bool, env: dict[str, str]):
    """By the configuration, or by OpenTelemetry's own variables."""
    assert find_tracer(Config(telemetry=TelemetryConfig(wanted)), env) is not None


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "x"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"},
    ],
)
def test_spans_are_off_otherwise(env: dict[str, str]):
    """Nothing is imported, nothing is asked."""
    assert find_tracer(Config(), env) is None


async def test_the_result_passes_as_it_is():
    """A span is no reason to change it."""
    traced = Traced()
    traced.outcome = FINE

    assert await traced._step(Request("srv__work", "work", {}, "id-1", Caller("me"))) is FINE


@pytest.mark.parametrize(("server", "told"), [("srv", ("extension", "srv")), ("", ("function", "native"))])
async def test_a_span_says_whose_tool_it_is_and_only_context_is_passed_on(server, told):
    """A long message is cut; other words of the caller's ``_meta`` are no context."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def source(call: Request) -> Result:
        raise CallTimeout("x" * 600)

    step = trace(provider.get_tracer("test"))(Subject("work", server, Tool("work")), source)
    with suppress(CallTimeout):
        await step(Request("work", "work", {}, "id-1", meta={"baggage": "a=b", "traceparent": 5}))

    [span] = exporter.get_finished_spans()
    assert (span.attributes["gen_ai.tool.type"], span.attributes["toolcrib.server"]) == told
    assert (span.parent, span.status.description) == (None, "x" * 500)


async def test_a_call_that_brings_no_trace_belongs_to_the_span_it_is_made_in():
    """Whatever else it brings along."""
    outer = SpanContext(int(TRACE, 16), int(PARENT, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    with use_span(NonRecordingSpan(outer)):
        span = await Traced().run(meta={"progressToken": "text"})

    assert span.parent == outer


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (RequestKind.TASK, {"gen_ai.tool.name": "x"}),
        (RequestKind.READ, {"mcp.resource.uri": "x"}),
        (RequestKind.BROWSE, {"mcp.resource.uri": "x"}),
        (RequestKind.GET, {"gen_ai.prompt.name": "x"}),
        (RequestKind.COMPLETE, {"gen_ai.prompt.name": "x"}),
    ],
)
def test_every_kind_of_request_has_its_conventional_name(kind, named):
    assert _named(Subject("x", "srv", Tool("x"), kind=kind)) == named
