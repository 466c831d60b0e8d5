"""``toolcrib doctor``: look at everything, start every server, and say what to do; or try out the isolation."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import FAILURE, OK
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.cli.logs import one_shot_log
from toolcrib.cli.opening import asking, following, load_here, opened, wait_with_status
from toolcrib.core.errors import ConfigError, StoreUnavailable
from toolcrib.core.kinds import IsolationLevel
from toolcrib.crib.loading import Loaded
from toolcrib.isolate.levels import MIB, Probe, promises
from toolcrib.isolate.proof import advice, prove_anew
from toolcrib.isolate.selftest import FILE_BYTES, MEMORY_BYTES, Proof, Verdict
from toolcrib.project.checks import (
    HealthCheck,
    check_audit,
    check_files,
    check_knowledge,
    check_ledger,
    check_network,
    check_servers,
)
from toolcrib.schema.text import printable
from toolcrib.stores.paths import Environment
from toolcrib.version import VERSION

STYLES = {"ok": ("green",), "warn": ("yellow",), "fail": ("red", "bold")}
MISSING = "–"
BROKEN = "OPEN!"
_COLOURS = {
    Verdict.STOPPED.value: ("green",),
    Verdict.LIMITED.value: ("green",),
    Verdict.OPEN.value: ("yellow",),
    BROKEN: ("red", "bold"),
    MISSING: ("dim",),
}


@command(
    arg("--isolation", action="store_true", help="try out what programs started here can still do at each level"),
    as_json("the checks"),
)
async def run_doctor(options: Options, console: Console) -> int:
    """Check everything; warnings alone are no failure."""
    if options.isolation:
        await _try_isolation(options, console)
        return OK
    around, of_files = Environment(), []
    try:
        loaded = load_here(options)
        of_files = [*check_files(loaded), *check_network(loaded.config, around)]
        of_files += await check_ledger(loaded, around.env)
        of_servers = await _run_servers(options, loaded, console)
        of_log, of_kb = await check_audit(loaded.config, around), await check_knowledge(loaded.config, around)
        checks = [*of_files, *of_servers, *of_log, *of_kb]
    except ConfigError as error:
        checks = [HealthCheck("fail", "configuration", error.message, error.hint)]
    except StoreUnavailable as error:
        away = HealthCheck("fail", "shared database", error.message, error.hint)
        checks = list(dict.fromkeys([*of_files, away]))
    worst = next((level for level in ("fail", "warn") if any(check.level == level for check in checks)), "ok")
    if options.json:
        console.print_json({"status": worst, "checks": checks})
    else:
        _print(checks, console)
    return FAILURE if worst == "fail" else OK


async def _run_servers(options: Options, loaded: Loaded, console: Console) -> list[HealthCheck]:
    log = one_shot_log(options, console)
    async with opened(loaded, console, log, one_shot=False) as crib, following(crib, options, console):
        await wait_with_status(console, crib.servers.find(), "asking the platform")
        return await wait_with_status(console, check_servers(crib, loaded.config.profiles), lambda: asking(crib))


def _print(checks: Sequence[HealthCheck], console: Console) -> None:
    width = max(len(check.subject) for check in checks)
    for check in checks:
        level = console.paint(f"{check.level:<4}", *STYLES[check.level])
        console.print(f"{level}  {check.subject:<{width}}  {printable(check.message)}")
        for step in check.steps:
            mark = console.paint("✓", "green") if step.is_good else console.paint("✗", "red")
            console.print(f"      {'':<{width}}  {mark} {printable(f'{step.what}: {step.url}: {step.outcome}')}")
        if check.todo:
            console.print(f"      {'':<{width}}  → {printable(check.todo)}")
    failures, warnings = (sum(check.level == level for check in checks) for level in ("fail", "warn"))
    console.out.flush()
    console.say(f"{failures} failed, {warnings} to look at." if failures or warnings else "Everything is in order.")


async def _try_isolation(options: Options, console: Console) -> None:
    """Measure, and show it; that something is open is a fact, not a failure."""
    proof = await wait_with_status(console, prove_anew(console.env, VERSION), "trying every level …")
    if options.json:
        console.print_json(_proof_document(proof))
    else:
        _print_proof(proof, console)


def _proof_document(proof: Proof) -> dict[str, Any]:
    levels = {
        level.value: {
            "proven": proof.holds(level),
            "reason": proof.why_not(level),
            "todo": advice(level, proof),
            "promises": sorted(promises(level)),
            "probes": trial.verdicts,
        }
        for level, trial in proof.trials.items()
    }
    return {"proven": proof.proven.value, "levels": levels}


def _print_proof(proof: Proof, console: Console) -> None:
    who = "root" if hasattr(os, "getuid") and os.getuid() == 0 else "an ordinary user"
    console.print(f"What a program can still do when toolcrib starts it, tried just now as {who}:\n")
    columns = [Column(""), *(Column(level.value, coloured=_COLOURS) for level in IsolationLevel)]
    print_table(console, columns, [[probe.attempt, *_row(proof, probe)] for probe in Probe])
    console.print()
    for line in (*_notes(proof), "", *_verdict(proof)):
        console.print(line)
    console.out.flush()


def _row(proof: Proof, probe: Probe) -> Iterator[str]:
    for level in IsolationLevel:
        trial = proof.trials[level]
        verdict = trial.verdicts.get(probe)
        is_broken = verdict is Verdict.OPEN and probe in promises(level)
        yield MISSING if verdict is None else BROKEN if is_broken else verdict.value


def _notes(proof: Proof) -> Iterator[str]:
    """What the words of this table mean, as far as they occur in it."""
    yield f"Limits were set to {MEMORY_BYTES // MIB} MiB of memory and {FILE_BYTES // MIB} MiB per file for the test."
    found = {word for probe in Probe for word in _row(proof, probe)}
    if BROKEN in found:
        yield f"{BROKEN} is what the level promises to stop; it is not used here."
    if MISSING in found:
        yield f"{MISSING} could not be tried: the level is not available here."
    if all(trial.verdicts.get(Probe.FORK, Verdict.OPEN) is Verdict.OPEN for trial in proof.trials.values()):
        yield "The number of processes cannot be limited for root; run toolcrib as an ordinary user for that."
    confined = proof.trials[IsolationLevel.CONFINED]
    if confined.verdicts.get(Probe.SIGNAL) is Verdict.OPEN:
        yield "Signals are kept in at confined from Linux 6.12 on; isolated keeps them in everywhere."
    if confined.verdicts.get(Probe.LOCAL_UDP) is Verdict.OPEN:
        yield "Datagrams to this machine are kept from no program that has a network; connections are."


def _verdict(proof: Proof) -> Iterator[str]:
    yield f"Proven here: {proof.proven.value}."
    for level in IsolationLevel:
        if level.rank > proof.proven.rank:
            yield f"Not {level.value}: {proof.why_not(level).rstrip('.')}."
            yield f"  → {advice(level, proof)}"
    yield f'Servers run at limits unless they ask for more: isolation = "{proof.proven.value}" under [servers.NAME].'
