"""Tokens in their file: shown once, kept as digests, ended at once; what cannot be trusted lets nobody in."""

import hashlib
import json
import os
import shutil
import stat
import threading
from pathlib import Path

import pytest

from toolcrib.core.access import Caller, Grants
from toolcrib.core.errors import CallerError, ConfigError
from toolcrib.core.offers import SecurityLevel
from toolcrib.stores import access_tokens
from toolcrib.stores.access_tokens import NewToken, NoSuchToken, TokenFile, token_file
from toolcrib.stores.files import check_private
from toolcrib.testing import ManualClock

READ = Grants(SecurityLevel.READ_ONLY)
NARROW = Grants(SecurityLevel.WRITE, ("github",), ("github__*",), frozenset({"net"}))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000.0)


@pytest.fixture
def kept(tmp_path: Path, clock: ManualClock) -> TokenFile:
    return TokenFile(tmp_path / "state" / "tokens.json", clock)


def test_a_token_stands_for_its_caller_and_grants(kept):
    """Level, servers, tools and capabilities come back as they were granted."""
    token, text = kept.create(NewToken("ci", NARROW, "agent"))

    assert kept.identify(text.encode()) == Caller(f"token:{token.id}", "agent", NARROW)


def test_only_a_digest_is_kept_and_only_the_owner_can_read_it(kept):
    """The secret has 256 bits and is nowhere in the file."""
    token, text = kept.create(NewToken("ci", READ))
    prefix, token_id, secret = text.split("_", 2)

    assert (prefix, token_id, len(secret)) == ("tc", token.id, 43)
    assert secret not in kept.path.read_text()
    assert token.sha256 == hashlib.sha256(secret.encode()).hexdigest()
    assert stat.S_IMODE(kept.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("change", ["", "x", "cut", "case", "space", "id", "prefix", "other secret", "latin"])
def test_anything_but_the_exact_token_is_nobody(kept, change):
    """One character more, less or else is another token."""
    token, text = kept.create(NewToken("ci", READ))
    _, other = kept.create(NewToken("other", READ))
    presented = {
        "": "",
        "x": text + "x",
        "cut": text[:-1],
        "case": text.swapcase(),
        "space": f" {text}",
        "id": token.id,
        "prefix": text.removeprefix("tc_"),
        "other secret": f"tc_{token.id}_{other.split('_', 2)[2]}",
        "latin": text + "é",
    }[change]

    assert kept.identify(presented.encode("latin-1")) is None


def test_a_revoked_token_ends_at_once_wherever_it_is_known(kept, clock):
    """A running server has another view of the same file; the other tokens go on working."""
    token, text = kept.create(NewToken("ci", READ))
    _, other = kept.create(NewToken("other", READ))
    server = TokenFile(kept.path, clock)
    before = server.identify(text.encode()), server.has_ended(token.id)

    revoked = kept.revoke("ci")

    assert before == (token.caller, False)
    assert server.identify(text.encode()) is None
    assert server.identify(other.encode()) is not None
    assert (server.is_active(token.id), server.has_ended(token.id)) == (False, True)
    assert not server.is_active("never made")
    assert revoked.state(clock()) == "revoked"


def test_a_token_expires_by_the_clock(kept, clock):
    """Although nothing changed in the file, and although it was known a moment ago."""
    token, text = kept.create(NewToken("ci", READ, lifetime_s=60))
    clock.advance(59)
    before = kept.identify(text.encode()), kept.is_active(token.id)
    clock.advance(1)

    assert before == (token.caller, True)
    assert (kept.identify(text.encode()), kept.is_active(token.id)) == (None, False)


def test_the_caller_of_a_known_token_is_the_same_object(kept):
    """Whoever compares callers need not compare their grants."""
    _, text = kept.create(NewToken("ci", READ))

    assert kept.identify(text.encode()) is kept.identify(text.encode())


def test_no_more_than_a_bounded_number_of_tokens_is_remembered(kept, monkeypatch):
    """Forgetting them costs a digest, nothing else."""
    monkeypatch.setattr(access_tokens, "KNOWN_MAX", 2)
    texts = [kept.create(NewToken(f"t{n}", READ))[1].encode() for n in range(5)]

    remembered = []
    for text in texts * 2:
        assert kept.identify(text)
        remembered.append(len(kept._known._seen))

    assert remembered == [1, 2] * 5


DAMAGE = {
    "empty": lambda text: "",
    "cut": lambda text: text[: len(text) // 2],
    "not JSON": lambda text: "tokens",
    "a list": lambda text: "[]",
    "another version": lambda text: text.replace('"version": 1', '"version": 2'),
    "an unknown field": lambda text: text.replace('"name"', '"scope": "all", "name"'),
    "an unknown level": lambda text: text.replace("read_only", "root"),
    "a digest that is none": lambda text: text.replace('"sha256": "', '"sha256": "é'),
    "one id twice": lambda text: json.dumps({"version": 1, "tokens": json.loads(text)["tokens"] * 2}),
    "deep": lambda text: "[" * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_lets_nobody_in(kept, damage):
    """Not even tokens that were known; and the trouble is an error that says where."""
    token, text = kept.create(NewToken("ci", READ))
    kept.identify(text.encode())
    kept.path.write_text(DAMAGE[damage](kept.path.read_text()))

    for _ in range(2):
        with pytest.raises(ConfigError, match="damaged"):
            kept.identify(text.encode())
    assert not kept.is_active(token.id)
    with pytest.raises(ConfigError, match=r"tokens\.json"):
        kept.read()


def test_a_repaired_file_counts_again(kept):
    """Without a restart."""
    _, text = kept.create(NewToken("ci", READ))
    good = kept.path.read_text()
    kept.path.write_text("damage")
    with pytest.raises(ConfigError):
        kept.identify(text.encode())
    kept.path.write_text(good)

    assert kept.identify(text.encode()) is not None


def test_a_damaged_file_is_not_written_over(kept):
    """Whatever can still be read from it by hand is not lost."""
    kept.create(NewToken("ci", READ))
    kept.path.write_text("damage")

    with pytest.raises(ConfigError):
        kept.create(NewToken("more", READ))
    assert kept.path.read_text() == "damage"


def test_a_file_that_others_may_write_is_not_used(kept):
    """Whoever can write it can let anybody in."""
    _, text = kept.create(NewToken("ci", READ))
    kept.path.chmod(0o622)
    os.utime(kept.path, ns=(1, 1))

    with pytest.raises(ConfigError, match="Others may write"):
        kept.identify(text.encode())


def test_a_file_of_another_user_is_not_used(kept, monkeypatch):
    """However narrow its mode is; a file of ours is, and so is one of root's."""
    kept.create(NewToken("ci", READ))
    owner = kept.path.stat().st_uid or 4242  # root's own would be fine
    os.chown(kept.path, owner, -1)
    monkeypatch.setattr(os, "geteuid", lambda: owner)
    check_private(kept.path, "tokens")
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    with pytest.raises(ConfigError, match="Others may write"):
        check_private(kept.path, "tokens")


def test_a_removed_file_is_no_token(kept):
    """Nobody comes in by what is no longer there."""
    _, text = kept.create(NewToken("ci", READ))
    kept.identify(text.encode())
    kept.path.unlink()

    assert kept.identify(text.encode()) is None
    assert kept.read() == ()


def test_a_name_is_free_again_when_its_token_has_ended(kept, clock):
    """By expiry or by revocation; not before."""
    kept.create(NewToken("ci", READ, lifetime_s=60))
    with pytest.raises(CallerError, match="already"):
        kept.create(NewToken("ci", READ))
    clock.advance(60)
    second, _ = kept.create(NewToken("ci", READ))
    kept.revoke("ci")
    third, _ = kept.create(NewToken("ci", READ))

    assert [token.state(clock()) for token in kept.read()] == ["expired", "revoked", "active"]
    assert kept.revoke(third.id).id == third.id
    assert second.id != third.id


def test_a_token_nobody_has_cannot_be_revoked(kept):
    """Nor one that was revoked before."""
    kept.create(NewToken("ci", READ))
    kept.revoke("ci")

    with pytest.raises(NoSuchToken, match="called 'ci'"):
        kept.revoke("ci")


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\x1b[31m", "x" * 65])
def test_a_name_is_short_and_printable(kept, name):
    """It is shown in tables and logs."""
    with pytest.raises(CallerError, match="cannot be the name"):
        kept.create(NewToken(name, READ))


def test_a_name_may_be_so_long(kept):
    name = "x" * access_tokens.NAME_MAX

    assert kept.create(NewToken(name, READ))[0].name == name


def test_tokens_made_at_the_same_time_are_all_kept(kept, clock):
    """Each writer waits for the others."""

    def make(number: int) -> None:
        TokenFile(kept.path, clock).create(NewToken(f"t{number}", READ))

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {token.name for token in kept.read()} == {f"t{number}" for number in range(8)}


@pytest.fixture
def noted(tmp_path: Path, clock: ManualClock) -> TokenFile:
    """The same, with a note elsewhere that there are tokens."""
    return TokenFile(tmp_path / "state" / "tokens.json", clock, tmp_path / "witness" / "note")


def empty(path: Path) -> None:
    path.write_text('{"version": 1, "tokens": []}')


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: shutil.rmtree(path.parent), empty])
def test_deleting_the_tokens_does_not_open_a_door_that_was_closed(noted, clock, lose):
    """The file, its directory, or what is in it: nobody is let in, none can be made, and the way out is told."""
    _, text = noted.create(NewToken("ci", READ))
    lose(noted.path)
    later = TokenFile(noted.path, clock, noted.path.parents[1] / "witness" / "note")

    for work in (later.read, lambda: later.create(NewToken("other", READ)), lambda: later.revoke("ci")):
        with pytest.raises(ConfigError, match=r"so nobody is let in.*toolcrib tokens reset"):
            work()
    for known in (noted, later):
        with pytest.raises(ConfigError):
            known.identify(text.encode())


def test_the_note_that_there_are_tokens_is_the_owners_alone(noted):
    noted.create(NewToken("ci", READ))
    note = noted.path.parents[1] / "witness" / "note"

    assert [stat.S_IMODE(path.stat().st_mode) for path in (note, note.parent)] == [0o600, 0o700]


def test_a_reset_opens_the_door_on_purpose(noted):
    """All tokens end, and new ones can be made; without the note, the tokens alone keep it closed."""
    noted.create(NewToken("ci", READ))
    noted.path.unlink()
    noted.reset()
    opened = noted.read()

    token, _ = noted.create(NewToken("ci", READ))
    (noted.path.parents[1] / "witness" / "note").unlink()

    assert (opened, noted.read()) == ((), (token,))


def test_where_no_token_was_ever_made_none_is_missing(noted):
    """Nothing is written by looking."""
    assert noted.read() == ()
    assert not noted.path.parent.exists()


def test_a_note_that_cannot_be_written_keeps_nobody_from_making_tokens(noted):
    """Where only the state directory may be written, the tokens themselves keep the door closed."""
    (noted.path.parents[1] / "witness").write_text("a file where a directory should be")

    token, _ = noted.create(NewToken("ci", READ))

    assert noted.read() == (token,)


def test_a_token_without_a_level_is_not_made(kept):
    with pytest.raises(CallerError, match="A token needs a level"):
        kept.create(NewToken("ci", Grants()))

    assert not kept.path.exists()


@pytest.mark.parametrize("same", [("size", "inode"), ("time", "inode"), ("time", "size")])
def test_whatever_tells_a_file_from_what_it_was_has_it_read_again(kept, same):
    """Its time, its size or its place on the disk: one of them is enough."""
    _, text = kept.create(NewToken("ci", READ))
    assert kept.identify(text.encode()) is not None
    before, content = kept.path.stat(), kept.path.read_text()
    other = content.replace('"sha256": "', '"sha256": "0', 1)
    other = other[: other.index('"sha256": "0') + 75] + other[other.index('"sha256": "0') + 76 :]
    other += "" if "size" in same else "\n"
    if "inode" in same:
        kept.path.write_text(other)
    else:
        beside = kept.path.with_name("beside")
        beside.write_text(other)
        beside.chmod(0o600)
        beside.replace(kept.path)
    later_ns = 0 if "time" in same else 1_000_000_000
    os.utime(kept.path, ns=(before.st_atime_ns, before.st_mtime_ns + later_ns))
    after = kept.path.stat()

    found = {"time": after.st_mtime_ns == before.st_mtime_ns, "size": after.st_size == before.st_size}
    found["inode"] = after.st_ino == before.st_ino
    assert {name for name, is_same in found.items() if is_same} == set(same)
    assert kept.identify(text.encode()) is None


def test_a_file_nobody_can_look_at_lets_nobody_in(tmp_path):
    """With what is wrong, and a way out."""
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match=r"The tokens cannot be read: Not a directory\."):
        check_private(tmp_path / "file" / "tokens.json", "tokens")


def test_the_users_tokens_and_the_note_that_there_are_some_are_kept_apart(tmp_path, clock):
    """Whoever removes the one directory opens no door."""
    token_file({"XDG_STATE_HOME": str(tmp_path)}, clock).create(NewToken("ci", READ))

    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {"toolcrib/tokens.json"} < found
    assert [path for path in found if path.startswith("toolcrib-witness/")]


def test_tokens_that_have_no_place_are_refused_in_plain_words(tmp_path, clock):
    (tmp_path / "state").write_text("a file where the directory should be")

    with pytest.raises(ConfigError, match="Tokens cannot be kept"):
        TokenFile(tmp_path / "state" / "deep" / "tokens.json", clock).create(NewToken("ci", READ))
