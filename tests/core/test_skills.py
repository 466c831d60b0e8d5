"""What a skill's entry promises, and what breaks the promise."""

import hashlib
from typing import Any

import pytest

from toolcrib.core.errors import InvalidName
from toolcrib.core.skills import DYNAMIC, FILES_MAX, check_entry, climbs, promise_of, why_broken

URI = "skill://a/SKILL.md"
TEXT = b"---\nname: a\ndescription: Does it\nversion: 1.0\nwhen: 2026-01-01\ntags: [x, y]\n---\nBody\n"
FRONT = {"name": "a", "description": "Does it", "version": 1.0, "when": "2026-01-01", "tags": ["x", "y"]}


def file(uri: str = URI, content: bytes = TEXT, **other: Any) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return {"uri": uri, "digest": digest, "size": len(content), **other}


def entry(*files: dict[str, Any], **other: Any) -> dict[str, Any]:
    return {"uri": URI, "frontmatter": FRONT, "resources": list(files) or [file()], **other}


@pytest.mark.parametrize("good", [entry(), entry(file(), file("skill://a/b/c.md")), entry(resources=DYNAMIC)])
def test_an_entry_that_is_what_it_says_is_taken(good):
    check_entry(good)


@pytest.mark.parametrize(
    "bad",
    [
        entry(uri="skill://a/README.md"),
        entry(uri="skill://a/../b/SKILL.md"),
        entry(uri="skill://a/%2E%2e/SKILL.md"),
        entry(uri="skill://a/%252e%252e/SKILL.md"),
        entry(uri="skill://a\\..\\SKILL.md/SKILL.md"),
        entry(frontmatter="name: a"),
        entry(resources=None),
        entry(resources="static"),
        entry(resources=["skill://a/SKILL.md"]),
        entry(file(), file()),
        entry(file("skill://a/b.md")),
        entry(file(), file("skill://b/SKILL.md")),
        entry(file(), file("skill://a/../b.md")),
        entry(file(), file("skill://ab/c.md")),
        entry(file(digest="sha256:abc")),
        entry(file(digest="SHA256:" + "0" * 64)),
        entry(file(digest=None)),
        entry(file(size=-1)),
        entry(file(size=True)),
        entry(file(size=10**9)),
        entry(file(), *(file(f"skill://a/{number}.md") for number in range(FILES_MAX))),
    ],
)
def test_an_entry_that_cannot_be_what_it_says_is_refused(bad):
    with pytest.raises(InvalidName):
        check_entry(bad)


def test_what_leads_elsewhere_is_recognised_however_it_is_written():
    assert not climbs("skill://a/b.c/..d/SKILL.md")
    assert all(climbs(f"skill://a/{part}/SKILL.md") for part in ("..", ".", "%2e%2e", "..%2fb", "x\\y"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (TEXT, ""),
        (TEXT + b"x", "bytes"),
        (TEXT.replace(b"Body", b"Evil"), "digest"),
    ],
)
def test_content_is_held_against_size_and_digest(content, words):
    wrong = why_broken(promise_of(entry(), URI), content)

    assert words in wrong
    assert bool(wrong) == bool(words)


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace(b"Does it", b"Does that"),
        TEXT.replace(b"tags: [x, y]", b"tags: [x]"),
        TEXT.replace(b"name: a\n", b"name: a\nlicense: none\n"),
        b"Body without any\n",
        b"---\nname: [\n---\n",
        b"---\na: &x [1]\nb: [*x, *x]\n---\n",
        b"---\n" + b"a: 1\n" * 10_000 + b"---\n",
    ],
)
def test_what_a_skill_begins_with_is_what_its_entry_says(text):
    """Digest and size are right, and it would pass for another skill."""
    promise = promise_of(entry(file(content=text)), URI)

    assert "begins with" in why_broken(promise, text)


def test_of_what_is_made_when_it_is_read_only_the_beginning_is_known():
    promise = promise_of(entry(resources=DYNAMIC), URI)

    assert why_broken(promise, TEXT + b"anything") == ""
    assert why_broken(promise_of(entry(resources=DYNAMIC), "skill://a/x.md"), b"anything") == ""
    assert promise_of({"mimeType": "text/plain"}, URI) is None
