"""``toolcrib db``: the shared database: how it stands, brought up to date, checked, and filled from this machine."""

from collections.abc import Sequence

from toolcrib.cli.console import Console
from toolcrib.cli.failures import FAILURE, OK
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.cli.opening import load_here
from toolcrib.config.secrets import shown_url
from toolcrib.crib.database import CopyWish, copy_files, open_database
from toolcrib.stores.paths import Environment
from toolcrib.stores.postgres.copying import BATCH
from toolcrib.stores.postgres.database import PgDatabase
from toolcrib.stores.postgres.migrate import SchemaStatus, status, upgrade
from toolcrib.stores.postgres.verify import StoreFinding, verify_store


def _shown(database: PgDatabase) -> str:
    """Where it is, without passwords."""
    return shown_url(database.settings.url)


@command(as_json("what was found"))
async def run_status(options: Options, console: Console) -> int:
    """Look, and change nothing."""
    async with open_database(load_here(options).config, Environment()) as database:
        found, place = await status(database), _shown(database)
    if options.json:
        console.print_json({"url": place, "name": database.name} | _entry(found))
    else:
        console.print(f"{place} (PostgreSQL {found.server}), name {database.name!r}")
        console.print(_words(found))
    return OK if found.is_current else FAILURE


def _entry(found: SchemaStatus) -> dict[str, object]:
    return {
        "server": found.server,
        "isCurrent": found.is_current,
        "applied": [{"version": step.version, "name": step.name, "at": step.at} for step in found.applied],
        "missing": [{"version": step.version, "name": step.name} for step in found.missing],
        "unknown": [{"version": step.version, "name": step.name} for step in found.unknown],
    }


def _words(found: SchemaStatus) -> str:
    if found.unknown:
        return "It was changed by another version of toolcrib: run the newest that any replica runs."
    if found.missing:
        names = ", ".join(f"{step.version:03} {step.name}" for step in found.missing)
        return f"Steps that are missing: {names}. Run `toolcrib db upgrade`."
    return f"Up to date: {len(found.applied)} steps."


@command(as_json("what was done"))
async def run_upgrade(options: Options, console: Console) -> None:
    """Take the steps that are missing, all or none."""
    async with open_database(load_here(options).config, Environment()) as database:
        taken, place = await upgrade(database), _shown(database)
    if options.json:
        console.print_json([{"version": step.version, "name": step.name} for step in taken])
    elif taken:
        names = ", ".join(f"{step.version:03} {step.name}" for step in taken)
        console.print(f"{place} is up to date. Steps taken: {names}.")
    else:
        console.print(f"{place} was up to date already.")


@command(as_json("what was found"))
async def run_verify(options: Options, console: Console) -> int:
    """Look at everything, and change nothing."""
    async with open_database(load_here(options).config, Environment()) as database:
        findings, place = await verify_store(database), _shown(database)
    if options.json:
        parts = {finding.part: list(finding.problems) for finding in findings}
        console.print_json({"url": place, "name": database.name, "isSound": _is_sound(findings), "problems": parts})
    else:
        _print(findings, console)
    return OK if _is_sound(findings) else FAILURE


def _is_sound(findings: Sequence[StoreFinding]) -> bool:
    return not any(finding.problems for finding in findings)


def _print(findings: Sequence[StoreFinding], console: Console) -> None:
    for finding in findings:
        console.print(f"{finding.part}: {'as it should be' if not finding.problems else 'not as it should be'}")
        for problem in finding.problems:
            console.print_foreign(f"  {problem}")


@command(
    arg(
        "--from-project",
        action="store_true",
        help="only what belongs to this project: its lock, not this user's tokens, tasks, audit log and documents",
    ),
    arg("--anew", action="store_true", help="begin parts that are not finished once more, from their start"),
    arg("--batch", type=int, default=BATCH, metavar="N", help=f"rows that count together [{BATCH}]"),
    as_json("what was copied"),
    examples="""\
examples:
  toolcrib db upgrade && toolcrib db copy
  toolcrib db copy --from-project""",
)
async def run_copy(options: Options, console: Console) -> None:
    """Copy part by part; what was stopped goes on where it ended."""
    loaded, around = load_here(options), Environment()
    wish = CopyWish(options.from_project, options.anew, max(1, options.batch))
    async with open_database(loaded.config, around) as database:
        try:
            done = await copy_files(database, loaded, around, wish, lambda told: console.status(f"copying {told}"))
        finally:
            console.end_status()
        place = _shown(database)
    if options.json:
        console.print_json([{"part": one.part, "rows": one.rows, "digest": one.digest} for one, _ in done])
        return
    for one, source in done:
        how = f"copied and compared ({one.digest})" if one.digest else "copied before"
        console.print(f"{one.part}: {one.rows}, {how}, from {source}")
    console.say(f"{place} has everything now; the files here are left as they are.")
