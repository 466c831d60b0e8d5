"""The suite's checks of an authorization server, over the one that is built in: a person lets its client in meanwhile.

For each revision a client is registered that comes back to the suite's own address.
"""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.conformance.verdicts import Outcome, Run, read_outcome
from tests.fleet import install
from tests.fleet.consent import Person, asked_for
from tests.fleet.gateway import serving
from tests.fleet.running import free_port, homely, running, until

SCENARIOS = ("authorization-server-metadata-endpoint", "authorization-code-grant")


def run_authorization_leg(suite: Path, revisions: tuple[str, ...], home: Path) -> Iterator[Outcome]:
    """Every scenario of each revision."""
    config = home / "toolcrib.toml"
    config.write_text('[serve]\noauth = "builtin"\n\n[kb]\nenabled = false\n')
    with serving(config) as (url, _):
        person = Person((home / ".local/state/toolcrib/token").read_text().strip())
        for revision in revisions:
            results = home / revision
            _run_suite(suite, url, revision, results, person)
            run = Run("authorization", "builtin", revision)
            for scenario in SCENARIOS:
                yield read_outcome(run, scenario, next(results.glob(f"*{scenario}-20*/checks.json"), None))


def _run_suite(suite: Path, url: str, revision: str, results: Path, person: Person) -> None:
    issuer, port = url.removesuffix("/mcp"), free_port()
    argv = [str(install.node()), str(suite), "authorization", "--url", issuer, "--resource", url]
    argv += ["--client-id", _register(issuer, port), "--port", str(port)]
    argv += ["--spec-version", revision, "--output-dir", str(results)]
    with running(
        argv, ready=lambda program: "/oauth/authorize" in program.output(), env=homely(results.parent)
    ) as program:
        person.let_in(asked_for(program))
        until(lambda: program.process.poll() is not None, deadline_s=150, what="the suite's end")


def _register(issuer: str, port: int) -> str:
    about = {"client_name": "The conformance suite", "redirect_uris": [f"http://127.0.0.1:{port}/callback"]}
    request = urllib.request.Request(
        f"{issuer}/oauth/register", json.dumps(about).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return str(json.load(answer)["client_id"])
