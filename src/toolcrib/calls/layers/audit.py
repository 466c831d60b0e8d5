"""Audit: what is written down of a call, and an entry before anything that changes the world begins."""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import msgspec

from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.access import EVERYTHING, NATIVE
from toolcrib.core.audit import BEGUN, Audit, AuditEntry, NoAudit
from toolcrib.core.errors import AuditUnavailable
from toolcrib.core.events import trace_ids
from toolcrib.core.kinds import Ruling
from toolcrib.core.offers import SecurityLevel
from toolcrib.core.requests import Request, Result
from toolcrib.schema.text import printable

KEYS_MAX = 32
KEY_MAX = 64
REPAIR_MAX = 240
VALUES_MAX = 4_096
LOOKED_THROUGH = 16 * VALUES_MAX

_KINDS: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "array",
    tuple: "array",
    dict: "object",
}
_MEASURED = frozenset({list, tuple, dict})
_HEX = frozenset("0123456789abcdef")
_encode_all = msgspec.json.Encoder(enc_hook=str).encode


def witness(log: Audit) -> Layer:
    """Write down what is about to happen, and wait until that is safe; tools that only read are not held up."""

    def layer(subject: Subject, following: Step) -> Step:
        if isinstance(log, NoAudit) or subject.offer.security_level is SecurityLevel.READ_ONLY:
            return following
        server, level = subject.server or NATIVE, str(subject.offer.security_level)
        event = str(subject.kind) + BEGUN

        async def step(call: Request) -> Result:
            caller, context = call.caller, call.context
            entry = AuditEntry(
                event,
                call.name,
                server,
                caller.id,
                caller.kind,
                call.id,
                context.trace_id,
                level,
                context.decision or "allowed",
                details={**context.facts},  # more is known when it ends
            )
            try:
                await log.commit(entry)
            except AuditUnavailable as error:
                raise _refused(call, error) from None
            return await following(call)

        return step

    return layer


def unknown_call(call: Request, code: str) -> AuditEntry:
    """The entry of a call whose tool was not found, or that its caller may not know of: nothing tells the two apart,
    except where the caller may know of everything."""
    context = call.context
    context.trace_id = context.trace_id or trace_id_of(call.meta) or next(trace_ids())
    return AuditEntry(
        str(call.kind),
        tool=clean_name(call.name, 200),
        caller=call.caller.id,
        caller_kind=call.caller.kind,
        execution_id=call.id,
        trace_id=context.trace_id,
        decision=Ruling.UNKNOWN if call.caller.grants == EVERYTHING else Ruling.HIDDEN,
        outcome=code,
        details=facts_of(call, None),
    )


def facts_of(call: Request, redact: Callable[[str], str] | None, known: Set[str] = frozenset()) -> dict[str, Any]:
    """How large the arguments are and what they look like; their values only if there is somebody to redact them."""
    shape = shape_of(call.arguments, known)
    try:
        encoded = call.encode_arguments()
    except (UnicodeEncodeError, RecursionError, ValueError, TypeError):
        return {"arguments": shape} | _facts_of_others(call.arguments, redact)
    if redact is None:
        return {"arguments_size": len(encoded), "arguments": shape}
    return {"arguments_size": len(encoded), "arguments": shape, "values": _values(encoded, redact)}


def _facts_of_others(arguments: Mapping[str, Any], redact: Callable[[str], str] | None) -> dict[str, Any]:
    """Of arguments that are not JSON: what can be told where what is not is told as text."""
    try:
        encoded = _encode_all(arguments)
    except (UnicodeEncodeError, RecursionError, ValueError, TypeError):
        return {}
    return {"arguments_size": len(encoded)} | ({} if redact is None else {"values": _values(encoded, redact)})


def result_values(result: Result, redact: Callable[[str], str]) -> str:
    """What came of a call, as its arguments are told: without secrets, and cut to a length."""
    try:
        return _values(result.raw if result.raw is not None else _encode_all(result.mcp), redact)
    except (UnicodeEncodeError, RecursionError, ValueError, TypeError):
        return "***"


def _values(encoded: bytes, redact: Callable[[str], str]) -> str:
    """The values without secrets, cut to a length; what is too deep to be looked through is withheld.

    Only the beginning of large ones is looked through: more than is shown, so that no secret is cut there. If so much
    was taken out that the cut would show, nothing is.
    """
    is_cut = len(encoded) > LOOKED_THROUGH
    try:
        values = redact(encoded[:LOOKED_THROUGH].decode(errors="ignore"))
    except RecursionError:
        return "***"
    if len(values) > VALUES_MAX:
        return values[:VALUES_MAX] + "…"
    return "***" if is_cut else values


def plain_names(schema: Mapping[str, Any]) -> frozenset[str]:
    """The arguments a tool knows whose names can be written down as they are."""
    properties = schema.get("properties")
    return frozenset(filter(_is_plain, properties)) if isinstance(properties, Mapping) else frozenset()


def _is_plain(name: object) -> bool:
    return type(name) is str and name.isidentifier() and name.isascii() and len(name) <= KEY_MAX


def shape_of(arguments: Mapping[str, Any], known: Set[str] = frozenset()) -> dict[str, str]:
    """Names and kinds of the arguments, with the length of what has one; nothing of what they say."""
    shape = {}
    for key, value in arguments.items():
        kind = type(value)
        if kind is str:
            told = f"string {len(value)}"
        else:
            name = _KINDS.get(kind, "other")
            told = f"{name} {len(value)}" if kind in _MEASURED else name
        shape[key if key in known or _is_plain(key) else clean_name(key, KEY_MAX)] = told
        if len(shape) == KEYS_MAX:
            break
    return shape


def told_repairs(repairs: Sequence[str]) -> list[str]:
    """What was put right in a call's arguments."""
    return [clean_name(told, REPAIR_MAX) for told in repairs[:KEYS_MAX]]


def clean_name(name: object, longest: int) -> str:
    """A name that is safe to show, cut to a length."""
    return printable(str(name)[:longest])


def size_of(result: Result) -> int:
    """Bytes of a result as it came; of a native one, the characters of its text."""
    if result.raw is not None:
        return len(result.raw)
    content = result.mcp.get("content")
    if type(content) is not list:
        return 0
    texts = (block.get("text") for block in content if type(block) is dict)
    return sum(len(text) for text in texts if type(text) is str)


def trace_id_of(meta: Mapping[str, Any]) -> str:
    """The trace a caller's ``traceparent`` names; nothing if there is none or it breaks the W3C's rules."""
    parent = meta.get("traceparent")
    if type(parent) is not str or len(parent) < 55 or (len(parent) > 55 and parent[55] != "-"):
        return ""
    version, trace_id, parent_id, flags = parent[:2], parent[3:35], parent[36:52], parent[53:55]
    is_well_formed = parent[2] == parent[35] == parent[52] == "-" and _HEX.issuperset(
        version + trace_id + parent_id + flags
    )
    if not is_well_formed or version == "ff" or not trace_id.strip("0") or not parent_id.strip("0"):
        return ""
    return "" if version == "00" and len(parent) != 55 else trace_id


def _refused(call: Request, error: AuditUnavailable) -> AuditUnavailable:
    return AuditUnavailable(
        f"{call.name} was not run: nothing above read_only runs unrecorded. {error.message}",
        hint=error.hint,
        details=error.details,
    )
