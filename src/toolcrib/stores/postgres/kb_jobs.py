"""The queue of sources in the shared database; time is told by the database alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.core.jobs import Errand, Job
from toolcrib.stores.postgres.database import read_sql
from toolcrib.stores.postgres.kb_desk import Desk

LEASE_S = 60
"""How long a worker that says nothing keeps what it took."""
PLENTY = 1000
"""Sources that wait, from which on nobody is short of them."""


def done(fleet: str, collection: str, jobs: Sequence[Job]) -> tuple[Any, ...]:
    """The statement that finishes jobs, and what it takes."""
    sources = [job.source for job in jobs]
    taken = (sources, [job.worker for job in jobs], [job.asked for job in jobs])
    return read_sql("kb_job_done"), fleet, collection, sources, *taken


class PgJobs:
    """A ``JobQueue`` in ``kb_job``."""

    def __init__(self, desk: Desk, fleet: str, lease_s: float = LEASE_S) -> None:
        self._desk, self._fleet, self.lease_s = desk, fleet, lease_s

    async def _run(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        def run(connection: Any) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description is not None else []

        return await self._desk.do(run)

    async def put(self, errand: Errand, jobs: Mapping[str, str]) -> None:
        """Have sources worked on."""
        sources = sorted(jobs)
        said = (self._fleet, errand.collection, errand.adding)
        await self._run(read_sql("kb_job_put"), *said, sources, [jobs[source] for source in sources])

    async def next(self, collection: str | None, without: Sequence[str]) -> Errand | None:
        """What could be taken now."""
        rows = await self._run(read_sql("kb_job_next"), self._fleet, collection, collection, list(without))
        return Errand(*rows[0]) if rows else None

    async def take(self, worker: str, errand: Errand, most: int, without: Sequence[str]) -> list[Job]:
        """Take some that nobody has."""
        chosen = (self._fleet, errand.collection, errand.adding, list(without), most)
        rows = await self._run(read_sql("kb_job_take"), worker, self.lease_s, *chosen)
        return sorted((Job(*row) for row in rows), key=lambda job: job.source)

    async def share(self, errand: Errand) -> int | None:
        """Half of what each would get of the rest."""
        said = {"fleet": self._fleet, "collection": errand.collection, "adding": errand.adding, "plenty": PLENTY}

        def count(connection: Any) -> tuple[int, int | None]:
            found: tuple[int, int | None] = connection.execute(read_sql("kb_job_share").encode(), said).fetchone()
            return found

        waiting, workers = await self._desk.do(count)
        return None if workers is None or workers < 2 else waiting // (2 * workers)

    async def keep(self, worker: str) -> None:
        """Go on having what one has."""
        statement = """
        UPDATE toolcrib.kb_job SET until = clock_timestamp() + %s * interval '1 second'
        WHERE fleet = %s AND worker = %s AND until > clock_timestamp()"""
        await self._run(statement, self.lease_s, self._fleet, worker)

    async def give_back(self, worker: str, sources: Sequence[str] | None = None) -> None:
        """Leave these to others, or everything."""
        chosen = None if sources is None else list(sources)
        statement = """
        UPDATE toolcrib.kb_job SET worker = '', until = '-infinity', attempts = attempts - 1
        WHERE fleet = %s AND worker = %s AND (%s::text[] IS NULL OR source = ANY(%s))"""
        await self._run(statement, self._fleet, worker, chosen, chosen)

    async def finish(self, collection: str, jobs: Sequence[Job]) -> None:
        """These are done."""
        await self._run(*done(self._fleet, collection, jobs))

    async def left(self, errand: Errand, worker: str, without: Sequence[str]) -> int:
        """How many wait, or are with others."""
        statement = """
        SELECT count(*) FROM toolcrib.kb_job
        WHERE fleet = %s AND collection = %s AND adding = %s AND worker <> %s AND NOT source = ANY(%s::text[])"""
        rows = await self._run(statement, self._fleet, errand.collection, errand.adding, worker, list(without))
        return int(rows[0][0])

    async def close(self) -> None:
        """Let go of the connection."""
        await self._desk.close()
