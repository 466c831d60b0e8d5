"""The commands for clients that people let in by OAuth, and for inviting people."""

import json
import time

import pytest
from tests.cli.program import Program

from toolcrib.core.offers import SecurityLevel
from toolcrib.stores.access_tokens import token_file
from toolcrib.stores.connections import ConnectedClient, accept_invitation, connection_file

CONFIG = '[serve]\noauth = "builtin"\npublic_url = "https://tools.example"\n'


@pytest.fixture
def program(tmp_path) -> Program:
    made = Program(tmp_path)
    made.project.mkdir()
    made.config.write_text(CONFIG)
    return made


def test_nobody_is_connected_at_first(program):
    shown = program.run("clients", "ls")

    assert (shown.returncode, shown.stdout) == (0, "")
    assert "No client is connected" in shown.stderr
    assert program.json("clients", "ls") == []


def test_a_client_is_listed_and_disconnected_by_a_name_that_only_it_has(program):
    book, later = connection_file(program.variables(), time.time), time.time() + 9_000
    usual = {"user_name": "the owner", "level": SecurityLevel.WRITE, "resource": "https://tools.example/mcp"}
    with book.changing() as desk:
        for id_, name in (("c1", "Cursor"), ("c2", "Claude"), ("c3", "Claude")):
            desk.put(ConnectedClient(id_, later, "id", name, "owner@page", **usual))
    table = program.run("clients", "ls").stdout
    unclear = program.run("clients", "rm", "Claude")
    done = program.json("clients", "rm", "Cursor")
    again = program.run("clients", "rm", "Cursor")
    by_id = program.run("clients", "rm", "c2")
    states = {client["id"]: client["state"] for client in program.json("clients", "ls")}
    noted = program.run("audit", "tail").stdout + program.run("audit", "export").stdout

    assert "Cursor" in table
    assert "the owner" in table
    assert "2 connected clients are called 'Claude'" in unclear.stderr
    assert (done["state"], done["reason"]) == ("revoked", "a person disconnected it")
    assert "No connected client is called 'Cursor'" in again.stderr
    assert "toolcrib clients ls" in again.stderr
    assert by_id.returncode == 0
    assert states == {"c1": "revoked", "c2": "revoked", "c3": "active"}
    assert '"decision":"revoked"' in noted.replace(" ", "")


def test_an_invitation_is_a_link_that_makes_somebody_a_user(program):
    made = program.json("clients", "invite", "ada", "--level", "read_only", "--server", "docs")
    link = made["link"]
    variables = program.variables()
    book, people = connection_file(variables, time.time), token_file(variables, time.time)
    token, _ = accept_invitation(book, people, link.partition("word=")[2], time.time())
    again = program.run("clients", "invite", "ada")
    [listed] = json.loads(program.run("tokens", "ls", "--json").stdout)

    assert link.startswith("https://tools.example/invite?word=")
    assert (token.name, token.kind, token.level, token.servers) == ("ada", "person", "read_only", ("docs",))
    assert "a token called 'ada' already" in again.stderr
    assert (listed["kind"], listed["level"]) == ("person", "read_only")
    assert made["link"].partition("word=")[2] not in program.run("audit", "export").stdout


@pytest.mark.parametrize("config", ["", CONFIG.replace("builtin", "off"), '[serve]\noauth = "builtin"\n'])
def test_nobody_is_invited_where_they_could_not_come_in(program, config):
    program.config.write_text(config)
    refused = program.run("clients", "invite", "ada")

    assert refused.returncode == 2
    assert "public_url" in refused.stderr
