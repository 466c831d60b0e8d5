"""Checking encoded values, also in a helper process: what is too much work for the event loop."""

import json
from functools import lru_cache
from typing import Any

import msgspec

from toolcrib.schema.check import Check, compile_check
from toolcrib.schema.problems import Problem, describe

ARGUMENTS = f"{__name__}:judge_arguments"
RESULT = f"{__name__}:judge_result"
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def judge_arguments(schema: bytes, arguments: bytes) -> bytes:
    """What is wrong with the arguments, in words; nothing if they fit."""
    return _judge(_compiled(schema), msgspec.json.decode(arguments))


def judge_result(schema: bytes, result: bytes) -> bytes:
    """What is wrong with the structured content of a result, in words; nothing if it fits or there is none."""
    check = _compiled(schema)
    try:
        structured = msgspec.json.decode(result, type=dict[str, Any]).get("structuredContent")
    except _UNREADABLE as error:
        return describe([unreadable(error)], check.schema).encode()
    return b"" if structured is None else _judge(check, structured)


def drop_repeats(raw: bytes, structured: Any) -> bytes:
    """A result whose data were read as ``structured``, with each of their members once, however deep it stands."""
    if raw.endswith(b',"structuredContent":%b}' % msgspec.json.encode(structured)):
        return raw
    try:
        json.loads(raw, object_pairs_hook=_refuse_repeats)
    except _Repeated:
        return msgspec.json.encode(msgspec.json.decode(raw))
    return raw


class _Repeated(Exception):
    pass


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len({name for name, _ in pairs}) < len(pairs):
        raise _Repeated


def unreadable(error: Exception) -> Problem:
    """What is wrong with a value that is no JSON."""
    return Problem((), f"the value cannot be read as JSON: {error}"[:200], "plain JSON")


def _judge(check: Check, value: Any) -> bytes:
    problems = check.problems(value)
    return describe(problems, check.schema).encode(errors="replace") if problems else b""


@lru_cache(maxsize=32)
def _compiled(schema: bytes) -> Check:
    return compile_check(msgspec.json.decode(schema))
