"""The tools on the page: found, explained, tried, and looked after by those who may."""

import json
from pathlib import Path

import pytest
from tests.cli.program import Program
from tests.server.web.site import opened
from tests.server.web.stand_ins import HOSTILE
from tests.server.web.workbench import furnish, open_bench

RAW = "<img src=x"
ABSENT = '[servers.absent]\ncommand = "no-such-program-anywhere"'


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    with open_bench(tmp_path_factory.mktemp("tools"), ABSENT) as found:
        yield found


def test_tools_are_found_by_words_and_by_filters(bench):
    """The words may stand in names and descriptions, in any case."""
    every = bench.owner.get("/tools").text
    by_word = bench.owner.get("/tools?q=PICTURE+nothing").text
    by_level = bench.owner.get("/tools?level=admin").text

    assert 'href="/tools/plan"' in every
    assert 'title="Tokens"' in every
    assert 'href="/tools/snapshot"' in by_word
    assert 'href="/tools/plan"' not in by_word
    assert 'href="/tools/launch"' in by_level
    assert 'href="/tools/shout"' not in by_level
    assert "No tool fits" in bench.owner.get("/tools?q=xyzzy").text


def test_a_list_that_lacks_a_server_says_so(bench):
    """With the way to it for whoever looks after servers."""
    page = bench.owner.get("/tools").text

    assert "The tools of 1 server are not in this list" in page
    assert '<a href="/servers/absent">absent</a> (' in page


def test_where_no_tool_holds_the_words_those_that_are_meant_are_shown(bench):
    """In the list and in the palette; best first."""
    page = bench.owner.get("/tools?q=take+a+photograph+of+it").text
    palette = json.loads(bench.owner.get("/palette.json?q=take+a+snapshot").body)

    assert 'href="/tools/snapshot"' in page
    assert palette[0]["name"] == "snapshot"


def test_htmx_gets_the_part_it_asks_for(bench):
    """The same address, without the navigation."""
    part = bench.owner.get("/tools?q=plan", hx_request="true").text

    assert 'id="tools"' in part
    assert "<html" not in part


@pytest.mark.parametrize("path", ["/tools", "/tools/shout", "/tools/shout?as=json"])
def test_what_servers_write_stays_text(bench, path: str):
    """Descriptions and defaults cannot become part of the page."""
    page = bench.owner.get(path).text

    assert "alert(1)" in page
    assert RAW not in page
    assert "<script>alert" not in page


def test_a_tool_is_shown_with_its_parameters_and_a_form(bench):
    """Types, limits and defaults are readable; an example stands in the form."""
    page = bench.owner.get("/tools/plan").text

    assert "at least 1, at most 10" in page
    assert 'name="a/place/city"' in page
    assert 'value="Water the plants"' in page
    assert "toolcrib call plan" in page
    assert "/api/v1/tools/plan/call" in page


def test_a_tool_runs_with_the_fields_of_its_form(bench):
    """They become typed arguments; the result is shown with how long it took."""
    fields = {"a/title": "Tea", "a/count": "5", "a/labels": "a\r\nb", "a/days/2": "on", "a/place/city": "Ulm"}

    reply = bench.owner.post("/tools/plan/try", do="run", **fields)

    assert reply.status == 200
    assert "It worked" in reply.text
    result = json.loads(_unescaped(_code(reply.text, "result-json")))
    assert result["planned"] == {
        "title": "Tea",
        "count": 5,
        "labels": ["a", "b"],
        "days": ["Wed"],
        "place": {"city": "Ulm"},
        "priority": "normal",
    }


def _code(page: str, name: str) -> str:
    return page.partition(f'<code id="{name}">')[2].partition("</code>")[0]


def _unescaped(text: str) -> str:
    return text.replace("&#34;", '"').replace("&#39;", "'").replace("&lt;", "<").replace("&gt;", ">")


def test_wrong_fields_are_said_before_anything_runs(bench):
    """What was typed stays, each field says what is wrong with it."""
    before = _calls(bench)

    reply = bench.owner.post("/tools/plan/try", do="run", **{"a/title": "T", "a/count": "99", "a/weight": "heavy"})
    unfit = bench.owner.post("/tools/plan/try", do="run", **{"a/title": "T", "a/count": "99"})

    assert (reply.status, unfit.status) == (422, 422)
    assert "&#39;heavy&#39; is not a number." in reply.text
    assert 'value="99"' in unfit.text
    assert "<strong>Expected at most 10, got 99.</strong>" in unfit.text
    assert unfit.text.count('aria-invalid="true"') == 2
    assert _calls(bench) == before


def _calls(bench) -> int:
    return bench.owner.get("/calls?tool=plan").text.count('id="call-')


def test_the_json_editor_runs_the_same_tool(bench):
    """And says what is wrong with the JSON."""
    good = bench.owner.post("/tools/plan/try", do="run", **{"as": "json", "json": '{"title": "Tea"}'})
    bad = bench.owner.post("/tools/plan/try", do="run", **{"as": "json", "json": '{"title": '})

    assert "It worked" in good.text
    assert bad.status == 422
    assert "This is not JSON" in bad.text


def test_json_nested_too_deeply_is_refused_in_words(bench):
    """Not by a failure of ours."""
    text = json.dumps({"title": "Tea"})[:-1] + ', "more": ' + "[" * 400 + "]" * 400 + "}"

    reply = bench.owner.post("/tools/plan/try", do="show", **{"as": "json", "json": text})

    assert reply.status == 422
    assert "nested more than 100 levels" in reply.text


def test_a_try_too_large_to_be_shown_again_is_refused(bench):
    """It would be written into the page many times, and hold everybody else up."""
    long = json.dumps({"title": "x" * 1_000_000})

    reply = bench.owner.post("/tools/plan/try", do="show", **{"as": "json", "json": long})

    assert reply.status == 413
    assert len(reply.body) < 100_000


def test_a_call_is_shown_as_code_without_running(bench):
    """For those who want to copy it."""
    before = _calls(bench)

    page = bench.owner.post("/tools/plan/try", do="show", **{"a/title": "it's"}).text

    assert "title=it&#39;&#34;&#39;&#34;&#39;s" in page
    assert _calls(bench) == before


def test_a_call_made_on_the_page_can_be_made_again(bench):
    """With the arguments it had, by whoever made it; they are kept for nobody else."""
    done = bench.owner.post("/tools/plan/try", do="run", **{"a/title": "Elevenses"}).text
    again = done.partition("/tools/plan?again=")[2].partition("#")[0]

    assert "Elevenses" in bench.owner.get(f"/tools/plan?again={again}").text
    assert "Elevenses" not in bench.owner.get("/tools/plan").text
    assert "Elevenses" not in bench.owner.get("/tools/plan?again=another").text


def test_policies_of_several_tools_are_set_together(tmp_path: Path):
    """One form, one write; what is not there is left out."""
    with open_bench(tmp_path) as bench:
        done = bench.owner.post(
            "/tools/policies", policy="deny", **{"tool:plan": "on", "tool:shout": "on", "tool:x": "on"}
        )
        denied = bench.owner.get("/tools?policy=deny").text

        assert done.place == "/tools?done=policies&name=2+tools"
        assert 'href="/tools/plan"' in denied
        assert 'href="/tools/shout"' in denied
        assert bench.owner.post("/tools/policies", policy="deny").status == 422
        assert bench.owner.post("/tools/policies", policy="maybe", **{"tool:plan": "on"}).status == 422


def test_results_of_strangers_are_shown_not_obeyed(bench):
    """Markup stays text, hidden characters are seen, only plain pictures are pictures."""
    said = bench.owner.post("/tools/shout/try", do="run", **{"a/text": HOSTILE}).text
    drawn = bench.owner.post("/tools/snapshot/try", do="run").text

    assert RAW not in said
    assert "\\u{202e}" in said
    assert drawn.count("<img class=") == 1
    assert 'src="data:image/png;base64,iVBOR' in drawn
    assert "image/svg+xml, which is not shown" in drawn


def test_a_failure_says_its_code_and_what_to_do(bench):
    """The tool's own words as well."""
    page = bench.owner.post(
        "/tools/kb_get_document/try", do="run", **{"as": "json", "json": '{"document_id": "x"}'}
    ).text

    assert "It failed" in page
    assert "TOOL_EXECUTION_FAILED" in page or "TOOL_" in page
    assert "No document" in page


def test_only_a_page_of_ours_can_run_a_tool(bench):
    """A form of another site has no word of ours."""
    assert bench.owner.forge("/tools/plan/try", csrf="wrong", do="run").status == 403


def test_whoever_may_read_only_sees_and_runs_only_that(bench):
    """Other tools are not there, and nothing about anybody can be changed."""
    guest = bench.guest()

    assert 'href="/tools/shout"' in guest.get("/tools").text
    assert "plan" not in guest.get("/tools").text.partition('id="tools"')[2]
    assert guest.get("/tools/plan").status == 404
    assert guest.post("/tools/plan/try", do="run", **{"a/title": "Tea"}).status == 404
    assert "It worked" in guest.post("/tools/shout/try", do="run", **{"a/text": "hi"}).text
    assert guest.post("/tools/shout/policy", policy="deny").status == 403
    assert guest.post("/tools/shout/approve", seen="0" * 12).status == 403
    assert "/policy" not in guest.get("/tools/shout").text


def test_a_policy_is_set_and_holds(tmp_path: Path):
    """It is written down, counts at once, and can be taken back even for a tool nobody sees any more."""
    with open_bench(tmp_path) as bench:
        denied = bench.owner.post("/tools/plan/policy", policy="deny")
        refused = bench.owner.post("/tools/plan/try", do="run", **{"a/title": "Tea"}).text
        bench.owner.post("/tools/plan/policy", policy="disable")
        gone = bench.owner.get("/tools/plan").text
        listed = bench.owner.get("/tools?policy=disable").text
        back = bench.owner.post("/tools/plan/policy", policy="allow")

        assert denied.place == "/tools/plan?done=policy&name=plan"
        assert "TOOL_PERMISSION_DENIED" in refused
        assert "This tool is not offered" in gone
        assert 'href="/tools/plan"' in listed
        assert back.status == 303
        assert "It worked" in bench.owner.post("/tools/plan/try", do="run", **{"a/title": "Tea"}).text
        assert bench.owner.post("/tools/plan/policy", policy="maybe").status == 422
        assert bench.owner.post("/tools/nothing/policy", policy="ask").status == 404
        assert "policy" in bench.owner.get("/audit?kind=policy").text


def hold(program: Program, name: str, **definition: object) -> None:
    """Let the lock remember a tool as something else than it is now."""
    path = program.project / "toolcrib.lock"
    lock = json.loads(path.read_text())
    pin = lock["servers"]["tiny"]["pins"][name]
    pin |= {"hash": "0" * 64, "definition": {"name": name, "inputSchema": {"type": "object"}, **definition}}
    path.write_text(json.dumps(lock))


def test_a_changed_tool_is_accepted_only_as_it_was_seen(toolcrib):
    """The difference is shown, and a button that knows what was looked at."""
    toolcrib.write(toolcrib.tiny())
    toolcrib.run("servers", "refresh")
    hold(toolcrib, "echo", description=f"Give {HOSTILE} back")
    with opened(toolcrib) as owner:
        page = owner.get("/tools/tiny__echo").text
        inbox = owner.get("/approvals").text
        seen = page.partition('name="seen" value="')[2][:12]

        assert "<del>" in page
        assert "in quarantine" in page
        assert "tiny__echo" in inbox
        assert RAW not in page + inbox
        assert owner.post("/tools/tiny__echo/approve", seen="0" * 12).status == 409
        assert owner.post("/tools/tiny__echo/approve", seen="").status == 422
        assert "You cannot run it now" in page
        accepted = owner.post("/tools/tiny__echo/approve", seen=seen, next="approvals")
        assert accepted.place == "/approvals?done=accepted&name=tiny__echo"
        assert "in quarantine" not in owner.get("/tools/tiny__echo").text
        assert owner.post("/tools/tiny__echo/approve", seen=seen).status == 404


MANY = """
from toolcrib.sources.native.functions import define

def work(arguments):
    return "done"

PARAMETER = {"type": "string", "description": "x" * 60}
SCHEMA = {"type": "object", "properties": {f"parameter_{n}": PARAMETER for n in range(8)}}

def make(number):
    def work(arguments): return "done"
    work.__name__ = f"tool_{number:04}"
    about = f"Number {number} " + "does something useful " * 6
    work.__toolcrib_tool__ = define(work, input_schema=SCHEMA, description=about)
    return work

globals().update({f"tool_{number:04}": make(number) for number in range(2000)})
del work, make
"""


def test_two_thousand_tools_are_shown_a_hundred_at_a_time(tmp_path: Path):
    """Every page stays small."""
    (tmp_path / "many_tools.py").write_text(MANY)
    program = Program(tmp_path)
    program.project.mkdir()
    furnish(program, native="many_tools")
    program.env["PYTHONPATH"] = str(tmp_path)
    with opened(program) as owner:
        for path in ("/tools", "/tools?q=number+19", "/tools/tool_0007", "/calls", "/approvals", "/kb"):
            reply = owner.get(path)

            assert reply.status == 200, path
            assert reply.sent_bytes < 100_000, path
        assert owner.get("/tools").text.count('data-label="Policy"') == 100
        assert 'href="/tools/tool_1999"' in owner.get("/tools?page=21").text
        assert 'rel="next"' not in owner.get("/tools?page=999").text
