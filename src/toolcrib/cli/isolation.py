"""``toolcrib doctor --isolation``: what a program can still do at each level, tried out now, as a table."""

import os
from collections.abc import Iterator
from typing import Any

from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import OK
from toolcrib.cli.invoke import Options
from toolcrib.cli.opening import wait_with_status
from toolcrib.core.kinds import IsolationLevel
from toolcrib.isolate.levels import ATTEMPTS, MIB, Probe, promises
from toolcrib.isolate.plan import Host
from toolcrib.isolate.proof import advice, describe_circumstances, remember, state_path
from toolcrib.isolate.selftest import FILE_BYTES, MEMORY_BYTES, Proof, Verdict, measure_all
from toolcrib.transports.process.environment import forbid_inspection
from toolcrib.transports.process.spawn import Spawner
from toolcrib.version import VERSION

MISSING = "–"
BROKEN = "OPEN!"
_COLOURS = {
    Verdict.STOPPED.value: ("green",),
    Verdict.LIMITED.value: ("green",),
    Verdict.OPEN.value: ("yellow",),
    BROKEN: ("red", "bold"),
    MISSING: ("dim",),
}


async def examine(options: Options, console: Console) -> int:
    """Measure, and show it; that something is open is a fact, not a failure."""
    forbid_inspection()  # as a running toolcrib does
    proof = await _measure(console)
    if options.json:
        console.print_json(_to_json(proof))
    else:
        _print(proof, console)
    return OK


async def _measure(console: Console) -> Proof:
    """Every level; what is found counts for the servers that are started next."""
    spawner, host = Spawner(), Host.here(console.env)
    try:
        work = measure_all(spawner, host)
        proof = await wait_with_status(console, work, lambda: "trying every level …")
        remember(state_path(console.env), describe_circumstances(host, VERSION), proof)
        return proof
    finally:
        console.end_status()
        await spawner.close()


def _to_json(proof: Proof) -> dict[str, Any]:
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


def _print(proof: Proof, console: Console) -> None:
    console.print(f"What a program can still do when toolcrib starts it, tried just now as {_who()}:\n")
    columns = [Column(""), *(Column(level.value, coloured=_COLOURS) for level in IsolationLevel)]
    print_table(console, columns, [[ATTEMPTS[probe], *_row(proof, probe)] for probe in Probe])
    console.print()
    for line in (*_notes(proof), "", *_verdict(proof)):
        console.print(line)
    console.out.flush()


def _who() -> str:
    return "root" if hasattr(os, "getuid") and os.getuid() == 0 else "an ordinary user"


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
