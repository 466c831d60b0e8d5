"""``toolcrib doctor``: look at everything, start every server, and say what to do."""

import asyncio
from collections.abc import Sequence

from toolcrib.cli.checks import (
    HealthCheck,
    check_audit,
    check_catalog,
    check_command,
    check_files,
    check_knowledge,
    check_ledger,
    check_network,
    check_profiles,
    check_server,
    check_supply,
)
from toolcrib.cli.console import Console
from toolcrib.cli.failures import FAILURE, OK
from toolcrib.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.cli.logs import one_shot_log
from toolcrib.cli.opening import asking, load_here, wait_with_status
from toolcrib.cli.running import run_once
from toolcrib.config.references import Environment
from toolcrib.core.errors import ConfigError, StoreUnavailable
from toolcrib.crib.crib import Crib
from toolcrib.crib.loading import Loaded
from toolcrib.project.running import assemble_configured
from toolcrib.schema.text import printable

STYLES = {"ok": ("green",), "warn": ("yellow",), "fail": ("red", "bold")}


def add_doctor_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument(
        "--isolation", action="store_true", help="try out what programs started here can still do at each level"
    )
    add_json(parser, "the checks")
    add_common(parser)


def run_doctor(options: Options, console: Console) -> int:
    """Check everything; warnings alone are no failure."""
    if options.isolation:
        from toolcrib.cli.isolation import examine

        return run_once(examine(options, console))
    return run_once(_examine(options, console))


async def _examine(options: Options, console: Console) -> int:
    try:
        loaded = load_here(options)
        of_files = [*check_files(loaded), *check_network(loaded.config, Environment())]
        of_files += await check_ledger(loaded, Environment().env)
        of_servers = await _run_servers(options, loaded, console)
        of_log = await check_audit(loaded.config, Environment())
        of_kb = await check_knowledge(loaded.config, Environment())
        checks = [*of_files, *of_servers, *of_log, *of_kb]
    except ConfigError as error:
        checks = [HealthCheck("fail", "configuration", error.message, error.hint)]
    except StoreUnavailable as error:
        away = HealthCheck("fail", "shared database", error.message, error.hint)
        checks = list(dict.fromkeys([*of_files, away]))
    worst = next((level for level in ("fail", "warn") if any(check.level == level for check in checks)), "ok")
    if options.json:
        shown = [{"level": c.level, "subject": c.subject, "message": c.message, "todo": c.todo} for c in checks]
        console.print_json({"status": worst, "checks": shown})
    else:
        _print(checks, console)
    return FAILURE if worst == "fail" else OK


async def _run_servers(options: Options, loaded: Loaded, console: Console) -> list[HealthCheck]:
    crib = await assemble_configured(loaded, one_shot_log(options, console))
    try:
        await wait_with_status(console, crib.servers.find(), "asking the platform")
        work = asyncio.gather(*(_run_server(crib, name) for name in sorted(crib.shelves)))
        found = await wait_with_status(console, work, lambda: asking(crib))
        off = [HealthCheck("ok", f"server {name}", "disabled") for name in sorted(crib.disabled)]
        supply, profiles = check_supply(crib.servers.supply), check_profiles(crib, loaded.config.profiles)
        checks = [check for checks in found for check in checks]
        return [*supply, *checks, *off, *check_catalog(crib), *profiles]
    finally:
        await crib.close()


async def _run_server(crib: Crib, name: str) -> list[HealthCheck]:
    shelf = crib.shelves[name]
    obstacle = check_command(shelf.config)
    if obstacle is not None:
        return [obstacle]
    loop = asyncio.get_running_loop()
    began = loop.time()
    record = (await crib.refresh(name))[name]
    return list(check_server(shelf, record, loop.time() - began))


def _print(checks: Sequence[HealthCheck], console: Console) -> None:
    width = max(len(check.subject) for check in checks)
    for check in checks:
        level = console.paint(f"{check.level:<4}", *STYLES[check.level])
        console.print(f"{level}  {check.subject:<{width}}  {printable(check.message)}")
        if check.todo:
            console.print(f"      {'':<{width}}  → {printable(check.todo)}")
    failures, warnings = (sum(check.level == level for check in checks) for level in ("fail", "warn"))
    console.out.flush()
    console.say(f"{failures} failed, {warnings} to look at." if failures or warnings else "Everything is in order.")
