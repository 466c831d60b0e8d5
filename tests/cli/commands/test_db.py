"""Two machines with one shared database: what is done on one counts on the other, and no file is kept on either."""

from pathlib import Path

import pytest
from tests.cli.program import Program
from tests.fleet.engines import a_postgres
from tests.fleet.running import until

from toolcrib.stores.postgres.database import PgDatabase
from toolcrib.stores.postgres.lock import PgLedger

OWNER = "owner-" + "x" * 32


def machine(home: Path, url: str) -> Program:
    program = Program(home)
    program.project.mkdir(parents=True)
    program.write(f'[store]\nurl = "{url}"\ntimeout = 2', program.tiny())
    return program


@pytest.fixture
def machines(tmp_path: Path, store_settings) -> tuple[Program, Program]:
    return machine(tmp_path / "one", store_settings.url), machine(tmp_path / "two", store_settings.url)


def test_a_token_made_on_one_machine_opens_the_other_until_it_is_revoked(machines):
    one, two = machines
    two.env["TOOLCRIB_TOKEN"] = OWNER
    with two.serving("serve") as serving:
        made = one.json("tokens", "create", "ci")
        bearer = {"authorization": f"Bearer {made['token']}"}
        until(lambda: serving.list_tools(**bearer).status == 200, deadline_s=150, what="the token counts")
        assert one.run("tokens", "revoke", "ci").returncode == 0
        until(lambda: serving.list_tools(**bearer).status == 401, deadline_s=150, what="the token ends")

    assert [token["state"] for token in two.json("tokens", "ls")] == ["revoked"]
    assert not [*one.home.rglob("tokens.json"), *two.home.rglob("tokens.json")]


def test_what_one_machine_discovered_the_other_knows_without_asking_until_it_is_removed(machines):
    one, two = machines
    two.config.write_text(one.config.read_text())
    one.run("ls")
    known = two.json("servers", "ls")
    suggested = two.run("__complete", "--", "show", "tiny").stdout
    one.run("servers", "rm", "tiny")
    unknown = two.json("servers", "ls")

    assert known[0]["tools"] > 0
    assert "tiny__" in suggested
    assert not unknown[0]["tools"]
    assert (one.starts, two.starts) == (1, 0)
    assert not [*one.home.rglob("toolcrib.lock"), *two.home.rglob("toolcrib.lock")]


async def test_an_answer_kept_by_one_machine_is_shown_and_forgotten_by_the_other(machines, store_settings):
    one, two = machines
    database = PgDatabase(store_settings)
    await PgLedger(database).write("tiny__echo", "ann", True, "terminal")
    await database.close()
    before = two.json("approvals", "ls")["answers"]
    forgotten = two.run("approvals", "forget", "tiny__echo")
    unknown = one.run("approvals", "forget", "tiny__echo")

    assert [(entry["tool"], entry["caller"]) for entry in before] == [("tiny__echo", "ann")]
    assert forgotten.returncode == 0
    assert "No answer is kept for 'tiny__echo'" in unknown.stderr


def test_a_database_that_is_away_opens_no_door_and_closes_none(tmp_path):
    """Without tokens a door is open to this machine; not knowing whether there are any is something else."""
    with a_postgres() as engine:
        program = machine(tmp_path / "one", engine.fresh_database())
        made = program.json("tokens", "create", "ci")
        bearer = {"authorization": f"Bearer {made['token']}"}
        with program.serving("serve") as serving:
            names = serving.tool_names(**bearer)
            engine.stop()
            meanwhile = serving.tool_names(**bearer)
            refused = program.run("serve", "--port", "0")
            engine.start()
            program.run("tokens", "revoke", "ci")
            until(lambda: serving.list_tools(**bearer).status == 401, deadline_s=150, what="the token ends")

    assert meanwhile == names
    assert refused.returncode != 0
    assert "shared database cannot be used" in refused.stderr
    assert "serving" not in refused.stderr
