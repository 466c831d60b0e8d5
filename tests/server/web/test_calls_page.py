"""Live calls on the page: seen while they run, ended by a person, and told of as they come."""

import http.client
import signal

import pytest
from tests.cli.program import Program
from tests.fleet.running import until
from tests.server.web.site import Visitor, sign_in
from tests.server.web.workbench import furnish, listening, open_bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    with open_bench(tmp_path_factory.mktemp("calls")) as found:
        yield found


def running(bench) -> str:
    """The address of the call of ``dawdle`` that runs."""

    def found() -> str:
        page = bench.owner.get("/calls?tool=dawdle&outcome=running").text
        return page.partition('action="/calls/')[2].partition("/cancel")[0]

    until(lambda: bool(found()), deadline_s=150, what="the call runs")
    return f"/calls/{found()}"


def test_a_running_call_is_seen_and_ended(bench):
    """Whoever made it is told that a person did that; what is left is a call with a waterfall."""
    agent = bench.agent("dawdle", seconds=25)
    address = running(bench)
    page = bench.owner.get(address).text

    ended = bench.owner.post(f"{address}/cancel", next="list")

    assert "End this call" in page
    assert '<svg class="fall-track step-tool"' in page
    assert "seconds" in page
    assert "25" not in page.partition('id="arguments"')[2].partition("</section>")[0]
    assert ended.place == "/calls?done=ended&name=dawdle"
    assert agent.result()["isError"] is True
    until(lambda: "A person ended" in bench.owner.get(address).text, deadline_s=150, what="it has ended")
    assert bench.owner.post(f"{address}/cancel").status == 409
    assert f"/audit?call={address.rpartition('/')[2]}" in bench.owner.get(address).text


def test_calls_are_narrowed_down(bench):
    """By tool, caller and outcome."""
    bench.agent("shout", text="hi").result()
    bench.owner.post("/tools/plan/try", do="run", **{"a/title": "Tea"})

    assert ">shout</a>" in bench.owner.get("/calls?caller=owner").text
    assert ">plan</a>" not in bench.owner.get("/calls?caller=owner").text
    assert ">plan</a>" in bench.owner.get("/calls?tool=LA&outcome=success").text
    assert "No call fits" in bench.owner.get("/calls?outcome=TOOL_NOPE").text


def test_names_of_callers_and_tools_stay_text(bench):
    """A tool that is not there is shown as it was asked for, harmlessly."""
    bench.agent("<b>x</b>").thread.join(150)

    assert "<b>x" not in bench.owner.get("/calls").text


def test_news_of_calls_arrive(bench):
    """The stream says that something is new, with no more than an id."""
    with listening(bench.owner, "/calls/stream") as stream:
        bench.agent("shout", text="secret words").result()
        news = next(iter(stream))

    assert set(news) <= {"topic", "id", "outcome"}
    assert news["topic"] == "call"


def test_whoever_is_no_operator_sees_and_hears_of_their_own_calls_only(bench):
    """Also by address."""
    guest = bench.guest()
    bench.owner.post("/tools/shout/try", do="run", **{"a/text": "mine"})
    other = bench.owner.get("/calls?caller=owner@page").text.partition('id="call-')[2].partition('"')[0]
    with listening(guest, "/calls/stream") as stream:
        bench.owner.post("/tools/shout/try", do="run", **{"a/text": "mine"})
        guest.post("/tools/shout/try", do="run", **{"a/text": "my own"})
        heard = next(iter(stream))["id"]

    assert guest.get(f"/calls/{heard}").status == 200
    assert guest.get(f"/calls/{other}").status == 404
    assert guest.post(f"/calls/{other}/cancel").status == 404
    assert "owner@page" not in guest.get("/calls").text


def test_whoever_signs_out_hears_no_more(bench):
    """The stream of a browser that left ends with the next news, and without them."""
    guest = bench.guest()
    with listening(guest, "/calls/stream") as stream:
        guest.post("/signout")
        bench.owner.post("/tools/shout/try", do="run", **{"a/text": "mine"})

        assert list(stream) == []


def test_a_stream_ends_with_the_token_it_was_asked_for_with(bench):
    """Also where the token itself was shown, and no cookie."""
    program, owner = bench.program, bench.owner
    token = program.json("tokens", "create", "listener", "--level", "admin")["token"]
    connection = http.client.HTTPConnection("127.0.0.1", owner.port, timeout=150)
    connection.request("GET", "/calls/stream", headers={"authorization": f"Bearer {token}"})
    response = connection.getresponse()
    assert response.readline() == b"retry: 3000\n"
    assert program.run("tokens", "revoke", "listener").returncode == 0
    bench.agent("shout", text="news").result()

    assert b"data:" not in response.read()
    connection.close()


def test_a_stranger_hears_nothing(bench):
    """The stream needs somebody who is signed in."""
    assert Visitor(bench.owner.port).get("/calls/stream").place.startswith("/signin")


def test_streams_end_when_toolcrib_does(tmp_path):
    """Nobody has to be cut off."""
    program = Program(tmp_path)
    program.project.mkdir()
    with furnish(program).serving("serve") as serving:
        owner = sign_in(serving, program)
        with listening(owner, "/calls/stream") as stream:
            assert serving.stop(signal.SIGTERM) == 0
            assert list(stream) == []


def test_arguments_and_results_are_shown_where_they_are_kept(tmp_path):
    """A switch says what that means; without it there are names and kinds only."""
    with open_bench(tmp_path / "without") as bench:
        bench.owner.post("/tools/plan/try", do="run", **{"a/title": "Elevenses"})
        page = bench.owner.get(newest(bench)).text
        meaning = bench.owner.get("/audit").text
        bench.owner.post("/audit/values", values="on")
        written = bench.program.config.read_text()

    with open_bench(tmp_path / "with", "[audit]\nvalues = true") as bench:
        bench.owner.post("/tools/plan/try", do="run", **{"a/title": "Elevenses"})
        until(lambda: 'id="result"' in bench.owner.get(newest(bench)).text, deadline_s=150, what="the end of the call")
        kept = bench.owner.get(newest(bench)).text

    assert "Elevenses" not in page
    assert "Only names and kinds are kept" in page
    assert "whoever may read the log then reads them" in meaning
    assert "values = true" in written
    assert "Elevenses" in kept


def newest(bench) -> str:
    page = bench.owner.get("/calls?tool=plan").text
    return "/calls/" + page.partition('id="call-')[2].partition('"')[0]
