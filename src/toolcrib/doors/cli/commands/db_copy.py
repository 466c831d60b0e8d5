"""``toolcrib db copy``: bring what this machine has in files into the shared database."""

from collections.abc import Sequence

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.copy_parts import project_parts, user_parts
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.opening import load_here
from toolcrib.doors.cli.running import run_once
from toolcrib.doors.cli.shared_store import open_database, shown
from toolcrib.kb import kb_path
from toolcrib.stores.postgres.copy_knowledge import Documents
from toolcrib.stores.postgres.copying import BATCH, Compared, Copied, CopyPart, begin_anew, copy_by, copy_part
from toolcrib.stores.postgres.database import PgDatabase
from toolcrib.stores.postgres.migrate import need_current
from toolcrib.surroundings import Surroundings

EXAMPLES = """\
examples:
  toolcrib db upgrade && toolcrib db copy
  toolcrib db copy --from-project"""


def add_arguments(parser: Parser) -> None:
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


def run(options: Options, console: Console) -> int:
    """Copy part by part; what was stopped goes on where it ended."""
    return run_once(_copy(options, console))


async def _copy(options: Options, console: Console) -> int:
    loaded = load_here(options)
    parts = [*project_parts(loaded), *([] if options.from_project else user_parts(loaded, Surroundings()))]
    async with open_database(options) as database:
        await need_current(database)
        if options.anew:
            for part in reversed(parts):
                await begin_anew(database, part)
        done = [await _copy_one(database, part, options, console) for part in parts]
        knowledge = Documents(kb_path(loaded.config.kb, Surroundings()))
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
        from toolcrib.knowledge.moving import move_knowledge
        from toolcrib.stores.knowledge import SqliteKnowledge
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
