"""The official conformance suite over toolcrib: ``python -m tests.conformance.run [--leg LEG] [--target TARGET]``.

Server leg: toolcrib serves ``upstream.py`` without a prefix, reached over HTTP and over stdio, and the suite plays the
client (target ``direct`` leaves toolcrib out, to see what the upstream itself is worth). Client leg: the suite plays
the server and ``client.py`` calls it through toolcrib. Authorization leg: the suite signs in at the authorization
server that is built in. Each leg runs once for each era of the protocol. What is not
meant to pass stands in ``expected.toml`` with its reason; a new failure or a stale entry there ends with exit code 1.
"""

import argparse
import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from tests.conformance.authorization import run_authorization_leg
from tests.conformance.verdicts import (
    Expectation,
    Outcome,
    Run,
    Verdict,
    judge,
    read_expectations,
    read_outcome,
    unmatched,
)
from tests.fleet import install, servers
from tests.fleet.gateway import serving
from tests.fleet.running import accepts_connections, free_port, homely, running

HERE = Path(__file__).resolve().parent
REVISIONS = ("2025-11-25", "2026-07-28")
LEGS = ("server", "client", "authorization")
SUMMARY_LINE = re.compile(r"^[✓✗] (\S+): \d+ passed, \d+ failed", re.MULTILINE)
LISTED_CLIENT = re.compile(r"^ +- (\S+)(?: \[client\])?$", re.MULTILINE)
SUITE = (
    install.FLEET / "npm-conformance" / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
)


@contextlib.contextmanager
def upstream_over_http() -> Iterator[servers.Remote]:
    port = free_port()
    argv = [servers.sdk_python(2), str(HERE / "upstream.py"), "http", str(port)]
    with running(argv, ready=lambda _: accepts_connections(port)):
        yield servers.Remote(f"http://127.0.0.1:{port}/mcp")


@contextlib.contextmanager
def direct(_home: Path) -> Iterator[str]:
    """The upstream itself."""
    with upstream_over_http() as upstream:
        yield upstream.url


@contextlib.contextmanager
def gateway_over_http(home: Path) -> Iterator[str]:
    """toolcrib in front of the upstream's URL."""
    with upstream_over_http() as upstream, _gateway(home, upstream) as url:
        yield url


@contextlib.contextmanager
def gateway_over_stdio(home: Path) -> Iterator[str]:
    """toolcrib in front of the upstream as a child process."""
    upstream = servers.Launch(servers.sdk_python(2), (str(HERE / "upstream.py"), "stdio"))
    with _gateway(home, upstream) as url:
        yield url


@contextlib.contextmanager
def _gateway(home: Path, upstream: servers.Launch | servers.Remote) -> Iterator[str]:
    config = home / "toolcrib.toml"
    entry = {**upstream.entry(), "relay": ["elicitation", "sampling", "roots"]}
    # Strings, lists and empty tables are written the same way in JSON and in TOML.
    config.write_text(
        "[servers.upstream]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items())
    )
    with serving(config, "--no-prefix") as (url, _):
        yield url


@contextlib.contextmanager
def gateway_to_skills(home: Path) -> Iterator[str]:
    """toolcrib in front of a server with skills, which no SDK can make yet."""
    with _gateway(home, servers.Launch(sys.executable, (str(HERE.parent / "doubles" / "skills_server.py"),))) as url:
        yield url


EXTENSIONS: Mapping[str, Sequence[str]] = {
    "skills": tuple(f"sep-2640-skills-{part}" for part in ("enumeration", "directory", "manifest")),
    "toolcrib": tuple(
        f"sep-2640-client-{part}" for part in ("no-prefetch", "verify-digest", "verify-size", "verify-frontmatter")
    ),
}
"""Scenarios of extensions, which no revision requires, by the target they are run with."""
FIRST = "2025-03-26"
SIGN_IN_OF_FIRST = ("auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback")
"""How servers of the first revision with OAuth have people sign in, of which there are still some."""

TARGETS: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "direct": direct,
    "http": gateway_over_http,
    "stdio": gateway_over_stdio,
    "skills": gateway_to_skills,
}


def run_server_leg(target: str, home: Path) -> Iterator[Outcome]:
    """Both revisions against one running target."""
    with TARGETS[target](home) as url:
        for revision in REVISIONS:
            run, argv = Run("server", target, revision), ["server", "--url", url]
            scenarios = EXTENSIONS.get(target)
            yield from run_suite(run, argv, home) if scenarios is None else run_single(run, argv, home, scenarios)


def run_client_leg(home: Path) -> Iterator[Outcome]:
    """Both revisions with toolcrib as the client; one scenario after the other, since the suite would start all of a
    revision at once, and a small machine would be late for each."""
    command = f"{sys.executable} {HERE / 'client.py'}"
    argv = ["client", "--command", command, "--timeout", "150000"]
    for revision in REVISIONS:
        run = Run("client", "toolcrib", revision)
        yield from run_single(run, argv, home, [*client_scenarios(revision), *EXTENSIONS[run.target]])
    yield from run_single(Run("client", "toolcrib", FIRST), argv, home, SIGN_IN_OF_FIRST)


def client_scenarios(revision: str) -> list[str]:
    """What a revision has clients do, with what is run and not scored."""
    suite = [str(install.node()), str(SUITE), "list", "--requirements", revision]
    listed = subprocess.run(suite, capture_output=True, text=True, check=True).stdout.partition("Client scenarios")[2]
    found = LISTED_CLIENT.findall(listed)
    if not found:
        raise SystemExit(f"error: the suite lists no scenario for clients of {revision}:\n{listed[-2000:]}")
    return found


def run_single(run: Run, argv: Sequence[str], home: Path, scenarios: Sequence[str]) -> Iterator[Outcome]:
    """Scenarios, one by one."""
    for scenario in scenarios:
        chosen = [*argv, "--scenario", scenario, "--spec-version", run.revision, "--force"]
        results = home / run.revision
        suite = [str(install.node()), str(SUITE), *chosen, "--output-dir", str(results)]
        subprocess.run(suite, cwd=home, env=homely(home), capture_output=True, text=True, check=False)
        yield read_outcome(run, scenario, _checks_file(results, run, scenario))


def run_suite(run: Run, argv: Sequence[str], home: Path) -> list[Outcome]:
    """One pass of the suite, read back from the files it writes."""
    results = home / run.revision
    suite = [str(install.node()), str(SUITE), *argv, "--requirements", run.revision, "--output-dir", str(results)]
    done = subprocess.run(suite, cwd=home, env=homely(home), capture_output=True, text=True, check=False)
    scenarios = SUMMARY_LINE.findall(done.stdout)
    if not scenarios:
        raise SystemExit(f"error: the suite ran no scenario ({run}):\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return [read_outcome(run, scenario, _checks_file(results, run, scenario)) for scenario in scenarios]


def _checks_file(results: Path, run: Run, scenario: str) -> Path | None:
    prefix = "server-" if run.leg == "server" else ""
    return next(results.glob(f"{prefix}{scenario}-20*/checks.json"), None)


def show(verdicts: Sequence[Verdict]) -> None:
    """One row for each scenario, one column for each run, then everything that needs a word."""
    runs = list(dict.fromkeys(verdict.outcome.run for verdict in verdicts))
    cells = {(verdict.outcome.scenario, verdict.outcome.run): _cell(verdict) for verdict in verdicts}
    scenarios = list(dict.fromkeys(verdict.outcome.scenario for verdict in verdicts))
    width = max(map(len, scenarios))
    print(f"{'':{width}}  " + "  ".join(f"{run.target:>10}" for run in runs))
    print(f"{'scenario':{width}}  " + "  ".join(f"{run.revision:>10}" for run in runs))
    for scenario in scenarios:
        print(f"{scenario:{width}}  " + "  ".join(f"{cells.get((scenario, run), ''):>10}" for run in runs))
    for reason, count in Counter(e.reason for v in verdicts for _, e in v.excused).most_common():
        print(f"expected  {count:3} failed checks: {reason}")


def _cell(verdict: Verdict) -> str:
    if verdict.new:
        return "FAILED"
    if verdict.stale:
        return "STALE"
    if verdict.excused:
        return "expected"
    passed = sum(check.status == "SUCCESS" for check in verdict.outcome.checks)
    return f"ok {passed}" if passed else "no verdict"


def complain(verdicts: Sequence[Verdict], lost: Sequence[Expectation]) -> None:
    """Say what to do about each new failure and each entry that no longer holds."""
    for verdict in verdicts:
        where = f"{verdict.outcome.run}: {verdict.outcome.scenario}"
        for check in verdict.new:
            print(f"NEW FAILURE  {where}:{check.id}\n             {check.message}")
        for expectation in verdict.stale:
            print(f"STALE        {where}: passes now; remove or narrow {str(expectation)!r} in expected.toml")
    for expectation in lost:
        print(f"STALE        {expectation.leg}: no scenario matches {str(expectation)!r} in expected.toml")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the official MCP conformance suite over toolcrib.")
    parser.add_argument("--leg", choices=LEGS, help="only this side")
    parser.add_argument("--target", choices=list(TARGETS), help="only this server target")
    parser.add_argument("--results", type=Path, metavar="DIR", help="keep everything the suite recorded here")
    options = parser.parse_args()
    install.ensure(conformance=True)
    with tempfile.TemporaryDirectory() as scratch:
        targets = [options.target] if options.target else ["http", "stdio", "skills"]
        leg = options.leg or ("server" if options.target else "")
        outcomes = list(run_legs(leg, targets, (options.results or Path(scratch)).resolve()))
    return report(outcomes, complete=not (options.leg or options.target))


def run_legs(only: str, targets: Sequence[str], folder: Path) -> Iterator[Outcome]:
    """One leg or all, each in a folder of its own."""
    if only in ("", "server"):
        for target in targets:
            yield from run_server_leg(target, _fresh(folder / f"server-{target}"))
    if only in ("", "client"):
        yield from run_client_leg(_fresh(folder / "client"))
    if only in ("", "authorization"):
        yield from run_authorization_leg(SUITE, REVISIONS, _fresh(folder / "authorization"))


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def report(outcomes: Sequence[Outcome], *, complete: bool) -> int:
    """Print the tables and return the exit code."""
    expectations = read_expectations(HERE / "expected.toml")
    verdicts = [judge(outcome, expectations) for outcome in outcomes]
    for leg in LEGS:
        if mine := [verdict for verdict in verdicts if verdict.outcome.run.leg == leg]:
            print(f"\n{leg} scenarios")
            show(mine)
    lost = unmatched(expectations, outcomes) if complete else []
    complain(verdicts, lost)
    good = all(verdict.is_good for verdict in verdicts) and not lost
    print("conformance: as expected" if good else "conformance: NOT as expected")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
