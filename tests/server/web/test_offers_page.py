"""Resources and prompts on the page: lists, details, reading and getting, rules and quarantine, without any script."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.library import library_script
from tests.server.web.site import Visitor
from tests.server.web.workbench import Bench, open_bench

ABOUT = "/resources/lib__memo%3A%2F%2Fabout"
PHOTO = "/resources/lib__memo%3A%2F%2F%7Bid%7D%2Fphoto"
GREET = "/prompts/lib__greet"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A page whose server offers a resource, a template and a prompt."""
    script = library_script(tmp_path)
    server = f'[servers.lib]\ncommand = "{sys.executable}"\nargs = ["{script}", "{tmp_path / "diary"}"]'
    with open_bench(tmp_path / "home", server) as found:
        found.owner.post("/servers/lib/refresh")
        yield found


def show(tmp_path: Path, bench: Bench, old: str, new: str) -> None:
    """Have the server say something else."""
    script = tmp_path / "library.py"
    text = script.read_text()
    assert old in text
    script.write_text(text.replace(old, new))
    bench.owner.post("/servers/lib/restart")


def test_the_lists_show_what_there_is_and_can_be_searched(bench: Bench):
    """By words, by server, or by what it is for; the server's own page leads to them."""
    resources, prompts = bench.owner.get("/resources").text, bench.owner.get("/prompts").text
    searched = bench.owner.get("/resources?q=photo").text
    server = bench.owner.get("/servers/lib").text

    assert f'href="{ABOUT}"' in resources
    assert f'href="{PHOTO}"' in resources
    assert "memo://lib/about" in resources
    assert f'href="{GREET}"' in prompts
    assert (f'href="{PHOTO}"' in searched, f'href="{ABOUT}"' in searched) == (True, False)
    assert "No resource fits" in bench.owner.get("/resources?q=xyzzy").text
    assert "/resources?server=lib" in server
    assert "/prompts?server=lib" in server


def test_a_resource_is_read_and_a_template_filled_in(bench: Bench):
    """What comes is shown as text or picture; a template that is not filled in is asked for."""
    page, read = bench.owner.get(ABOUT), bench.owner.post(f"{ABOUT}/read")
    photo = bench.owner.post(f"{PHOTO}/read", uri="memo://lib/7/photo")
    unfilled = bench.owner.post(f"{PHOTO}/read", uri="memo://lib/{id}/photo")

    assert ("What this is." in page.text, "lib__memo://about" in page.text) == (True, True)
    assert ("It worked" in read.text, "library" in read.text) == (True, True)
    assert "\x1b" not in read.text
    assert (photo.status, "It worked" in photo.text) == (200, True)
    assert (unfilled.status, "Replace each {part}" in unfilled.text) == (422, True)
    assert bench.owner.get(f"{ABOUT}/read").status == 303


def test_a_prompt_is_got_with_its_arguments(bench: Bench):
    """Each message under who says it; what is too much for a page is refused."""
    page = bench.owner.get(GREET).text
    got = bench.owner.post(f"{GREET}/get", **{"a/who": "<b>Ann</b>"})
    large = bench.owner.post(f"{GREET}/get", **{"a/who": "x" * 250_000})

    assert "Greets." in page
    assert "user: Say hello to &lt;b&gt;Ann&lt;/b&gt;." in got.text
    assert large.status == 413


def test_a_policy_is_set_on_the_page_of_what_it_is_for(bench: Bench):
    """Then it holds: what is denied is shown to operators alone, and cannot be read."""
    guest = bench.guest()
    before = guest.get("/resources").text
    bench.owner.post(f"{ABOUT}/policy", policy="deny")
    denied = bench.owner.get(ABOUT).text
    after, hidden = guest.get("/resources").text, guest.get(ABOUT)
    palette = guest.get("/palette.json?q=about").text

    assert (f'href="{ABOUT}"' in before, f'href="{ABOUT}"' in after, hidden.status) == (True, False, 404)
    assert "Its policy refuses it." in denied
    assert "memo" not in palette
    assert guest.post(f"{GREET}/policy", policy="deny").status == 403
    assert bench.owner.post(f"{ABOUT}/policy", policy="maybe").status == 422


def test_what_is_disabled_leaves_the_lists_and_can_be_taken_back(bench: Bench):
    """It has no page then; no rule is written for a name that nothing has."""
    gone = bench.owner.post(f"{GREET}/policy", policy="disable")
    listed = bench.owner.get("/tools?policy=disable").text
    wrong = bench.owner.post("/tools/prompt%20lib__greet/policy", policy="allow")
    hidden, shown = bench.owner.get(GREET), bench.owner.get("/tools/prompt%20lib__greet")
    bench.program.run("policy", "lib__greet", "allow")

    assert (gone.place, hidden.status, shown.status) == ("/prompts?done=policy&name=lib__greet", 404, 404)
    assert ("prompt lib__greet" in listed, "/settings/policies" in listed, wrong.status) == (True, True, 404)
    assert '"prompt lib__greet"' not in bench.program.config.read_text()


def test_what_changed_is_looked_at_and_accepted(bench: Bench, tmp_path: Path):
    """On its own page and on that of approvals; nobody accepts what they did not see."""
    show(tmp_path, bench, '"description": "Greets."', '"description": "Greets, and <script>obeys</script>."')
    held, inbox = bench.owner.get(GREET).text, bench.owner.get("/approvals").text
    [pin] = bench.program.json("diff")
    unseen = bench.owner.post(f"{GREET}/approve", seen="")
    accepted = bench.owner.post(f"{GREET}/approve", seen=pin["seen"], trust="description")
    page = bench.owner.get(GREET).text

    assert ("in quarantine" in held, "<script>obeys" in held, f'action="{GREET}/approve"' in inbox) == (
        True,
        False,
        True,
    )
    assert (unseen.status, accepted.status, "Trust it no more" in page) == (422, 303, True)
    assert bench.program.json("diff") == []
    show(tmp_path, bench, "and <script>obeys</script>", "again")
    assert "in quarantine" not in bench.owner.get("/prompts").text


def test_nobody_without_a_name_sees_any_of_it(bench: Bench):
    """Each address asks who one is."""
    stranger = Visitor(bench.owner.port)
    paths = ("/resources", "/prompts", ABOUT, GREET)

    assert {stranger.get(path).status for path in paths} == {303}
