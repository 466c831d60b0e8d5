"""Questions and kept answers over REST."""

import threading

import pytest
from tests.server.rest.api import serving_api


@pytest.fixture
def asking(program):
    """A tool that needs a person's word, and an agent that wants to call it."""
    program.write(program.tiny(), '[security.policies]\ntiny__echo = "ask"')
    agent = program.json("tokens", "create", "agent", "--agent", "--level", "system")["token"]
    with serving_api(program) as api:
        yield api, agent


def call_in_the_background(api, agent):
    replies = []
    thread = threading.Thread(
        target=lambda: replies.append(api.call("tiny__echo", {"text": "hi"}, token=agent)), daemon=True
    )
    thread.start()
    return thread, replies


def test_an_answer_that_holds_for_ever_can_be_taken_back(asking):
    """The call goes on when it is given; after it is forgotten, nobody has answered."""
    api, agent = asking
    api.get("/approvals")
    thread, replies = call_in_the_background(api, agent)
    [question] = api.get("/approvals?wait=20")["questions"]
    answered = api.send("POST", f"/approvals/{question['id']}", {"answer": "always"})
    thread.join(150)
    [kept] = api.get("/approvals/answers")["answers"]
    path = f"/approvals/answers/{kept['tool']}/{kept['caller']}"
    forgotten = [api.send("DELETE", path).status for _ in range(2)]

    assert (question["tool"], question["arguments"]) == ("tiny__echo", {"text": "hi"})
    assert (answered.status, replies[0].json["success"]) == (200, True)
    assert (kept["tool"], kept["answer"], kept["caller"]) == ("tiny__echo", "allow", question["caller"])
    assert forgotten == [204, 404]
    assert api.get("/approvals/answers") == {"answers": []}


def test_answers_that_are_none_are_refused(asking):
    """And questions there are not."""
    api, agent = asking

    assert api.send("POST", "/approvals/nothing", {"answer": "once"}).status == 404
    assert api.send("POST", "/approvals/nothing", {"answer": "perhaps"}).status == 422
    assert api.send("POST", "/approvals/nothing", {"answer": "once"}, token=agent).status == 403
    assert api.send("GET", "/approvals?wait=long").status == 422
