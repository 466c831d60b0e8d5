"""Two answers compared field by field, after names and URIs are what the server itself calls them."""

import fnmatch
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.foreign.asking import Question

_URIS = frozenset({"uri", "uriTemplate", "resourceUri", "ui/resourceUri"})
_STAMPS = ("resultType", "ttlMs", "cacheScope")
_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://)?")
_KEYS = {"tools": "name", "prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}
SHOWN = 160


@dataclass(frozen=True)
class Difference:
    """One field that is not the same."""

    at: str
    direct: str
    through: str


@dataclass(frozen=True)
class Reason:
    """Why differences at a place are right."""

    at: str
    reason: str
    servers: str = "*"
    way: str = ""
    direct: str = ""
    through: str = ""

    def explains(self, server: str, way: str, difference: Difference) -> bool:
        return (
            fnmatch.fnmatchcase(server, self.servers)
            and way in (self.way or way)
            and re.fullmatch(self.at, difference.at, re.DOTALL) is not None
            and re.search(self.direct, difference.direct, re.DOTALL) is not None
            and re.search(self.through, difference.through, re.DOTALL) is not None
        )


def reasons() -> list[Reason]:
    """The list of differences that are meant."""
    listed = tomllib.loads((Path(__file__).parent / "differences.toml").read_text())
    return [Reason(**entry) for entry in listed["difference"]]


def namespaced(question: Question, server: str) -> Question:
    """The same question with the names that toolcrib's clients know."""
    params = {**question.params}
    if "name" in params:
        params["name"] = f"{server}__{params['name']}"
    if "uri" in params:
        params["uri"] = _with_server(params["uri"], server)
    if "ref" in params:
        ref = params["ref"]
        is_prompt = ref["type"] == "ref/prompt"
        known = {"name": f"{server}__{ref['name']}"} if is_prompt else {"uri": _with_server(ref["uri"], server)}
        params["ref"] = {**ref, **known}
    return Question(question.label, question.method, params)


def _with_server(uri: str, server: str) -> str:
    scheme = _SCHEME.match(uri)
    end = scheme.end() if scheme else 0
    return f"{uri[:end]}{server}/{uri[end:]}"


def _without_server(uri: str, server: str) -> str:
    scheme = _SCHEME.match(uri)
    end = scheme.end() if scheme else 0
    return uri[:end] + uri[end:].removeprefix(f"{server}/")


def undone(told: Mapping[str, Any], server: str) -> dict[str, Any]:
    """Everything a client of toolcrib was told, as the server itself would have said it."""
    return {label: _undo_answer(label, answer, server) for label, answer in told.items()}


def _undo_answer(label: str, answer: Any, server: str) -> Any:
    if not isinstance(answer, dict):
        return answer
    plain: Any = _undo_uris(answer, server)
    result = plain.get("result")
    if isinstance(result, dict):
        for stamp in _STAMPS:
            result.pop(stamp, None)
        _drop_stamp(result)
        if label in ("tools", "prompts"):
            own = [entry for entry in result[label] if entry["name"].startswith(f"{server}__")]
            result[label] = [{**entry, "name": entry["name"].removeprefix(f"{server}__")} for entry in own]
    return plain


def _drop_stamp(result: dict[str, Any]) -> None:
    meta = result.get("_meta")
    if isinstance(meta, dict) and _SERVER_INFO in meta:
        del meta[_SERVER_INFO]
        if not meta:
            del result["_meta"]


def _undo_uris(value: Any, server: str) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_server(part, server) if key in _URIS and isinstance(part, str) else _undo_uris(part, server)
            for key, part in value.items()
        }
    return [_undo_uris(part, server) for part in value] if isinstance(value, list) else value


def compare(direct: Mapping[str, Any], through: Mapping[str, Any]) -> list[Difference]:
    """All fields of all answers that are not the same."""
    return [
        found
        for label, answer in direct.items()
        for found in _walk(label, _by_name(label, answer), _by_name(label, through.get(label)))
    ]


def _by_name(label: str, answer: Any) -> Any:
    """A list as a table by name, so that its order, and one entry more, is one difference and not many."""
    entries = answer.get("result", {}).get(label) if isinstance(answer, dict) and label in _KEYS else None
    if not isinstance(entries, list):
        return answer
    names = [entry.get(_KEYS[label]) for entry in entries]
    return {
        "order": ", ".join(map(str, names)),
        **{str(name): entry for name, entry in zip(names, entries, strict=True)},
    }


_ABSENT = object()


def _walk(at: str, direct: Any, through: Any) -> Iterator[Difference]:
    if isinstance(direct, dict) and isinstance(through, dict):
        for key in [*direct, *(key for key in through if key not in direct)]:
            yield from _walk(f"{at}.{key}", direct.get(key, _ABSENT), through.get(key, _ABSENT))
    elif isinstance(direct, list) and isinstance(through, list) and len(direct) == len(through):
        for index, (one, other) in enumerate(zip(direct, through, strict=True)):
            yield from _walk(f"{at}[{index}]", one, other)
    elif _as_json(direct) != _as_json(through):
        yield Difference(at, _shown(direct), _shown(through))


def _as_json(value: Any) -> Any:
    """Something to compare by: 1 and 1.0 are one number of JSON, 1 and true are not."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else repr(value)


def _shown(value: Any) -> str:
    return "(absent)" if value is _ABSENT else json.dumps(value, ensure_ascii=False)


def unstable_places(noise: Sequence[Difference]) -> frozenset[str]:
    """Where two direct connections differ: nothing can be said of these."""
    return frozenset(found.at for found in noise)


def is_stable(difference: Difference, unstable: frozenset[str]) -> bool:
    """Whether the difference is in something that is otherwise always the same."""
    return not any(difference.at == place or difference.at.startswith((f"{place}.", f"{place}[")) for place in unstable)
