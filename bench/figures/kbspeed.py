"""How fast and how large a knowledge base of many passages is, beside LanceDB and Chroma."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import environments, procs, usage
from bench.goals import SUBJECT, AtLeast, AtMost, Goal, Limit, Ratio, Results, Round
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import rotated, tell, visit, why
from bench.stats import percentile

CHUNKS = 100_000
SLICES = 10  # as kb_corpus.py makes them
QUERIES = 100  # by each contender in each round
JUDGED = 50  # queries whose nearest vectors are compared with the truth
LIMIT_S = 3600.0
ENVIRONMENTS = {"lancedb": "lancedb", "chroma": "chromadb"}
TOLD = {"chroma-vectors": "chroma"}  # searches what another one filled, and is not judged
RIVALS = tuple(ENVIRONMENTS)
COLUMNS = (
    Column("p50 ms", "p50_ms"),
    Column("p99 ms", "p99_ms"),
    Column("CPU ms/query", "cpu_ms"),
    Column("documents/s", "documents_s"),
    Column("CPU s to fill", "fill_cpu_s"),
    Column("PSS MB", "pss_mb"),
    Column("RSS MB", "rss_mb"),
    Column("on disk MB", "disk_mb"),
    Column("vector recall@10", "recall"),
)
GOALS: list[Goal] = [
    Limit("hybrid search, p50", "p50_ms", 15, "ms"),
    AtMost(Ratio("hybrid search, p50, against the best of both", "p50_ms", RIVALS), 1),
    AtLeast(Ratio("documents added in a second, against the best of both", "documents_s", RIVALS, True), 1),
    AtMost(Ratio("memory, against the smaller of both", "pss_mb", RIVALS), 0.5),
]


class Worker:
    """One contender's process, obeying one order at a time."""

    def __init__(self, name: str, corpus: Path, home: Path) -> None:
        self.name, self.home, self.asked = name, home, 0
        own = TOLD.get(name, name)
        python = (
            environments.project_python() if own == SUBJECT else environments.ready(ENVIRONMENTS[own]) / "bin/python"
        )
        argv = [str(python), str(environments.HERE / "workers" / "kb_speed.py"), name, str(corpus), str(home)]
        with (home / f"{name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                argv,
                env=environments.variables(home),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def ask(self, do: str, **order: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("@@"):
                answer: dict[str, Any] = json.loads(line[2:])
                return answer
        raise RuntimeError((self.home / f"{self.name}.log").read_text().strip().splitlines()[-1])

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def cpu_s(self) -> float:
        """Used so far, by it and by every process it started."""
        return usage.tree_cpu_ns(member.pid for member in procs.family(self.pid)) / 1e9

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclass(frozen=True)
class Filled:
    """What it took to fill one contender."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    disk_mb: float = 0.0


async def measure(options: Options) -> Report:
    corpus = prepared(options.chunks or CHUNKS, options.data)
    documents = json.loads((corpus / "about.json").read_text())["documents"]
    rivals = [name for name in RIVALS if not options.only or name in options.only]
    with tempfile.TemporaryDirectory(prefix="kbspeed-") as place:
        homes = {name: Path(place) / name for name in (SUBJECT, *rivals)}
        filled = fill(corpus, homes)
        results = await search(corpus, {name: homes[name] for name in filled}, options)
    for name, cost in filled.items():
        for round_ in results[name]:
            round_.update(_cost(cost, documents))
    title = f"a knowledge base of {documents:,} documents in {options.chunks or CHUNKS:,} passages, top 10 with text"
    return Report(title, COLUMNS, results, GOALS, [_versions(filled)])


def _cost(filled: Filled, documents: int) -> Round:
    return {"documents_s": documents / filled.seconds, "fill_cpu_s": filled.cpu_s, "disk_mb": filled.disk_mb}


def _versions(filled: dict[str, Filled]) -> str:
    pins = {name: environments.pinned(f"{ENVIRONMENTS[name]}.txt")[0] for name in filled if name in ENVIRONMENTS}
    return f"versions: {', '.join(pins.values())}" if pins else ""


def prepared(chunks: int, data: Path | None) -> Path:
    """The corpus, made when it is first needed."""
    corpus = environments.CACHE / "kbspeed" / f"{data.name if data else 'python'}-{chunks}"
    if not (corpus / "about.json").exists():
        tell(f"  making {chunks:,} passages and their vectors")
        shutil.rmtree(corpus, ignore_errors=True)
        worker = environments.HERE / "workers" / "kb_corpus.py"
        argv = [
            str(environments.project_python()),
            str(worker),
            str(corpus),
            str(chunks),
            *([str(data)] if data else []),
        ]
        subprocess.run(argv, check=True, timeout=LIMIT_S)
    return corpus


def fill(corpus: Path, homes: dict[str, Path]) -> dict[str, Filled]:
    """Each contender takes in a slice in turn; then each makes the indexes that its documentation wants made."""
    with workers(corpus, homes) as up:
        spent = {name: Filled() for name in up}
        for part in range(SLICES):
            for worker in rotated(list(up.values()), part):
                _spend(up, spent, worker.name, "add", part=part)
            tell(f"  slice {part + 1}/{SLICES}")
        for name in list(up):
            _spend(up, spent, name, "finish")
        names = list(up)
    return {name: replace(spent[name], disk_mb=_size_mb(homes[name])) for name in names}


def _spend(up: dict[str, Worker], spent: dict[str, Filled], name: str, do: str, **order: int) -> None:
    worker = up[name]
    try:
        if do == "add":
            worker.ask("learn", **order)
        before = worker.cpu_s
        seconds = worker.ask(do, **order)["s"]
        cpu_s = worker.cpu_s - before
        spent[name] = Filled(spent[name].seconds + seconds, spent[name].cpu_s + cpu_s)
    except (RuntimeError, OSError) as error:
        tell(f"  -- {name}: {why(error)}")
        del up[name]


async def search(corpus: Path, homes: dict[str, Path], options: Options) -> Results:
    """New processes, so that nothing of the filling is left in memory; all queries once before the clock counts."""
    shared = {told: homes[own] for told, own in TOLD.items() if own in homes}
    with workers(corpus, {**homes, **shared}) as up:
        for worker in up.values():
            worker.ask("queries", first=0, count=QUERIES)
        count = options.rounds or (2 if options.quick else 5)
        results = await visit(list(up.values()), count, _queries)
        for name, worker in up.items():
            held = usage.memory([worker.pid])
            recall = worker.ask("recall", count=JUDGED, parts=SLICES)["recall"]
            for round_ in results[name]:
                round_.update(pss_mb=held.pss_mb, rss_mb=held.rss_mb, recall=recall)
    return results


async def _queries(worker: Worker) -> Round:
    worker.asked += QUERIES
    meter = usage.Meter([worker.pid], [])
    times = worker.ask("queries", first=worker.asked, count=QUERIES)["times_ms"]
    spent = meter.stop()
    return {
        "p50_ms": percentile(times, 0.5),
        "p99_ms": percentile(times, 0.99),
        "cpu_ms": spent.own_ns / 1e6 / QUERIES,
        "foreign_pct": spent.foreign_share * 100,
    }


@contextmanager
def workers(corpus: Path, homes: dict[str, Path]) -> Iterator[dict[str, Worker]]:
    """The contenders that can be installed, each in its own environment; gone afterwards."""
    with ExitStack() as stack:
        up: dict[str, Worker] = {}
        for name, home in homes.items():
            home.mkdir(parents=True, exist_ok=True)
            try:
                up[name] = Worker(name, corpus, home)
            except environments.MissingEnvironmentError as error:
                tell(f"  -- {name}: {why(error)}")
            else:
                stack.callback(up[name].close)
        yield up


def _size_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
