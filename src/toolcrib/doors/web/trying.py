"""Trying a tool on the page: a form of its schema, or JSON; what is wrong is said by field before anything runs."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.catalog.catalog import Route
from toolcrib.core.call import ToolCall
from toolcrib.crib import Crib
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.web.form_reading import paths_of, read_form, read_object, refill, with_problems
from toolcrib.doors.web.schema_form import Field, Fields, Path, first_values, make_form
from toolcrib.doors.web.schema_parts import as_json
from toolcrib.doors.web.tool_result import Outcome, outcome_of
from toolcrib.schema.check import compile_check


@dataclass(frozen=True, slots=True)
class Trying:
    """What stands on the part of the page where a tool is tried."""

    form: tuple[Field, ...] = ()
    text: str = ""
    """What stands in the JSON editor."""
    is_json: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    """What is wrong and belongs to no field."""
    is_wrong: bool = False
    is_shown: bool = False
    """Whether the call is wanted as code."""
    outcome: Outcome | None = None


def first_try(route: Route, query: Mapping[str, str]) -> Trying:
    """The form as it is at first: with an example, or the defaults."""
    schema, examples = route.tool.input_schema, route.tool.examples
    chosen = query.get("example", "0")
    place = int(chosen) if chosen.isascii() and chosen.isdigit() and len(chosen) < 4 else 0
    values = dict(examples[place].arguments) if place < len(examples) else first_values(schema)
    return Trying(make_form(schema, values), as_json(values), query.get("as") == "json", values)


def read_try(route: Route, sent: Fields) -> Trying:
    """What was sent, as arguments or with what is wrong."""
    schema, is_json = route.tool.input_schema, sent.get("as") == "json"
    if is_json:
        text = sent.get("json", "")
        arguments, wrong = read_object(text)
        problems: dict[Path, str] = {(): wrong} if wrong else _misfits(route, arguments)
        said = tuple(_said(path, words) for path, words in problems.items())
        return Trying(make_form(schema, arguments), text, True, arguments, said, bool(problems))
    form = refill(make_form(schema, {}), sent)
    arguments, problems = read_form(form)
    problems = problems or _misfits(route, arguments)
    placed = with_problems(form, problems)
    elsewhere = tuple(_said(path, words) for path, words in problems.items() if path not in paths_of(form))
    return Trying(placed, as_json(arguments), False, arguments, elsewhere, bool(problems))


def _said(path: Path, words: str) -> str:
    return f"{'.'.join(path)}: {words}" if path else words


def _misfits(route: Route, arguments: Mapping[str, Any]) -> dict[Path, str]:
    """Where the arguments do not fit the schema; a path into a list is that of the list."""
    found: dict[Path, str] = {}
    check = compile_check(route.tool.input_schema)
    if not check.is_quick_for(arguments):  # the call itself will tell
        return found
    for problem in check.problems(dict(arguments)):
        path: list[str] = []
        for step in problem.path:
            if not isinstance(step, str):
                break
            path.append(step)
        found.setdefault(tuple(path), f"{problem.message[:1].upper()}{problem.message[1:]}.")
    return found


async def run_try(crib: Crib, route: Route, visit: Visit, arguments: Mapping[str, Any]) -> Outcome:
    """Call the tool as whoever visits."""
    call = ToolCall(route.name, "", dict(arguments), caller=visit.caller)
    began = time.perf_counter()
    result = await crib.run(call)
    return outcome_of(result, time.perf_counter() - began, call.id)
