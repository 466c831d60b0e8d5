"""Questions of servers on the command line: at the terminal of a call, and answered from another one."""

import json
import sys
import threading
from pathlib import Path

from tests.cli.keyboard import typed
from tests.cli.program import Program
from tests.fleet.running import until
from tests.server.rest.api import serving_api

SERVER = Path(__file__).parents[2] / "server" / "rest" / "asking_server.py"
SHOP = f"[servers.shop]\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(SERVER))}]"


def test_a_form_is_filled_in_at_the_terminal_of_the_call(toolcrib: Program):
    """Field by field; what does not fit is asked for again."""
    toolcrib.write(SHOP)
    answers = [
        ("Its name (needed)", "x"),
        ("sure", "perhaps"),
        ("how (now, later)", ""),
        ("Its name (needed)", "shop"),
        ("sure", "yes"),
        ("how (now, later)", "now"),
        ("send it", "y"),
    ]

    said, printed = typed(toolcrib, "call", "shop__drop", answers=answers)

    assert "The server of shop__drop asks: Really drop it?" in said
    assert "yes or no is wanted." in said
    assert json.loads(printed) == {"action": "accept", "content": {"name": "shop", "sure": True, "how": "now"}}


def test_a_form_may_be_declined_at_the_terminal(toolcrib: Program):
    """The server hears that."""
    toolcrib.write(SHOP)
    answers = [("Its name", "shop"), ("sure", ""), ("how", ""), ("send it", "n")]

    _, printed = typed(toolcrib, "call", "shop__drop", answers=answers)

    assert '"decline"' in printed


def test_a_form_is_answered_from_another_terminal(toolcrib: Program):
    """By the fields' names."""
    toolcrib.write(SHOP)
    agent = toolcrib.json("tokens", "create", "agent", "--agent", "--level", "system")["token"]
    with serving_api(toolcrib) as api:
        toolcrib.json("approvals", "ls")
        said: list[str] = []
        thread = threading.Thread(
            target=lambda: said.append(api.call("shop__drop", {}, token=agent).body.decode()), daemon=True
        )
        thread.start()
        until(lambda: toolcrib.json("approvals", "ls")["questions"], deadline_s=150, what="the question waits")
        [question] = toolcrib.json("approvals", "ls")["questions"]
        refused = toolcrib.run("approvals", "answer", question["id"], "once", "name")
        answered = toolcrib.run("approvals", "answer", question["id"], "once", "name=shop")
        thread.join(150)

    assert question["form"]["message"] == "Really drop it?"
    assert "no NAME=VALUE" in refused.stderr
    assert answered.returncode == 0, answered.stderr
    assert "shop" in said[0]
