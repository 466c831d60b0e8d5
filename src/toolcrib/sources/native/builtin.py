"""The tools a first run shows when nothing is configured: small, honest and harmless."""

import ast
import json
import math
import operator
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from toolcrib.core.errors import InvalidArguments
from toolcrib.sources.native.functions import tool

DIGITS_MAX = 4300
EXPONENT_MAX = 10_000

_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: Mapping[type, Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "log": math.log,
    "max": max,
    "min": min,
    "round": round,
    "sqrt": math.sqrt,
}
_CONSTANTS = {"e": math.e, "pi": math.pi}


@tool(security_level="read_only", examples=[{"timezone": "Europe/Berlin"}, {}])
def clock_now(timezone: str = "UTC") -> dict[str, str]:
    """The present date and time in a time zone, by its IANA name (Europe/Berlin, America/New_York, UTC)."""
    try:
        now = datetime.now(ZoneInfo(timezone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidArguments(
            f"There is no time zone {timezone!r}.", hint="Use an IANA name such as Europe/Berlin."
        ) from None
    return {"time": now.isoformat(timespec="seconds"), "weekday": f"{now:%A}", "timezone": timezone}


@tool(security_level="read_only", examples=[{"text": "one two\nthree"}])
def text_count(text: str) -> dict[str, int]:
    """Count the lines, words, characters and UTF-8 bytes of a text."""
    return {
        "lines": len(text.splitlines()),
        "words": len(text.split()),
        "characters": len(text),
        "bytes": len(text.encode(errors="replace")),
    }


@tool(security_level="read_only", examples=[{"expression": "(2 + 3) * 7 / sqrt(4)"}])
def calculate(expression: str) -> dict[str, float]:
    """Work out an arithmetic expression: + - * / // % **, parentheses, pi, e, and sqrt, log, abs, round, min, max."""
    try:
        value = _work_out(_parsed(expression.strip()).body)
    except (SyntaxError, RecursionError, ArithmeticError, ValueError, TypeError) as error:
        raise InvalidArguments(f"{expression!r} cannot be worked out: {error}.") from None
    return {"value": value}


def _parsed(expression: str, tries: int = 5) -> ast.Expression:
    """The expression as a tree. Python 3.11 counts how deep it is in one place for all threads, so that two that parse
    in the same moment can both fail; then it is tried again."""
    try:
        return ast.parse(expression, mode="eval")
    except SystemError:
        if not tries:
            raise
        return _parsed(expression, tries - 1)


def _work_out(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_work_out(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _checked(type(op), _work_out(left), _work_out(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*map(_work_out, args))
    raise ValueError(f"{ast.unparse(node)!r} is not arithmetic")


def _checked(kind: type, left: Any, right: Any) -> Any:
    """One step; a power that would take for ever, or fill the memory, is refused before it is begun."""
    if kind is ast.Pow and (abs(right) > EXPONENT_MAX or len(str(abs(int(left)))) * abs(right) > DIGITS_MAX):
        raise ValueError("the power is too large")
    value = _BINARY[kind](left, right)
    if isinstance(value, int) and value.bit_length() > DIGITS_MAX * 4:
        raise ValueError("the number is too large")
    return value


@tool(security_level="read_only", examples=[{"document": '{"a": [{"b": 1}]}', "path": "a[0].b"}])
def json_query(
    document: Annotated[str, "JSON text"],
    path: Annotated[str, "keys joined by dots, indexes in brackets: items[0].name; empty for all"] = "",
) -> dict[str, Any]:
    """Pick one value out of a JSON text by its path."""
    try:
        value = json.loads(document)
    except ValueError as error:
        raise InvalidArguments(f"document is not JSON: {error}.") from None
    walked: list[str] = []
    for step in _steps(path):
        value = _step_into(value, step, ".".join(walked) or "the document")
        walked.append(step)
    return {"value": value}


def _steps(path: str) -> list[str]:
    return [step for step in path.replace("]", "").replace("[", ".").split(".") if step]


def _step_into(value: Any, step: str, where: str) -> Any:
    if isinstance(value, dict) and step in value:
        return value[step]
    if isinstance(value, list) and step.lstrip("-").isdecimal() and -len(value) <= int(step) < len(value):
        return value[int(step)]
    known = f"It has: {', '.join(map(str, value))[:200]}." if isinstance(value, dict) and value else ""
    raise InvalidArguments(f"There is no {step!r} in {where}.", hint=known)


BUILTIN: tuple[Callable[..., Any], ...] = (calculate, clock_now, json_query, text_count)
