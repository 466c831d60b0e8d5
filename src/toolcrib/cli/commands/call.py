"""``toolcrib call``: run one tool and print what it says."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from toolcrib.calls.results.shown import call_result, ids_of
from toolcrib.cli.asking import attach_terminal
from toolcrib.cli.console import Console
from toolcrib.cli.content import lines_of, read_arguments
from toolcrib.cli.failures import OK, FailedCall, exit_code
from toolcrib.cli.invoke import Options, arg, as_json, command, in_profile
from toolcrib.cli.opening import discover_unasked, make_known, open_window, wait_with_status
from toolcrib.core.errors import UnknownTool
from toolcrib.core.names import name_of_alias
from toolcrib.core.offers import RequestKind
from toolcrib.core.requests import ErrorInfo, Result, SilentChannel
from toolcrib.crib.window import ProfileView
from toolcrib.server.views.tools import missing_tool


@command(
    arg("tool", metavar="TOOL", help="the tool's name, as `toolcrib ls` shows it"),
    arg("words", nargs="*", default=[], metavar="key=value", help="its arguments"),
    arg("--input-json", metavar="JSON", help="all arguments as one object; - reads stdin, @file a file"),
    arg("--timeout", type=float, metavar="SECONDS", help="give up after so long"),
    arg("--save", type=Path, metavar="DIR", help="write pictures and other attachments to this folder"),
    in_profile("call it as this profile shows it"),
    as_json("the whole result"),
    examples="""\
arguments:
  key=value      text, or JSON where the tool does not want text
  key:=json      JSON in any case
  key=@file      the text of a file

examples:
  toolcrib call clock_now timezone=Europe/Berlin
  toolcrib call github__search query=toolcrib limit=5
  echo '{"query": "toolcrib"}' | toolcrib call github__search --input-json -""",
)
async def run_call(options: Options, console: Console) -> int:
    """Call the tool; the exit code tells how it went."""
    async with open_window(options, console) as window:
        crib = window.crib
        attach_terminal(console, crib.desk.attach)
        await _make_known(window, console, options.tool)
        route = window.catalog.find(RequestKind.CALL, name_of_alias(options.tool))
        arguments = read_arguments(options.words, options.input_json, route.tool.input_schema if route else {})
        call = window.request(options.tool, arguments, channel=_Progress(console), timeout_s=options.timeout)
        began = time.perf_counter()
        result = await wait_with_status(console, window.run(call), f"calling {options.tool}")
        if options.json:
            console.print_json(call_result(result, ids_of(call), (time.perf_counter() - began) * 1000))
        else:
            _show(result, options, console)
        if result.error is None:
            return OK
        return _explain_failure(window, result.error, options)


async def _make_known(window: ProfileView, console: Console, name: str) -> None:
    """Ask whoever may offer the tool; a name that only a profile knows says nothing of its server."""
    if not window.name:
        await make_known(window.crib, console, name)
    elif window.catalog.find(RequestKind.CALL, name_of_alias(name)) is None:
        await discover_unasked(window.crib, console)


def _show(result: Result, options: Options, console: Console) -> None:
    if result.error is not None:
        return
    if not result.content and result.structured is not None:
        console.print_json(result.structured)
    for text in lines_of(list(result.content), options.save, options.tool):
        console.print_foreign(text)


def _explain_failure(window: ProfileView, error: ErrorInfo, options: Options) -> int:
    """The result itself is on stdout with ``--json``; a person is told here."""
    if options.json:
        return exit_code(error.code, error.details)
    failed = FailedCall(error.code, error.message, error.details)
    if error.code == "TOOL_NOT_FOUND" and error.message.startswith(UnknownTool(options.tool).message):
        raise failed if window.name else missing_tool(window.crib, options.tool)
    raise failed


class _Progress(SilentChannel):
    """Shows a person what the tool says while it runs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.wants_progress = console.is_live

    def notify(self, method: str, params: bytes) -> None:
        """Show progress on the status line, log messages above it."""
        told = msgspec.json.decode(params or b"{}", type=dict[str, Any])
        if method == "notifications/progress":
            self._console.status(_progress(told))
        elif method == "notifications/message" and self.wants_progress:
            self._console.say(f"{told.get('level', 'info')}: {told.get('data', '')}", "dim")


def _progress(told: Mapping[str, Any]) -> str:
    total = f"/{told['total']:g}" if isinstance(told.get("total"), int | float) else ""
    done = told.get("progress")
    return f"{done:g}{total} {told.get('message', '')}".strip() if isinstance(done, int | float) else ""
