"""Skills (the extension ``io.modelcontextprotocol/skills``): what an entry promises of its files, and whether one keeps
the promise. A skill is a directory of resources with a ``SKILL.md``; its entry lists each file with digest and size."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from toolcrib.core.errors import InvalidName
from toolcrib.core.patterns import lazy_pattern

EXTENSION = "io.modelcontextprotocol/skills"
DYNAMIC = "dynamic"
"""In place of the list of files: they are made when they are read, so nothing is promised of them."""
FILES_MAX = 512
BYTES_MAX = 16 * 1024 * 1024
FRONTMATTER_MAX = 16 * 1024
_MANIFEST = "/SKILL.md"
_DIGEST = lazy_pattern(r"sha256:[0-9a-f]{64}")
_FRONTMATTER = lazy_pattern(r"\ufeff?---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|$)", re.DOTALL)
_LINE = lazy_pattern(r"^(name|description):[ \t]*([^\s\"'|>&*!\[{#%@`].*?)[ \t]*$", re.MULTILINE)

Definition = Mapping[str, Any]


def directory_of(uri: str) -> str:
    """The directory of a skill, by the URI of its ``SKILL.md``."""
    return uri.removesuffix(_MANIFEST)


def files_of(entry: Definition) -> Sequence[Mapping[str, Any]]:
    """The files that an entry lists; none if they are dynamic."""
    files = entry.get("resources")
    return files if isinstance(files, list) else ()


def check_entry(entry: Definition) -> None:
    """Refuse an entry that cannot be what it says: paths that climb out, digests of another form, files twice."""
    uri = str(entry["uri"])
    if not uri.endswith(_MANIFEST) or climbs(uri):
        raise InvalidName(
            f"{uri[:80]!a} cannot name a skill.", hint="It is the URI of a SKILL.md, without . or .. in it."
        )
    if not isinstance(entry.get("frontmatter"), Mapping):
        raise InvalidName(f"The skill {uri[:80]!a} has no frontmatter.")
    if entry.get("resources") != DYNAMIC:
        _check_files(uri, entry.get("resources"))


def _check_files(uri: str, files: object) -> None:
    if not isinstance(files, list) or not all(isinstance(one, Mapping) for one in files):
        raise InvalidName(f"The skill {uri[:80]!a} does not list its files.")
    if len(files) > FILES_MAX:
        raise InvalidName(f"The skill {uri[:80]!a} has {len(files)} files.", hint=f"At most {FILES_MAX} are taken.")
    named = [one.get("uri") for one in files]
    if len({*map(str, named)}) < len(named) or uri not in named:
        raise InvalidName(f"The skill {uri[:80]!a} lists a file twice, or its own SKILL.md not at all.")
    total = 0
    for one in files:
        total += _check_file(uri, one)
    if total > BYTES_MAX:
        raise InvalidName(f"The skill {uri[:80]!a} is {total} bytes in all.", hint=f"At most {BYTES_MAX} are taken.")


def _check_file(uri: str, one: Mapping[str, Any]) -> int:
    """The size of a file that may be part of the skill."""
    named, size = one.get("uri"), one.get("size")
    if not isinstance(named, str) or not named.startswith(f"{directory_of(uri)}/") or climbs(named):
        raise InvalidName(f"The skill {uri[:80]!a} lists {str(named)[:80]!a}, which is outside of it.")
    if not isinstance(one.get("digest"), str) or not _DIGEST.fullmatch(one["digest"]):
        raise InvalidName(f"The skill {uri[:80]!a} has no usable digest of {named[:80]!a}.")
    if type(size) is not int or size < 0:
        raise InvalidName(f"The skill {uri[:80]!a} has no usable size of {named[:80]!a}.")
    return size


def climbs(uri: str) -> bool:
    """Whether a URI leads elsewhere than it seems to, however that is written."""
    for _ in range(3):
        uri, before = unquote(uri), uri
        if uri == before:
            break
    return "\\" in uri or any(part in (".", "..") for part in uri.split("/"))


@dataclass(frozen=True, slots=True)
class Promise:
    """What is known of a file before it is read."""

    digest: str
    """Empty if nothing is."""
    size: int
    frontmatter: Mapping[str, Any] | None
    """Of a ``SKILL.md``: what its entry says that it begins with."""


def promise_of(entry: Definition, uri: str) -> Promise | None:
    """What a skill's entry says of one of its files, by the server's own URI; ``None`` for what is no skill's."""
    if not isinstance(entry.get("frontmatter"), Mapping) or "resources" not in entry:
        return None
    found = next((one for one in files_of(entry) if one.get("uri") == uri), {})
    stated = entry["frontmatter"] if uri.endswith(_MANIFEST) else None
    return Promise(str(found.get("digest", "")), int(found.get("size", -1)), stated)


def why_broken(promise: Promise, content: bytes) -> str:
    """What is wrong with the content of a file, as the end of a sentence; empty if nothing is."""
    if promise.size >= 0 and len(content) != promise.size:
        return f"it has {len(content)} bytes, and its skill says {promise.size}"
    if promise.digest and f"sha256:{hashlib.sha256(content).hexdigest()}" != promise.digest:
        return "its digest is not the one that its skill states"
    if promise.frontmatter is not None and not _is_same_frontmatter(content, promise.frontmatter):
        return "what it begins with is not what its skill's entry says"
    return ""


def _is_same_frontmatter(content: bytes, stated: Mapping[str, Any]) -> bool:
    found = _FRONTMATTER.match(content[: 2 * FRONTMATTER_MAX].decode(errors="replace"))
    if found is None or len(found[1]) > FRONTMATTER_MAX:
        return False
    try:
        import yaml
    except ModuleNotFoundError:  # what every skill has can be compared without it
        return all(stated.get(key) == value for key, value in _LINE.findall(found[1]))
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(found[1], Loader=loader)):
            return False  # a few of them are enough to say more than anybody can compare
        return _is_same(yaml.load(found[1], Loader=loader), stated)  # noqa: S506 - both are safe loaders
    except (yaml.YAMLError, ValueError, RecursionError):
        return False


def _is_same(found: Any, stated: Any) -> bool:
    if isinstance(found, Mapping) and isinstance(stated, Mapping):
        named = {str(key): value for key, value in found.items()}
        return named.keys() == stated.keys() and all(_is_same(value, stated[key]) for key, value in named.items())
    if isinstance(found, list) and isinstance(stated, list):
        return len(found) == len(stated) and all(map(_is_same, found, stated))
    return found == stated or (found is not None and str(found) == str(stated))  # dates are texts in JSON
