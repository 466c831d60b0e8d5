"""Foreign tool definitions: repaired where real servers err, cleaned of what nobody can see, refused where harmful."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin

import msgspec

from toolcrib.core.errors import InvalidName, InvalidSchema
from toolcrib.core.names import TOOL_NAME_MAX, URI_MAX, is_tool_name
from toolcrib.core.offers import NAMED_BY, OfferKind
from toolcrib.core.skills import check_entry
from toolcrib.schema.cost import MAX_BYTES, MAX_DEPTH, nesting, refuse_oversize
from toolcrib.schema.document import UnsafeSchema, is_unsafe_pattern
from toolcrib.schema.text import SUSPECT, clean_text, printable, unseen_characters

__all__ = ["MAX_TEXT_BYTES", "clean_text", "printable", "sanitise_other", "sanitise_tool"]

MAX_TEXT_BYTES = 8 * 1024
"""How much of a description, or title, is kept."""

_CUT_MARK = " … [cut]"
_SCHEMAS = ("inputSchema", "outputSchema")
_OPTIONAL = {"title": str, "description": str, "annotations": Mapping, "outputSchema": Mapping}
_OPAQUE = frozenset({"_meta"})
"""Fields that no model and no person is shown; they pass as they came."""
_ESCAPED_CONTROL = (b"\\u00", b"\\r", b"\\b", b"\\f", b"\x7f")
"""How an encoder writes ASCII's control characters; a match may also be an innocent backslash."""


def sanitise_tool(shown: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """One entry of a foreign ``tools/list`` made harmless, and what was changed; the same object if nothing was.

    A name that cannot be used raises ``InvalidName``, a schema that cannot be kept ``InvalidSchema``.
    """
    name = _check_name(shown.get("name"))
    changes: dict[str, Any] = {}
    notes: list[str] = []
    for repair in (_repair_types, _repair_input_schema):
        for part, value, note in repair(shown):
            changes[part] = value
            notes.append(note)
    _check_input_type(name, changes.get("inputSchema", shown.get("inputSchema")))
    repaired = _with_changes(shown, changes)
    if _may_need_cleaning(name, repaired):
        _check_keys(name, repaired)
        repaired = _with_changes(repaired, _cleaned(repaired, notes))
    repaired = _with_changes(repaired, _harmless_schemas(repaired, notes))
    return _with_changes(repaired, _cut(repaired, notes)), notes


_ENTRY_BYTES = 64 * 1024
"""Of a resource, template or prompt; a larger definition is nobody's."""
_SKILL_BYTES = 512 * 1024
"""Of a skill, whose entry lists its files."""


def sanitise_other(kind: OfferKind, shown: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """The same for an entry of a list of resources, resource templates or prompts."""
    named_by = NAMED_BY[kind]
    name = shown.get(named_by)
    if not isinstance(name, str) or not name:
        raise InvalidName(f"A {kind} has no {named_by}.", hint="Its server has to give it one.")
    if len(name) > URI_MAX or clean_text(name) != name or any(char in name for char in "\n\r\t"):
        raise InvalidName(f"{name[:80]!a} cannot name a {kind}.", hint=f"At most {URI_MAX} visible characters.")
    if kind is OfferKind.SKILL:
        check_entry(shown)
    most = _SKILL_BYTES if kind is OfferKind.SKILL else _ENTRY_BYTES
    if len(msgspec.json.encode(shown)) > most or nesting(shown, MAX_DEPTH + 1) > MAX_DEPTH:
        raise InvalidName(f"The {kind} {name[:80]!a} has a definition that is too large.", hint="Say less of it.")
    notes: list[str] = []
    changes: dict[str, Any] = {}
    for part, value, note in _repair_types(shown):
        changes[part] = value
        notes.append(note)
    repaired = _with_changes(shown, changes)
    if _may_need_cleaning(name, repaired):
        _check_keys(name, repaired)
        repaired = _with_changes(repaired, _cleaned(repaired, notes))
    return _with_changes(repaired, _cut(repaired, notes)), notes


def _check_name(name: Any) -> str:
    if not isinstance(name, str):
        raise InvalidName("A tool has no name.", hint="Its server has to give it one.")
    if not is_tool_name(name):
        raise InvalidName(
            f"{name[:80]!a} cannot name a tool.",
            hint=f"Use letters, digits and any of _ . / : -, at most {TOOL_NAME_MAX} characters.",
        )
    return name


class _Absent:
    """Marks a field to be left out."""


_ABSENT = _Absent()
_Change = tuple[str, Any, str]


def _repair_types(shown: Mapping[str, Any]) -> Iterator[_Change]:
    for part, kind in _OPTIONAL.items():
        if part in shown and not isinstance(shown[part], kind):
            yield part, _ABSENT, f"{part}: {type(shown[part]).__name__} instead of {kind.__name__.lower()}, left out"


def _repair_input_schema(shown: Mapping[str, Any]) -> Iterator[_Change]:
    schema = shown.get("inputSchema")
    if schema is None:
        yield "inputSchema", {"type": "object"}, "inputSchema: missing, taken as an object without known fields"
    elif isinstance(schema, Mapping) and schema.get("type") is None and _is_open_object(schema):
        yield "inputSchema", {**schema, "type": "object"}, "inputSchema: without a type, taken as an object"


def _is_open_object(schema: Mapping[str, Any]) -> bool:
    return "properties" in schema or schema.keys() <= {
        "type",
        "$schema",
        "title",
        "description",
        "additionalProperties",
    }


def _check_input_type(name: str, schema: Any) -> None:
    if not isinstance(schema, Mapping):
        raise InvalidSchema(name, "inputSchema", f"is {type(schema).__name__}, not an object")
    kinds = schema.get("type", "object")
    if kinds != "object" and not (isinstance(kinds, list) and "object" in kinds):
        raise InvalidSchema(name, "inputSchema", f"describes {str(kinds)[:80]!r}, but arguments are an object")


def _with_changes(shown: Mapping[str, Any], changes: Mapping[str, Any]) -> Mapping[str, Any]:
    if not changes:
        return shown
    return {part: value for part, value in {**shown, **changes}.items() if value is not _ABSENT}


def _may_need_cleaning(name: str, shown: Mapping[str, Any]) -> bool:
    """Whether anything unseen may be in the entry, judged by its encoded form; sizes are checked on the way."""
    try:
        encoded = msgspec.json.encode(shown)
    except (TypeError, ValueError, RecursionError, OverflowError):
        encoded = b""
    # An object has at least one bracket per level: with few brackets in few bytes there is nothing to measure.
    if not encoded or len(encoded) > MAX_BYTES or encoded.count(b"{") + encoded.count(b"[") > MAX_DEPTH:
        _refuse_oversize(name, shown)
    if any(mark in encoded for mark in _ESCAPED_CONTROL) or not encoded:
        return True
    return not encoded.isascii() and SUSPECT.search(encoded.decode()) is not None


def _refuse_oversize(name: str, shown: Mapping[str, Any]) -> None:
    if nesting(shown, MAX_DEPTH + 1) > MAX_DEPTH + 1:
        raise InvalidSchema(name, "definition", f"nests deeper than {MAX_DEPTH} levels")
    for part in _SCHEMAS:
        try:
            refuse_oversize(shown.get(part, {}))
        except UnsafeSchema as unsafe:
            raise InvalidSchema(name, part, str(unsafe)) from None


def _check_keys(name: str, shown: Mapping[str, Any]) -> None:
    for part, value in shown.items():
        if part not in _OPAQUE and (hidden := _hidden_key(value)) is not None:
            codes = ", ".join(unseen_characters(hidden))
            raise InvalidSchema(name, part, f"field name {hidden[:80]!a} hides {codes}")


def _hidden_key(value: Any) -> str | None:
    pending = [value]
    while pending:
        whole = pending.pop()
        if isinstance(whole, Mapping):
            hidden = next((key for key in whole if clean_text(str(key)) != key), None)
            if hidden is not None:
                return str(hidden)
            pending.extend(whole.values())
        elif isinstance(whole, list):
            pending.extend(whole)
    return None


def _cleaned(shown: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    before = len(notes)
    cleaned = {part: _clean(value, part, notes) for part, value in shown.items() if part not in _OPAQUE}
    return cleaned if len(notes) > before else {}


def _clean(value: Any, place: str, notes: list[str]) -> Any:
    if isinstance(value, str):
        if hidden := unseen_characters(value):
            notes.append(f"{place}: took out {', '.join(hidden[:5])}{' and others' if len(hidden) > 5 else ''}")
            return clean_text(value)
        return value
    if isinstance(value, Mapping):
        return {key: _clean(part, f"{place}.{key}", notes) for key, part in value.items()}
    if isinstance(value, list):
        return [_clean(part, f"{place}[{index}]", notes) for index, part in enumerate(value)]
    return value


_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_DROPPED_WHOLE = frozenset({"not", "if", "then", "else", "oneOf", "contains", "const", "enum"})
"""Keywords that would mean something else without a part of them."""
_UNSAFE = "toolcrib does not check this pattern, and you should not either: it may take a matcher for ever."


def _harmless_schemas(shown: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """The schemas without references that a reader would have to fetch, and with a word on each unsafe pattern."""
    changes = {}
    for part in _SCHEMAS:
        schema = shown.get(part)
        if not isinstance(schema, Mapping):
            continue
        encoded = msgspec.json.encode(schema)
        if b"ref" in encoded.lower() or b'"pattern' in encoded:
            walk = _SchemaWalk(_identifiers(schema))
            harmless = walk.rewrite(schema)
            if walk.taken or walk.unsafe:
                changes[part] = harmless
                notes.extend(f"{part}: took out the reference to {one[:80]!r}" for one in sorted(walk.taken))
                notes.extend(f"{part}: the pattern {one[:80]!r} is not checked" for one in sorted(walk.unsafe))
    return changes


def _identifiers(schema: Any) -> set[str]:
    """Every address that a part of the schema goes by, whichever of the others it is relative to."""
    found, pending = {""}, [schema]
    while pending:
        whole = pending.pop()
        if isinstance(whole, Mapping):
            names = [whole[key] for key in ("$id", "id") if isinstance(whole.get(key), str)]
            found |= {joined for name in names for base in tuple(found)[:20] if (joined := _joined(base, name))}
            pending.extend(whole.values())
        elif isinstance(whole, list):
            pending.extend(whole)
    return found


def _joined(base: str, url: str) -> str:
    try:
        return urljoin(base, url).partition("#")[0]
    except ValueError:
        return ""


class _SchemaWalk:
    """Rewrites a schema; notes which references it took out, and which patterns it warned of."""

    def __init__(self, identifiers: set[str]) -> None:
        self._identifiers = identifiers
        self.taken: set[str] = set()
        self.unsafe: set[str] = set()

    def rewrite(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.rewrite(part) for part in value]
        return self._rewrite_object(value) if isinstance(value, Mapping) else value

    def _rewrite_object(self, node: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in node.items():
            if key in _REFERENCES and isinstance(value, str):
                if self._is_remote(value):
                    self.taken.add(value)
                else:
                    made[key] = value
                continue
            before = len(self.taken)
            part = self.rewrite(value)
            if len(self.taken) == before or key not in _DROPPED_WHOLE:
                made[key] = part
        patterns = [pattern for pattern in _patterns(node) if is_unsafe_pattern(pattern)]
        self.unsafe.update(patterns)
        return {**made, "$comment": _UNSAFE} if patterns else made

    def _is_remote(self, reference: str) -> bool:
        url = reference.partition("#")[0]
        return bool(url) and not any(_joined(base, url) in self._identifiers for base in self._identifiers)


def _patterns(node: Mapping[str, Any]) -> list[str]:
    names = node.get("patternProperties")
    found = [node.get("pattern"), *(names if isinstance(names, Mapping) else ())]
    return [pattern for pattern in found if isinstance(pattern, str)]


def _cut(shown: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    changes = {}
    for part in ("title", "description"):
        text = shown.get(part, "")
        if len(text) * 4 > MAX_TEXT_BYTES and (size := len(text.encode())) > MAX_TEXT_BYTES:
            kept = text.encode()[: MAX_TEXT_BYTES - len(_CUT_MARK.encode())].decode(errors="ignore")
            changes[part] = kept + _CUT_MARK
            notes.append(f"{part}: {size} bytes, cut to {MAX_TEXT_BYTES}")
    return changes
