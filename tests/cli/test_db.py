"""``toolcrib db copy`` and ``db verify`` as a person runs them, also when they are killed."""

import random
import time

import psycopg
import pytest
from tests.cli.program import Program

from toolcrib.config.lock import Lock, Pin, Record, StandingAnswer
from toolcrib.core.access import Grants
from toolcrib.core.audit import AuditEntry
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.core.offers import SecurityLevel
from toolcrib.stores.access_tokens import NewToken, TokenFile
from toolcrib.stores.audit.file import AuditDatabase, AuditFile
from toolcrib.stores.audit.log import body_of
from toolcrib.stores.lockfile import LockFile
from toolcrib.stores.postgres.audit import AuditTable
from toolcrib.stores.postgres.database import PgDatabase, StoreSettings
from toolcrib.stores.postgres.lock import PgLedger
from toolcrib.stores.postgres.tokens import PgTokens

ENTRIES = 2_000
KILLS = 5


def fill(toolcrib: Program) -> None:
    """What a machine has after a while."""
    records = {f"s{n:03}": Record(f"s{n:03}", DiscoveryStatus.SUCCESS, pins={"t": Pin("h", "i")}) for n in range(60)}
    answers = {f"s{n:03}__t": {"ann": StandingAnswer(True, "2026-01-02T03:04:05Z", "terminal")} for n in range(40)}
    LockFile(toolcrib.project / "toolcrib.lock").change(lambda _: Lock(records, answers))
    state = toolcrib.home / "state" / "toolcrib"
    state.mkdir(parents=True)
    tokens = TokenFile(state / "tokens.json", time.time)
    for n in range(30):
        tokens.create(NewToken(f"t{n}", Grants(SecurityLevel.WRITE)))
    log = AuditDatabase(state / "audit.db")
    log.append([body_of(n * 1_000_000, AuditEntry("call", f"s__t{n % 7}", caller="ann")) for n in range(ENTRIES)])
    log.close()


def counted(settings: StoreSettings) -> int:
    with psycopg.connect(settings.url) as connection:
        row = connection.execute("SELECT coalesce(sum(copied), 0) FROM toolcrib.copying").fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
def shared(toolcrib: Program, store_settings: StoreSettings) -> Program:
    toolcrib.write(f'[store]\nurl = "{store_settings.url}"')
    return toolcrib


async def test_a_copy_that_is_killed_again_and_again_ends_equal(shared: Program, store_settings: StoreSettings):
    """Records, answers, tokens, and every audit entry with its number and its hash."""
    fill(shared)
    total = 60 + 40 + 30 + ENTRIES
    chosen = random.Random(0)
    for number in range(KILLS):
        until_row = total * number // KILLS + chosen.randrange(total // KILLS)
        process = shared.start("db", "copy", "--batch", "5")
        while counted(store_settings) < until_row and process.poll() is None:
            time.sleep(0.001)
        process.kill()
        assert process.wait() == -9, "it was quicker than its killer"
    result = shared.run("db", "copy")
    again = shared.run("db", "copy")

    assert (result.returncode, again.returncode) == (0, 0), result.stderr + again.stderr
    assert f"audit entries: {ENTRIES}, copied and compared" in result.stdout
    assert "audit entries: 2000, copied before" in again.stdout
    state = shared.home / "state" / "toolcrib"
    with AuditFile(state / "audit.db").reading() as here, AuditTable(store_settings, "").reading() as there:
        assert list(there.rows()) == list(here.rows())
        assert there.head() == here.head()
    assert PgTokens(store_settings, time.time).read() == TokenFile(state / "tokens.json", time.time).read()
    database = PgDatabase(store_settings)
    assert await PgLedger(database).lock() == LockFile(shared.project / "toolcrib.lock").read()
    await database.close()
    assert shared.run("db", "verify").returncode == 0
    assert shared.run("audit", "verify").returncode == 0


def test_only_the_project_can_be_copied(shared: Program, store_settings: StoreSettings):
    fill(shared)
    done = shared.json("db", "copy", "--from-project")

    assert [(part["part"], part["rows"]) for part in done] == [("records", 60), ("answers", 40)]
    assert PgTokens(store_settings, time.time).read() == ()


def test_a_log_that_replicas_write_already_is_not_written_to(shared: Program):
    fill(shared)
    shared.run("tokens", "create", "ci")
    result = shared.run("db", "copy")

    assert result.returncode != 0
    assert "holds tokens already that came from elsewhere" in result.stderr


def test_a_log_that_is_not_whole_stays_where_it_is(shared: Program):
    fill(shared)
    import apsw

    connection = apsw.Connection(str(shared.home / "state" / "toolcrib" / "audit.db"))
    connection.execute("DROP TRIGGER entry_is_never_deleted")
    connection.execute("DELETE FROM entry WHERE seq = 7")
    connection.close()
    result = shared.run("db", "copy")

    assert result.returncode != 0
    assert "record 7 is missing" in result.stderr


def test_verify_tells_what_is_wrong_and_fails(shared: Program, store_settings: StoreSettings):
    sound = shared.run("db", "verify")
    with psycopg.connect(store_settings.url) as connection:
        connection.execute("INSERT INTO toolcrib.record (fleet, server, body) VALUES ('main', 'files', '{')")
    broken = shared.run("db", "verify")

    assert (sound.returncode, broken.returncode) == (0, 1)
    assert "records: as it should be" in sound.stdout
    assert "records: not as it should be\n  The record of server 'files' cannot be read" in broken.stdout


def test_without_a_shared_database_there_is_nowhere_to_copy_to(toolcrib: Program):
    result = toolcrib.run("db", "copy")

    assert result.returncode != 0
    assert "No shared database is configured" in result.stderr


def test_the_knowledge_base_comes_along(shared: Program):
    """Under the same shared name it answers as it did from its file."""
    here = 'path = "../state/toolcrib/kb.db"'
    (shared.project / "whales.md").write_text("# Whales\n\nWhales breathe air.\n")
    shared.config.write_text(shared.config.read_text().replace("enabled = false", f"docs = false\n{here}"))
    settings = shared.config.read_text()
    shared.config.write_text(settings[settings.index("[kb]") :])  # not shared yet, nor is the log of what is added
    added = shared.run("kb", "add", "whales.md")
    shared.config.write_text(settings.replace(here, ""))
    copied = shared.run("db", "copy")
    after = shared.run("kb", "search", "what do whales breathe").stdout

    assert added.returncode == 0, added.stderr
    assert copied.returncode == 0, copied.stderr
    assert "documents: 1, copied and compared" in copied.stdout
    assert "breathe air" in after
