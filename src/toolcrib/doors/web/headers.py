"""What goes with every answer of the page: what a browser may load, and the body packed where that is wanted."""

import gzip
from dataclasses import replace

from toolcrib.doors.http.answers import Answer
from toolcrib.doors.http.visit import Visit

CONTENT_SECURITY_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
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


def accepts_gzip(visit: Visit | None) -> bool:
    """Whether whoever asked can read a packed body."""
    accepted = visit.request.header(b"accept-encoding") if visit is not None else None
    return any(_names_gzip(word) for word in (accepted or b"").lower().split(b","))


def _names_gzip(word: bytes) -> bool:
    name, _, weight = word.strip().partition(b";")
    return name.strip() in (b"gzip", b"*") and weight.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00")


def finish(visit: Visit | None, answer: Answer) -> Answer:
    """The answer as it goes out."""
    names = {name for name, _ in answer.headers}
    headers = (*answer.headers, *GUARDING, *(() if b"cache-control" in names else (NO_STORE,)))
    body = answer.body
    is_packable = len(body) > PACK_FROM and b"content-encoding" not in names and answer.content_type.startswith(_TEXT)
    if is_packable and accepts_gzip(visit):
        body = gzip.compress(body, 5, mtime=0)
        headers = (*headers, (b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))
    return replace(answer, body=body, headers=headers)
