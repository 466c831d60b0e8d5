"""Every example of the page about REST runs against a served toolcrib, and prints what it shows."""

import re
import subprocess
from pathlib import Path

import pytest
from tests.cli.program import Program
from tests.server.rest.api import ROOT

PAGE = Path(__file__).resolve().parents[3] / "docs" / "rest.md"
BLOCK = re.compile(r"^```bash\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
EXAMPLES = [found.groups() for found in BLOCK.finditer(PAGE.read_text())]
CURL = 'curl() { command curl --silent --show-error --fail-with-body "$@"; }\n'


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """toolcrib in an empty project, with its state where the page says."""
    program = Program(tmp_path_factory.mktemp("docs"))
    program.project.mkdir()
    program.env["XDG_STATE_HOME"] = str(program.home / ".local" / "state")
    program.write()
    with program.serving("serve") as serving:
        assert program.run("open", "--print", "--url", serving.url).returncode == 0
        yield program, serving


@pytest.mark.parametrize(("commands", "shown"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_examples_run_and_print_what_they_show(served, commands, shown):
    """As typed, in a shell of its own; ``…`` stands for anything."""
    program, serving = served
    script = CURL + commands.replace("127.0.0.1:7337", f"127.0.0.1:{serving.port}")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        check=False,
        cwd=program.project,
        env=program.variables(),
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(".*".join(map(re.escape, (shown or "").strip().split("…"))), done.stdout), done.stdout


def test_the_addresses_the_page_names_are_there(served):
    """The description and the reference."""
    _, serving = served

    assert {serving.request("GET", f"{ROOT}/{name}").status for name in ("openapi.json", "reference")} == {200}
