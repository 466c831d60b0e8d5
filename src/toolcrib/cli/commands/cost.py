"""``toolcrib cost``: what servers, tools and profiles cost in tokens, what is used, and what to leave out."""

import asyncio
from collections.abc import Sequence

from toolcrib.catalog.accounting import Cost
from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import UsageError
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.cli.opening import discover_unasked, load_here, open_here
from toolcrib.core.access import LOCAL_USER
from toolcrib.crib.layers import audit_place
from toolcrib.server.views.costs import (
    DAYS,
    ConfusablePair,
    CostQuery,
    CostReport,
    ProfileProposal,
    ServerCost,
    ToolCost,
    UsageView,
    cost_report,
    profiles_of,
    span,
    summary,
    usage_of,
)
from toolcrib.stores.audit.log import ToolUsage
from toolcrib.stores.paths import Environment

DEAREST = 10
PAIRS = 5


@command(
    arg("--days", type=int, default=DAYS, metavar="N", help=f"how far back to look for calls of a tool [{DAYS}]"),
    arg("--all", action="store_true", help="every tool, not only the dearest"),
    arg("--cached", action="store_true", help="only what is known already; start nothing"),
    as_json("the whole account"),
    examples="""\
examples:
  toolcrib cost
  toolcrib cost --days 7 --all
  toolcrib cost --json | jq -r .proposal.toml""",
)
async def run_cost(options: Options, console: Console) -> None:
    """Count; servers nobody has asked yet are asked first."""
    if not 1 <= options.days <= 3650:
        raise UsageError(f"--days {options.days} is no span to look back.", hint="Use 1 to 3650.")
    config = load_here(options).config
    place = audit_place(config, Environment())
    async with open_here(options, console) as crib:
        if not options.cached:
            await discover_unasked(crib, console)
        routes = crib.catalog.visible_to(LOCAL_USER.grants)
        profiles = profiles_of(crib.catalog, config.profiles, LOCAL_USER.grants)
    usage = await asyncio.to_thread(usage_of, place, options.days)
    report = await asyncio.to_thread(cost_report, routes, CostQuery(options.days, usage, profiles, PAIRS))
    if options.json:
        console.print_json(report)
        return
    console.print(f"{summary(routes, usage, options.days)}. Every model reads all of it before it begins.")
    _print_report(console, report, usage, every_tool=options.all)


def _print_report(console: Console, report: CostReport, usage: ToolUsage | None, *, every_tool: bool) -> None:
    console.print()
    rows = [_cells(row, "name", "tools", "tokens", "calls", "unused") for row in report.servers]
    print_table(console, _SERVERS, rows)
    if report.profiles:
        _titled(console, "Profiles")
        print_table(console, _COSTS, [_cells(row, "name", "tools", "tokens") for row in report.profiles])
    shown = report.tools if every_tool else report.tools[:DEAREST]
    _titled(console, "Tools" if len(shown) == len(report.tools) else f"The {len(shown)} dearest tools (--all: every)")
    print_table(console, _TOOLS, [_cells(row, "name", "tokens", "calls") for row in shown])
    if usage is None or report.usage is None:
        _titled(console, "Nothing is known of what is used: there is no audit log yet, or none that can be read.")
    else:
        _print_use(console, report.usage, span(usage, report.usage.days))
    _print_pairs(console, report.confusable)
    _print_proposal(console, report.proposal)


_SERVERS = (
    Column("SERVER", styles=("bold",)),
    Column("TOOLS", right=True),
    Column("~TOKENS", right=True),
    Column("CALLS", right=True),
    Column("UNUSED", right=True),
)
_COSTS = (Column("PROFILE", styles=("bold",)), *_SERVERS[1:3])
_TOOLS = (Column("TOOL", styles=("bold",)), *_SERVERS[2:4])
_PAIRS = (Column("SCORE", right=True), Column("TOOLS", styles=("bold",)), Column("WHY", flexible=True))


def _cells(row: ServerCost | ToolCost | Cost, *names: str) -> tuple[str, ...]:
    values = [getattr(row, name) for name in names]
    return tuple("" if value is None else f"{value:,}" if isinstance(value, int) else value for value in values)


def _print_use(console: Console, usage: UsageView, span_told: str) -> None:
    used, unused = usage.used, usage.unused
    if not used:
        _titled(console, f"No tool was called in the last {span_told}.")
    elif unused:
        _titled(console, f"Not used in {span_told}: {len(unused)} tools, ~{usage.unused_tokens:,} tokens")
        more = f" … and {len(unused) - DEAREST} more" if len(unused) > DEAREST else ""
        console.print(f"  {', '.join(unused[:DEAREST])}{more}")


def _print_pairs(console: Console, pairs: Sequence[ConfusablePair]) -> None:
    if pairs:
        _titled(console, "Easily taken for one another (1.00: nothing tells them apart)")
        rows = [(f"{pair.score:.2f}", " ~ ".join(pair.tools), pair.why) for pair in pairs]
        print_table(console, _PAIRS, rows)


def _print_proposal(console: Console, proposal: ProfileProposal | None) -> None:
    if proposal is not None:
        share = 100 * proposal.saved // max(1, proposal.saved + proposal.tokens)
        _titled(console, f"A profile of what was used would save ~{proposal.saved:,} tokens ({share} %):")
        console.print(proposal.toml.rstrip())


def _titled(console: Console, title: str) -> None:
    console.print()
    console.print(console.paint(title, "bold"))
