"""Checking encoded values in a helper process: what is too much work for the event loop."""

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


def unreadable(error: Exception) -> Problem:
    """What is wrong with a value that is no JSON."""
    return Problem((), f"the value cannot be read as JSON: {error}"[:200], "plain JSON")


def _judge(check: Check, value: Any) -> bytes:
    problems = check.problems(value)
    return describe(problems, check.schema).encode(errors="replace") if problems else b""


@lru_cache(maxsize=32)
def _compiled(schema: bytes) -> Check:
    return compile_check(msgspec.json.decode(schema))
