"""What the self-test found, remembered for as long as it holds: until the next boot, kernel, user or bubblewrap."""

import asyncio
import contextlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolcrib.core.errors import SourceUnavailable
from toolcrib.core.kinds import AUTO, IsolationLevel
from toolcrib.isolate.levels import IsolationWanted, Probe
from toolcrib.isolate.plan import Host
from toolcrib.isolate.selftest import Proof, Trial, Verdict, measure, measure_all
from toolcrib.transports.process.environment import forbid_inspection
from toolcrib.transports.process.spawn import Spawner

KEPT_MAX = 64 * 1024
_TRAITS = ("CapEff", "Seccomp", "NoNewPrivs")


def state_path(env: Mapping[str, str]) -> Path:
    """Where the outcome is remembered."""
    configured = Path(env.get("XDG_STATE_HOME", ""))
    base = configured if configured.is_absolute() else Path(env.get("HOME") or Path.home()) / ".local" / "state"
    return base / "toolcrib" / "isolation.json"


class Prover:
    """Knows which levels are proven here; measures when first asked, unless it was measured since the last boot."""

    def __init__(self, spawner: Spawner, host: Host, path: Path, version: str) -> None:
        self._spawner, self._host, self._path, self._version = spawner, host, path, version
        self._turn = asyncio.Lock()
        self._proof: Proof | None = None

    async def proof(self) -> Proof:
        """What is known, or else what is measured now."""
        async with self._turn:
            if self._proof is None:
                circumstances = describe_circumstances(self._host, self._version)
                self._proof = recall(self._path, circumstances)
                if self._proof is None:
                    self._proof = await measure(self._spawner, self._host)
                    remember(self._path, circumstances, self._proof)
        return self._proof

    async def settle(self, wish: IsolationWanted) -> IsolationLevel:
        """The level a wish comes to; raises ``SourceUnavailable`` if it cannot be had here."""
        if wish.level == IsolationLevel.NONE:
            return IsolationLevel.NONE
        proof = await self.proof()
        if wish.level == AUTO:
            return max(proof.proven, IsolationLevel.LIMITS, key=lambda level: level.rank)
        wanted = IsolationLevel(wish.level)
        if not proof.holds(wanted):
            raise _unproven(wanted, proof)
        return wanted


async def prove_anew(env: Mapping[str, str], version: str) -> Proof:
    """Try every level now, as a running toolcrib would; what is found counts for the servers that are started next."""
    forbid_inspection()
    spawner, host = Spawner(), Host.here(env)
    try:
        proof = await measure_all(spawner, host)
    finally:
        await spawner.close()
    remember(state_path(env), describe_circumstances(host, version), proof)
    return proof


def _unproven(wanted: IsolationLevel, proof: Proof) -> SourceUnavailable:
    return SourceUnavailable(
        f"isolation {wanted.value!r} is asked for, but not proven on this machine: {proof.why_not(wanted)}.",
        hint=f"{advice(wanted, proof)} Or ask for {proof.proven.value!r}; `toolcrib doctor --isolation` shows more.",
        details={"phase": "start", "isolation": wanted.value, "proven": proof.proven.value, "final": True},
    )


def advice(level: IsolationLevel, proof: Proof) -> str:
    """What to install or change to get a level."""
    missing = proof.why_not(level)
    if not missing:
        return ""
    if "Linux" in missing:
        return "Run toolcrib on Linux, or in a Linux container."
    if "not installed" in missing:
        return "Install bubblewrap (Debian, Ubuntu, Fedora: the package bubblewrap)."
    return _ADVICE[level]


_ADVICE: Mapping[IsolationLevel, str] = {
    IsolationLevel.NONE: "",
    IsolationLevel.LIMITS: "Use a system that holds programs to their limits, such as Linux.",
    IsolationLevel.CONFINED: (
        "Use a Linux kernel from 5.13 on with Landlock switched on (lsm=landlock,…) on x86_64 or aarch64; in a "
        "container, let its seccomp profile allow the landlock calls."
    ),
    IsolationLevel.ISOLATED: (
        "Let ordinary users make user namespaces: on Ubuntu from 23.10 on, give bwrap an AppArmor profile; in a "
        "container, allow unshare and mount."
    ),
}


def describe_circumstances(host: Host, version: str) -> dict[str, Any]:
    """Everything that may change the outcome."""
    status = dict(line.split(":\t", 1) for line in _text("/proc/self/status").splitlines() if ":\t" in line)
    return {
        "version": version,
        "probes": sorted(Probe),
        "boot": _text("/proc/sys/kernel/random/boot_id").strip(),
        "kernel": " ".join(os.uname()[:4]) if hasattr(os, "uname") else "",
        "user": os.getuid() if hasattr(os, "getuid") else 0,
        "bwrap": _describe_file(host.bwrap),
        "namespaces": [_link(f"/proc/self/ns/{name}") for name in ("pid", "user", "net")],
        "traits": [status.get(name, "") for name in _TRAITS],
    }


def recall(path: Path, circumstances: Mapping[str, Any]) -> Proof | None:
    """The outcome of an earlier self-test under the same circumstances; ``None`` if there is none to be read."""
    try:
        kept = json.loads(_read(path))
        if kept["circumstances"] != circumstances:
            return None
        return Proof({IsolationLevel(level): _to_trial(trial) for level, trial in kept["trials"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def remember(path: Path, circumstances: Mapping[str, Any], proof: Proof) -> None:
    """Keep the outcome for the next start; where nothing can be kept, it is measured again."""
    trials = {level: {"verdicts": trial.verdicts, "missing": trial.missing} for level, trial in proof.trials.items()}
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(draft, json.dumps({"circumstances": circumstances, "trials": trials}).encode())
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()


def _read(path: Path) -> bytes:
    """What was kept; a pipe in its place keeps nobody waiting."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(descriptor, KEPT_MAX)
    finally:
        os.close(descriptor)


def _write(path: Path, content: bytes) -> None:
    """A new file that only this user reads."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        while content:
            content = content[os.write(descriptor, content) :]
    finally:
        os.close(descriptor)


def _to_trial(kept: Mapping[str, Any]) -> Trial:
    return Trial({Probe(probe): Verdict(word) for probe, word in kept["verdicts"].items()}, str(kept["missing"]))


def _describe_file(path: str | None) -> list[Any]:
    if path is None:
        return []
    found = Path(path).stat()
    return [path, found.st_size, found.st_mtime_ns]


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""
