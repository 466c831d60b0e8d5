"""The files beside the pages, read from the package once, at addresses that change with their content."""

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from toolcrib.server.answers import HttpAnswer, HttpProblem
from toolcrib.server.visit import PageRequest

TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
    ".woff2": b"font/woff2",
}
FOR_EVER = (b"cache-control", b"public, max-age=31536000, immutable")
ASK_AGAIN = (b"cache-control", b"no-cache")
PACKED = ((b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file, as it is and packed."""

    content: bytes
    packed: bytes
    kind: bytes


@dataclass(frozen=True, slots=True)
class StaticFiles:
    """All files; only what is in here can be asked for."""

    by_path: Mapping[str, StaticFile]
    version: str
    """Changes when any of them does, so that what they import of each other fits."""

    def url(self, path: str) -> str:
        """The address of a file; asking for one that is not there is a mistake in a template."""
        self.by_path[path]
        return f"/static/{self.version}/{path}"

    def answer(self, version: str, path: str, *, packed: bool) -> HttpAnswer:
        """A file; at the address of another version it is not to be kept."""
        found = self.by_path.get(path)
        if found is None:
            raise HttpProblem(404, "HTTP_NOT_FOUND", "There is no such file.")
        kept = FOR_EVER if version == self.version else ASK_AGAIN
        if packed:
            return HttpAnswer(200, found.packed, found.kind, (kept, *PACKED))
        return HttpAnswer(200, found.content, found.kind, (kept, PACKED[1]))


@cache
def load_static_files() -> StaticFiles:
    """Read every file that has a type we serve, the first time somebody asks."""
    found = dict(sorted(_walk(files("toolcrib.server.web") / "static", "")))
    digest = hashlib.sha256()
    for path, content in found.items():
        digest.update(path.encode() + b"\0" + hashlib.sha256(content).digest())
    by_path = {path: _pack(path, content) for path, content in found.items()}
    return StaticFiles(by_path, digest.hexdigest()[:12])


def _pack(path: str, content: bytes) -> StaticFile:
    return StaticFile(content, gzip.compress(content, 6, mtime=0), TYPES[_suffix(path)])


def _walk(place: Traversable, above: str) -> Iterator[tuple[str, bytes]]:
    for entry in place.iterdir():
        path = f"{above}{entry.name}"
        if entry.is_dir():
            yield from _walk(entry, f"{path}/")
        elif _suffix(path) in TYPES:
            yield path, entry.read_bytes()


def _suffix(path: str) -> str:
    return f".{path.rpartition('.')[2]}"


CONTENT_SECURITY_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    b"connect-src 'self'; "
    b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
GUARDING = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY),
    (b"x-content-type-options", b"nosniff"),
    # Nobody else learns the name of this host. With "no-referrer", browsers name no origin in our own forms either, and
    # nobody could tell those from forged ones.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
NO_STORE = (b"cache-control", b"no-store")
PACK_FROM = 1_024
_TEXT = (b"text/", b"application/json", b"image/svg")


def accepts_gzip(visit: PageRequest | None) -> bool:
    """Whether whoever asked can read a packed body."""
    accepted = visit.request.header(b"accept-encoding") if visit is not None else None
    return any(_names_gzip(word) for word in (accepted or b"").lower().split(b","))


def _names_gzip(word: bytes) -> bool:
    name, _, weight = word.strip().partition(b";")
    return name.strip() in (b"gzip", b"*") and weight.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00")


def finish(visit: PageRequest | None, answer: HttpAnswer) -> HttpAnswer:
    """The answer as it goes out."""
    names = {name for name, _ in answer.headers}
    guarding = (pair for pair in GUARDING if pair[0] not in names)
    headers = (*answer.headers, *guarding, *(() if b"cache-control" in names else (NO_STORE,)))
    body = answer.body
    is_packable = len(body) > PACK_FROM and b"content-encoding" not in names and answer.content_type.startswith(_TEXT)
    if is_packable and accepts_gzip(visit):
        body = gzip.compress(body, 5, mtime=0)
        headers = (*headers, (b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))
    return replace(answer, body=body, headers=headers)
