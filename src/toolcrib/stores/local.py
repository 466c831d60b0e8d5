"""Everything that is kept, in files of this machine."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from toolcrib.config.lock import LockStore
from toolcrib.config.model import Config, has_result_limit
from toolcrib.config.references import resolve
from toolcrib.config.sections import KbConfig
from toolcrib.core.coordination import Coordination, SessionBook
from toolcrib.core.errors import KnowledgeUnavailable
from toolcrib.core.knowledge import OWN_COLLECTION, KnowledgeStore
from toolcrib.core.worklist import WorkList
from toolcrib.stores.access_tokens import TokenBook, token_file
from toolcrib.stores.audit.file import AuditFile
from toolcrib.stores.audit.log import AuditPlace
from toolcrib.stores.connections import ConnectionBook, connection_file
from toolcrib.stores.credentials import CredentialStore, credentials_file
from toolcrib.stores.knowledge.store import SqliteKnowledge
from toolcrib.stores.lockfile import FileLedger, LockFile
from toolcrib.stores.paths import Environment, results_path, state_directory
from toolcrib.stores.results import Results, ResultStore
from toolcrib.stores.worklist import TASKS_NAME, SqliteWorkList


class Backend:
    """Where things are kept, by their kind. Nothing is opened before it is used, but for what ``open`` reaches.

    Whatever keeps them elsewhere is a subclass; which one is used, ``crib.backend`` decides.
    """

    place = ""
    """Where the shared database is, without passwords; empty if there is none."""
    look: Callable[[], Awaitable[None]] | None = None
    """Raises while the shared database is away; ``None`` if there is none."""
    coordination: Coordination | None = None
    """What replicas agree through, once it is open; ``None`` if there can be no others."""

    def __init__(self, config: Config, around: Environment) -> None:
        self.config, self.around = config, around
        self._results: ResultStore | None = None

    async def open(self) -> Self:
        """Reach what is shared with other replicas; raises if it is not as it should be."""
        return self

    async def reach_store(self) -> None:
        """Make sure that what is kept can be used by this version."""

    def lock(self, path: Path | None) -> LockStore | None:
        """Where the lock is kept; ``None``: nowhere, so that it is forgotten with the process."""
        return FileLedger(LockFile(path)) if path is not None else None

    def tokens(self, now: Callable[[], float]) -> TokenBook:
        """The tokens that were given to others."""
        return token_file(self.around.env, now)

    def credentials(self) -> CredentialStore:
        """What is needed to call servers for people, sealed."""
        return credentials_file(self.around.env)

    def connections(self, now: Callable[[], float]) -> ConnectionBook:
        """What the built-in authorization server keeps."""
        return connection_file(self.around.env, now)

    def audit(self) -> AuditPlace:
        """The audit log, whether it is switched on or not."""
        return AuditFile(audit_path(self.config, self.around))

    def knowledge(self) -> KnowledgeStore:
        """Documents and their index."""
        return SqliteKnowledge(kb_path(self.config.kb, self.around))

    async def has_documents(self) -> bool:
        """Whether something was put into the knowledge base; toolcrib's own documentation does not count. What cannot
        be read holds something: whoever asks for it is told what is wrong."""
        path = self.knowledge_file()
        if path is not None and not path.exists():
            return False
        store = self.knowledge()
        try:
            return any(each.id != OWN_COLLECTION for each in await store.collections())
        except KnowledgeUnavailable:
            return True
        finally:
            await store.close()

    def knowledge_file(self) -> Path | None:
        """The file that documents are in; ``None`` if they are in none."""
        return kb_path(self.config.kb, self.around)

    def tasks(self, root: str) -> WorkList:
        """The tasks of a workspace."""
        return SqliteWorkList(state_directory(self.around.env) / TASKS_NAME, root, utc_now)

    async def results(self) -> Results | None:
        """Large results, if any can be too large. What killed programs left is removed."""
        if not has_result_limit(self.config):
            return None
        self._results = ResultStore(results_path(self.around.env), self.config.results)
        await self._results.open()
        return self._results

    def sessions(self) -> SessionBook | None:
        """Where the sessions of all replicas are written down; ``None`` if there can be no others."""
        return None

    async def secret(self) -> bytes:
        """What only the replicas know, made by the first of them; empty if there is none."""
        return b""

    async def close(self) -> None:
        """Let go of everything."""
        if self._results is not None:
            await self._results.close()


def audit_path(config: Config, around: Environment) -> Path:
    """The file of a log that is in one; a relative path is seen from the working directory."""
    if not config.audit.path:
        return state_directory(around.env) / "audit.db"
    return (around.cwd / Path(config.audit.path).expanduser()).absolute()


def kb_path(config: KbConfig, around: Environment) -> Path:
    """The file of a knowledge base that is in one; a relative path is seen from the working directory."""
    if not config.path:
        return state_directory(around.env) / "kb.db"
    return (around.cwd / Path(resolve(config.path, around.variables, field="kb.path")).expanduser()).absolute()


def utc_now() -> str:
    """The moment, as tasks are stamped with it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
