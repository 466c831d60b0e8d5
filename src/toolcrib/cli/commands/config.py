"""``toolcrib config`` and ``export``: every setting, where it came from, and whether the files are right."""

from pathlib import Path
from typing import Any

from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import UsageError, unknown_server
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.cli.opening import load_here
from toolcrib.config.explain import Explained, explain
from toolcrib.config.foreign.export import FORMATS, export, is_masked, lost_settings
from toolcrib.config.model import ServerConfig
from toolcrib.crib.loading import Loaded
from toolcrib.stores.files import replace_text

COLUMNS = (Column("SETTING", styles=("bold",)), Column("VALUE", flexible=True), Column("FROM", styles=("dim",)))


@command(arg("--origin", action="store_true", help="show where each setting came from"), as_json("the settings"))
def run_show(options: Options, console: Console) -> None:
    """Show what toolcrib would use here."""
    settings = explain(load_here(options).config)
    if options.json:
        console.print_json(settings)
        return
    rows = [(entry.setting, _text(entry.value), _place(entry)) for entry in settings]
    shown = len(COLUMNS) if options.origin else len(COLUMNS) - 1
    print_table(console, COLUMNS[:shown], [row[:shown] for row in rows])


def _place(entry: Explained) -> str:
    """Where it came from; of a rule, what it overrules or is overruled by."""
    milder = f"; stricter than {' and '.join(entry.overrules)}" if entry.overrules else ""
    return f"{entry.origin}{milder}" + (f"; does not count beside {entry.overruled_by}" if entry.overruled_by else "")


def _text(value: Any) -> str:
    import msgspec

    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


PATH_COLUMNS = (Column("KIND", styles=("bold",)), Column(""), Column("PATH"))


@command(as_json("the files"))
def run_path(options: Options, console: Console) -> None:
    """Show the files, weakest first, whether they exist or not."""
    files = _files(load_here(options))
    if options.json:
        console.print_json(files)
    else:
        rows = [(file["kind"], "" if file["exists"] else "missing", file["path"]) for file in files]
        print_table(console, PATH_COLUMNS, rows)


def _files(loaded: Loaded) -> list[dict[str, Any]]:
    user = "rules" if loaded.is_chosen else "user"
    kinds = {user: loaded.user, "project": loaded.project, "lock": loaded.lock}
    return [{"kind": kind, "path": str(path), "exists": path.is_file()} for kind, path in kinds.items() if path]


@command(as_json("the verdict"))
def run_check(options: Options, console: Console) -> None:
    """Read everything; what cannot be used is an error with its place."""
    loaded = load_here(options)
    if options.json:
        console.print_json(_verdict(loaded))
        return
    for problem in loaded.config.problems:
        console.say(problem, "yellow")
    files = ", ".join(map(str, loaded.files)) or "no file"
    count = len(loaded.config.servers)
    console.print(f"ok: {count} server{'s' if count != 1 else ''} from {files}")


def _verdict(loaded: Loaded) -> dict[str, object]:
    return {
        "ok": True,
        "files": [str(path) for path in loaded.files],
        "servers": list(loaded.config.servers),
        "problems": list(loaded.config.problems),
    }


_PRIVATE = 0o600


@command(
    arg("--format", choices=FORMATS, default=FORMATS[0], help="whose words [mcpServers]"),
    arg("--only", action="append", default=[], metavar="NAME", help="only this server (repeatable)"),
    arg("--with-secrets", action="store_true", help="write secrets out instead of masking them"),
    arg("-o", "--output", metavar="FILE", help="write this new file, readable by you alone"),
    examples="""\
examples:
  toolcrib export
  toolcrib export --format codex --only github
  toolcrib export --with-secrets -o servers.json""",
)
def run_export(options: Options, console: Console) -> None:
    """Print or write the servers."""
    servers = _servers(options)
    text = export(servers, options.format, with_secrets=options.with_secrets)
    if options.output:
        _write(Path(options.output).expanduser(), text, console)
    else:
        console.print_foreign(text.rstrip("\n"))
    _tell_export(servers, options, console)


def _servers(options: Options) -> list[ServerConfig]:
    known = load_here(options).config.servers
    for name in options.only:
        if name not in known:
            raise unknown_server(name, list(known))
    return [server for name, server in known.items() if not options.only or name in options.only]


def _write(path: Path, text: str, console: Console) -> None:
    if path.exists():
        raise UsageError(f"There is already a file {str(path)!r}.", hint="Name one that is not there yet.")
    replace_text(path, text, _PRIVATE)
    console.say(f"Written to {path}.")


def _tell_export(servers: list[ServerConfig], options: Options, console: Console) -> None:
    masked = [server.name for server in servers if is_masked(server)]
    if masked and not options.with_secrets:
        console.say(f"Values of {', '.join(masked)} are masked; --with-secrets writes them out.", "yellow")
    for server in servers:
        if lost := lost_settings(server):
            console.say(f"{server.name}: other programs have no word for {', '.join(lost)}.", "dim")
