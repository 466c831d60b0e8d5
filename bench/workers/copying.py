"""One move of a machine into PostgreSQL, killed again and again; prints what came of it as JSON.

``python copying.py ENTRIES DOCUMENTS KILLS``, under the interpreter that has toolcrib.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import psycopg
from tests.fleet.engines import a_postgres

from toolcrib.core.audit import AuditEntry
from toolcrib.stores.audit.file import AuditDatabase, AuditFile
from toolcrib.stores.audit.log import body_of
from toolcrib.stores.postgres.audit import AuditTable
from toolcrib.stores.postgres.database import StoreSettings

TOOLCRIB = [sys.executable, "-m", "toolcrib"]
SETTINGS = ("fsync=on", "shared_buffers=256MB", "max_connections=50", "max_wal_size=4GB")
TEXT = "whales breathe air under cold water while ships cross slow grey seas and sailors count the stars"
WORDS = TEXT.split()
DONE = """SELECT (SELECT count(*) FROM toolcrib.audit_entry) + (SELECT count(*) FROM toolcrib.kb_document)"""
BATCH = 1_000


def main() -> None:
    entries, documents, kills = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as place, a_postgres(SETTINGS) as postgres:
        move = Move(Path(place), postgres.fresh_database())
        move.fill(entries, documents)
        began = time.monotonic()
        killed = [
            move.kill_at(share * (entries + documents)) for share in sorted(random.random() for _ in range(kills))
        ]
        last = move.run("db", "copy")
        seconds = time.monotonic() - began
        print(json.dumps({"seconds": seconds, "killed": sum(killed), "unequal": move.differences(), "failed": last}))


class Move:
    """A machine with a log and documents, and the database they shall go to."""

    def __init__(self, home: Path, url: str) -> None:
        self.home, self.url = home, url
        self.state = home / "state" / "toolcrib"
        self.state.mkdir(parents=True)
        (home / "shared.toml").write_text(f'[store]\nurl = "{url}"\n[kb]\ndocs = false\n')
        (home / "alone.toml").write_text("[kb]\ndocs = false\n")
        self._env = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / "state")}

    def fill(self, entries: int, documents: int) -> None:
        log = AuditDatabase(self.state / "audit.db")
        for first in range(0, entries, BATCH):
            numbers = range(first, min(first + BATCH, entries))
            log.append([body_of(n * 1_000_000, AuditEntry("call", f"s__t{n % 50}", caller="ann")) for n in numbers])
        log.close()
        folder = self.home / "documents"
        folder.mkdir()
        chance = random.Random(1)
        for number in range(documents):
            parts = [" ".join(chance.choices(WORDS, k=120)) for _ in range(3)]
            (folder / f"{number}.md").write_text(f"# Note {number}\n\n" + "\n\n## Part\n\n".join(parts))
        added = self._command("alone", "kb", "add", str(folder), "--collection", "notes")
        assert subprocess.run(added, env=self._env, cwd=self.home, check=False, capture_output=True).returncode == 0

    def kill_at(self, rows: float) -> bool:
        """Start a copy, and kill it once so many rows have arrived; whether it was still at it."""
        process = subprocess.Popen(
            self._command("shared", "db", "copy"), env=self._env, cwd=self.home, stdout=subprocess.DEVNULL
        )
        with psycopg.connect(self.url, autocommit=True) as connection:
            while process.poll() is None and self._arrived(connection) < rows:
                time.sleep(0.005)
        process.kill()
        return process.wait() == -9

    @staticmethod
    def _arrived(connection: "psycopg.Connection[tuple[int]]") -> int:
        row = connection.execute(DONE).fetchone()
        return row[0] if row else 0

    def run(self, *words: str) -> int:
        done = subprocess.run(self._command("shared", *words), env=self._env, cwd=self.home, check=False)
        return done.returncode

    def differences(self) -> int:
        """How many of these are not the same on both sides: the log, its head, the documents; and both must verify."""
        settings = StoreSettings(self.url)
        with AuditFile(self.state / "audit.db").reading() as here, AuditTable(settings, "").reading() as there:
            unequal = (list(here.rows()) != list(there.rows())) + (here.head() != there.head())
        unequal += self._documents("alone") != self._documents("shared")
        return unequal + sum(
            self.run(*words) != 0 for words in (("db", "verify"), ("audit", "verify"), ("kb", "verify"))
        )

    def _documents(self, which: str) -> list[str]:
        command = self._command(which, "kb", "export", "notes")
        done = subprocess.run(command, env=self._env, cwd=self.home, check=True, capture_output=True, text=True)
        return sorted(done.stdout.splitlines())

    def _command(self, which: str, *words: str) -> list[str]:
        return [*TOOLCRIB, *words, "--config", str(self.home / f"{which}.toml")]


main()
