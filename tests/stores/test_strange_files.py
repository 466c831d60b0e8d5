"""A pipe, a socket, a device or a directory in the place of a file that toolcrib reads keeps nobody waiting."""

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from toolcrib.core.errors import ToolcribError
from toolcrib.crib.loading import load, user_rules
from toolcrib.isolate.proof import recall
from toolcrib.platform.gateway import Whereabouts, find_manifest, read_manifest
from toolcrib.server.identity.jwt import read_from
from toolcrib.server.identity.owner_token import kept_token
from toolcrib.stores.access_tokens import TokenFile
from toolcrib.stores.audit.file import FORMAT, AuditFile
from toolcrib.stores.audit.note import HeadNote
from toolcrib.stores.files import read_bytes, read_named
from toolcrib.stores.foreign import Connections, Origins
from toolcrib.stores.lockfile import LockFile
from toolcrib.stores.paths import Environment
from toolcrib.stores.projects import ProjectFile
from toolcrib.stores.sqlite_file import unusable

Read = Callable[[Path], object]


def around(home: Path) -> Environment:
    return Environment(home / "project", {"HOME": str(home)})


def read_audit(home: Path) -> None:
    with AuditFile(home / "audit.db").reading():
        pass


def open_audit(home: Path) -> None:
    """Trouble becomes an error of ours where the log is used."""
    try:
        AuditFile(home / "audit.db").open()
    except OSError as error:
        raise unusable(error, home / "audit.db", FORMAT) from error


READERS: dict[str, tuple[str, Read]] = {
    "user's configuration": (".config/toolcrib/toolcrib.toml", lambda home: load(None, around(home))),
    "user's rules": (".config/toolcrib/toolcrib.toml", lambda home: user_rules(around(home))),
    "project's configuration": ("project/toolcrib.toml", lambda home: load(None, around(home))),
    "named configuration": ("named.toml", lambda home: load(home / "named.toml", around(home))),
    "another program's configuration": ("project/.mcp.json", lambda home: load(None, around(home))),
    "lock": ("toolcrib.lock", lambda home: LockFile(home / "toolcrib.lock").read()),
    "tokens": ("tokens.json", lambda home: TokenFile(home / "tokens.json", lambda: 0.0).read()),
    "kept token": ("token", lambda home: kept_token(home / "token")),
    "projects": ("projects.json", lambda home: ProjectFile(home).read()),
    "connections": ("connections.json", lambda home: Connections(home).of(home)),
    "origins": ("imports.json", lambda home: Origins(home).of(home)),
    "audit log": ("audit.db", open_audit),
    "audit log, to be read": ("audit.db", read_audit),
    "head of the audit log": ("head", lambda home: HeadNote(home / "head").read()),
    "manifest": (
        "project/ToolingManifest.json",
        lambda home: read_manifest(find_manifest(Whereabouts(home / "project", None, {})) or Path()),
    ),
}


def put(kind: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path, 0o600)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.relpath(path))  # a whole path may be too long for the address of a socket
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()


SOUGHT = ("project's configuration", "another program's configuration", "manifest")
"""A directory of such a name is not what is looked for."""
CASES = [
    (name, kind)
    for name in READERS
    for kind in ("pipe", "socket", "device", "directory")
    if kind != "directory" or name not in SOUGHT
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_what_is_no_file_is_named_with_the_way_out(name, kind, tmp_path):
    place, read = READERS[name]
    (tmp_path / "project").mkdir()
    put(kind, tmp_path / place)

    with pytest.raises(ToolcribError) as told:
        read(tmp_path)

    assert Path(place).name in str(told.value)
    assert re.search("[Mm]ove (it|that|the file) a|Remove the file|--accept-loss", str(told.value))


async def test_what_is_no_file_holds_no_proof_and_no_keys(tmp_path):
    """Where a file can be done without, or is read again while toolcrib runs."""
    os.mkfifo(tmp_path / "pipe")

    assert recall(tmp_path / "pipe", {}) is None
    assert await read_from(tmp_path / "pipe")() == b""


def test_an_ordinary_file_is_read_and_a_pipe_where_somebody_names_one(tmp_path):
    (tmp_path / "file").write_bytes(b"\x00\xff")
    there, here = os.pipe()
    os.write(here, b"text")
    os.close(here)

    assert read_bytes(tmp_path / "file") == b"\x00\xff"
    assert read_named(Path(f"/dev/fd/{there}")) == "text"
    os.close(there)
