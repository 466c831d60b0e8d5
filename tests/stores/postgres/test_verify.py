"""Each kind of damage is told in words; what is sound is called so."""

import psycopg
import pytest

from toolcrib.config.lock import Pin, Record
from toolcrib.core.access import Grants
from toolcrib.core.audit import AuditEntry
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.core.offers import SecurityLevel
from toolcrib.stores.access_tokens import NewToken
from toolcrib.stores.audit.log import body_of
from toolcrib.stores.postgres.audit import AuditTable
from toolcrib.stores.postgres.database import PgDatabase, StoreSettings
from toolcrib.stores.postgres.lock import PgLedger
from toolcrib.stores.postgres.tokens import PgTokens
from toolcrib.stores.postgres.verify import verify_store
from toolcrib.stores.postgres.worklist import PgWorkList


@pytest.fixture
async def database(store_settings):
    opened = PgDatabase(store_settings)
    yield opened
    await opened.close()


@pytest.fixture
async def filled(database):
    """Some of everything."""
    ledger, work = PgLedger(database), PgWorkList(database, "/here", lambda: "now")
    await ledger.update(
        "files", lambda _: Record("files", DiscoveryStatus.SUCCESS, pins={"read": Pin("hash", "identity")})
    )
    await ledger.write("files__read", "ann", True, "terminal")
    await work.add("one")
    await work.add("two", after=[1])
    PgTokens(database.settings, lambda: 0.0).create(NewToken("ci", Grants(SecurityLevel.READ_ONLY)))
    log = AuditTable(database.settings, "").open()
    log.append([body_of(number, AuditEntry("start")) for number in range(3)])
    log.close()
    return database


async def told(database) -> dict[str, tuple[str, ...]]:
    return {finding.part: finding.problems for finding in await verify_store(database) if finding.problems}


async def test_what_is_sound_is_called_so_part_by_part(filled):
    findings = await verify_store(filled)

    parts = [finding.part for finding in findings]
    assert parts == ["steps", "records", "answers", "tokens", "tasks", "audit", "knowledge"]
    assert await told(filled) == {}


@pytest.mark.parametrize(
    ("damage", "part", "words"),
    [
        ("UPDATE toolcrib.record SET body = '{}'", "records", "record of server 'files' cannot be read"),
        ('UPDATE toolcrib.record SET body = replace(body, \'"hash":"hash"\', \'"hash":""\')', "records", "pin of"),
        ("UPDATE toolcrib.answer SET caller = ' '", "answers", "nobody can be"),
        ("UPDATE toolcrib.answer SET at = 'noon'", "answers", "which is no time"),
        ("UPDATE toolcrib.token SET body = '{}'", "tokens", "is damaged"),
        ("UPDATE toolcrib.token SET id = '000000000000'", "tokens", "it says it is"),
        ("UPDATE toolcrib.task SET after = '{7}' WHERE id = 2", "tasks", "There is no task 7"),
        ("UPDATE toolcrib.task SET after = '{2}' WHERE id = 1", "tasks", "would wait for each other"),
        ("UPDATE toolcrib.audit_head SET seq = 7", "audit", "the tail was cut"),
        ("INSERT INTO toolcrib.kb_passage VALUES ('main', 7, 0, 0, 1, NULL, '[]', '')", "knowledge", "no document"),
        ("DELETE FROM toolcrib.step WHERE version = 20", "steps", "Step 020 lock is missing"),
    ],
)
async def test_damage_is_told_where_it_is(filled, damage, part, words):
    with psycopg.connect(filled.settings.url) as connection:
        connection.execute(damage)

    found = await told(filled)
    assert list(found) == [part]
    assert words in found[part][0]


async def test_another_fleets_damage_is_not_ours(filled):
    with psycopg.connect(filled.settings.url) as connection:
        connection.execute("UPDATE toolcrib.record SET body = '{}'")
    other = PgDatabase(StoreSettings(filled.settings.url, "other"))

    assert await told(other) == {}
    await other.close()
