"""Clocks that jump: nothing that ended begins again, nothing ends for good by a mistake, no duration goes by them.

The table is every jump against everything that goes by the wall clock; what else there is must not read it.
"""

import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.stores.audit_logs import find, numbered, walk
from tests.transports.issuer import AUDIENCE, ISSUER, claims, jwks, signed
from tests.transports.issuer import NOW as ISSUED

import toolcrib
from toolcrib.calls.approvals import ApprovalQuestion, ApprovalReply
from toolcrib.calls.elicit import REQUEST, ApprovalSeal
from toolcrib.catalog.records import Storing
from toolcrib.config.lock import Record, age_s, timestamp
from toolcrib.config.model import Config
from toolcrib.core.access import Caller, Grants
from toolcrib.core.clocks import BELIEVED_S, Moments
from toolcrib.core.errors import PermissionDenied
from toolcrib.core.events import drop
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.core.offers import SecurityLevel
from toolcrib.core.requests import Request
from toolcrib.crib.layers import make_seal
from toolcrib.server.identity.authentication import AuthContext, make_authentication
from toolcrib.server.identity.jwt import JwtGate, JwtPolicy, KeyRing
from toolcrib.server.identity.sign_in import LINK_S, OwnNames
from toolcrib.stores.access_tokens import NewToken, TokenFile
from toolcrib.stores.audit.file import AuditFile
from toolcrib.stores.audit.writer import QueuedAudit
from toolcrib.stores.lockfile import MemoryRecords
from toolcrib.testing import ManualClock

HOUR, DAY, YEAR = 3600.0, 86_400.0, 31_556_952.0
BACK = {"an hour back": -HOUR, "a day back": -DAY, "ten years back": -10 * YEAR}
ON = {"two hours on": 2 * HOUR, "two days on": 2 * DAY, "ten years on": 10 * YEAR}
JUMPS = BACK | ON
NOW = float(ISSUED)


@dataclass
class Clocks:
    """A wall clock that can be set, and one that cannot."""

    wall: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    steady: ManualClock = field(default_factory=lambda: ManualClock(77.0))

    def wait(self, seconds: float) -> None:
        self.wall.advance(seconds)
        self.steady.advance(seconds)

    def moments(self) -> Moments:
        return Moments(self.wall, self.steady)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def test_a_clock_that_is_right_is_believed(clocks: Clocks):
    """Also when it is corrected by less than a second at a time."""
    moments = clocks.moments()
    clocks.wait(HOUR)
    clocks.wall.advance(0.5)

    assert moments() == NOW + HOUR + 0.5


@pytest.mark.parametrize("jump", BACK.values(), ids=BACK)
def test_a_clock_that_is_set_back_takes_no_time_back(clocks: Clocks, jump: float):
    """Time goes on from where it was."""
    moments = clocks.moments()
    clocks.wait(HOUR)
    moments()
    clocks.wall.advance(jump)
    clocks.wait(60)

    assert moments() == NOW + HOUR + 60


@pytest.mark.parametrize("jump", ON.values(), ids=ON)
def test_a_clock_that_was_set_on_by_mistake_is_forgotten(clocks: Clocks, jump: float):
    """While it is ahead it counts; set right, everything is as before."""
    moments = clocks.moments()
    clocks.wall.advance(jump)
    ahead = moments()
    clocks.wait(BELIEVED_S - 1)
    moments()
    clocks.wall.advance(-jump)

    assert (ahead, moments()) == (NOW + jump, NOW + BELIEVED_S - 1)


@pytest.mark.parametrize("jump", ON.values(), ids=ON)
def test_a_clock_that_stays_ahead_was_set_right(clocks: Clocks, jump: float):
    """As when a machine starts in 1970: from then on, it is not set back."""
    moments = clocks.moments()
    clocks.wall.advance(jump)
    moments()
    clocks.wait(BELIEVED_S)
    moments()
    clocks.wall.advance(-jump)

    assert moments() == NOW + jump + BELIEVED_S


def wish(lifetime_s: float | None) -> NewToken:
    return NewToken("ci", Grants(SecurityLevel.READ_ONLY), lifetime_s=lifetime_s)


@pytest.mark.parametrize("jump", BACK.values(), ids=BACK)
def test_an_expired_token_stays_expired_whatever_the_clock_is_set_to(clocks: Clocks, tmp_path: Path, jump: float):
    """One that has not expired works on, and expires when it should."""
    book = TokenFile(tmp_path / "tokens.json", clocks.moments())
    _, short = book.create(wish(HOUR))
    book.revoke("ci")
    token, short = book.create(wish(HOUR))
    clocks.wait(HOUR - 1)
    clocks.wall.advance(jump)
    before = book.identify(short.encode())
    clocks.wait(2)

    assert (before, book.identify(short.encode())) == (token.caller, None)
    assert not book.is_active(token.id)


@pytest.mark.parametrize("jump", ON.values(), ids=ON)
def test_a_token_works_again_when_a_clock_is_set_right(clocks: Clocks, tmp_path: Path, jump: float):
    """Whatever is beyond its end by the clock is closed, but not for ever."""
    book = TokenFile(tmp_path / "tokens.json", clocks.moments())
    token, text = book.create(wish(HOUR))
    clocks.wall.advance(jump)
    meanwhile = book.identify(text.encode())
    clocks.wall.advance(-jump)

    assert (meanwhile, book.identify(text.encode())) == (None, token.caller)


def test_a_start_with_a_clock_far_back_revives_no_token(clocks: Clocks, tmp_path: Path):
    """Nobody remembers how late it was; but a token that is from the future cannot be told from an expired one."""
    path = tmp_path / "tokens.json"
    _, text = TokenFile(path, clocks.wall).create(wish(HOUR))
    _, lasting = TokenFile(path, clocks.wall).create(NewToken("owner", Grants(SecurityLevel.READ_ONLY)))
    clocks.wall.advance(-10 * YEAR)
    book = TokenFile(path, clocks.moments())

    assert book.identify(text.encode()) is None
    assert book.identify(lasting.encode()) is not None


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
async def test_an_expired_jwt_stays_expired_and_a_good_one_works_once_the_clock_is_right(clocks: Clocks, jump: float):
    """Its keys are fetched by the steady clock."""

    async def fetch() -> bytes:
        return jwks("rsa")

    ring = KeyRing(fetch, drop, clocks.steady)
    await ring.refresh()
    gate = JwtGate(JwtPolicy(ISSUER, AUDIENCE, ("RS256",)), ring, clocks.moments())
    text = signed(claims(exp=ISSUED + 600))
    known = gate.check(text)
    clocks.wall.advance(jump)
    meanwhile = gate.check(text)
    clocks.wall.advance(-jump if jump > 0 else 0)
    right = gate.check(text)
    clocks.wait(HOUR)

    assert known is not None
    assert (meanwhile, right, gate.check(text)) == (None if jump > 0 else known, known, None)


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
def test_a_person_s_answer_counts_once_whatever_the_clock_is_set_to(jump: float, monkeypatch: pytest.MonkeyPatch):
    """How long it may take is told by a clock nobody sets."""
    seal, wall = ApprovalSeal(make_seal(b""), 60.0), time.time()
    question = ApprovalQuestion("q1", "files__write", "files", "write", "ann", {}, 60.0)

    def call(more: dict[str, object]) -> Request:
        return Request("files__write", "write", {}, Caller("ann"), more=more)

    state = seal.ask(question, call({})).mcp["requestState"]
    back = {"requestState": state, "inputResponses": {REQUEST: {"action": "accept", "content": {"answer": "once"}}}}
    monkeypatch.setattr(time, "time", lambda: wall + jump)

    assert seal.open(call(back))[0] is ApprovalReply.ONCE
    with pytest.raises(PermissionDenied):
        seal.open(call(back))


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
def test_a_link_to_sign_in_lasts_as_long_as_it_should_whatever_the_clock_is_set_to(
    clocks: Clocks, tmp_path: Path, jump: float
):
    """So do sessions, which go by the same clock."""
    here = AuthContext({"HOME": str(tmp_path)}, clocks.moments(), clocks.steady, drop)
    sign_ins = make_authentication(Config(), here).sign_ins
    sign_ins.open(OwnNames("key", 1, lambda _: None))
    word = sign_ins.make_link().rpartition("=")[2]
    clocks.wall.advance(jump)
    before = sign_ins.place_of(word)
    clocks.wait(LINK_S)

    assert before is not None
    assert sign_ins.place_of(word) is None


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
async def test_a_record_from_the_future_is_stale_and_is_replaced(jump: float):
    """Otherwise a record made while the clock was wrong would be fresh for years."""
    now = datetime.fromtimestamp(NOW, UTC)
    record = Record("x", DiscoveryStatus.SUCCESS, last_discovery=timestamp(datetime.fromtimestamp(NOW + jump, UTC)))
    made = Record(
        "x",
        DiscoveryStatus.SUCCESS,
        last_discovery=timestamp(datetime.fromtimestamp(datetime.now(UTC).timestamp() + jump, UTC)),
    )

    assert age_s(record, now) == (None if jump > 0 else -jump)
    assert Storing(MemoryRecords(), drop).is_due(made)


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
async def test_the_audit_log_keeps_the_order_of_what_happened(clocks: Clocks, tmp_path: Path, jump: float):
    """Each entry tells the time the clock showed; the chain holds."""
    path = tmp_path / "audit.db"
    log = QueuedAudit(AuditFile(path), lambda: int(clocks.wall() * 1e9))
    for entry in numbered(3):
        await log.commit(entry)
        clocks.wall.advance(jump)
    await log.close()

    assert [entry.tool for entry in find(path)] == ["tool1", "tool2", "tool3"]
    assert walk(path).fault is None


WALL = re.compile(r"\btime\.time(_ns)?\b|datetime\.now\(|utcnow\(")
READERS = {
    "catalog/flights.py": "when a server is asked again, for people",
    "catalog/records.py": "when a tool was accepted; how old a record of another run is",
    "catalog/refresh.py": "when a server was asked; how old a record of another run is",
    "cli/commands/clients.py": "whether a client is connected; when somebody is invited",
    "cli/commands/tokens.py": "whether a token works",
    "cli/logs.py": "when something happened, for people",
    "cli/opening.py": "when a token is made",
    "cli/commands/connect.py": "whether there are tokens",
    "cli/serving.py": "when news came, for people",
    "core/clocks.py": "the moments others go by",
    "credentials/accounts.py": "when a token ends that another process got",
    "crib/builder.py": "when calls began, for people",
    "crib/crib.py": "a part of a name",
    "crib/database.py": "tokens that are copied",
    "crib/layers.py": "when something happened, in the audit log",
    "crib/replicas.py": "since when a part is away, for people",
    "cli/commands/kb_changes.py": "whether a file changed just now",
    "knowledge/ingest.py": "when a document came in; whether a file may still be written to",
    "platform/gateway.py": "a date another machine named, without its own",
    "platform/headers.py": "whether a token of the platform works",
    "project/projects.py": "when a project was used; when something happened, for people",
    "project/sessions.py": "when a session was opened and used, for people",
    "server/mcp/roaming.py": "when a session was opened, for people",
    "server/app.py": "when it was started, and when news came, for people",
    "server/views/accounts.py": "whether a token has ended, for people",
    "server/views/calls.py": "how far back somebody looks; when a question was asked, for people",
    "server/views/costs.py": "how far back is counted",
    "server/web/render.py": "when a token is made",
    "server/web/settings_page.py": "whether a token works",
    "server/web/sign_in_page.py": "when a session began, for people",
    "server/web/words.py": "how long ago something was, for people",
    "sources/native/builtin.py": "the tool that tells the time",
    "sources/mcp/supervise.py": "since when a server is being started, for people",
    "stores/audit/file.py": "when something happened, in the audit log",
    "stores/postgres/audit_append.py": "when something happened, in the audit log",
    "stores/local.py": "when a task changed",
    "stores/postgres/lock.py": "when somebody answered",
    "stores/lockfile.py": "when somebody answered",
    "stores/run_files.py": "since when somebody serves, for people",
}


def test_only_moments_are_read_from_the_wall_clock():
    """Limits, the breaker, back-off, deadlines, sessions and what is kept for a while go by a clock nobody sets."""
    package = Path(toolcrib.__file__).parent
    found = {
        path.relative_to(package).as_posix() for path in package.rglob("*.py") if WALL.search(path.read_text("utf-8"))
    }

    assert found == READERS.keys()
