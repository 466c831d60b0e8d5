"""Approvals on the page: questions arrive, are answered by others than who asked, and answers can be taken back."""

import json
import sys
from pathlib import Path

import pytest
from tests.fleet.running import until
from tests.server.web.workbench import listening, open_bench

SERVER = Path(__file__).parents[1] / "rest" / "asking_server.py"
ASK = (
    '[security.policies]\nlaunch = "ask"\n'
    f"[servers.shop]\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(SERVER))}]\n"
)
TRICKY = "<b>moon</b>\u202eback"


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    with open_bench(tmp_path_factory.mktemp("approvals"), ASK) as found:
        yield found


def question(bench) -> str:
    """The address to answer the one question that waits."""

    def found() -> str:
        return bench.owner.get("/approvals").text.partition('action="/approvals/')[2].partition('"')[0]

    until(lambda: found() not in ("", "forget"), deadline_s=150, what="a question waits")
    return f"/approvals/{found()}"


def test_a_question_is_shown_as_it_is_and_allowed(bench):
    """With what hides in its arguments made visible; the call then goes on."""
    bench.owner.get("/approvals")
    agent = bench.agent("launch", target=TRICKY)
    address = question(bench)
    page = bench.owner.get("/approvals").text

    reply = bench.owner.post(address, answer="once")

    assert "\\u{202e}" in page
    assert "<b>moon" not in page
    assert "data-left=" in page
    assert "<title>(1) Approvals" in page
    assert 'aria-label="1 question waiting"' in page
    assert reply.place == "/approvals?done=allowed"
    assert agent.result().get("isError") is not True
    assert bench.owner.post(address, answer="once").status == 404


def test_a_servers_form_is_filled_in(bench):
    """Field by field; what does not fit is said."""
    bench.owner.get("/approvals")
    agent = bench.agent("shop__drop")
    address = question(bench)
    page = bench.owner.get("/approvals").text

    unfit = bench.owner.post(address, **{"answer": "once", "field-name": "x"})
    sent = bench.owner.post(address, **{"answer": "once", "field-name": "shop", "field-sure": "true", "field-how": ""})

    assert "Really drop it?" in page
    assert '<option value="later">Later</option>' in page
    assert unfit.status == 422
    assert sent.place == "/approvals?done=allowed"
    said = json.loads(agent.result()["content"][0]["text"])
    assert said == {"action": "accept", "content": {"name": "shop", "sure": True}}


def test_no_means_no(bench):
    """Whoever asked is told."""
    bench.owner.get("/approvals")
    agent = bench.agent("launch", target="mars")

    reply = bench.owner.post(question(bench), answer="no")

    assert reply.place == "/approvals?done=refused"
    assert "declined" in agent.result()["content"][0]["text"]


def test_an_answer_for_ever_is_listed_and_can_be_forgotten(bench):
    """After that, a person is asked again."""
    bench.owner.get("/approvals")
    agent = bench.agent("launch", target="venus")
    bench.owner.post(question(bench), answer="always")
    agent.result()
    kept = bench.owner.get("/approvals").text

    forgotten = bench.owner.post("/approvals/forget", tool="launch", caller="owner")

    assert "Answers that are kept" in kept
    assert forgotten.place == "/approvals?done=forgotten&name=launch"
    assert "Answers that are kept" not in bench.owner.get("/approvals").text
    assert bench.owner.post("/approvals/forget", tool="launch", caller="owner").status == 404


def test_news_of_questions_arrive_and_an_open_page_counts_as_somebody_there(bench):
    """Without it, the question would be refused at once."""
    with listening(bench.owner, "/approvals/stream") as stream:
        agent = bench.agent("launch", target="pluto")
        news = next(iter(stream))
    bench.owner.post(question(bench), answer="no")

    assert news["topic"] == "approval"
    assert news["state"] == "waiting"
    assert "declined" in agent.result()["content"][0]["text"]


def test_an_answer_must_be_one(bench):
    """Anything else is said to be wrong."""
    assert bench.owner.post("/approvals/1", answer="perhaps").status == 422
    assert bench.owner.post("/approvals/1", answer="once").status == 404


def test_whoever_may_not_approve_sees_no_questions(bench):
    """And cannot answer, listen, or forget."""
    guest = bench.guest()
    bench.owner.get("/approvals")
    agent = bench.agent("launch", target="saturn")
    address = question(bench)

    assert "saturn" not in guest.get("/approvals").text
    assert "You may not answer questions" in guest.get("/approvals").text
    assert guest.post(address, answer="once").status == 403
    assert guest.get("/approvals/stream").status == 403
    assert guest.post("/approvals/forget", tool="launch", caller="owner").status == 403
    bench.owner.post(address, answer="no")
    agent.result()
