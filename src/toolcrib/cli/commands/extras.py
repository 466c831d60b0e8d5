"""``toolcrib extras``: the optional parts of toolcrib, added in the way it was installed."""

import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import metadata, util
from pathlib import Path

import msgspec

from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import NotFound
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.core.errors import ConfigError, did_you_mean

NAME = "toolcrib"
_NEEDED_BY = re.compile(r"""^(?P<requirement>[^;]+);.*extra == ['"](?P<extra>[^'"]+)['"]""")
_PROJECT_NAME = re.compile(r"[A-Za-z0-9._-]+")
COLUMNS = (Column("EXTRA", styles=("bold",)), Column("STATE"), Column("BRINGS"))


@dataclass(frozen=True, slots=True)
class Extra:
    """One optional part: what it is called, what it needs, and whether all of that is here."""

    name: str
    needs: tuple[str, ...]
    is_installed: bool


@command(as_json("the list"))
def run_ls(options: Options, console: Console) -> None:
    """List the extras and which of them are installed."""
    extras = find_extras(metadata.distribution(NAME))
    if options.json:
        console.print_json([msgspec.to_builtins(extra) for extra in extras])
        return
    rows = [(one.name, "installed" if one.is_installed else "", ", ".join(one.needs)) for one in extras]
    print_table(console, COLUMNS, rows)


@command(
    arg("names", metavar="NAME", nargs="+", help="an extra, as `toolcrib extras ls` shows it"),
    arg("--dry-run", action="store_true", help="only print the command that would add it"),
    examples="""\
examples:
  toolcrib extras add kb             read PDF and HTML files into the knowledge base
  toolcrib extras add postgres redis""",
)
def run_add(options: Options, console: Console) -> int:
    """Add extras by the program that installed toolcrib, after saying how."""
    known = {extra.name: extra for extra in find_extras(metadata.distribution(NAME))}
    for name in options.names:
        if name not in known:
            hint = did_you_mean(name, list(known)) or "See `toolcrib extras ls`."
            raise NotFound(f"There is no extra {name!r}.", hint=hint)
    missing = [known[name] for name in dict.fromkeys(options.names) if not known[name].is_installed]
    if not missing:
        console.print("Already installed.")
        return 0
    argv = Installation.here().command_to_add(missing)
    console.print(shlex.join(argv))
    if options.dry_run:
        return 0
    console.out.flush()
    return subprocess.run(argv, check=False).returncode  # noqa: S603 - what was just shown


def find_extras(installed: metadata.Distribution) -> list[Extra]:
    """The extras that toolcrib's own metadata names, in the order of the alphabet."""
    needs: dict[str, list[str]] = {}
    for line in installed.requires or ():
        if found := _NEEDED_BY.match(line):
            needs.setdefault(found["extra"], []).append(found["requirement"].strip())
    return [
        Extra(name, tuple(needs[name]), all(_is_there(requirement) for requirement in needs[name]))
        for name in sorted(needs)
    ]


def _is_there(requirement: str) -> bool:
    name = _PROJECT_NAME.match(requirement)
    try:
        return name is not None and bool(metadata.version(name[0]))
    except metadata.PackageNotFoundError:
        return False


@dataclass(frozen=True, slots=True)
class Installation:
    """Where toolcrib is installed, and so by which program more can be added."""

    prefix: Path
    python: str
    is_environment: bool
    """Whether it is an environment of its own, not the system's Python."""
    has_pip: bool
    checkout: Path | None = None
    """The clone it runs from."""
    marker: Path = field(default_factory=Path)
    """The file by which a system says that its packages are not pip's to change."""

    @classmethod
    def here(cls) -> "Installation":
        """The one this process runs from."""
        return cls(
            Path(sys.prefix),
            sys.executable,
            sys.prefix != sys.base_prefix,
            util.find_spec("pip") is not None,
            _checkout(metadata.distribution(NAME).read_text("direct_url.json")),
            Path(sysconfig.get_path("stdlib")) / "EXTERNALLY-MANAGED",
        )

    def command_to_add(self, extras: Sequence[Extra]) -> list[str]:
        """The command that adds them, kept by later upgrades where the program can."""
        names = ",".join(extra.name for extra in extras)
        if (receipt := self.prefix / "uv-receipt.toml").exists():
            return [_program("uv"), "tool", "install", *_uv_tool_requirements(receipt, extras)]
        if (self.prefix / "pipx_metadata.json").exists():
            return [_program("pipx"), "inject", NAME, *(need for extra in extras for need in extra.needs)]
        if self.checkout is not None:
            chosen = [word for extra in extras for word in ("--extra", extra.name)]
            uv = _program("uv", self.checkout / ".cache/uv/bin")  # where `./dev` puts it if there is none
            return [uv, "sync", "--inexact", "--no-dev", "--project", str(self.checkout), *chosen]
        if not self.is_environment and self.marker.exists():
            raise ConfigError(
                "toolcrib is installed into the system's own Python, which only the system's packages may change.",
                hint=f"Install it for yourself: `uv tool install '{NAME}[{names}]'`, or the same with pipx.",
            )
        wanted = f"{NAME}[{names}]=={metadata.version(NAME)}"  # the same version: pip then only adds what is missing
        if self.has_pip:
            return [self.python, "-m", "pip", "install", wanted]
        return [_program("uv"), "pip", "install", "--python", self.python, wanted]


def _program(name: str, own: Path | None = None) -> str:
    if found := shutil.which(name) or (own and shutil.which(name, path=str(own))):
        return found
    raise ConfigError(f"toolcrib was installed by {name}, which is not on the PATH now.", hint=f"Install {name} first.")


def _checkout(direct_url: str | None) -> Path | None:
    """The directory of a clone that toolcrib runs from, by what its installer wrote down."""
    told = msgspec.json.decode(direct_url or "{}")
    if not told.get("dir_info", {}).get("editable"):
        return None
    return Path(told["url"].removeprefix("file://"))


def _uv_tool_requirements(receipt: Path, extras: Sequence[Extra]) -> list[str]:
    """What uv was asked for when it installed toolcrib, with more extras; it forgets what is not said again."""
    kept = tomllib.loads(receipt.read_text())["tool"]["requirements"]
    own = next(one for one in kept if one["name"] == NAME)
    names = ",".join(dict.fromkeys([*own.get("extras", ()), *(extra.name for extra in extras)]))
    others = [word for one in kept if one is not own for word in _as_words(one, "", "--with")]
    return [*_as_words(own, f"[{names}]"), *others]


def _as_words(entry: dict[str, str], extras: str, *option: str) -> list[str]:
    """An entry of uv's receipt with its option; a clone that is run in place stays one."""
    if "editable" in entry:
        return ["--with-editable" if option else "--editable", f"{entry['editable']}{extras or _extras_of(entry)}"]
    return [*option, _as_requirement(entry, extras)]


def _extras_of(entry: dict[str, str]) -> str:
    return f"[{','.join(entry['extras'])}]" if entry.get("extras") else ""


def _as_requirement(entry: dict[str, str], extras: str) -> str:
    """An entry of uv's receipt as it would be typed."""
    extras = extras or _extras_of(entry)
    if "path" in entry or "directory" in entry:
        return f"{entry['name']}{extras} @ {Path(entry.get('path') or entry['directory']).resolve().as_uri()}"
    if "url" in entry or "git" in entry:
        return f"{entry['name']}{extras} @ {entry.get('url') or 'git+' + entry['git']}"
    return f"{entry['name']}{extras}{entry.get('specifier', '')}"
