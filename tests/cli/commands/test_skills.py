"""``toolcrib skills``: listed, shown with their files, and handed to nobody if they are not what they should be."""

import json
import sys
from pathlib import Path

import pytest
from tests.cli.program import Program

SERVER = Path(__file__).resolve().parents[2] / "doubles" / "skills_server.py"
PDF = "skill://docs/pdf-processing/SKILL.md"


def with_skills(program: Program, mode: str = "good") -> Program:
    command, args = json.dumps(sys.executable), json.dumps([str(SERVER)])
    program.write(f'[servers.docs]\ncommand = {command}\nargs = {args}\nenv = {{ SKILLS_MODE = "{mode}" }}\n')
    return program


def test_skills_are_listed_and_shown(toolcrib: Program):
    """Their URIs as clients know them, their files, and what they say."""
    program = with_skills(toolcrib)
    listed, shown, entry = (
        program.run("skills", "ls"),
        program.run("skills", "show", PDF),
        program.json("skills", "show", PDF),
    )

    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["URI", "skill://docs/notes/SKILL.md", PDF]
    assert "skill://docs/pdf-processing/references/FORMS.md" in shown.stdout
    assert "Read references first." in shown.stdout
    assert entry["resources"][0]["uri"] == PDF


@pytest.mark.parametrize("mode", ["tampered", "disguised"])
def test_a_skill_that_is_not_what_it_should_be_is_not_shown(toolcrib: Program, mode: str):
    """Nothing of it is on stdout, and the reason is beside it."""
    done = with_skills(toolcrib, mode).run("skills", "show", PDF)

    assert done.returncode != 0
    assert "is not what it should be" in done.stderr
    assert "---" not in done.stdout
