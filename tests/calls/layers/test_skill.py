"""Skill: a file of a skill is handed on only if it is what the skill's entry promised."""

import base64
import hashlib
from typing import Any

import msgspec
import pytest

from toolcrib.calls.layers.skill import skill
from toolcrib.calls.pipeline import Step, Subject
from toolcrib.core.errors import ToolFailed
from toolcrib.core.offers import RequestKind, Resource
from toolcrib.core.requests import Request, Result

URI = "skill://pdf/forms.md"
FORM = b"Fill in every field."
ENTRY = {
    "frontmatter": {"name": "pdf"},
    "resources": [{"uri": URI, "size": len(FORM), "digest": f"sha256:{hashlib.sha256(FORM).hexdigest()}"}],
}


def reading(outcome: Result, kind: RequestKind = RequestKind.READ) -> Step:
    async def source(_call: Request) -> Result:
        return outcome

    return skill()(Subject(f"docs__{URI}", "docs", Resource(URI, extra=ENTRY), kind=kind), source)


def request() -> Request:
    return Request(f"docs__{URI}", URI, {})


def read(**content: Any) -> Result:
    return Result(raw=msgspec.json.encode({"contents": [{"uri": URI, **content}]}))


@pytest.mark.parametrize(
    "outcome",
    [
        read(text=FORM.decode()),
        read(blob=base64.b64encode(FORM).decode()),
        Result({"contents": [{"uri": URI, "text": FORM.decode()}]}),
    ],
)
async def test_what_was_promised_is_handed_on(outcome):
    """As a text or as bytes, encoded already or not."""
    assert await reading(outcome)(request()) is outcome


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (read(text="Fill in no field at all."), "it has 24 bytes, and its skill says 20"),
        (read(text="Fill in every card.."), "its digest is not the one that its skill states"),
        (read(blob=base64.b64encode(b"Fill in every card..").decode()), "its digest is not"),
        (read(), "it has 0 bytes"),
        (read(blob="A"), "it cannot be read"),
        (Result({"contents": []}), "it came in 0 parts"),
    ],
)
async def test_anything_else_is_handed_to_nobody(outcome, why):
    with pytest.raises(ToolFailed, match=why):
        await reading(outcome)(request())


async def test_a_question_is_no_content():
    """Its answer leads to another read, which is looked at then."""
    asked = Result(raw=b'{"resultType":"input_required","inputRequests":{}}', result_type="input_required")

    assert await reading(asked)(request()) is asked


async def test_only_reads_are_looked_at():
    outcome = read(text="anything")

    assert await reading(outcome, RequestKind.COMPLETE)(request()) is outcome
