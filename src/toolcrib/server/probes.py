"""Probes for machines: whether the process lives, whether calls should come here, and its figures for Prometheus."""

import time
from collections.abc import Callable
from typing import Any

import msgspec

from toolcrib.calls.metrics import exposition
from toolcrib.core.access import EVERYTHING, METRICS, Caller
from toolcrib.core.audit import AuditStatus
from toolcrib.crib.crib import Crib
from toolcrib.crib.replicas import Fleet
from toolcrib.transports.http.server import Exchange, Handler, Request, error_body
from toolcrib.version import VERSION

HEALTH_PATH = "/healthz"
READY_PATH = "/readyz"
METRICS_PATH = "/metrics"
OPEN_PATHS = frozenset({HEALTH_PATH, READY_PATH})
"""Answered without a token: they say nothing of tools or callers."""

PROMETHEUS = b"text/plain; version=0.0.4; charset=utf-8"
_JSON = b"application/json"

Page = Callable[[], tuple[int, bytes, bytes]]


def never() -> bool:
    """For servers that do not drain."""
    return False


def probe_routes(crib: Crib, usual: Caller, is_draining: Callable[[], bool] = never) -> dict[str, Handler]:
    """The handlers by path; ``usual`` is who comes without a token."""
    started_at = time.time()

    def alive() -> tuple[int, bytes, bytes]:
        health = crib.health()
        # Whoever comes without a token learns that servers are away, not which ones there are.
        away = sorted({"servers" if part.startswith("server ") else part for part in health["away"]})
        told = {"status": health["status"], "version": VERSION, "away": away}
        return 200, msgspec.json.encode(told), _JSON

    def ready() -> tuple[int, bytes, bytes]:
        told = readiness(crib.audit.status(), crib.fleet, is_draining=is_draining())
        return 200 if told["ready"] else 503, msgspec.json.encode(told), _JSON

    def metrics() -> tuple[int, bytes, bytes]:
        return 200, exposition(crib.metrics, crib.health(), VERSION, started_at).encode(), PROMETHEUS

    return {HEALTH_PATH: _get(alive), READY_PATH: _get(ready), METRICS_PATH: _for_overseers(_get(metrics), usual)}


def readiness(audit: AuditStatus, fleet: Fleet | None, *, is_draining: bool) -> dict[str, Any]:
    """Whether calls should come here, and how each part is doing.

    What all replicas share is no reason to go elsewhere: it is away for them as well, and calls that need no durable
    decision go on without it.
    """
    away = fleet.troubles() if fleet is not None else {}
    reasons = ["This replica is about to stop."] if is_draining else []
    reasons += reasons_not_ready(audit, is_shared="store" in away)
    parts = {"serving": "draining" if is_draining else "ok", "audit": _audit_state(audit)}
    parts |= {name: problem or "ok" for name, problem in away.items()}
    told = {"ready": not reasons, "reasons": reasons, "parts": parts}
    return told if fleet is None else {**told, "replica": fleet.replica}


def reasons_not_ready(audit: AuditStatus, *, is_shared: bool) -> list[str]:
    """Why calls should go elsewhere for now; the configuration is loaded before anything is served."""
    if not audit.enabled:
        return []
    if audit.problem:
        return [] if is_shared else [f"The audit log cannot be written: {audit.problem}."]
    return [] if audit.opened else ["The audit log is not open yet."]


def _audit_state(audit: AuditStatus) -> str:
    if not audit.enabled:
        return "off"
    return audit.problem or ("ok" if audit.opened else "opening")


def _for_overseers(handler: Handler, usual: Caller) -> Handler:
    """Only for who may know of every tool."""

    def answer(request: Request, exchange: Exchange) -> None:
        caller = request.identity if isinstance(request.identity, Caller) else usual
        if caller.grants == EVERYTHING or METRICS in (caller.grants.capabilities or ()):
            handler(request, exchange)
        else:
            exchange.answer(403, error_body("HTTP_FORBIDDEN", "Metrics need a token with the capability metrics."))

    return answer


def _get(page: Page) -> Handler:
    def answer(request: Request, exchange: Exchange) -> None:
        if request.method not in (b"GET", b"HEAD"):
            exchange.answer(405, error_body("HTTP_METHOD_NOT_ALLOWED", "Use GET."), headers=((b"allow", b"GET, HEAD"),))
            return
        exchange.answer(*page())

    return answer
