"""``toolcrib db``: the shared database: how it stands, brought up to date, checked, and filled from this machine."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from toolcrib.cli.console import Console
from toolcrib.cli.failures import FAILURE, OK
from toolcrib.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.cli.opening import load_here
from toolcrib.cli.running import run_once
from toolcrib.config.references import Environment
from toolcrib.config.secrets import shown_url
from toolcrib.core.errors import ConfigError
from toolcrib.crib.loading import Loaded
from toolcrib.stores.access_tokens import TOKENS_NAME
from toolcrib.stores.local import audit_path, kb_path
from toolcrib.stores.paths import state_directory
from toolcrib.stores.postgres.copying import BATCH, Compared, Copied, CopyPart, begin_anew, copy_by, copy_part
from toolcrib.stores.postgres.copying_parts import AuditPart, Documents, lock_parts, task_parts, token_parts
from toolcrib.stores.postgres.database import PgDatabase, find_store
from toolcrib.stores.postgres.migrate import SchemaStatus, need_current, status, upgrade
from toolcrib.stores.postgres.verify import StoreFinding, verify_store
from toolcrib.stores.worklist import TASKS_NAME


@asynccontextmanager
async def open_database(options: Options) -> AsyncIterator[PgDatabase]:
    """The database of the configuration; it is an error if there is none."""
    config = load_here(options).config.store
    if not config.url:
        raise ConfigError(
            "No shared database is configured: everything is in files of this machine.",
            hint='Write [store] url = "postgresql://…" to share it between replicas.',
        )
    database = PgDatabase(find_store(config, Environment().env))
    try:
        yield database
    finally:
        await database.close()


def shown(database: PgDatabase) -> str:
    """Where it is, without passwords."""
    return shown_url(database.settings.url)


def add_status_arguments(parser: Parser) -> None:
    """What it takes."""
    add_json(parser, "what was found")
    add_common(parser)


def run_status(options: Options, console: Console) -> int:
    """Look, and change nothing."""
    return run_once(_status(options, console))


async def _status(options: Options, console: Console) -> int:
    async with open_database(options) as database:
        found, place = await status(database), shown(database)
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


def add_upgrade_arguments(parser: Parser) -> None:
    """What it takes."""
    add_json(parser, "what was done")
    add_common(parser)


def run_upgrade(options: Options, console: Console) -> int:
    """Take the steps that are missing, all or none."""
    return run_once(_upgrade(options, console))


async def _upgrade(options: Options, console: Console) -> int:
    async with open_database(options) as database:
        taken, place = await upgrade(database), shown(database)
    if options.json:
        console.print_json([{"version": step.version, "name": step.name} for step in taken])
    elif taken:
        names = ", ".join(f"{step.version:03} {step.name}" for step in taken)
        console.print(f"{place} is up to date. Steps taken: {names}.")
    else:
        console.print(f"{place} was up to date already.")
    return OK


def add_verify_arguments(parser: Parser) -> None:
    """What it takes."""
    add_json(parser, "what was found")
    add_common(parser)


def run_verify(options: Options, console: Console) -> int:
    """Look at everything, and change nothing."""
    return run_once(_verify(options, console))


async def _verify(options: Options, console: Console) -> int:
    async with open_database(options) as database:
        findings, place = await verify_store(database), shown(database)
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


def project_parts(loaded: Loaded) -> Sequence[CopyPart]:
    """What belongs to the project alone."""
    return [] if loaded.lock is None else lock_parts(loaded.lock)


def user_parts(loaded: Loaded, around: Environment) -> Sequence[CopyPart]:
    """What all projects of this user have in common."""
    state = state_directory(around.env)
    audit = AuditPart(audit_path(loaded.config, around))
    return [*token_parts(state / TOKENS_NAME, time.time), *task_parts(state / TASKS_NAME), audit]


COPY_EXAMPLES = """\
examples:
  toolcrib db upgrade && toolcrib db copy
  toolcrib db copy --from-project"""


def add_copy_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument(
        "--from-project",
        action="store_true",
        help="only what belongs to this project: its lock, not this user's tokens, tasks, audit log and documents",
    )
    parser.add_argument(
        "--anew", action="store_true", help="begin parts that are not finished once more, from their start"
    )
    parser.add_argument("--batch", type=int, default=BATCH, metavar="N", help=f"rows that count together [{BATCH}]")
    add_json(parser, "what was copied")
    add_common(parser)


def run_copy(options: Options, console: Console) -> int:
    """Copy part by part; what was stopped goes on where it ended."""
    return run_once(_copy(options, console))


async def _copy(options: Options, console: Console) -> int:
    loaded = load_here(options)
    parts = [*project_parts(loaded), *([] if options.from_project else user_parts(loaded, Environment()))]
    async with open_database(options) as database:
        await need_current(database)
        if options.anew:
            for part in reversed(parts):
                await begin_anew(database, part)
        done = [await _copy_one(database, part, options, console) for part in parts]
        knowledge = Documents(kb_path(loaded.config.kb, Environment()))
        if not options.from_project and not loaded.config.kb.path:  # a file that is named stays in use
            done.append(await _copy_knowledge(database, knowledge, console))
        place = shown(database)
    if options.json:
        console.print_json([{"part": one.part, "rows": one.rows, "digest": one.digest} for one in done])
    else:
        _tell(done, [*parts, knowledge], place, console)
    return OK


async def _copy_one(database: PgDatabase, part: CopyPart, options: Options, console: Console) -> Copied:
    def report(progress: Copied) -> None:
        console.status(f"copying {progress.part}: {progress.rows}")

    report(Copied(part.name, 0))
    try:
        return await copy_part(database, part, report, max(1, options.batch))
    finally:
        console.end_status()


async def _copy_knowledge(database: PgDatabase, knowledge: Documents, console: Console) -> Copied:
    async def bring() -> None:
        if not knowledge.path.exists():
            return
        from toolcrib.knowledge.transfer import move_knowledge
        from toolcrib.stores.knowledge.store import SqliteKnowledge
        from toolcrib.stores.postgres.knowledge import PgKnowledge

        here, there = SqliteKnowledge(knowledge.path), PgKnowledge(database.settings)
        try:
            await move_knowledge(here, there, lambda count: console.status(f"copying documents: {count}"))
        finally:
            await here.close()
            await there.close()

    try:
        return await copy_by(database, knowledge, bring)
    finally:
        console.end_status()


def _tell(done: Sequence[Copied], parts: Sequence[Compared], place: str, console: Console) -> None:
    for one, part in zip(done, parts, strict=False):
        how = f"copied and compared ({one.digest})" if one.digest else "copied before"
        console.print(f"{one.part}: {one.rows}, {how}, from {part.source}")
    console.say(f"{place} has everything now; the files here are left as they are.")
