"""The options of commands that serve; without what serves, so that ``stdio`` can read them quickly."""

from toolcrib.cli.invoke import Parser, arg, in_profile

LEVELS = ("read_only", "write", "admin", "system")
EXPOSE_MODES = ("all", "search", "auto")


def _add_access(parser: Parser) -> None:
    limits = parser.add_argument_group("callers without a token")
    limits.add_argument("--level", choices=LEVELS, help="the furthest-reaching tools they may use [system]")
    limits.add_argument("--only", action="append", metavar="PATTERN", help="tools they may use (repeatable) [*]")
    limits.add_argument("--agent", action="store_true", help="they are agents, which cannot approve their own calls")


WHAT_IS_SHOWN = (
    _add_access,
    arg(
        "--expose",
        choices=EXPOSE_MODES,
        help="show clients all tools, three that search them, or whichever fits [all; see [expose]]",
    ),
    in_profile("show clients this profile"),
)
"""The options that limit whoever comes without a token, and say what MCP clients are shown."""
HTTP = (
    arg("--host", help="the address to listen on [127.0.0.1; env: TOOLCRIB_HOST]"),
    arg("--port", type=int, help="the port to listen on; 0 takes a free one [7337; env: TOOLCRIB_PORT]"),
    arg("--token", help="the bearer token clients must send; others can see it here, prefer TOOLCRIB_TOKEN"),
    arg(
        "--insecure",
        action="store_true",
        help='with auth = "none" in [serve]: serve an address that others reach to everybody',
    ),
    arg(
        "--edit-commands",
        action="store_true",
        default=None,
        help="let servers that run a command be added and changed on the page and over REST",
    ),
    *WHAT_IS_SHOWN,
    arg("--allow-host", action="append", default=[], metavar="NAME", help="answer for this Host too (repeatable)"),
    arg(
        "--allow-origin", action="append", default=[], metavar="ORIGIN", help="let pages of this origin in (repeatable)"
    ),
)
"""The options of a command that serves HTTP."""
NAMES_AND_FILES = (
    arg(
        "--no-prefix",
        action="store_true",
        help="name tools as their servers do; two servers with one name in common are an error",
    ),
    arg("--workspace", metavar="DIR", help="offer tools that read, write and search the files of a directory"),
)
"""The options of every command that serves."""
