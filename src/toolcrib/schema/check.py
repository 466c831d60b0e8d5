"""Checking values against a schema: compiled once, quick when the value is right, telling when it is not.

Nothing is fetched, no pattern backtracks, and a schema the cost guard refuses is not checked at all, visibly so. A
pattern that would have to backtrack is left out where that is harmless; all else is checked.

The validator keeps Python's lock while it works. How much work a value can be at most is known beforehand, from the
schema and the value's size: ``is_quick`` tells whether it may be checked on the event loop.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any, NoReturn

import jsonschema_rs
import msgspec

from toolcrib.core.names import URI_MAX
from toolcrib.schema.cost import LIGHT, Weight, drop_unsafe_patterns, inspect, nesting
from toolcrib.schema.document import Node, UnsafeSchema
from toolcrib.schema.prices import STEPS_PER_MS
from toolcrib.schema.problems import SchemaProblem, describe, find_problems, schema_fault

__all__ = ["SchemaCheck", "SchemaProblem", "compile_check", "describe"]

_LINEAR = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)
_NOT_JSON = (ValueError, TypeError, OverflowError, RecursionError)
"""What the validator raises on lone surrogates, keys that are not text, odd types and endless nesting."""

_EFFORT_FOR_ALL = 10_000
_EFFORT_FOR_FIRST = 20_000
"""Up to here failures are explained: the validator copies the value for each error, and errors multiply."""
QUICK_STEPS = 20 * STEPS_PER_MS
"""So much may be done on the event loop in one go, by the most careful estimate."""
QUICK_BYTES = 256 * 1024
"""Larger values are not gone through there, not even to decode them."""
_COUNTED_BYTES = 4 << 20
_CHARACTERS_PER_STEP = 64
_DEEPEST = 200


class SchemaCheck:
    """A schema made ready to check values against.

    ``unchecked_reason`` is not empty when the schema could not be compiled safely; then every value is accepted.
    ``unchecked_patterns`` are left out of an otherwise complete check.
    """

    __slots__ = ("_is_valid", "_validator", "quick_bytes", "schema", "unchecked_patterns", "unchecked_reason", "weight")

    def __init__(
        self,
        schema: Mapping[str, Any] | bool,
        validator: jsonschema_rs.Validator | None = None,
        *,
        weight: Weight = LIGHT,
        unchecked_reason: str = "",
        unchecked_patterns: Sequence[str] = (),
    ) -> None:
        self.schema = schema
        self.unchecked_reason = unchecked_reason
        self.unchecked_patterns = unchecked_patterns
        self.weight = weight
        self.quick_bytes = _quick_bytes(weight) if validator is not None else sys.maxsize
        """A value of at most so many bytes of JSON is checked quickly, whatever it is."""
        self._validator = validator
        self._is_valid = _accept if validator is None else validator.is_valid

    @property
    def gap(self) -> str:
        """What is missing from the check, as the end of a sentence; empty when nothing is."""
        if self.unchecked_reason:
            return f"are not checked: {self.unchecked_reason}"
        if self.unchecked_patterns:
            shown = ", ".join(repr(pattern[:80]) for pattern in self.unchecked_patterns[:3])
            return f"are checked without the patterns that look around or refer back: {shown}"
        return ""

    def is_quick(self, value: Any, encoded: bytes) -> bool:
        """Whether the value, which is ``encoded`` as JSON, is certain to be checked within a moment."""
        size = len(encoded)
        if size <= self.quick_bytes:
            return True
        if size > (QUICK_BYTES if self.weight.loops else _COUNTED_BYTES):
            return False
        pieces = 1 + sum(map(encoded.count, (b",", b":", b"[", b"{")))
        depth = nesting(value, _DEEPEST) if self.weight.loops else 1
        return self.weight.work(pieces, size, depth) <= QUICK_STEPS

    def is_quick_for(self, value: Any) -> bool:
        """The same of a value that nobody has encoded yet; what is no JSON is found out at once."""
        try:
            return self.is_quick(value, msgspec.json.encode(value))
        except _NOT_JSON:
            return False

    def accepts(self, value: Any) -> bool:
        """Whether the value fits; the quick way to know."""
        try:
            return self._is_valid(value)
        except _NOT_JSON:
            return False

    def accepts_quickly(self, value: Any) -> bool:
        """Whether the value fits, and that is found out within a moment."""
        return self.is_quick_for(value) and self.accepts(value)

    def problems(self, value: Any) -> list[SchemaProblem]:
        """What is wrong with the value; empty exactly when it is accepted."""
        if self._validator is None or self.accepts(value):
            return []
        try:
            return find_problems(self._errors(value, self._validator), value, self.schema) or [_UNEXPLAINED]
        except _NOT_JSON as error:
            return [SchemaProblem((), f"the value cannot be read as JSON: {error}"[:200], "plain JSON")]

    def _errors(self, value: Any, validator: jsonschema_rs.Validator) -> list[jsonschema_rs.ValidationError]:
        effort = _effort(value, self.weight)
        if effort <= _EFFORT_FOR_ALL:
            return list(validator.iter_errors(value))
        if effort > _EFFORT_FOR_FIRST or self.weight.loops > 1:
            return []
        try:
            validator.validate(value)
        except jsonschema_rs.ValidationError as first:
            return [first]
        return []


_UNEXPLAINED = SchemaProblem((), "the value does not fit the schema; it is too large or too deep to say where")


def compile_check(
    schema: Mapping[str, Any] | bool, known: Mapping[str, Node] | None = None, *, formats: bool | None = None
) -> SchemaCheck:
    """A check of values against ``schema``, in the draft it names (2020-12 if it names none).

    References may lead to the ``known`` documents, by address, and nowhere else outside. ``formats`` says whether
    ``format`` is more than a remark; if nothing is said, the draft decides.
    """
    try:
        return _compile(schema, known, formats)
    except UnsafeSchema as unsafe:
        return SchemaCheck(schema, unchecked_reason=f"the schema cannot be checked safely: {unsafe}")
    except jsonschema_rs.ValidationError as invalid:
        return SchemaCheck(schema, unchecked_reason=f"not a valid schema: {schema_fault(invalid)[:300]}")
    except _NOT_JSON as error:
        return SchemaCheck(schema, unchecked_reason=f"not a valid schema: {str(error)[:200]}")


def _compile(schema: Mapping[str, Any] | bool, known: Mapping[str, Node] | None, formats: bool | None) -> SchemaCheck:
    if isinstance(schema, bool):
        return SchemaCheck(schema, jsonschema_rs.validator_for(schema, offline=True))  # looks at nothing
    document, weight = inspect(schema, known)
    dropped = drop_unsafe_patterns(document)
    resources = document.admitted.items()
    validator = jsonschema_rs.validator_for(
        msgspec.json.encode(document.root).decode(),
        offline=True,
        registry=jsonschema_rs.Registry(resources, retriever=_refuse_to_fetch) if resources else None,
        validate_formats=formats,
        pattern_options=_LINEAR,
        mask="the value",
    )
    return SchemaCheck(schema, validator, weight=weight, unchecked_patterns=dropped)


def _quick_bytes(weight: Weight) -> int:
    """The largest size at which even the worst value, one piece in two bytes, is checked quickly."""
    if weight.loops:
        return 0  # that depends on how deep it nests
    piece, byte = weight.price.piece, weight.price.byte
    return max(0, min(QUICK_BYTES, 2 * (QUICK_STEPS - piece) // (piece + 2 * byte)))


def _refuse_to_fetch(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is not known")


def _accept(_value: Any) -> bool:
    return True


def _effort(value: Any, weight: Weight) -> int:
    """How much work explaining a failure may be, at most; what is beyond explaining is not counted to its end."""
    most = _EFFORT_FOR_FIRST // weight.cost + 1
    size, depth, level = 0, 0, [value]
    while level and size <= most and depth < _DEEPEST:
        depth += 1
        size += sum(1 + len(part) // _CHARACTERS_PER_STEP if isinstance(part, str) else 1 for part in level)
        level = [*islice((part for whole in level for part in _parts(whole)), most)]
    repeats: int = max(1, weight.loops) ** depth
    return size * weight.cost * repeats


def _parts(whole: Any) -> Any:
    if isinstance(whole, Mapping):
        return chain(whole, whole.values())
    return whole if isinstance(whole, (list, tuple)) else ()


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


def unreadable(error: Exception) -> SchemaProblem:
    """What is wrong with a value that is no JSON."""
    return SchemaProblem((), f"the value cannot be read as JSON: {error}"[:200], "plain JSON")


def _judge(check: SchemaCheck, value: Any) -> bytes:
    problems = check.problems(value)
    return describe(problems, check.schema).encode(errors="replace") if problems else b""


@lru_cache(maxsize=32)
def _compiled(schema: bytes) -> SchemaCheck:
    return compile_check(msgspec.json.decode(schema))


EXPRESSIONS_MAX = 32
"""Of a URI template; one with more stands for nothing."""
_EXPRESSION = re.compile(r"\{([+#./;?&]?)[^{}]*\}")


_SMALL = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 16)
"""For templates: what the engine keeps of each is at most 64 KB, as there may be hundreds."""


def fits_template(template: str, uri: str) -> bool:
    """Whether a URI template could have been expanded to this URI."""
    return may_fit(literals_of(template), uri) and _template(template)(uri)


def literals_of(template: str) -> tuple[str, ...]:
    """What stands around the expressions of a template; nothing of one that stands for nothing."""
    found = tuple(_EXPRESSION.sub("\n", template).split("\n")) if len(template) <= URI_MAX else ()
    return found if len(found) <= EXPRESSIONS_MAX + 1 else ()


def may_fit(literals: Sequence[str], uri: str) -> bool:
    """Whether a URI has the literals of a template in their order: a look that costs nearly nothing, after which few
    templates are left."""
    if not literals or len(uri) > URI_MAX or not (uri.startswith(literals[0]) and uri.endswith(literals[-1])):
        return False
    at = 0
    for literal in literals:
        at = uri.find(literal, at) + len(literal)
        if at < len(literal):
            return False
    return True


@lru_cache(maxsize=512)
def _template(template: str) -> Callable[[str], bool]:
    """Decides by a pattern of the validator's regex engine, which takes linear time whatever the template."""
    pattern = f"^(?:{''.join(_template_pieces(template))})$"
    return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=_SMALL).is_valid


def _template_pieces(template: str) -> Iterator[str]:
    """A pattern for each literal and expression; servers are generous in what they take, so what RFC 6570 would have
    escaped is not looked at, only that a plain ``{name}`` stays within its part of the path."""
    end = 0
    for found in _EXPRESSION.finditer(template):
        yield _literally(template[end : found.start()])
        is_path = found[0].endswith("*}") or found[1] in ("+", "#", "/", "?", "&")
        yield ("[^\\n]" if is_path else "[^/\\n]") + ("*" if found[1] in ("#", "/", "?", "&", ";", ".") else "+")
        end = found.end()
    yield _literally(template[end:])


def _literally(text: str) -> str:
    return "".join(char if char.isalnum() else f"\\x{{{ord(char):x}}}" for char in text)
