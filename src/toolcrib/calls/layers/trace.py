"""Trace: one OpenTelemetry span per call, with the names of the GenAI and MCP conventions.

The caller's trace context comes in the request's ``_meta``, the span's own goes on to the server the same way.
"""

from typing import Any, assert_never

from msgspec.structs import replace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from toolcrib.calls.layers.observe import code_of
from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.access import NATIVE
from toolcrib.core.errors import ToolcribError
from toolcrib.core.offers import RequestKind
from toolcrib.core.requests import ErrorInfo, Request, Result

METHODS = {
    RequestKind.CALL: "tools/call",
    RequestKind.READ: "resources/read",
    RequestKind.GET: "prompts/get",
    RequestKind.COMPLETE: "completion/complete",
    RequestKind.TASK: "tasks",
    RequestKind.BROWSE: "resources/directory/read",
}
TOOL_ERROR = "tool_error"
"""What the convention wants for a result that says ``isError``."""

_CONTEXT_KEYS = frozenset({"traceparent", "tracestate"})


def trace(tracer: Tracer) -> Layer:
    """A span around all that happens to a call in here."""
    propagator = TraceContextTextMapPropagator()

    def layer(subject: Subject, following: Step) -> Step:
        method = METHODS[subject.kind]
        name = f"{method} {subject.name}"
        attributes = {
            "mcp.method.name": method,
            **_named(subject),
            "toolcrib.server": subject.server or NATIVE,
            "toolcrib.level": str(subject.offer.security_level),
        }

        async def step(call: Request) -> Result:
            carrier = {key: value for key, value in call.meta.items() if key in _CONTEXT_KEYS and type(value) is str}
            parent = propagator.extract(carrier) if carrier else None
            with tracer.start_as_current_span(
                name, parent, SpanKind.SERVER, attributes, record_exception=False, set_status_on_exception=False
            ) as span:
                call = _begin(span, call, propagator)
                try:
                    result = await following(call)
                except BaseException as error:
                    _fail(span, code_of(error), str(error) if isinstance(error, ToolcribError) else "")
                    raise
                finally:
                    span.set_attribute("toolcrib.decision", call.context.decision)
                if result.error is not None:
                    _fail(span, _type_of(result.error), result.error.message)
                return result

        return step

    return layer


def _named(subject: Subject) -> dict[str, str]:
    """The conventional names of what is asked for."""
    match subject.kind:
        case RequestKind.CALL:
            return {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": subject.name,
                "gen_ai.tool.type": "extension" if subject.server else "function",
            }
        case RequestKind.TASK:
            return {"gen_ai.tool.name": subject.name}
        case RequestKind.READ | RequestKind.BROWSE:
            return {"mcp.resource.uri": subject.name}
        case RequestKind.GET | RequestKind.COMPLETE:
            return {"gen_ai.prompt.name": subject.name}
        case _:
            assert_never(subject.kind)


def _begin(span: Span, call: Request, propagator: TraceContextTextMapPropagator) -> Request:
    """The call with the span's own context in its ``_meta``."""
    span.set_attribute("gen_ai.tool.call.id", call.id)
    span.set_attribute("toolcrib.caller", call.caller.id)
    if call.caller.session:
        span.set_attribute("mcp.session.id", call.caller.session)
    outgoing: dict[str, Any] = {}
    propagator.inject(outgoing)
    return replace(call, meta={**call.meta, **outgoing}) if outgoing else call


def _fail(span: Span, error_type: str, message: str) -> None:
    span.set_attribute("error.type", error_type)
    span.set_status(Status(StatusCode.ERROR, message[:500]))


def _type_of(error: ErrorInfo) -> str:
    if "rpc_code" in error.details:
        return str(error.details["rpc_code"])
    return TOOL_ERROR if error.code == "TOOL_EXECUTION_FAILED" else error.code
