"""Questions and kept answers over REST."""

import json
import sys
import threading
from pathlib import Path

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


@pytest.fixture
def server_asks(program):
    """A server that asks before it drops something, and an agent that has it do so."""
    script = Path(__file__).parent / "asking_server.py"
    program.write(f"[servers.shop]\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(script))}]")
    agent = program.json("tokens", "create", "agent", "--agent", "--level", "system")["token"]
    with serving_api(program) as api:
        yield api, agent


def drop_in_the_background(api, agent):
    replies = []
    thread = threading.Thread(target=lambda: replies.append(api.call("shop__drop", {}, token=agent)), daemon=True)
    thread.start()
    return thread, replies


def test_a_person_fills_in_the_form_of_a_server(server_asks):
    """Where the client cannot; what does not fit is said, and the question still waits."""
    api, agent = server_asks
    api.get("/approvals")
    thread, replies = drop_in_the_background(api, agent)
    [question] = api.get("/approvals?wait=60")["questions"]
    address = f"/approvals/{question['id']}"
    unfit = api.send("POST", address, {"answer": "once", "content": {"name": "x", "how": "never"}})
    barred = api.send("POST", address, {"answer": "once", "content": {"name": "shop"}}, token=agent)
    sent = api.send("POST", address, {"answer": "once", "content": {"name": "shop", "sure": "yes"}})
    thread.join(150)

    form = question["form"]
    assert (question["tool"], question["server"], form["message"]) == ("shop__drop", "shop", "Really drop it?")
    assert [field["name"] for field in form["fields"]] == ["name", "sure", "how"]
    assert (unfit.status, barred.status, sent.status) == (422, 403, 200)
    assert "Its name: at least 3 characters is wanted." in unfit.body.decode()
    assert json.loads(replies[0].json["content"][0]["text"]) == {
        "action": "accept",
        "content": {"name": "shop", "sure": True},
    }


def test_where_nobody_looks_a_server_that_asks_first_does_nothing(server_asks):
    """The tool is shown all the same, and the form put away."""
    api, agent = server_asks

    reply = api.call("shop__drop", {}, token=agent)

    assert json.loads(reply.json["content"][0]["text"]) == {"action": "cancel"}
