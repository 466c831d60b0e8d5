"""``toolcrib config check``: whether the configuration can be used; starts nothing."""

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.opening import load_here
from toolcrib.loading import Loaded


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    add_json(parser, "the verdict")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Read everything; what cannot be used is an error with its place."""
    loaded = load_here(options)
    if options.json:
        console.print_json(_verdict(loaded))
        return OK
    for problem in loaded.config.problems:
        console.say(problem, "yellow")
    files = ", ".join(map(str, loaded.files)) or "no file"
    count = len(loaded.config.servers)
    console.print(f"ok: {count} server{'s' if count != 1 else ''} from {files}")
    return OK


def _verdict(loaded: Loaded) -> dict[str, object]:
    return {
        "ok": True,
        "files": [str(path) for path in loaded.files],
        "servers": list(loaded.config.servers),
        "problems": list(loaded.config.problems),
    }
