"""``toolcrib exam``: questions with the tools that should be found, held against the catalogue as it is now."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from toolcrib.catalog.catalog import Route
from toolcrib.catalog.exam import (
    DEEPEST,
    DEPTHS,
    ExamQuestion,
    Graded,
    parse_questions,
    report,
    starter_questions,
    to_line,
)
from toolcrib.cli.console import Console
from toolcrib.cli.failures import FAILURE, OK, NotFound, UsageError
from toolcrib.cli.invoke import Options, arg, as_json, command, read_stdin
from toolcrib.cli.opening import discover_unasked, open_here
from toolcrib.cli.running import run_once
from toolcrib.core.access import LOCAL_USER
from toolcrib.crib.crib import Crib
from toolcrib.schema.text import printable

SHOWN = 20


@command(
    arg("file", metavar="FILE", help="JSON lines with query and tools; - for stdin"),
    arg("--min-recall5", type=float, metavar="SHARE", help="exit with 1 if recall@5 is below this"),
    arg("--generate", action="store_true", help="write questions to begin with into FILE instead"),
    arg("--force", action="store_true", help="with --generate: write over a file that is there"),
    as_json("the marks and the misses"),
    examples="""\
examples:
  toolcrib exam --generate questions.jsonl     begin with what the tools say of themselves
  toolcrib exam questions.jsonl
  toolcrib exam questions.jsonl --min-recall5 0.8 --json

a line of the file: {"query": "open a ticket", "tools": ["github__create_issue"]}""",
)
def run_exam(options: Options, console: Console) -> int:
    """Hold the exam; servers nobody has asked yet are asked first."""
    if options.min_recall5 is not None and not 0 <= options.min_recall5 <= 1:
        raise UsageError(f"--min-recall5 {options.min_recall5} is no share.", hint="Use a number from 0 to 1.")
    if options.generate:
        _refuse_overwriting(options)
        return run_once(_generate(options, console))
    return run_once(_hold(options, console, _read(options.file)))


def _read(file: str) -> str:
    if file == "-":
        return read_stdin()
    try:
        return Path(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        hint = f"Write one to begin with: toolcrib exam --generate {file}"
        raise NotFound(f"There is no file {file}.", hint=hint) from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not text in UTF-8.", hint="It should hold lines of JSON.") from None


async def _routes(options: Options, console: Console) -> list[Route]:
    async with open_here(options, console) as crib:
        await discover_unasked(crib, console)
        return crib.catalog.visible_to(LOCAL_USER.grants)


async def _hold(options: Options, console: Console, text: str) -> int:
    async with open_here(options, console) as crib:
        await discover_unasked(crib, console)
        routes = crib.catalog.visible_to(LOCAL_USER.grants)
        questions = parse_questions(text, {route.name for route in routes})
        told = report([await _grade(crib, routes, question) for question in questions])
    wanted = options.min_recall5
    is_passed = wanted is None or told["recall5"] >= wanted
    if options.json:
        console.print_json(told | {"minRecall5": wanted, "passed": is_passed})
    else:
        _print(console, told)
    if not is_passed:
        console.say(f"recall@5 is {told['recall5']:.2f}, below the {wanted:g} asked for.", "red")
    return OK if is_passed else FAILURE


async def _grade(crib: Crib, routes: Sequence[Route], question: ExamQuestion) -> Graded:
    found = await crib.find(question.text, DEEPEST, among=routes)
    return Graded(question, tuple(hit.route.name for hit in found))


def _print(console: Console, told: Mapping[str, Any]) -> None:
    marks = ", ".join(f"recall@{depth} {told[f'recall{depth}']:.2f}" for depth in DEPTHS)
    console.print(f"{told['questions']} question{'s' * (told['questions'] != 1)}: {marks}")
    misses = told["misses"]
    for miss in misses[:SHOWN]:
        _print_miss(console, miss)
    if len(misses) > SHOWN:
        console.print(f"… and {len(misses) - SHOWN} more misses; --json shows all")


def _print_miss(console: Console, miss: Mapping[str, Any]) -> None:
    console.print(f"\n{console.paint('missed', 'yellow')} line {miss['line']}: {printable(miss['query'])}")
    for need, rank in zip(miss["expected"], miss["ranks"], strict=True):
        place = f"place {rank}" if rank else f"not among the first {DEEPEST}"
        console.print(f"  expected {' or '.join(need)}: {place}")
    console.print(f"  found    {', '.join(miss['won']) or 'nothing'}")


def _refuse_overwriting(options: Options) -> None:
    if options.file == "-":
        raise UsageError("--generate writes a file, not stdout.", hint="Name one: toolcrib exam --generate FILE")
    if Path(options.file).exists() and not options.force:
        raise UsageError(f"{options.file} is there already.", hint="Name another file, or add --force.")


async def _generate(options: Options, console: Console) -> int:
    lines = [to_line(question) for question in starter_questions(await _routes(options, console))]
    await asyncio.to_thread(_write, Path(options.file), lines, "w" if options.force else "x")
    console.say(f"Wrote {len(lines)} questions to {options.file}. Put them into the words people use, then run it.")
    return OK


def _write(path: Path, lines: Sequence[str], mode: Literal["w", "x"]) -> None:
    with path.open(mode, encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
