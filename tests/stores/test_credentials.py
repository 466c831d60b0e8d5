"""One contract for every place where sealed credentials are kept."""

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from toolcrib.core.errors import ConfigError
from toolcrib.stores.credentials import FILE_NAME, CredentialStore, FileCredentials
from toolcrib.stores.postgres.credentials import PgCredentials
from toolcrib.stores.postgres.database import PgDatabase

ME, OTHER = f"{os.getpid()}:me", f"{os.getpid()}:other"


@pytest.fixture(params=["file", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[CredentialStore]:
    if request.param == "file":
        yield FileCredentials(tmp_path)
        return
    database = PgDatabase(request.getfixturevalue("store_settings"))
    yield PgCredentials(database)
    await database.close()


async def test_what_was_written_is_read_replaced_and_removed(store: CredentialStore):
    await store.write("a:1", b"one")
    await store.write("a:1", b"\x00two")
    await store.write("b:1", b"other")

    assert await store.read("a:1") == b"\x00two"
    assert dict(await store.entries("a:")) == {"a:1": b"\x00two"}
    await store.write("a:1", None)
    assert await store.read("a:1") is None
    assert await store.read("b:1") == b"other"


async def test_of_two_who_take_an_entry_one_gets_it(store: CredentialStore):
    await store.write("flow", b"x")

    assert [await store.take("flow"), await store.take("flow")] == [b"x", None]


async def test_one_at_a_time_may_renew_an_entry(store: CredentialStore):
    """The same one may claim it again; another only when it was given back."""
    first = await store.claim("a", ME, 60)
    again = await store.claim("a", ME, 60)
    other = await store.claim("a", OTHER, 60)
    await store.release("a", OTHER)
    still = await store.claim("a", OTHER, 60)
    await store.release("a", ME)
    then = await store.claim("a", OTHER, 60)

    assert (first, again, other, still, then) == (True, True, False, False, True)


async def test_a_claim_ends_by_itself(store: CredentialStore):
    assert await store.claim("a", ME, 0)
    assert await store.claim("a", OTHER, 60)


async def test_the_file_is_for_its_owner_alone_and_says_when_it_is_damaged(tmp_path: Path):
    store, path = FileCredentials(tmp_path), tmp_path / FILE_NAME
    await store.write("a", b"x")
    mode = stat.S_IMODE(path.stat().st_mode)
    path.write_text("{")

    assert mode == 0o600
    with pytest.raises(ConfigError, match="cannot be read"):
        await store.read("a")


async def test_a_claim_of_a_process_that_is_gone_does_not_count(tmp_path: Path):
    store = FileCredentials(tmp_path)
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)

    assert await store.claim("a", f"{child}:x", 60)
    assert await store.claim("a", ME, 60)
