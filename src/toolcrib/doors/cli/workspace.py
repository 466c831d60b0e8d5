"""The option that offers the workspace tools for one directory, without a line in any file."""

from pathlib import Path

from toolcrib.doors.cli.invoke import Options, Parser


def add_workspace(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument(
        "--workspace", metavar="DIR", help="offer tools that read, write and search the files of a directory"
    )


def workspace_flags(options: Options) -> dict[str, object]:
    """The same by its names in the file; a relative path is seen from here."""
    given = getattr(options, "workspace", None)
    if given is None:
        return {}
    root = str(Path(given).expanduser().absolute())
    return {"workspace.enabled": True, "workspace.root": root}
